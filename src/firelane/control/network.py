"""What is live as routes, which are not made anew where little has changed.

Subscriptions are numbered again when they, links or settings are others; topics are matched again when they are.
Mostly only rates and sizes have changed, and that is soon told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firelane.arrays import Ints, sum_by
from firelane.control.learn import LIVE, TWIN, as_scenario, overheads, seats, shared_groups, single, traffic
from firelane.exchange.measuring.observed import Observed, SeenSubscription, SeenTopic
from firelane.scenario.model import Link, Scenario
from firelane.scenario.overhead import name_bytes
from firelane.scenario.precision import kept_share
from firelane.scenario.routes import Routes, routes, streams
from firelane.scenario.utility import NeedTable

MOST_CLAIMS = 5_000_000  # about a gigabyte in arrays


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """The routes, and whose each of their subscriptions is."""

    routes: Routes  # with nothing in their scenario that is in them
    rows: list[SeenSubscription]
    needs: NeedTable  # as granted
    best_class: Ints  # caps
    first: Ints  # per subscription the one whose row in a plan it shares: itself, unless it is a twin's

    def numbers(self) -> dict[tuple[str, str], int]:
        """The row of each subscription by subscriber and filter; twins count on the first of them."""
        return {(one.subscriber, one.filter): row for row, one in reversed(list(enumerate(self.rows)))}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Known:
    """A network, and what it was made of."""

    network: Network
    base: Scenario
    subscriptions: tuple[SeenSubscription, ...]
    links: dict[str, Link]
    shared: dict[str, int]  # members of shared groups, by filter

    def serves(self, observed: Observed, base: Scenario) -> bool:
        return observed.subscriptions is self.subscriptions and base is self.base and observed.links == self.links


class Networks:
    """Remembers the last network. Threads may share it: what is known is replaced, never changed."""

    def __init__(self) -> None:
        self._known: _Known | None = None
        self._nothing = Scenario(name=LIVE)

    def of(self, observed: Observed, scenario: Scenario | None = None, *, listened_s: float = 0.0) -> Network:
        """What is live; `scenario` is the configured one, `listened_s` how long there has been traffic."""
        base = scenario or self._nothing
        known = self._known
        if known is None or not known.serves(observed, base):
            known = _made(observed, base)
        carrying = _carrying(known.network.routes, traffic(observed.topics, known.shared, base, listened_s))
        carrying = telling(carrying, observed.streams, base.exchange.sense.widen)
        network = replace(known.network, routes=carrying)
        self._known = replace(known, network=network)
        return network


def _made(observed: Observed, base: Scenario) -> _Known:
    """A network without topics."""
    people = seats(observed.subscriptions)
    rows = [one for wants in people.values() for one in wants.values()]
    found = routes(as_scenario(base, observed.links, {}, people))
    network = Network(
        routes=replace(found, scenario=replace(found.scenario, publishers={}, subscribers={})),
        rows=rows,
        needs=NeedTable(one.need for one in rows),
        best_class=np.array([one.best_class for one in rows], np.int64),
        first=_first_of_twins(found),
    )
    return _Known(
        network=network,
        base=base,
        subscriptions=observed.subscriptions,
        links=observed.links,
        shared=shared_groups(observed.subscriptions),
    )


def _carrying(r: Routes, topics: dict[str, SeenTopic]) -> Routes:
    """The same subscriptions with these topics, at these rates and sizes, all from one publisher without a link."""
    names = list(topics)
    rate_hz, mean_bytes, variance_bytes2 = np.array([one[1:4] for one in topics.values()]).reshape(-1, 3).T
    changed = replace(
        r,
        source_rate_hz=rate_hz,
        topic_mean_bytes=mean_bytes,
        topic_variance_bytes2=variance_bytes2,
        topic_overhead_bytes=overheads(mean_bytes, variance_bytes2, name_bytes(names)),
    )
    if names == r.topics:
        return changed
    return replace(
        changed,
        topics=names,
        source_topic=np.arange(len(names)),
        source_lane=np.full(len(names), -1),
        **streams(names, r.filters, r.subscription_subscriber, r.subscription_lane, most=MOST_CLAIMS),
    )


def telling(r: Routes, deltas: dict[str, float], widest: float) -> Routes:
    """The same, where streams of sensors, of which these deltas are known, are told coarser to who bears more.

    A tolerance can give way only where all that a subscription matches are such streams, and nobody of its name gets
    one of them as it is.
    """
    tolerant = r.needs.tolerant
    if not (deltas and tolerant.any()):
        return replace(r, widest=np.ones(len(r.filters)), stream_told=None)
    known = np.array([deltas.get(name, np.nan) for name in r.topics], np.float64)
    topic = r.stream_topic[r.claim_stream]
    good = tolerant[r.claim_subscription] & ~np.isnan(known[topic])
    mixed = sum_by(r.claim_stream, ~good, len(r.stream_topic)) > 0
    held = sum_by(r.claim_subscription, mixed[r.claim_stream], len(r.filters)) > 0
    tolerance = np.full(len(r.stream_topic), np.inf)
    np.minimum.at(tolerance, r.claim_stream, np.where(good, r.needs.tolerance[r.claim_subscription], np.inf))
    told = np.where(mixed, 1.0, kept_share(np.maximum(tolerance / known[r.stream_topic], 1.0)))
    return replace(r, widest=np.where(tolerant & ~held, widest, 1.0), stream_told=told)


def bounded_routes(scenario: Scenario) -> Routes:
    """The routes of a scenario, if memory has room for them."""
    return routes(scenario, most_claims=MOST_CLAIMS)


def _first_of_twins(routes: Routes) -> Ints:
    """Per subscription the one whose row in the plan it shares: itself, unless it is a twin's."""
    first = np.arange(len(routes.filters))
    if not any(TWIN in name for name in routes.subscribers):
        return first
    names = [routes.subscribers[i] for i in routes.subscription_subscriber.tolist()]
    number = {pair: row for row, pair in enumerate(zip(names, routes.filters, strict=True))}
    return np.array([number[single(s), f] for s, f in zip(names, routes.filters, strict=True)], np.int64)
