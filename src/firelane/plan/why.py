"""Why a plan is as it is, in lines that a person can read: what each step is for, told by what would be without it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.plan.cost import MILLION, costs
from firelane.plan.knowledge import Knowledge
from firelane.plan.nearest import Nearest, missed
from firelane.plan.problem import Found
from firelane.plan.requirements import Requirement, Requirements

MOST_NAMED = 3


def tell(
    wanted: Requirements, known: Knowledge, found: Found, conflicting: list[int], near: Nearest | None
) -> list[str]:
    """What doing nothing would lead to, what each step is for, and what cannot be had."""
    nothing = np.zeros(len(found.rank), np.int64), np.zeros(len(found.rank))
    lines = _about_nothing(wanted, known.values(*nothing), found)
    if not found.nothing:
        lines.append(f"classes: {' > '.join(wanted.categories[one] for one in found.order)}")
        lines += _about_order(wanted, known, found)
        lines += _about_drops(wanted, known, found)
    if conflicting:
        names = "; ".join(wanted.name(wanted.bounds[one]) for one in conflicting)
        several = "no plan meets these together; without any one of them, there is one that meets the others"
        lines.append(f"{several if len(conflicting) > 1 else 'no plan meets this'}: {names}")
    return [*lines, *_about_missed(wanted, known, found, near), *wanted.notes]


def reached(one: Requirement, value: float) -> str:
    """A value of what a bound is on."""
    if np.isnan(value):
        return "without end"
    return f"{100 * value:.3g} %" if one.kind == "loss" else f"{1e3 * value:.4g} ms"


def _about_nothing(wanted: Requirements, values: Floats | None, found: Found) -> list[str]:
    if not wanted.bounds:
        return ["nothing is required: no need and no category states a bound on delay or loss, so nothing is done"]
    if found.nothing:
        return ["nothing is done: no order and no drops are better than one class for all"]
    if values is None:
        return []
    bad = wanted.violated(values[None, :])[0]
    if bad.any():
        return [f"doing nothing misses {_counted(int(bad.sum()))}: {_named(wanted, values, bad)}"]
    late = costs(wanted, values[None, :], np.zeros((1, len(found.rank))))[0][1] / MILLION
    return [f"doing nothing meets every bound too, but later: weight x delay/bound is {late:.4g} "
            f"instead of {found.cost.late_millionths / MILLION:.4g}"]  # fmt: skip


def _about_order(wanted: Requirements, known: Knowledge, found: Found) -> list[str]:
    lines = []
    for first, second in pairwise(found.order):
        rank = found.rank.copy()
        rank[[first, second]] = rank[[second, first]]
        change = _change(wanted, known, found, rank, found.drop_rate)
        if change:
            names = wanted.categories[first], wanted.categories[second]
            lines.append(f"{names[0]} before {names[1]}: the other way round {change}")
    return lines


def _about_drops(wanted: Requirements, known: Knowledge, found: Found) -> list[str]:
    lines = []
    for one in np.flatnonzero(found.drop_rate).tolist():
        drop_rate = found.drop_rate.copy()
        drop_rate[one] = 0.0
        change = _change(wanted, known, found, found.rank, drop_rate)
        limit = wanted.most_drop[one]
        bears = "" if np.isnan(limit) else f" (it bears {100 * limit:.3g} %)"
        because = f": without that {change}" if change else ""
        lines.append(f"{wanted.categories[one]} is dropped by {100 * found.drop_rate[one]:.3g} %{bears}{because}")
    return lines


def _change(wanted: Requirements, known: Knowledge, found: Found, rank: Ints, drop_rate: Floats) -> str:
    """What another plan would be worse in; nothing, if that is not known or it is as good."""
    values, now = known.values(rank, drop_rate), known.values(found.rank, found.drop_rate)
    if values is None or now is None:
        return ""
    bad = wanted.violated(values[None, :])[0] & ~wanted.violated(now[None, :])[0]
    if bad.any():
        return f"{_named(wanted, values, bad)} would be missed"
    late = costs(wanted, values[None, :], drop_rate[None, :])[0][1] - found.cost.late_millionths
    if late > 0:
        return f"weight x delay/bound would be {late / MILLION:.3g} more"
    return ""


def _about_missed(wanted: Requirements, known: Knowledge, found: Found, near: Nearest | None) -> list[str]:
    if near is None:
        return []
    rest = missed(wanted, known, found)
    lines = [f"{_counted(len(rest))} missed: {_told(wanted, rest)}"]
    less = [
        f"{wanted.categories[one]} by {100 * near.drop_rate[one]:.3g} %"
        for one in np.flatnonzero(near.drop_rate < found.drop_rate).tolist()
    ]
    if less:
        granted = _told(wanted, near.granted)
        lines.append(f"nearer to what is required would be to drop {', '.join(less)}, though later: {granted}")
    lines.append("with the bounds in brackets granted, either plan is feasible" if less else
                 "with the bounds in brackets granted, this plan is feasible")  # fmt: skip
    return lines


def _told(wanted: Requirements, some: list[tuple[Requirement, float]]) -> str:
    return "; ".join(f"{wanted.name(one)} ({reached(one, value)})" for one, value in some)


def _named(wanted: Requirements, values: Floats, which: Ints) -> str:
    places = np.flatnonzero(which).tolist()
    more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    return _told(wanted, [(wanted.bounds[one], values[one]) for one in places[:MOST_NAMED]]) + more


def _counted(bounds: int) -> str:
    return f"{bounds} bound{'s' * (bounds != 1)}"
