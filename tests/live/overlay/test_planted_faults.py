"""Edges with a mistake in them, under the same load and the same faults as those without: it is found."""

from __future__ import annotations

from random import Random

import pytest

from live.overlay.cluster import cluster, until
from live.overlay.faults import TOPICS, Load
from live.overlay.planted import MISTAKES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

FOUND = {
    "keeps_nothing": ["never got"],
    "remembers_nothing": ["more than once", "after"],
    "heeds_no_epoch": ["under epoch 0 after"],
}


def assigned(whole):
    """Whether all topics have epochs that could be heeded."""
    known = whole["a"].state()["registry"]["topics"]
    return all(name in known and known[name]["epoch"] for topics in TOPICS.values() for name in topics)


@pytest.mark.parametrize(
    "mistake", [one if one == "keeps_nothing" else pytest.param(one, marks=pytest.mark.soak) for one in MISTAKES]
)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    with cluster(tmp_path, edges=("a", "b", "c"), planted=mistake) as whole:
        load = Load(whole)
        try:
            until(lambda: assigned(whole))
            load.strike("kill an edge", Random(mistake), 0.5)
        finally:
            load.stop()
        problems = load.problems()
    print(*problems, sep="\n")
    for words in FOUND[mistake]:
        assert any(words in line for line in problems)
