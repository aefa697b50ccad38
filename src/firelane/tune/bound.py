"""How much utility any plan could reach: the optimum with a flow for every subscription.

Implements: firedex, section 4.3, Eq. 16, with every subscription its own flow.
Differs:    a stream that several filters of one subscriber claim is charged to each in part, at the least it
            can cost them, so that the bound holds with overlapping filters too (it is then not tight).
Symbols:    U -> utility.
Checked by: tests/tune/test_tune.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Floats, sum_by
from firelane.scenario.routes import Routes
from firelane.tune.curves import envelope_value
from firelane.tune.flows import Demand, demand
from firelane.tune.optimise import optimal_shares


def upper_bound(routes: Routes, *, headroom: float | None = None, wanted: Demand | None = None) -> float:
    """The most total utility of any drop rates within 1 - headroom; bounds that do not fit a link are let go."""
    wanted = wanted or demand(routes)
    allowed = 1.0 - (routes.scenario.headroom if headroom is None else headroom)
    lane, load = routes.subscription_lane, _least_load(routes, wanted)
    fits = sum_by(lane, load * wanted.least_share, len(routes.lanes)) <= allowed
    share = optimal_shares(
        wanted.curves,
        np.arange(len(load)),
        lane=lane,
        load=load,
        least=np.where(fits[lane], wanted.least_share, 0.0),
        gain=wanted.reach,
        allowed=allowed,
    )
    published = sum_by(routes.claim_subscription, wanted.published_hz[routes.claim_stream], len(load)) > 0
    success = np.where(published, wanted.reach * share, 1.0)
    return float(envelope_value(wanted.curves, success).sum())


def _least_load(routes: Routes, wanted: Demand) -> Floats:
    """Per subscription, the load that complete success costs at least, its part of what it shares included."""
    if len(routes.claim_stream) == len(routes.stream_topic):
        return wanted.load
    stream, subscription = routes.claim_stream, routes.claim_subscription
    claims = np.bincount(stream)[stream]
    rate = wanted.stream_rate_hz[stream]
    some = rate > 0
    cheapest_s = np.full(len(routes.filters), np.inf)
    np.minimum.at(cheapest_s, subscription[some], (wanted.stream_load[stream] / claims)[some] / rate[some])
    overlaps = np.zeros(len(routes.filters), np.bool_)
    overlaps[subscription[some & (claims > 1)]] = True
    total_hz = sum_by(subscription, rate, len(routes.filters))
    result = wanted.load.copy()
    result[overlaps] = total_hz[overlaps] * cheapest_s[overlaps]
    return result
