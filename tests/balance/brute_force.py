"""Every placement of a few topics, one after the other: what is best is known beyond doubt."""

from __future__ import annotations

from itertools import product

import numpy as np


def placements(topics: int, brokers: int):
    return (np.array(one) for one in product(range(brokers), repeat=topics))


def carried(load, place, brokers):
    return np.bincount(place, load, minlength=brokers)


def difference(load, place, brokers):
    return np.ptp(carried(load, place, brokers))


def pairwise(load, place, brokers):
    """Eq. 3 as it is printed."""
    loads = carried(load, place, brokers)
    return sum(abs(a - b) for a in loads for b in loads)


def least(load, brokers, what=difference):
    return min(what(load, place, brokers) for place in placements(len(load), brokers))


def fewest_moves(load, start, brokers, at_most):
    """None if no placement is as balanced."""
    counts = (
        np.count_nonzero(place != start)
        for place in placements(len(load), brokers)
        if difference(load, place, brokers) <= at_most + 1e-9
    )
    return min(counts, default=None)
