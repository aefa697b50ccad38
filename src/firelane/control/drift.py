"""Whether traffic has moved so far from what the plan in force was made for that another plan is due.

Rates are measured and therefore restless, so single topics are not compared but the loads they make, per link and
class: there the noise of many topics cancels out, while a shift of what matters does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.control.decision import Decision
from firelane.control.learn import shown
from firelane.control.network import Networks
from firelane.exchange.measuring.observed import Observed
from firelane.scenario.model import Scenario
from firelane.scenario.routes import Routes

MOVED = 0.1  # of a link's planned load, or of what it may carry if that is more
NOISE = 0.02  # of a link's capacity: less is no change


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loads:
    """What links have to carry: per link and class before drops, per link after them; and who has no traffic."""

    offered: Floats
    kept: Floats
    idle: Flags

    def moved_from(self, planned: Loads, headroom: float) -> bool:
        """Whether this is so far from what was planned that the plan no longer fits."""
        allowed = 1.0 - headroom
        now, then = self.offered.sum(axis=1), planned.offered.sum(axis=1)
        moved = np.abs(self.offered - planned.offered).max(axis=1, initial=0.0) > MOVED * np.maximum(then, allowed)
        crossed = ((now > allowed) != (then > allowed)) & (np.abs(now - then) > NOISE)
        too_much = np.maximum(max(NOISE, headroom / 2), MOVED * (planned.kept - allowed))  # more where it was known
        squeezed = (self.kept > allowed) & (self.kept - planned.kept > too_much)
        return bool((moved | crossed | squeezed).any() or (planned.idle & ~self.idle).any())


class Expectation:
    """What a plan was made for. As long as no subscription changes, `outdated` says whether it still holds."""

    def __init__(self, decision: Decision, scenario: Scenario, networks: Networks | None = None) -> None:
        self._scenario, self._networks = scenario, networks or Networks()
        self._priority, self._drop_rate = decision.priority, decision.drop_rate
        self._headroom = decision.routes.scenario.headroom
        self._follow(decision.routes)
        self._planned = self._loads(decision.routes)

    def outdated(self, observed: Observed, listened_s: float) -> bool:
        """Whether traffic has moved too far."""
        return self._now(observed, listened_s).moved_from(self._planned, self._headroom)

    def falls(self, observed: Observed, listened_s: float) -> bool:
        """Whether no link has more to carry than was planned, and some have even less than their means say yet."""
        latest = replace(observed, topics=tuple(one._replace(rate_hz=one.latest_hz) for one in observed.topics))
        now, last = (
            self._now(observed, listened_s).offered.sum(axis=1),
            self._now(latest, listened_s).offered.sum(axis=1),
        )
        then = self._planned.offered.sum(axis=1)
        return bool((now <= then).all() and (now - last > MOVED * then).any())

    def shift(self, observed: Observed, listened_s: float) -> str:
        """How far, in words: the link whose load differs most."""
        now, then = self._now(observed, listened_s).offered.sum(axis=1), self._planned.offered.sum(axis=1)
        link = int(np.argmax(np.abs(now - then)))
        return f"{shown(self._routes.lanes[link].name)}: the load is {now[link]:.2f}, the plan was for {then[link]:.2f}"

    def costs(self) -> dict[str, float]:
        """What one message of a topic is to all links together, in seconds of their time."""
        r = self._routes
        return dict(zip(r.topics, sum_by(r.stream_topic, r.mean_service_s(), len(r.topics)).tolist(), strict=True))

    def _now(self, observed: Observed, listened_s: float) -> Loads:
        routes = self._networks.of(observed, self._scenario, listened_s=listened_s).routes
        if routes.stream_topic is not self._routes.stream_topic:
            self._follow(routes)
        return self._loads(routes)

    def _follow(self, routes: Routes) -> None:
        """Compare by these routes from now on: the same subscriptions, but perhaps other topics."""
        self._routes: Routes = routes
        _, klass, drop_rate = routes.owners(self._priority, self._drop_rate)
        self._class: Ints = klass
        self._kept: Floats = 1.0 - drop_rate

    def _loads(self, routes: Routes) -> Loads:
        r, classes = routes, routes.scenario.priorities
        rate = r.published_hz
        load = rate * r.mean_service_s()
        offered = sum_by(r.stream_lane * classes + self._class, load, len(r.lanes) * classes)
        served = sum_by(r.claim_subscription, rate[r.claim_stream], len(r.filters)) > 0
        return Loads(
            offered=offered.reshape(len(r.lanes), classes),
            kept=sum_by(r.stream_lane, load * self._kept, len(r.lanes)),
            idle=~served,
        )
