"""A router that leads gives topics to routers again and again, and an edge says how much is published."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from firelane.overlay import router
from firelane.overlay.edge import NOTABLE, steady
from firelane.overlay.registry import Registry, parse_registry
from overlay.sites import Sites, until

ADDRESS = "memory://assigns"


def test_a_leader_assigns_more_than_one_batch(tmp_path):
    async def story():
        sites = Sites(tmp_path, ADDRESS)
        async with Registry(parse_registry(ADDRESS)) as west, Registry(parse_registry(ADDRESS)) as east:
            await sites.start("router", "r1")
            try:
                topics = {}
                west.announce_edge("west", 1)
                east.announce_edge("east", 2)
                west.on_topics(topics.update)
                for count in (1, 2, 3):
                    names = {f"zone/{number}": 1 for number in range(count)}
                    west.endpoints(names, {})
                    east.endpoints({}, names)
                    wanted = f"zone/{count - 1}"
                    await until(lambda wanted=wanted: wanted in topics and topics[wanted].assignment is not None)
                epochs = [topics[f"zone/{number}"].assignment.epoch for number in range(3)]
                assert epochs == sorted(set(epochs))
                assert sites.brokers["r1"].statistics()["not_written"] == 0
            finally:
                await sites.close()

    asyncio.run(story())


def test_a_leader_knows_which_topics_nobody_has_measured(tmp_path):
    """Four of 9 messages a second are on r1 and r2 alike; then twenty come whose rates are not known, or are 0."""

    async def story(rates):
        address = f"memory://unmeasured-{len(rates)}"
        sites = Sites(tmp_path / str(len(rates)), address)
        async with Registry(parse_registry(address)) as west, Registry(parse_registry(address)) as east:
            for name in ("r1", "r2"):
                await sites.start("router", name)
            try:
                topics, old = {}, dict.fromkeys("abcd", 1)
                new = {f"zone/{number:02}": 1 for number in range(20)}
                west.announce_edge("west", 1)
                east.announce_edge("east", 2)
                west.on_topics(topics.update)
                west.endpoints(old, {}, dict.fromkeys(old, 9.0) | {"a": 8.0})
                east.endpoints({}, old | new)
                await until(lambda: all(one in topics and topics[one].assignment for one in old))
                west.endpoints(old | new, {}, dict.fromkeys(old, 9.0) | {"a": 8.0} | rates)
                await until(lambda: all(one in topics and topics[one].assignment for one in new))
                return sorted(Counter(topics[one].assignment.router for one in new).values())
            finally:
                await sites.close()

    assert asyncio.run(story({})) == [10, 10]  # each as an average topic
    # Measured, and silent: next to nothing, where least is carried.
    assert asyncio.run(story({f"zone/{number:02}": 0.0 for number in range(20)})) == [20]


def test_a_router_campaigns_when_its_strategy_has_machine_code(tmp_path, monkeypatch):
    done = []

    async def story():
        sites = Sites(tmp_path, "memory://warm")
        monkeypatch.setattr(router, "warm", lambda name: done.append((name, sites.brokers["r1"].statistics()["leads"])))
        await sites.start("router", "r1")
        try:
            await until(lambda: sites.brokers["r1"].statistics()["leads"])
        finally:
            await sites.close()

    asyncio.run(story())
    assert done == [("bounded-moves", False)]


@given(
    before=st.floats(0.001, 1000),
    rates=st.lists(st.floats(0.001, 1000), min_size=1, max_size=20),
)
def test_what_is_told_of_a_rate_errs_by_a_twentieth_of_it_or_of_a_typical_one(before, rates):
    mean_hz = sum(rates) / len(rates)
    for now in rates:
        told = steady(before, now, mean_hz)
        assert told in (before, now)
        assert abs(told - now) <= NOTABLE * max(before, mean_hz) + 1e-12
    assert steady(None, before, mean_hz) == before
