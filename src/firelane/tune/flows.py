"""Which subscriptions share a flow, and what each flow weighs on its link.

Implements: firedex, section 4.2, steps 1-3.
Differs:    without `flows` in the scenario every subscription is its own flow; a stream that several
            filters of one subscriber claim counts on the one that ranks best.
Symbols:    Psi -> subscription_flow, R_s -> the subscriptions of a subscriber, F_s -> its flows.
Checked by: tests/tune/test_flows.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firelane.arrays import Floats, Ints, sum_by
from firelane.scenario.precision import WORTH_IT, kept_share
from firelane.scenario.routes import Routes
from firelane.scenario.upstream import upstream
from firelane.scenario.utility import Utilities

# Aim this much (relative) below the allowed load, so that no rounding of a sum exceeds it.
HAIR = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """What is asked of the links before any decision: per stream, per subscription and per link."""

    published_hz: Floats  # per stream
    stream_rate_hz: Floats  # of it, what reaches the drop filter
    stream_load: Floats  # work per second: that rate x mean service time
    load: Floats  # per subscription, of all it claims
    least_share: Floats  # of its messages that must be sent so that enough of them arrive
    tolerant: npt.NDArray[np.bool_]  # has a tolerance: never dropped,
    widest: Floats  # but its precision may be widened up to this factor
    out_of_reach: npt.NDArray[np.bool_]  # more is lost on the way than it can bear, whatever the plan
    curves: Utilities
    reach: Floats  # per subscription: the share of its messages that arrives if nothing is dropped on purpose
    lane_gain: Floats  # 1 - loss


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flows:
    """Subscription -> flow (Psi), and per flow its subscriber, its link and its load before drops."""

    lanes: int
    subscription_flow: Ints
    subscriber: Ints
    lane: Ints
    place: Ints  # among its subscriber's flows, the most worthy first
    load: Floats  # work per second of the streams it owns
    least_share: Floats  # the highest of its members
    gain: Floats  # share of what it keeps that arrives, mean over its members by their load

    def by_lane(self) -> tuple[Ints, Ints]:
        """An order with the flows of a link side by side, and where each link starts in it (and the end)."""
        order = np.argsort(self.lane, kind="stable")
        return order, np.searchsorted(self.lane[order], np.arange(self.lanes + 1))


def demand(routes: Routes) -> Demand:
    """What the subscriptions of these routes ask for."""
    before = upstream(routes)
    rate = before.stream_rate_hz
    stream_load = rate * routes.mean_service_s()
    claimed = stream_load[routes.claim_stream]
    gain = np.array([1.0 - lane.link.loss for lane in routes.lanes])
    tolerant, widest = routes.needs.tolerant, routes.widest
    gives_way = tolerant & (widest > WORTH_IT)
    least = np.where(gives_way, routes.needs.asked_share, routes.needs.least_share)
    reach = gain[routes.subscription_lane] * before.reach(routes)
    # Of what is kept `reach` arrives; where too much is lost on the way anyhow, everything is kept.
    sent = np.divide(least, reach, out=np.where(least > 0, np.inf, 0.0), where=reach > 0)
    sent = np.where(gives_way, np.maximum(sent, kept_share(widest)), sent)
    return Demand(
        published_hz=routes.published_hz,
        stream_rate_hz=rate,
        stream_load=stream_load,
        load=sum_by(routes.claim_subscription, claimed, len(routes.filters)),
        least_share=np.minimum(1.0, sent),
        tolerant=tolerant,
        widest=np.where(gives_way, widest, 1.0),
        out_of_reach=(sent > 1.0) & ~tolerant,
        curves=routes.needs.curves,
        reach=reach,
        lane_gain=gain,
    )


def group(routes: Routes, wanted: Demand, place: Ints) -> Flows:
    """The flows of subscriptions that stand at this place in their subscriber's sorted list."""
    owner = routes.subscription_subscriber
    subscribers = len(routes.subscribers)
    listed = np.bincount(owner, minlength=subscribers)
    if routes.scenario.flows is None:
        flow, flow_place, flow_subscriber = np.arange(len(owner)), place, owner
    else:
        parts = np.minimum(listed, routes.scenario.flows)
        part = split(place, listed[owner], routes.scenario.flows)  # steps 2 and 3
        flow = np.cumsum(parts)[owner] - parts[owner] + part
        flow_subscriber = np.repeat(np.arange(subscribers), parts)
        flow_place = np.arange(len(flow_subscriber)) - (np.cumsum(parts) - parts)[flow_subscriber]
    flow_lane = np.zeros(len(flow_subscriber), np.int64)
    flow_lane[flow] = routes.subscription_lane
    least = np.zeros(len(flow_subscriber))
    np.maximum.at(least, flow, wanted.least_share)
    carrier, _, _ = routes.owners(flow_place[flow], np.zeros(len(owner)))
    return Flows(
        lanes=len(routes.lanes),
        subscription_flow=flow,
        subscriber=flow_subscriber,
        lane=flow_lane,
        place=flow_place,
        load=sum_by(flow[carrier], wanted.stream_load, len(flow_subscriber)),
        least_share=least,
        gain=_gain(flow, len(flow_subscriber), wanted),
    )


def _gain(flow: Ints, flows: int, wanted: Demand) -> Floats:
    """What of a flow arrives; its members have one share but may lose different parts on the way."""
    weight = wanted.load + 1e-300  # those that load no link count alike
    total = sum_by(flow, weight, flows)
    return sum_by(flow, weight * wanted.reach, flows) / np.where(total > 0, total, 1.0)


def places(inside: Ints, *keys: Floats) -> Ints:
    """Where each element stands among those of its `inside`, by falling keys; ties as they come."""
    order = np.lexsort((*(-key for key in reversed(keys)), inside))
    counts = np.bincount(inside)
    place = np.empty(len(inside), np.int64)
    place[order] = np.arange(len(inside)) - (np.cumsum(counts) - counts)[inside[order]]
    return place


def split(place: Ints, count: Ints, parts: int) -> Ints:
    """Which of `parts` sub-lists of nearly equal size, the larger ones first, holds each place of a list."""
    size, larger = np.divmod(count, parts)
    edge = larger * (size + 1)
    part: Ints = np.where(place < edge, place // (size + 1), larger + (place - edge) // np.maximum(size, 1))
    return part
