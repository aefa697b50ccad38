"""Delays of many lanes at once are counted on each as one by one."""

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firelane.exchange.measuring.measuring import Delays
from firelane.histogram import bucket_of

LANES = ["a", "b", "c"]  # anything that can be told apart


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(LANES), st.lists(st.floats(0, 1e4), max_size=5)), max_size=8))
def test_each_lane_gets_its_own_delays_back(noted):
    delays = Delays([(lane, array("d", some)) for lane, some in noted])
    found = list(delays)
    assert [lane for lane, _, _ in found] == [lane for lane, _ in noted]
    for (_, buckets, sum_s), (_, some) in zip(found, noted, strict=True):
        assert buckets == bucket_of(np.array(some)).tolist()
        assert sum_s == pytest.approx(sum(some))
    assert delays.counts.sum() == sum(len(some) for _, some in noted)
