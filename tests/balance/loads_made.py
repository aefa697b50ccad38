"""Loads for tests: written by hand, or drawn by hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from firelane.balance import Loads

NOWHERE = -1


def loads_of(*steps):
    """One row per step; topics are called a, b, c ..."""
    load = np.array(steps, float)
    return Loads(
        topics=tuple(chr(ord("a") + i) for i in range(load.shape[1])), times_s=np.arange(len(load)) * 60, load=load
    )


def free(topics):
    return np.full(topics, NOWHERE)


def some_loads(least_steps=1):
    """Steps x topics of whole loads, some 0."""
    shape = st.tuples(st.integers(least_steps, 8), st.integers(1, 10))
    numbers = st.integers(0, 1000).map(float)
    return shape.flatmap(lambda one: arrays.arrays(float, one, elements=numbers))


one_step = arrays.arrays(float, st.integers(1, 7), elements=st.integers(1, 100).map(float))
