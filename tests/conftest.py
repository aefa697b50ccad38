"""Shared test tools as plain modules, patience with compiled code and long checks, and one Spark session."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("firelane", deadline=None, print_blob=True)
settings.load_profile("firelane")

LAST_FAILED = "cache/lastfailed"  # where pytest keeps it
SPARK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark():
    from firelane.pipeline.session import session

    with session("local[2]", SPARK) as started:
        yield started


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Workers of pytest-xdist are processes: what shares the session goes to one of them (`--dist loadgroup`).

    Groups are long chains: they begin first, so that the end is not spent on waiting for one of them.
    """
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(0))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """pytest-xdist puts its group behind a test's name, by which `--last-failed` (`make again`) would not find it."""
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        failed = cache.get(LAST_FAILED, {})
        cache.set(LAST_FAILED, {re.sub(r"@\w+$", "", name): True for name in failed})
