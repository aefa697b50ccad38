"""A registry of each kind; one ZooKeeper serves all tests, each below a root of its own."""

import pytest
from registry_rooms import InMemory, OnZookeeper

from live.zookeeper import zookeeper


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory):
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(
    params=["memory", pytest.param("zookeeper", marks=[pytest.mark.slow, pytest.mark.xdist_group("zookeeper")])]
)
def place(request):
    if request.param == "memory":
        return InMemory()
    return OnZookeeper(request.getfixturevalue("zookeeper_server").address)
