"""What people are shown of an overlay, and what a leader would do, by what the registry knows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from firelane.overlay.leader.assignment import STRATEGIES
from firelane.overlay.leader.leading import Leading
from firelane.overlay.owner import Assignment
from firelane.overlay.registry import KnownRouter, Load, Status, TopicState, TreeState
from firelane.overlay.registry.last_moves import Batch, Move
from firelane.overlay.screen import ago, screen, shortened
from firelane.overlay.showing import MOST_TOPICS, dry_run, natural, state_of


def status(topics, routers=("r1", "r2"), **more):
    """Topics by the router they have been given, None for none; each is published at west and wanted at east."""
    return Status(
        registry="memory://shown",
        state=TreeState.CONNECTED,
        leader="r1",
        epoch=7,
        edges={},
        routers={name: KnownRouter(name=name, boot=1, locator="h:1", topics=0, load=Load()) for name in routers},
        topics={
            name: TopicState(
                pub={"west": 1},
                sub={"east": 1},
                rate_hz=2.0,
                assignment=None if home is None else Assignment(router=home, epoch=3),
            )
            for name, home in topics.items()
        },
        problems=(),
        **more,
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_dry_run_shows_new_topics_and_those_of_dead_routers(strategy):
    known = status({"new": None, "orphan": "dead", "a": "r1", "b": "r1"})
    plan = dry_run(known, Leading(strategy=strategy))
    moves = {move["topic"]: (move["from"], move["to"]) for move in plan.promised["moves"]}
    # Two of equal load are at r1 already, so both go to r2, which is even: nothing else moves.
    assert moves == {"new": (None, "r2"), "orphan": ("dead", "r2")}
    assert plan.placement == {"a": "r1", "b": "r1", "new": "r2", "orphan": "r2"}
    assert plan.why[0].startswith("1 new topic: ")
    assert plan.why[1:] == ("dead is gone: its 1 topic to r2",)
    assert plan.version == 7


def test_a_dry_run_where_nothing_crosses_says_so():
    plan = dry_run(status({}), Leading())
    assert plan.why == ("no topic crosses from one edge to another",)
    assert plan.promised["moves"] == []


def test_a_router_of_three_times_the_capacity_is_to_get_three_times_as_much():
    known = status(dict.fromkeys("abcdefgh"))
    large = replace(known.routers["r2"], capacity=3.0)
    plan = dry_run(replace(known, routers={**known.routers, "r2": large}), Leading())
    assert plan.promised["after"] == {"r1": 4.0, "r2": 12.0}  # of 8 topics with 2 messages a second


DAY_S, HOUR_S = 86_400, 3600


def lines(known, width=100):
    return screen(known, now_s=10 * DAY_S, width=width)


def test_topics_are_shown_in_natural_order_and_those_left_out_are_counted():
    known = status({f"t/{n}": "r1" for n in range(40)})
    shown = [line.split()[0] for line in lines(known) if "->" in line]
    assert shown == [f"t/{n}" for n in range(25)]
    assert "  and 15 more (--json shows them all)" in lines(known)
    assert list(state_of(known)["topics"]) == [f"t/{n}" for n in range(40)]


def test_more_topics_than_json_shows_are_told_of_as_such():
    known = status({f"t{n}": "r1" for n in range(MOST_TOPICS + 30)})
    assert f"  and {MOST_TOPICS + 5} more (--json shows the first {MOST_TOPICS})" in lines(known)
    assert f"  {MOST_TOPICS + 30} of {MOST_TOPICS + 30} topics cross sites" in lines(known)
    assert any(f"{MOST_TOPICS + 30:5} topics" in line for line in lines(known))
    assert len(state_of(known)["topics"]) == MOST_TOPICS


def test_few_topics_are_shown_without_a_word_of_more():
    assert not any("more" in line for line in lines(status({f"t{n}": "r1" for n in range(25)})))


def test_long_names_can_be_told_apart_and_use_the_width_there_is():
    names = [f"building/{'x' * 60}/floor/{n}" for n in range(3)]
    known = status(dict.fromkeys(names, "r1"))
    narrow = [line for line in lines(known, 80) if "->" in line]
    assert all(len(line) <= 80 and "…" in line for line in narrow)
    assert len({line.split()[0] for line in narrow}) == 3
    assert [line.split()[0] for line in lines(known, 200) if "->" in line] == names


def test_names_say_nothing_to_the_terminal():
    assert not any("\x1b" in line for line in lines(status({"t/\x1b[2J": "r1"})))


def test_the_leader_is_marked_in_its_row_and_what_comes_in_are_packets():
    rows = {line.split()[1]: line for line in lines(status({})) if line.startswith("  router")}
    assert rows["r1"].endswith("packets in/s, leads")
    assert rows["r2"].endswith("packets in/s")


def test_where_nothing_is_registered_it_is_said():
    empty = replace(status({}, routers=()), registry="zookeeper://h:2181/mine", leader=None, epoch=0)
    assert lines(empty) == ["zookeeper://h:2181/mine: nothing is registered under /mine"]


def test_the_last_five_moves_are_shown_with_how_long_ago_they_were():
    batches = tuple(
        Batch(at_s=(10 - n) * DAY_S, leader="r1", topics=4, moves=(Move(topic="t", left="r1", to="r2"),), why=(f"{n}",))
        for n in range(7, 0, -1)
    )
    shown = lines(status({}, moves=batches))
    told = shown[shown.index("  last moves") + 1 :]
    assert [line for line in told if "ago" in line] == [
        "  1 day ago, by r1: 1",
        *[f"  {n} days ago, by r1: {n}" for n in range(2, 6)],
    ]
    assert told[1:3] == ["    t r1 -> r2", "    and 3 more"]


@pytest.mark.parametrize(
    ("age_s", "told"),
    [
        (-5, "just now"),
        (0.5, "just now"),
        (1, "1 second ago"),
        (59.9, "59 seconds ago"),
        (3 * HOUR_S, "3 hours ago"),
        (3.5 * DAY_S, "3 days ago"),
    ],
)
def test_ages_are_told_in_their_largest_unit(age_s, told):
    assert ago(age_s) == told


def test_numbers_in_names_are_in_order_however_long_they_are():
    names = ["a", "a/2", "a/010", "a/10b", "a/" + "9" * 5000, "b1"]
    assert sorted(random.Random(1).sample(names, len(names)), key=natural) == names


@pytest.mark.parametrize("width", [3, 4, 9, 10])
def test_a_shortened_name_keeps_both_ends(width):
    short = shortened("abcdefghijkl", width)
    assert len(short) == width
    assert short[0] == "a"
    assert short[-1] == "l"
