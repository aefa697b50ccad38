"""The drop rates with the most utility that a link can carry, for all links at once.

With a price per second of link time, every flow's best share follows from its own curve alone; the price is
right when the link is just full. Where all curves are logarithms, the load is piecewise linear in the
inverse price, so Newton's method ends on the exact solution (`water_filling`); for other concave curves the
price is bracketed until the load fits (`dual`), and what is left between the two ends of the bracket, where
curves are straight, is shared out along the line between them.

Implements: firedex, section 4.3, Eq. 16.
Differs:    solved by its dual instead of a convex solver; least shares are bounds; delay is left out.
Symbols:    Omega -> 1 - share, rho -> load x share, nu -> price (dual: its logarithm), A -> value.
Checked by: tests/tune/test_optimum.py
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.compiled import compiled
from firelane.scenario.utility import LOG, Utilities
from firelane.tune.curves import CONSTANT, FADE, LOGARITHM, RAMP, RAMPS, Curves, curves
from firelane.tune.flows import HAIR

WIDTH = 4e-16  # of a bracket that cannot usefully be halved
MOST_STEPS = 400


class Pool(NamedTuple):
    """The flows of one link that maximise sum of value x log(1 + gain x share).

    At water level 1 / price a flow uses clip(value x water - load / gain, load x least, load) of its link.
    """

    value: Floats
    load: Floats
    least: Floats
    gain: Floats


def optimal_shares(
    members: Utilities, flow: Ints, *, lane: Ints, load: Floats, least: Floats, gain: Floats, allowed: float
) -> Floats:
    """The share of its messages that each flow keeps; `flow` is per member, the rest per flow.

    The least shares must fit the allowed load; a link that carries everything keeps everything.
    """
    lanes = int(lane.max(initial=-1)) + 1
    order = np.argsort(lane, kind="stable")
    start = np.searchsorted(lane[order], np.arange(lanes + 1))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    curve = curves(members, rank[flow], load=load[order], least=least[order], gain=gain[order])
    full = sum_by(lane, load, lanes) > allowed
    mixed = np.zeros(lanes, np.bool_)
    mixed[lane[flow[members.kind != LOG]]] = True
    share = np.ones(len(order))
    water_filling(start, full & ~mixed, curve, allowed * (1.0 - HAIR), share)
    if mixed.any():
        dual(start, full & mixed, curve, allowed * (1.0 - HAIR), share)
    return share[rank]


@compiled
def water_filling(start: Ints, chosen: Any, curve: Curves, target: float, share: Floats) -> None:
    """Fill in the shares of the chosen lanes' flows, all of them with logarithmic curves."""
    for lane in range(len(start) - 1):
        if chosen[lane]:
            a, b = start[lane], start[lane + 1]
            pool = Pool(curve.log_weight[a:b], curve.load[a:b], curve.least[a:b], curve.gain[a:b])
            _fill(pool, target, share[a:b])


@compiled
def _fill(pool: Pool, target: float, share: Floats) -> None:
    """Newton's method on a rising, piecewise linear function: exact as soon as it is on the right piece."""
    low, high = 0.0, _highest_water(pool)
    water, full = high, _used(high, pool)[0] > target
    for step in range(MOST_STEPS if full else 0):
        used, rise = _used(water, pool)
        if used <= target:
            low = water
        else:
            high = water
        if abs(target - used) <= 0.1 * HAIR * target or high - low <= WIDTH * high:
            break
        newton = water + (target - used) / rise if rise > 0.0 else -1.0
        water = newton if low < newton < high and step % 4 < 3 else 0.5 * (low + high)
    for f in range(len(share)):
        wanted = pool.value[f] * water - pool.load[f] / pool.gain[f]
        share[f] = min(1.0, max(pool.least[f], wanted / pool.load[f])) if pool.load[f] > 0.0 else 1.0
    if not full:  # not full at any price: what is left is worth nothing to anybody
        _share_rest(pool.load, share, np.ones(len(share)), target)


@compiled
def _highest_water(pool: Pool) -> float:
    """The water level from which on every flow of some value is whole."""
    value, load, _, gain = pool
    highest = 0.0
    for f in range(len(value)):
        if value[f] > 0.0:
            highest = max(highest, load[f] * (1.0 + 1.0 / gain[f]) / value[f])
    return highest


@compiled
def _used(water: float, pool: Pool) -> tuple[float, float]:
    """The load at a water level, and how fast it rises there."""
    value, load, least, gain = pool
    used, rise = 0.0, 0.0
    for f in range(len(value)):
        wanted = value[f] * water - load[f] / gain[f]
        if wanted <= load[f] * least[f]:
            used += load[f] * least[f]
        elif wanted >= load[f]:
            used += load[f]
        else:
            used += wanted
            rise += value[f]
    return used, rise


@compiled
def _share_rest(load: Floats, share: Floats, more: Floats, target: float) -> None:
    """Move the shares towards `more`, all by the same part of the way, until they use the target."""
    used, span = 0.0, 0.0
    for f in range(len(load)):
        used += load[f] * share[f]
        span += load[f] * (more[f] - share[f])
    if span > 0.0 and used < target:
        part = min(1.0, (target - used) / span)
        for f in range(len(load)):
            share[f] += part * (more[f] - share[f])


@compiled
def dual(start: Ints, chosen: Any, curve: Curves, target: float, share: Floats) -> None:
    """Fill in the shares of the chosen lanes' flows, with concave curves of any kind."""
    for lane in range(len(start) - 1):
        if chosen[lane]:
            a, b = start[lane], start[lane + 1]
            more = _bracket(a, curve, target, share[a:b])
            _share_rest(curve.load[a:b], share[a:b], more, target)


@compiled
def _bracket(first: int, curve: Curves, target: float, share: Floats) -> Floats:
    """Fill in best shares that just fit and return those that just do not, for the flows from `first` on.

    The bracket of the price is closed by regula falsi, every fourth step by halving, as the load may jump.
    """
    flows = len(share)
    dear, cheap, trial = curve.least[first : first + flows].copy(), np.ones(flows), np.ones(flows)
    low, high = _price_range(first, flows, curve)
    over = _demand(low, first, curve, (dear, cheap), trial) - target
    if over <= 0.0:  # not full at any price that matters: what is left is worth nothing to anybody
        share[:] = trial
        return cheap
    cheap, trial = trial, cheap
    under = target - _demand(high, first, curve, (dear, cheap), trial)
    dear, trial = trial, dear
    heavy, light = over, under  # the same, but halved at an end that stays (Illinois), so that it moves
    moved = 0
    for step in range(MOST_STEPS):
        if under <= HAIR * target:
            cheap = dear  # it fits: nothing is left to share out
        if (high - low) * (over + under) <= HAIR * target or _settled(first, curve, dear, cheap):
            break
        price = low + (high - low) * (0.5 if step % 4 == 3 else heavy / (heavy + light))
        if not low < price < high:
            price = 0.5 * (low + high)
        excess = _demand(price, first, curve, (dear, cheap), trial) - target
        if excess > 0.0:
            light *= 0.5 if moved > 0 else 1.0
            low, over, heavy, moved = price, excess, excess, 1
            cheap, trial = trial, cheap
        else:
            heavy *= 0.5 if moved < 0 else 1.0
            high, under, light, moved = price, -excess, -excess, -1
            dear, trial = trial, dear
    share[:] = dear
    return cheap


@compiled
def _settled(first: int, curve: Curves, dear: Floats, cheap: Floats) -> bool:
    """Does the capacity alone decide what is left: one flow, or ramps that are worth the same?"""
    only = -1
    for n in range(len(dear)):
        if dear[n] < cheap[n]:
            f = first + n
            alike = only < 0 or (curve.form[f] == curve.form[only] == RAMP and curve.b[f] == curve.b[only])
            if not alike:
                return False
            only = f
    return True


@compiled
def _price_range(first: int, flows: int, curve: Curves) -> tuple[float, float]:
    """Logarithms of a price at which every flow takes all it has use for, and of one at which none takes any."""
    low, high = math.inf, -math.inf
    for f in range(first, first + flows):
        if curve.load[f] > 0.0:
            least_slope, most_slope = _slope_range(f, curve)
            low = min(low, least_slope - math.log(curve.load[f]))
            high = max(high, most_slope - math.log(curve.load[f]))
    if low > high:  # nothing is worth anything
        return 0.0, 0.0
    return low - 1e-3, high + 1e-3


@compiled
def _slope_range(f: int, curve: Curves) -> tuple[float, float]:
    """Logarithms of a bound below a flow's least positive slope, and above its highest; inf, -inf without any."""
    low, total = -math.inf, 0.0
    if curve.log_weight[f] > 0.0:
        total = curve.log_weight[f] * curve.gain[f]
        low = math.log(total / (1.0 + curve.gain[f]))
    for i in range(curve.fade_start[f], curve.fade_start[f + 1]):
        low = max(low, curve.fade_log_slope[i] - 1.0 / curve.fade_length[i])
        total += math.exp(curve.fade_log_slope[i])
    for i in range(curve.ramp_start[f], curve.ramp_start[f + 1]):
        total += curve.ramp_slope[i]
    if total <= 0.0:
        return math.inf, -math.inf
    if low == -math.inf:  # ramps only: the slope of the last one
        low = math.log(curve.ramp_slope[curve.ramp_start[f + 1] - 1])
    return low, math.log(total)


@compiled
def _demand(price: float, first: int, curve: Curves, between: tuple[Floats, Floats], share: Floats) -> float:
    """Fill in every flow's best share at the price (a logarithm); the load they make together.

    The best shares lie between those at a dearer and at a cheaper price.
    """
    load, form, a, b = curve.load, curve.form, curve.a, curve.b
    dear, cheap = between
    cost, water = math.exp(price), math.exp(-price)
    used = 0.0
    for n in range(len(share)):
        f = first + n
        best = dear[n]
        if dear[n] >= cheap[n]:
            pass
        elif form[f] == CONSTANT:
            best = a[f]
        elif form[f] == LOGARITHM:
            best = a[f] * water - b[f]
        elif form[f] == FADE:
            best = a[f] * (b[f] - price)
        elif form[f] == RAMP:
            best = a[f] if b[f] >= price else 0.0
        elif form[f] == RAMPS:
            best = _last_ramp(f, curve, load[f] * cost)
        else:
            best = _mixed_share(f, curve, load[f] * cost, dear[n], cheap[n])
        share[n] = min(cheap[n], max(dear[n], best))
        used += load[f] * share[n]
    return used


@compiled
def _last_ramp(f: int, curve: Curves, cost: float) -> float:
    """The share up to which the slopes of a flow's ramps add up to at least the cost."""
    slope, i = 0.0, curve.ramp_start[f + 1]
    while i > curve.ramp_start[f] and slope < cost:
        i -= 1
        slope += curve.ramp_slope[i]
    return float(curve.ramp_end[i]) if slope >= cost else 0.0


@compiled
def _mixed_share(f: int, curve: Curves, cost: float, low: float, high: float) -> float:
    """Where the slope of a curve of several terms falls to the cost: Newton's method, kept in a bracket."""
    log_weight, gain = curve.log_weight[f], curve.gain[f]
    fade_log_slope, fade_length = curve.fade_log_slope, curve.fade_length
    ramp_slope, ramp_end = curve.ramp_slope, curve.ramp_end
    at = high
    for _ in range(MOST_STEPS):
        slope = log_weight * gain / (1.0 + gain * at)
        bend = -slope * gain / (1.0 + gain * at)
        for i in range(curve.fade_start[f], curve.fade_start[f + 1]):
            term = math.exp(fade_log_slope[i] - at / fade_length[i])
            slope += term
            bend -= term / fade_length[i]
        for i in range(curve.ramp_start[f], curve.ramp_start[f + 1]):
            if ramp_end[i] >= at:
                slope += ramp_slope[i]
        if slope >= cost:
            low = at
        else:
            high = at
        if high - low <= WIDTH:
            break
        newton = at + (cost - slope) / bend if bend < 0.0 else -1.0
        if abs(newton - at) <= WIDTH:
            break
        at = newton if low < newton < high else 0.5 * (low + high)
    return at
