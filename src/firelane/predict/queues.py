"""Mean delays of single queues, in closed form, over arrays of message streams.

Implements: firedex, section 3.2, Eq. 3-5; batch arrivals, which section 6 leaves open.
Differs:    FIFO is Pollaczek-Khinchine (Eq. 4 is the processor-sharing formula); priorities sum residual
            work over streams (Cobham) instead of collapsing a class into one exponential (Eq. 5); and one
            publication makes a batch of copies of one size (`fan_out`), which Cobham takes for independent.
Symbols:    lambda -> rate_hz, 1/mu -> service_s, E[S^2] -> second_s2, rho -> load, y_j -> klass.
Checked by: tests/predict/test_queues.py, tests/agreement/test_prediction_equals_simulation.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Flags, Floats, Ints, sum_by
from firelane.scenario.model import LEAST_SPARE, MOST_PRIORITIES


def _ratio(part: Floats | float, whole: Floats, *, out: Floats, where: Flags) -> Floats:
    """part / whole where it makes sense, and what `out` holds elsewhere."""
    return np.asarray(np.divide(part, whole, out=out, where=where), np.float64)


def mm1_delay_s(rate_hz: Floats, service_hz: Floats) -> Floats:
    """Time in an M/M/1 queue (Eq. 3); NaN where it is not stable."""
    spare = np.asarray(service_hz - rate_hz, np.float64)
    return _ratio(1.0, spare, out=np.full(spare.shape, np.nan), where=spare > LEAST_SPARE * service_hz)


def processor_sharing_delay_s(rate_hz: Floats, service_s: Floats) -> Floats:
    """Eq. 4 as printed: what each stream would wait if the link were shared evenly, not FIFO."""
    load = float((rate_hz * service_s).sum())
    return service_s / (1 - load) if load < 1 else np.full(len(service_s), np.nan)


def fifo_delay_s(rate_hz: Floats, service_s: Floats, second_s2: Floats, lane: Ints, lanes: int) -> Floats:
    """Time in M/G/1 FIFO queues fed by streams of different sizes (Pollaczek-Khinchine)."""
    load = sum_by(lane, rate_hz * service_s, lanes)
    residual = sum_by(lane, rate_hz * second_s2, lanes) / 2
    wait = _ratio(residual, 1 - load, out=np.full(lanes, np.nan), where=load < 1 - LEAST_SPARE)
    return wait[lane] + service_s


def batch_fifo_delay_s(
    rate_hz: Floats, service_s: Floats, second_s2: Floats, batch: Ints, lane: Ints, lanes: int, late_s: Floats
) -> Floats:
    """Time in FIFO queues where streams of one `batch` arrive together, each with its own service draw.

    The M^X/M/1 queue when service is exponential: the work found, half of one's own batch, one's own. A copy
    that comes `late_s` after the first of its batch is spared that much of it.
    """
    load = sum_by(lane, rate_hz * service_s, lanes)
    _, others, _ = own_batch(np.ones(len(lane)), np.zeros(len(lane), np.int64), batch, lane)
    # E[(batch work)^2] = sum E[S_i^2] + sum over ordered pairs E[S_i] E[S_j]
    square = rate_hz * (second_s2 + service_s * service_s * others)
    work = sum_by(lane, square, lanes) / 2
    found = _ratio(work, 1 - load, out=np.full(lanes, np.nan), where=load < 1 - LEAST_SPARE)
    ahead = others / 2 * service_s
    return found[lane] + ahead - smaller_of(late_s, ahead) + service_s


def collapsed_priority_delay_s(rate_hz: Floats, service_s: Floats, klass: Ints, lane: Ints, lanes: int) -> Floats:
    """Eq. 5 in its usual reading: every class one exponential server with the class's mean service time."""
    place, shape = lane * MOST_PRIORITIES + klass, lanes * MOST_PRIORITIES
    rate = sum_by(place, rate_hz, shape)
    load = sum_by(place, rate_hz * service_s, shape)
    mean = _ratio(load, rate, out=np.zeros(shape), where=rate > 0)
    second = 2 * mean[place] ** 2
    return _priority(rate_hz, service_s, second, np.zeros(len(rate_hz)), klass, lane, lanes)


def cobham_delay_s(
    rate_hz: Floats, service_s: Floats, second_s2: Floats, klass: Ints, lane: Ints, lanes: int
) -> Floats:
    """Time in non-preemptive priority queues with independent Poisson streams (Cobham 1954)."""
    return _priority(rate_hz, service_s, second_s2, np.zeros(len(rate_hz)), klass, lane, lanes)


def fan_out_delay_s(
    rate_hz: Floats,
    service_s: Floats,
    second_s2: Floats,
    kept: Floats,
    klass: Ints,
    batch: Ints,
    lane: Ints,
    lanes: int,
    late_s: Floats | None = None,
) -> Floats:
    """Time in non-preemptive priority queues where every publication arrives as a batch of equal copies.

    `rate_hz` is after drops, `kept` the share of a stream's copies that its drop rate leaves, `batch` the
    topic: copies of one topic on one lane come together and have one size. Exact for the mean.

    With `late_s`, how long after the first of its batch a copy comes (stages before this one have drawn the
    batch apart), two first-order corrections: an idle lane starts with whichever copy comes first, of any
    class; and a copy that comes late has been spared that much of its own batch's work.
    """
    higher, same, lower = own_batch(kept, klass, batch, lane)
    ahead = higher + same / 2
    if late_s is None:
        return _priority(rate_hz, service_s, second_s2, ahead, klass, lane, lanes)
    idle = np.maximum(0.0, 1 - sum_by(lane, rate_hz * service_s, lanes))[lane]
    ahead = ahead + idle * (lower - higher) / (1 + higher + same + lower)
    delay = _priority(rate_hz, service_s, second_s2, ahead, klass, lane, lanes)
    return delay - smaller_of(late_s, np.maximum(0.0, ahead) * service_s)


def smaller_of(one_s: Floats, other_s: Floats) -> Floats:
    """About the mean of the smaller of two random times with these means: a smooth minimum.

    Between the minimum of the means (too much where both are alike) and that of two exponentials (too
    little); chosen by comparison with simulation, where it leaves the least error end to end.
    """
    both = np.hypot(one_s, other_s)
    return _ratio(one_s * other_s, both, out=np.zeros_like(both), where=both > 0)


def own_batch(kept: Floats, klass: Ints, batch: Ints, lane: Ints) -> tuple[Floats, Floats, Floats]:
    """Mean kept copies of the same batch on the same lane: in higher classes, in the same, in lower."""
    if len(kept) == 0:
        return np.empty(0), np.empty(0), np.empty(0)
    order = np.lexsort((klass, batch, lane))
    weight = kept[order]
    new_batch = (np.diff(lane[order], prepend=-1) != 0) | (np.diff(batch[order], prepend=-1) != 0)
    new_class = new_batch | (np.diff(klass[order], prepend=-1) != 0)
    cumulative = np.concatenate([[0.0], np.cumsum(weight)])
    first, last = _group_ends(new_batch)
    first_of_class, last_of_class = _group_ends(new_class)
    higher, same, lower = np.empty(len(order)), np.empty(len(order)), np.empty(len(order))
    higher[order] = cumulative[first_of_class] - cumulative[first]
    same[order] = cumulative[last_of_class] - cumulative[first_of_class] - weight
    lower[order] = cumulative[last] - cumulative[last_of_class]
    return higher, np.maximum(0.0, same), np.maximum(0.0, lower)


def _group_ends(starts: Flags) -> tuple[Ints, Ints]:
    """For each element the position where its group starts and where it ends."""
    first = np.flatnonzero(starts)
    group = np.cumsum(starts) - 1
    return first[group], np.append(first[1:], len(starts))[group]


def _priority(
    rate_hz: Floats, service_s: Floats, second_s2: Floats, ahead: Floats, klass: Ints, lane: Ints, lanes: int
) -> Floats:
    """The common form: R residual work, V_k work of class k found waiting, `ahead` copies of one's own batch.

    V_k = (rho_k (R + V_0 + ... + V_{k-1}) + sum_{i in k} l_i E[S_i B_i]) / (1 - sigma_k)
    W_i = (R + V_0 + ... + V_k + B_i) / (1 - sigma_{k-1})
    with B_i = ahead_i s_i and E[S_i B_i] = ahead_i E[S_i^2], as the copies of a batch share one size.
    Classes at and below the one that saturates the lane have no mean; those above see a server that the
    saturating class keeps busy all the time, so its served share counts into R and nothing else.
    """
    classes = MOST_PRIORITIES
    place = lane * classes + klass

    def summed(values: Floats) -> Floats:
        return sum_by(place, values, lanes * classes).reshape(lanes, classes)

    load = summed(rate_hz * service_s)
    served = served_share(load)
    residual = (summed(rate_hz * second_s2) / 2 * served).sum(axis=1)
    own = summed(rate_hz * second_s2 * ahead)
    wait = np.full((lanes, classes), np.nan)
    above = np.zeros(lanes)  # sigma_{k-1}
    found = residual.copy()  # R + V_0 + ... + V_{k-1}
    for k in range(classes):
        spare = 1 - above - load[:, k]
        stable = spare > LEAST_SPARE
        work = _ratio(load[:, k] * found + own[:, k], spare, out=np.full(lanes, np.nan), where=stable)
        found = found + work
        wait[:, k] = found
        above = above + load[:, k]
    before = np.cumsum(load, axis=1) - load
    spare = (1 - before).ravel()[place]
    delay: Floats = (wait.ravel()[place] + ahead * service_s) / np.where(spare > 0, spare, np.nan) + service_s
    return delay


def served_share(load: Floats) -> Floats:
    """Of each class's offered load (rows: lanes), the share that strict priority serves in the long run."""
    spare = np.maximum(0.0, 1 - (np.cumsum(load, axis=1) - load))
    return _ratio(spare, load, out=np.ones(load.shape), where=load > spare)
