"""What each category gets below each set of others, at best, for drop rates in a box: the loops of the lower bound.

The reasons are in `bound`. A set is a number, with a bit for each category; `above` is the set above the one looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.compiled import compiled
from firelane.plan.bound import Bounds, Box
from firelane.plan.cost import MILLION, MOST_LATE, MOST_TERM
from firelane.plan.requirements import ROUNDING
from firelane.predict.many import Streams
from firelane.scenario.model import LEAST_SPARE

HAIR = 1e-4  # millionths: no rounding error lifts the bound over the cost it bounds


class Kept(NamedTuple):
    """Of each stream, what its drop rate leaves: at the least and at the most."""

    least: Floats
    most: Floats


class Link(NamedTuple):
    """A link with what is kept at the least: sums over the streams of each set."""

    load: Floats
    residual_s: Floats  # of all that is served, and at the least so: not only of the set
    pairs_s: Floats  # work that copies find of their own batch
    copies: Floats  # of each batch
    batch: Ints  # of each stream of the link


class Own(NamedTuple):
    """What a category claims on a link."""

    stream: Ints
    row: Ints  # the subscription that carries it, unless a category above does
    claim: Ints  # for each claim the place of its stream in `stream`
    claim_row: Ints


@compiled
def set_costs(s: Streams, member: Ints, asked: Bounds, box: Box) -> tuple[Ints, Ints]:
    """For every set above and every category not in it: at least so many of its bounds missed, and so late."""
    sets = 1 << len(box.least)
    value, weight = np.zeros((len(asked.bound), sets)), np.zeros((len(asked.bound), sets))
    kept = _kept(s, box)
    for lane in range(len(s.lane_start) - 1):
        first, last = s.lane_start[lane], s.lane_start[lane + 1]
        link = _link(s, first, last, member, kept, sets)
        for category in range(len(box.least)):
            own = _own(s, first, last, category)
            if len(own.stream):
                _below(s, first, own, member, category, kept, link, asked, value, weight)
    return _counted(asked, value, weight, len(box.least))


@compiled
def _kept(s: Streams, box: Box) -> Kept:
    least, most = np.empty(len(s.topic)), np.empty(len(s.topic))
    for i in range(len(s.topic)):
        low, high = 1.0, 1.0
        for claim in range(s.claim_start[i], s.claim_start[i + 1]):
            low, high = min(low, box.least[s.claim_group[claim]]), min(high, box.most[s.claim_group[claim]])
        least[i], most[i] = 1.0 - high, 1.0 - low
    return Kept(least, most)


@compiled
def _link(s: Streams, first: int, last: int, member: Ints, kept: Kept, sets: int) -> Link:
    batch = np.zeros(last - first, np.int64)
    for i in range(first + 1, last):
        batch[i - first] = batch[i - first - 1] + (s.topic[i] != s.topic[i - 1])
    load, residual, pairs = np.zeros(sets), np.zeros(sets), np.zeros(sets)
    copies = np.zeros((sets, batch[-1] + 1 if last > first else 1))
    for one in range(1, sets):
        for i in range(first, last):
            if member[i] & one:
                rate = s.rate_hz[i] * kept.least[i]
                load[one] += rate * s.service_s[i]
                residual[one] += rate * s.second_s2[i] / 2
                pairs[one] += rate * s.second_s2[i] * copies[one, batch[i - first]]
                copies[one, batch[i - first]] += kept.least[i]
    return Link(load, _served(s, first, last, kept, load, residual), pairs, copies, batch)


@compiled
def _served(s: Streams, first: int, last: int, kept: Kept, load: Floats, residual: Floats) -> Floats:
    """The residual time of all that is served, at the least, when the categories of each set are served whole.

    A link that settles serves everything. Else it is busy all the time, and what the set leaves of it goes to other
    categories, or to what is kept more of the set: here to those first whose work has the least residual time.
    """
    sets, count = len(load), 0
    while (1 << count) < sets:
        count += 1
    least, most, ratio = np.zeros(count), np.zeros(count), np.zeros(count)
    for i in range(first, last):
        category = s.claim_group[s.claim_start[i]]
        work = s.rate_hz[i] * s.service_s[i]
        least[category] += work * kept.least[i]
        most[category] += work * kept.most[i]
        ratio[category] += s.rate_hz[i] * kept.most[i] * s.second_s2[i] / 2
    if most.sum() < 1.0 - LEAST_SPARE:
        return np.full(sets, residual[sets - 1])
    for category in range(count):
        ratio[category] = ratio[category] / most[category] if most[category] > 0 else 0.0
    served = residual.copy()
    for one in range(sets):
        rest = min(1.0, load[sets - 1]) - load[one]
        for category in np.argsort(ratio):
            more = most[category] - (least[category] if one & (1 << category) else 0.0)
            taken = min(max(0.0, rest), more)
            served[one] += taken * ratio[category]
            rest -= taken
    return served


@compiled
def _own(s: Streams, first: int, last: int, category: int) -> Own:
    claims = s.claim_start[last] - s.claim_start[first]
    stream, row = np.empty(claims, np.int64), np.empty(claims, np.int64)
    claim, claim_row = np.empty(claims, np.int64), np.empty(claims, np.int64)
    streams, found = 0, 0
    for i in range(first, last):
        for one in range(s.claim_start[i], s.claim_start[i + 1]):
            if s.claim_group[one] == category:
                if streams == 0 or stream[streams - 1] != i:
                    stream[streams], row[streams] = i, s.claim_row[one]
                    streams += 1
                claim[found], claim_row[found] = streams - 1, s.claim_row[one]
                found += 1
    return Own(stream[:streams], row[:streams], claim[:found], claim_row[:found])


@compiled
def _below(
    s: Streams,
    first: int,
    own: Own,
    member: Ints,
    category: int,
    kept: Kept,
    link: Link,
    asked: Bounds,
    value: Floats,
    weight: Floats,
) -> None:
    """One category below every set on one link: delays with the least kept, deliveries with the most of its own."""
    mine, every = 1 << category, len(link.load) - 1
    late, carried, got, due = np.zeros(s.rows), np.zeros(s.rows), np.zeros(s.rows), np.zeros(s.rows)
    delivered = np.empty(len(own.stream))
    for above in range(every):
        if above & mine:
            continue
        both = above | mine
        spare, spare_above = 1.0 - link.load[both], 1.0 - link.load[above]
        found = (link.residual_s[both] + link.pairs_s[both]) / spare if spare > LEAST_SPARE else np.nan
        own_load = 0.0
        for place, i in enumerate(own.stream):
            delivered[place] = s.rate_hz[i] * kept.most[i]
            if not member[i] & above:
                own_load += delivered[place] * s.service_s[i]
        served = min(1.0, max(0.0, spare_above) / own_load) if own_load > 0 else 1.0
        for place, i in enumerate(own.stream):
            delivered[place] *= s.gain[i]
            if member[i] & above:  # a category above carries it too
                continue
            delivered[place] *= served
            if s.rate_hz[i] == 0 or kept.least[i] == 0:
                continue
            batch = link.batch[i - first]
            others = max(0.0, link.copies[both, batch] - link.copies[above, batch] - kept.least[i])
            ahead = (link.copies[above, batch] + others / 2) * s.service_s[i]
            delay = s.before_s[i] + (found + ahead) / spare_above + s.service_s[i] if spare_above > 0 else np.nan
            if len(s.late_s):
                delay -= min(s.late_s[i], ahead)
            rate = max(s.rate_hz[i] * kept.least[i] * s.gain[i], 1e-300)
            late[own.row[place]] += delay * rate
            carried[own.row[place]] += rate
        for claim, place in enumerate(own.claim):
            got[own.claim_row[claim]] += delivered[place]
            due[own.claim_row[claim]] += s.published_hz[own.stream[place]]
        for one in range(asked.first[category], asked.first[category + 1]):
            for row in asked.rows[asked.start[one] : asked.start[one + 1]]:
                if asked.together[one]:
                    value[one, above] += got[row] if asked.is_loss[one] else late[row]
                    weight[one, above] += due[row] if asked.is_loss[one] else carried[row]
                elif asked.is_loss[one]:
                    if due[row] > 0:
                        value[one, above] = max(value[one, above], 1.0 - got[row] / due[row])
                elif carried[row] > 0:
                    mean = late[row] / carried[row]
                    if np.isnan(mean) or mean > value[one, above]:
                        value[one, above] = mean
        for row in own.claim_row:
            late[row], carried[row], got[row], due[row] = 0.0, 0.0, 0.0, 0.0


@compiled
def _counted(asked: Bounds, value: Floats, weight: Floats, count: int) -> tuple[Ints, Ints]:
    """What the bounds measure as what they cost."""
    sets = 1 << count
    violated, late = np.zeros((sets, count), np.int64), np.zeros((sets, count), np.int64)
    for one in range(len(asked.bound)):
        category = asked.category[one]
        for above in range(sets):
            if above & (1 << category):
                continue
            found = value[one, above]
            if asked.together[one] and weight[one, above] > 0:
                found = found / weight[one, above]
                if asked.is_loss[one]:
                    found = max(0.0, 1.0 - found)
            if not found <= asked.bound[one] * (1 + 2 * ROUNDING) + 1e-15:
                violated[above, category] += 1
            if not asked.is_loss[one]:
                late[above, category] += _late(found, asked.bound[one], asked.weight[one])
    return violated, late


@compiled
def _late(delay: float, bound: float, weight: float) -> int:
    times = MOST_LATE
    if bound > 0 and delay < MOST_LATE * bound:
        times = delay / bound
    return int(max(0.0, np.rint(min(weight * times * MILLION, MOST_TERM) - HAIR)))
