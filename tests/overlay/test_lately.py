"""The loads of the last steps, against a plain list of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from firelane.overlay.leader.lately import Lately

NAMES = [f"t{number}" for number in range(40)]
some_loads = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 99).map(float), max_size=40)


@given(st.integers(0, 5), st.lists(some_loads, max_size=12))
def test_it_remembers_the_last_steps_as_they_were(steps, history):
    lately = Lately(steps, 100)
    for loads in history:
        lately.record(loads)
    kept = history[len(history) - min(steps, len(history)) :]
    expected = np.array([[loads.get(name, 0.0) for name in NAMES] for loads in kept]).reshape(len(kept), len(NAMES))
    assert np.array_equal(lately.of(NAMES), expected)
    assert lately.topics == set().union(*kept)
    assert lately.left_out == 0


def test_memory_is_bounded_by_the_steps_and_topics_however_many_come_and_go():
    lately = Lately(3, 50)
    for step in range(500):
        lately.record({f"topic {step} {number}": 1.0 for number in range(10)})
    assert len(lately.topics) == 30
    assert lately._load.size <= 3 * 64


def test_what_is_beyond_the_bound_is_counted():
    lately = Lately(2, 5)
    lately.record({f"t{number}": 1.0 for number in range(8)})
    assert len(lately.topics) == 5
    assert lately.left_out == 3
