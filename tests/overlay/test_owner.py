"""Who owns a topic without an assignment: the same everywhere, evenly spread, and moved only when it must be."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.overlay.owner import Assignment, hashed_owner, owner

# printf 'router-1\0a/b' | b2sum -l 64, and so on (GNU coreutils): the weights, byte for byte.
WEIGHTS = {
    "a/b": {"router-1": 0x0F1A317643FB1D60, "router-2": 0xBA3FEAC726431168, "router-3": 0xBEF327818BF31FC5},
    "zone/17/temperature": {
        "router-1": 0xB262B3636243F0F4,
        "router-2": 0xE978E5148D66AB88,
        "router-3": 0x52788D183AA8C02C,
    },
    "": {"router-1": 0x0FC6D9C1A3F095FE, "router-2": 0xA79E44CD6BE12CF5, "router-3": 0x465CC86CE2DE22DC},
    "straße/π/𝛼": {"Köln": 0x39111CEFD541396A, "Łódź": 0xEA963FA370813435, "r": 0x0949885194DB879C},
}

names = st.text(max_size=12)
some_routers = st.sets(st.text(min_size=1, max_size=8), max_size=8)


@pytest.mark.parametrize("topic", WEIGHTS)
def test_the_router_with_the_highest_weight_owns_a_topic(topic):
    left = dict(WEIGHTS[topic])
    while left:  # the order of all of them, as one after the other dies
        highest = max(left, key=left.__getitem__)
        assert hashed_owner(topic, list(left)) == highest
        del left[highest]
    assert hashed_owner(topic, []) is None


@given(names, some_routers, st.data())
def test_the_order_in_which_routers_are_named_does_not_matter(topic, routers, data):
    shuffled = data.draw(st.permutations(sorted(routers)))
    assert hashed_owner(topic, shuffled) == hashed_owner(topic, sorted(routers))


@given(names, some_routers.filter(lambda routers: len(routers) > 1), st.data())
def test_a_death_moves_the_topics_of_the_dead_only(topic, routers, data):
    dead = data.draw(st.sampled_from(sorted(routers)))
    before, after = hashed_owner(topic, routers), hashed_owner(topic, routers - {dead})
    assert after in routers - {dead}
    assert before in (dead, after)


@given(names, some_routers, st.text(min_size=1, max_size=8))
def test_a_router_that_joins_takes_topics_and_moves_no_others(topic, routers, new):
    assert hashed_owner(topic, routers | {new}) in (hashed_owner(topic, routers), new)


@pytest.mark.parametrize("count", [2, 3, 7, 16])
def test_topics_spread_evenly(count):
    routers = [f"router-{number}" for number in range(count)]
    topics = 20_000
    owned = Counter(hashed_owner(f"zone/{number}", routers) for number in range(topics))
    chi_square = sum((owned[router] - topics / count) ** 2 / (topics / count) for router in routers)
    # Mean count - 1 and variance 2 (count - 1) if even: five deviations, and the topics are always the same.
    assert chi_square < (count - 1) + 5 * (2 * (count - 1)) ** 0.5


def test_a_join_takes_its_fair_share():
    routers = [f"router-{number}" for number in range(4)]
    taken = sum(hashed_owner(f"t/{n}", [*routers, "new"]) == "new" for n in range(10_000))
    assert abs(taken - 2000) < 5 * (10_000 * 0.2 * 0.8) ** 0.5  # binomial, five deviations


def test_what_was_assigned_holds_while_its_router_lives():
    routers = {"router-1", "router-2", "router-3"}
    assert hashed_owner("a/b", routers) == "router-3"
    assert owner("a/b", Assignment(router="router-1", epoch=4), routers) == "router-1"
    assert owner("a/b", Assignment(router="router-9", epoch=4), routers) == "router-3"
    assert owner("a/b", Assignment(router=None, epoch=4), routers) == "router-3"
    assert owner("a/b", None, routers) == "router-3"
    assert owner("a/b", Assignment(router="router-1", epoch=4), set()) is None


def test_a_topic_that_is_no_valid_text_has_an_owner_all_the_same():
    assert hashed_owner("\ud800", ["r"]) == "r"
