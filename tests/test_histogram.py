"""Delay histograms: percentiles and merging."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.histogram import BUCKETS, bucket_of, edges_s, percentiles_s

SHARES = (0.5, 0.95, 0.99)


def counts_of(delay_s):
    return np.bincount(bucket_of(np.asarray(delay_s, float)), minlength=BUCKETS)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.exponential(0.003, n),
        lambda rng, n: rng.lognormal(-6, 1.5, n),
        lambda rng, n: rng.uniform(0.1, 0.2, n),
        lambda rng, n: rng.gamma(4, 10, n),
        lambda rng, n: rng.exponential(20e-6, n) + 2e-6,
    ],
    ids=["exponential", "lognormal", "uniform", "gamma", "microseconds"],
)
@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_3_percent_of_the_samples_own(draw, seed):
    sample = draw(np.random.default_rng(seed), 20_000)
    ours = percentiles_s(counts_of(sample)[None, :], SHARES)[0]
    np.testing.assert_allclose(ours, np.quantile(sample, SHARES), rtol=0.03)


@given(st.floats(min_value=2e-6, max_value=4000))
def test_a_single_delay_is_found_within_its_buckets_width(delay):
    ours = percentiles_s(counts_of([delay] * 10)[None, :], SHARES)[0]
    np.testing.assert_allclose(ours, delay, rtol=1 / 16)


@given(st.lists(st.floats(min_value=0, max_value=1e6)), st.lists(st.floats(min_value=0, max_value=1e6)))
def test_adding_two_histograms_is_the_histogram_of_both(first, second):
    np.testing.assert_array_equal(counts_of(first) + counts_of(second), counts_of(first + second))


@given(st.floats(min_value=0, max_value=4095.9))
def test_every_delay_lies_between_the_edges_of_its_bucket(delay):
    bucket = int(bucket_of(np.array([delay]))[0])
    edges = edges_s()
    assert edges[bucket] <= delay < edges[bucket + 1]


def test_edges_rise_and_span_a_microsecond_to_an_hour():
    edges = edges_s()
    assert len(edges) == BUCKETS + 1
    assert (np.diff(edges) > 0).all()
    assert edges[0] == 0
    assert edges[1] < 1.1e-6
    assert edges[-1] > 3600
    np.testing.assert_array_less(edges[2:] / edges[1:-1], 1 + 1.01 / 16)


def test_delays_beyond_the_edges_are_counted_in_the_outermost_buckets():
    assert bucket_of(np.array([0.0, 1e-9, 1e9, np.inf])).tolist() == [0, 0, BUCKETS - 1, BUCKETS - 1]


def test_an_empty_histogram_has_no_percentiles():
    rows = np.stack([np.zeros(BUCKETS, np.int64), counts_of([1.0])])
    result = percentiles_s(rows, SHARES)
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1]).all()


def test_percentiles_rise_with_the_share():
    sample = np.random.default_rng(0).exponential(1, 1000)
    assert (np.diff(percentiles_s(counts_of(sample)[None, :], tuple(np.linspace(0.01, 1, 50)))[0]) >= 0).all()
