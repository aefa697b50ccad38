"""Why a plan is as it is, in lines that a person can read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firelane.arrays import Floats
from firelane.scenario.routes import Routes
from firelane.tune.flows import Demand, Flows
from firelane.tune.precision import factors

MOST_LINKS = 20
PRIORITY_STORY = {
    "none": "one class for everything",
    "random": "classes at random, per subscriber",
    "information": "classes by most utility, per subscriber",
    "bandwidth-adjusted": "classes by most utility per load, per subscriber",
    "delay-adjusted": "classes by weight per load after drops, per link",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Story:
    """What was decided, per link."""

    priorities: str
    drops: str
    asked: str  # the method of drop rates that was asked for
    allowed: float
    before: Floats  # load
    after: Floats
    flat: npt.NDArray[np.bool_]  # fell back to flat drop rates
    lowered: npt.NDArray[np.bool_]  # overlapping filters cost more than planned


def tell(story: Story, routes: Routes, wanted: Demand, flows: Flows, drop_rate: Floats) -> tuple[str, ...]:
    """One line on the classes, then one or more per link, the fullest links first."""
    lines = [f"priorities {story.priorities}: {PRIORITY_STORY[story.priorities]}"]
    if story.drops != story.asked:
        lines.append(
            f"{story.drops} instead of {story.asked} drop rates: with filters that overlap, or steps, they bring more"
        )
    limited = np.array([lane.link.bandwidth_bps is not None for lane in routes.lanes], np.bool_)
    per_lane = _Counts.of(routes, wanted, flows, drop_rate)
    factor = factors(wanted, flows, drop_rate)
    fullest = np.argsort(-story.before, kind="stable")
    fullest = fullest[limited[fullest]]
    for one in fullest[:MOST_LINKS].tolist():
        lines += [f"{routes.lanes[one].name}: {line}" for line in _link_lines(story, routes, per_lane, one)]
        lines += [f"{routes.lanes[one].name}: {line}" for line in _widened(routes, factor, one)]
    rest = fullest[MOST_LINKS:]
    if len(rest):
        dropped = int((per_lane.dropped[rest] > 0).sum())
        lines.append(f"and {len(rest)} more links, {dropped} with drops, {len(rest) - dropped} without")
    if not limited.all():
        lines.append(f"no drops on {int((~limited).sum())} links without a bandwidth")
    return tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Counts:
    """Per link: flows, those with drops, those dropped entirely; subscriptions whose tolerance is kept, beyond help."""

    flows: npt.NDArray[np.int64]
    dropped: npt.NDArray[np.int64]
    gone: npt.NDArray[np.int64]
    tolerant: npt.NDArray[np.int64]
    out_of_reach: npt.NDArray[np.int64]

    @staticmethod
    def of(routes: Routes, wanted: Demand, flows: Flows, drop_rate: Floats) -> _Counts:
        def count(lane: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            return np.bincount(lane, minlength=flows.lanes)

        return _Counts(
            flows=count(flows.lane),
            dropped=count(flows.lane[drop_rate > 0]),
            gone=count(flows.lane[drop_rate >= 1]),
            tolerant=count(routes.subscription_lane[wanted.tolerant & (wanted.widest <= 1)]),
            out_of_reach=count(routes.subscription_lane[wanted.out_of_reach]),
        )


def _widened(routes: Routes, factor: Floats, one: int) -> list[str]:
    """Whose precision gives way on a link, the one that gives way most by name."""
    rows = np.flatnonzero((routes.subscription_lane == one) & (factor > 1))
    if not len(rows):
        return []
    row = int(rows[np.argmax(factor[rows])])
    name, tolerance = routes.subscribers[routes.subscription_subscriber[row]], routes.needs[row].tolerance
    assert tolerance is not None
    told = f"{name} {routes.filters[row]} widened from {tolerance:g} to {tolerance * factor[row]:.3g}"
    many = f"; {len(rows)} subscriptions in all" if len(rows) > 1 else ""
    return [f"precision gives way, nothing of it is dropped: {told}{many}"]


def _link_lines(story: Story, routes: Routes, counts: _Counts, one: int) -> list[str]:
    before, after, allowed = story.before[one], story.after[one], story.allowed
    lines = []
    if story.drops == "none" and before > allowed:
        verdict = "its queue will overflow" if before >= 1 else f"more than 1 - headroom = {allowed:.2f}"
        lines.append(
            f"nothing is dropped on purpose at load {before:.2f}; {verdict} (the upper bound keeps the headroom)"
        )
    elif before <= allowed:
        lines.append(f"no drops: load {before:.2f} is within 1 - headroom = {allowed:.2f}")
    else:
        lines.append(
            f"load {before:.2f} is brought to {after:.2f} by {'flat' if story.flat[one] else story.drops} drop rates; "
            f"{counts.dropped[one]} of {counts.flows[one]} flows dropped, {counts.gone[one]} of them entirely"
        )
    if story.flat[one]:
        reason = "the top class and the least shares are too much"
        lines.append(f"flat instead of {story.drops}, which cannot reach {allowed:.2f}: {reason}")
    if story.lowered[one]:
        lines.append(
            "overlapping filters carry what they share at the lower drop rate, so all shares were lowered to fit"
        )
    if counts.tolerant[one] and before > allowed:
        lines.append(f"{counts.tolerant[one]} subscriptions with a tolerance are held at full rate")
    if counts.out_of_reach[one]:
        loss = routes.lanes[one].link.loss
        lines.append(
            f"{counts.out_of_reach[one]} subscriptions lose more on the way than they can bear, whatever is kept here "
            f"(the link itself loses {loss:.1%})"
        )
    return lines
