"""Utility curves of flows in the form the optimiser needs: what one more message is worth at each share.

A flow's curve is the sum of its members'. Every curve is a sum of three kinds of terms: one logarithm
(their weights add up), saturating exponentials, and *ramps*, slope x min(share, end), since any concave
curve made of straight pieces is a sum of ramps (linear: one ramp that ends at 1). A step is replaced by the
smallest concave curve above it, a ramp that ends at its knee.

Implements: firedex, section 4.1, for Eq. 16.
Differs:    linear, saturating, step and piecewise are ours; shares are of what is sent, and link loss
            (gain = 1 - loss) is inside the curve.
Symbols:    alpha -> weight, Xi -> gain x share.
Checked by: tests/tune/test_optimum.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.scenario.utility import LINEAR, LOG, SATURATING, STEP, Utilities

# How a flow's best share follows from the price: a constant, one closed form per kind of term, or by search.
CONSTANT, LOGARITHM, FADE, RAMP, RAMPS, MIXED = range(6)


class Curves(NamedTuple):
    """Flows, and the terms of their curves side by side: those of flow f are start[f] : start[f + 1]."""

    load: Floats
    least: Floats  # the least share
    log_weight: Floats
    gain: Floats
    fade_start: Ints
    fade_log_slope: Floats  # logarithm of the slope at share 0
    fade_length: Floats  # share over which the slope falls to 37 %
    ramp_start: Ints
    ramp_slope: Floats
    ramp_end: Floats  # rising inside a flow
    form: Ints
    a: Floats  # the numbers in its closed form
    b: Floats


def curves(members: Utilities, flow: Ints, *, load: Floats, least: Floats, gain: Floats) -> Curves:
    """The curves of flows with these members; `flow` is per member, the rest per flow."""
    flows = len(gain)
    weight = np.where(gain[flow] > 0, members.weight, 0.0)
    gain = np.where(gain > 0, gain, 1.0)
    log = members.kind == LOG
    fading = np.flatnonzero((members.kind == SATURATING) & (weight > 0))
    fading = fading[np.argsort(flow[fading], kind="stable")]
    knee, fade_gain = members.knee[fading], gain[flow[fading]]
    slope = weight[fading] * fade_gain / (-np.expm1(-1 / knee) * knee)
    ramp_member, ramp_slope, ramp_end = _ramps(members, weight, gain[flow])
    ramp_flow = flow[ramp_member]
    order = np.lexsort((ramp_end, ramp_flow))
    result = Curves(
        load=load,
        least=least,
        log_weight=sum_by(flow[log], weight[log], flows),
        gain=gain,
        fade_start=_starts(flow[fading], flows),
        fade_log_slope=np.log(slope),
        fade_length=knee / fade_gain,
        ramp_start=_starts(ramp_flow, flows),
        ramp_slope=ramp_slope[order],
        ramp_end=ramp_end[order],
        form=np.full(flows, MIXED),
        a=np.where(load > 0, least, 1.0),
        b=np.zeros(flows),
    )
    _find_forms(result)
    return result


def _find_forms(c: Curves) -> None:
    """What kind of terms a flow has; with one, the share at which its slope equals load x exp(price)."""
    logs, fades, ramps = (c.log_weight > 0).astype(np.int64), np.diff(c.fade_start), np.diff(c.ramp_start)
    terms = np.where(c.load > 0, logs + fades + ramps, 0)
    c.form[terms == 0] = CONSTANT
    c.form[(terms > 1) & (terms == ramps)] = RAMPS
    f = np.flatnonzero((terms == 1) & (logs == 1))  # value gain / (1 + gain share) = load exp(price)
    c.form[f], c.a[f], c.b[f] = LOGARITHM, c.log_weight[f] / c.load[f], 1.0 / c.gain[f]
    f = np.flatnonzero((terms == 1) & (fades == 1))  # log_slope - share / length = log(load) + price
    i = c.fade_start[f]
    c.form[f], c.a[f], c.b[f] = FADE, c.fade_length[i], c.fade_log_slope[i] - np.log(c.load[f])
    f = np.flatnonzero((terms == 1) & (ramps == 1))  # all of the ramp, or nothing
    i = c.ramp_start[f]
    c.form[f], c.a[f], c.b[f] = RAMP, c.ramp_end[i], np.log(c.ramp_slope[i] / c.load[f])


def envelope_value(members: Utilities, success: Floats) -> Floats:
    """U(success), a step replaced by its concave envelope: what the optimiser maximises."""
    ramp = members.weight * np.minimum(1.0, success / members.knee)
    return np.where(members.kind == STEP, ramp, members.value(success))


def _ramps(members: Utilities, weight: Floats, gain: Floats) -> tuple[Ints, Floats, Floats]:
    """(member, slope, end) of every ramp, in terms of the share sent."""
    straight = np.flatnonzero(members.kind == LINEAR)
    # A step out of the link's reach is worth nothing, whatever is sent.
    stepped = np.flatnonzero((members.kind == STEP) & (members.knee <= gain))
    bent, drop, bend = _bends(members)
    member = np.concatenate((straight, stepped, bent))
    slope = np.concatenate((np.ones(len(straight)), 1.0 / members.knee[stepped], drop))
    end = np.concatenate((np.ones(len(straight)), members.knee[stepped], bend))
    slope, end = weight[member] * gain[member] * slope, np.minimum(1.0, end / gain[member])
    rising = slope > 0
    return member[rising], slope[rising], end[rising]


def _bends(members: Utilities) -> tuple[Ints, Floats, Floats]:
    """(member, by how much the slope falls, at which success) of every bend of the piecewise curves."""
    points = list(members.points.values())
    counts = np.array([len(x) for x, _ in points], np.int64)
    member = np.repeat(np.array(list(members.points), np.int64), counts)
    if not points:
        return member, np.empty(0), np.empty(0)
    x, u = np.concatenate([x for x, _ in points]), np.concatenate([u for _, u in points])
    last = np.cumsum(counts) - 1  # from here to the next point is not a piece: the slope is 0
    slope = np.append(np.diff(u), 0.0) / np.append(np.diff(x), 1.0)
    slope[last] = 0.0
    falls = np.append(0.0, slope[:-1] - slope[1:])
    falls[last - counts + 1] = 0.0  # nothing before a curve's first point
    return member, np.maximum(0.0, falls), x


def _starts(flow: Ints, flows: int) -> Ints:
    return np.concatenate(([0], np.cumsum(np.bincount(flow, minlength=flows))))
