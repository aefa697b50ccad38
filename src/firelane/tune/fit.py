"""What a link really carries under a plan, and drop rates raised until it can.

Filters of one subscriber that overlap make one copy of a message, at the lowest of their drop rates,
so a link may carry more than the flows' own loads add up to.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firelane.arrays import Floats, sum_by
from firelane.scenario.routes import Routes
from firelane.tune.flows import HAIR, Demand, Flows

HALVINGS = 60


def stream_share(routes: Routes, flows: Flows, share: Floats) -> Floats:
    """The share of each stream that is sent: the highest of the flows that claim it."""
    claimed = share[flows.subscription_flow[routes.claim_subscription]]
    if not overlapping(routes):
        return claimed
    return np.maximum.reduceat(claimed, np.flatnonzero(np.diff(routes.claim_stream, prepend=-1)))


def lane_load(routes: Routes, wanted: Demand, flows: Flows, share: Floats) -> Floats:
    """The load of each link when every flow keeps this share."""
    sent = wanted.stream_load * stream_share(routes, flows, share)
    return sum_by(routes.stream_lane, sent, len(routes.lanes))


def overlapping(routes: Routes) -> bool:
    """Do filters of one subscriber overlap anywhere?"""
    return len(routes.claim_stream) > len(routes.stream_topic)


def fitted(
    routes: Routes, wanted: Demand, flows: Flows, drop_rate: Floats, allowed: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Drop rates with which every link is within the allowed load, and which links needed changing.

    Shares above the least ones are scaled by one factor per link. The least shares must fit.
    """
    if overlapping(routes):
        drop_rate = _along(routes, wanted, flows, drop_rate)
    dropping = np.zeros(flows.lanes, np.bool_)
    dropping[flows.lane[drop_rate > 0]] = True
    limit = np.where(dropping, allowed * (1.0 - 0.5 * HAIR), allowed)
    over = lane_load(routes, wanted, flows, 1.0 - drop_rate) > limit
    if not over.any():
        return drop_rate, over
    low, high = np.where(over, 0.0, 1.0), np.ones(len(over))
    most_drop = 1.0 - flows.least_share

    def scaled(factor: Floats) -> Floats:
        return np.where(over[flows.lane], most_drop - factor[flows.lane] * (most_drop - drop_rate), drop_rate)

    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        fits = lane_load(routes, wanted, flows, 1.0 - scaled(middle)) <= allowed * (1.0 - HAIR)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return scaled(low), over & (low < 1.0 - 1e-9)


def _along(routes: Routes, wanted: Demand, flows: Flows, drop_rate: Floats) -> Floats:
    """Flows whose every stream another flow carries: dropped as it is, or they would undo its drops."""
    carried = sum_by(flows.subscription_flow, wanted.load, len(flows.lane)) > 0
    idle = carried & (flows.load == 0)
    flow = flows.subscription_flow[routes.claim_subscription]
    sent = stream_share(routes, flows, np.where(idle, 0.0, 1.0 - drop_rate))[routes.claim_stream]
    least_sent = np.ones(len(flows.lane))
    np.minimum.at(least_sent, flow, sent)
    return np.where(idle, 1.0 - np.maximum(least_sent, flows.least_share), drop_rate)
