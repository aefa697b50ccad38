"""One Spark session for all tests of the pipeline: a start costs seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from firelane.pipeline.session import session

FOLDER = Path(__file__).parent
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark():
    with session("local[2]", SETTINGS) as started:
        yield started


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Workers of pytest-xdist are processes: what shares the session goes to one of them (`--dist loadgroup`)."""
    for item in items:
        if FOLDER in item.path.parents and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.soak)  # minutes with Spark, until they have been made shorter
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
