"""Links that are followed: the pace changes with the estimate, and plans are made for what links carry."""

from __future__ import annotations

import asyncio
from importlib import import_module
from types import SimpleNamespace

import pytest
from fluid import Fluid

from firelane.control.following import LOOK_EVERY_S, LOOK_HURRIED_S, LOOK_IDLE_S, Following, following
from firelane.exchange.lanes.link import Link
from firelane.scenario import model

CONFIGURED = 10e6
PACE = 0.97


class Played:
    """An exchange with links that are fluids; keeps what it is told."""

    def __init__(self, bandwidth="measured", **fluids):
        described = model.Link(bandwidth_bps=CONFIGURED)
        self.links = {Link(name, described, most=10, most_bytes=1000): fluid for name, fluid in fluids.items()}
        self.broker = SimpleNamespace(settings=SimpleNamespace(bandwidth=bandwidth))
        self.now = 0.0
        self.known = []

    @property
    def link(self):
        return next(iter(self.links))

    @property
    def fluid(self):
        return self.links[self.link]

    def seen_kernel(self, now):
        past, self.now = now - self.now, now
        return [(link, one.run(past, 8 / link.byte_s, probing=link.probing)) for link, one in self.links.items()]

    def repace(self, link, pace_bps, *, probing):
        link.probing = probing
        link.repace(pace_bps)

    def know_bandwidth(self, link, bandwidth_bps, known_by):
        link.bandwidth_bps, link.known_by = bandwidth_bps, known_by
        self.known.append((self.now, link.name, bandwidth_bps, known_by))


def overloaded(share=1.0):
    return Fluid(capacity_bps=share * CONFIGURED, offered_bps=2 * CONFIGURED)


def looked(follows, exchange, seconds):
    for _ in range(round(seconds / LOOK_EVERY_S)):
        follows.look(exchange.now + LOOK_EVERY_S)


def test_what_goes_wrong_does_not_end_it_and_is_told_once(monkeypatch, capsys):
    class Odd(Played):
        looks = 0

        def seen_kernel(self, now):
            self.looks += 1
            raise ZeroDivisionError("odd")

    async def main():
        monkeypatch.setattr(import_module("firelane.control.following"), "LOOK_IDLE_S", 0.01)
        exchange, lines = Odd(), []
        async with following(exchange, lambda: None, tell=lines.append), asyncio.timeout(10):
            while exchange.looks < 3:
                await asyncio.sleep(0.01)
        (line,) = lines
        assert "odd" in line

    asyncio.run(main())
    assert capsys.readouterr().err.count("Traceback") == 1


def test_a_link_that_has_become_slower_is_paced_below_what_it_carries_and_planned_for_once():
    calls = []
    exchange = Played(thin=overloaded(0.5))
    follows = Following(exchange, lambda: calls.append(exchange.now))
    looked(follows, exchange, 20.0)
    ((when, name, known_bps, known_by),) = exchange.known
    assert (name, known_by) == ("thin", "acknowledged")
    assert when <= 1.0
    assert known_bps == pytest.approx(CONFIGURED / 2, rel=0.05)
    assert calls == [when]
    assert 8 / exchange.link.byte_s <= 1.08 * CONFIGURED / 2


def test_growing_back_is_planned_for_when_it_has_come_to_an_end():
    exchange = Played(thin=overloaded(0.5))
    follows = Following(exchange)
    looked(follows, exchange, 10.0)
    exchange.fluid.capacity_bps = CONFIGURED
    looked(follows, exchange, 20.0)
    assert [one[2:] for one in exchange.known[1:]] == [(CONFIGURED, "probed")]
    assert 8 / exchange.link.byte_s == pytest.approx(PACE * CONFIGURED)
    assert not exchange.link.probing


def test_the_last_few_per_cent_are_planned_for_too():
    exchange = Played(thin=overloaded())
    exchange.link.bandwidth_bps = 0.96 * CONFIGURED
    looked(Following(exchange), exchange, 5.0)
    assert [one[2:] for one in exchange.known] == [(CONFIGURED, "probed")]


def test_links_are_followed_each_by_itself():
    exchange = Played(thin=overloaded(0.5), wide=overloaded())
    looked(Following(exchange), exchange, 5.0)
    thin, wide = exchange.links
    assert thin.narrow
    assert not wide.narrow
    assert 8 / wide.byte_s == pytest.approx(PACE * CONFIGURED)


def test_what_is_configured_holds_if_that_is_wanted():
    exchange = Played("configured", thin=overloaded(0.5))
    looked(Following(exchange), exchange, 5.0)
    assert exchange.known == []
    assert 8 / exchange.link.byte_s == pytest.approx(PACE * CONFIGURED)


def test_what_is_configured_holds_again_as_soon_as_that_is_wanted():
    exchange = Played(thin=overloaded(0.5))
    follows = Following(exchange)
    looked(follows, exchange, 5.0)
    exchange.broker.settings.bandwidth = "configured"
    looked(follows, exchange, 0.5)
    assert exchange.known[1:] == [(5.25, "thin", CONFIGURED, "configured")]
    assert 8 / exchange.link.byte_s == pytest.approx(PACE * CONFIGURED)


def test_a_link_that_is_looked_at_no_more_is_left_as_it_is_known():
    exchange = Played(thin=overloaded(0.5))
    follows = Following(exchange)
    while not exchange.link.probing:
        looked(follows, exchange, LOOK_EVERY_S)
    link, fluid = exchange.links.popitem()
    looked(follows, exchange, LOOK_EVERY_S)
    assert not link.probing
    assert 8 / link.byte_s == pytest.approx(PACE * link.bandwidth_bps)
    exchange.links[link] = fluid
    looked(follows, exchange, LOOK_EVERY_S)
    assert link.narrow


def test_it_looks_by_itself_sooner_while_there_may_be_a_queue_and_rarely_while_no_link_is_paced(monkeypatch):
    exchange = Played(thin=overloaded())
    fluids, exchange.links = exchange.links, {}
    (fluid,) = fluids.values()
    pauses, pause = [], asyncio.sleep

    async def noted(seconds):
        pauses.append(seconds)
        exchange.links = fluids if len(pauses) > 1 else {}
        fluid.capacity_bps = CONFIGURED / 2 if len(pauses) > 2 else CONFIGURED
        await pause(0)

    def seen_kernel(now, play=exchange.seen_kernel):
        exchange.now = now - pauses[-1]
        return play(now)

    monkeypatch.setattr(asyncio, "sleep", noted)
    exchange.seen_kernel = seen_kernel

    async def main():
        async with following(exchange, lambda: None), asyncio.timeout(30):
            while not exchange.known:
                await pause(0)

    asyncio.run(main())
    assert pauses[:3] == [LOOK_IDLE_S, LOOK_IDLE_S, LOOK_EVERY_S]
    assert LOOK_HURRIED_S in pauses
