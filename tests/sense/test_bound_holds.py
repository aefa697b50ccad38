"""The promise: when nothing is lost, a subscriber is less than delta off at every reading, whatever is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from some_readings import models

from firelane.sense import CHOICES, Fire, ModelBank, SendingBank, Trace, fire_trace, read_trace, replay
from firelane.sense.trace import LEAST_DELTA, MOST_VALUE
from trace_data import FIRES, needs_fires

WITHIN_S = 1e14  # so that sums stay below what a time or a reading may be


@st.composite
def shapes(draw):
    """Steps, ramps, bends, swings and noise, or whole numbers, over regular or irregular times, at any scale."""
    count = draw(st.integers(2, 80))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    pace_s = 10.0 ** draw(st.integers(-6, 8))
    steps_s = pace_s * (np.ones(count) if draw(st.booleans()) else 10 ** chance.uniform(-3, 3, count))
    times_s = draw(st.sampled_from([0.0, -1e6, 1.7e9])) + np.cumsum(steps_s)
    parts = {
        "steps": np.cumsum(chance.choice([0, 0, 0, 1, -2], count)),
        "ramp": np.arange(count) * chance.normal(),
        "bend": np.arange(count) ** 2 * chance.normal() / count,
        "swing": 5 * np.sin(np.arange(count) * chance.uniform(0.01, 3)),
        "noise": chance.normal(0, 10.0 ** chance.uniform(-2, 1), count),
        "rest": np.zeros(count),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(parts)), min_size=1, max_size=3))
    scale = 10.0 ** draw(st.integers(-9, 10))
    values = scale * sum(parts[one] for one in chosen) + draw(st.sampled_from([0.0, 20.0, -1e9, 1e12]))
    delta = float(scale * 10.0 ** draw(st.integers(-3, 2)))
    if draw(st.booleans()):
        values, delta = np.round(values), max(1.0, delta)
    rising = np.concatenate([[True], np.diff(times_s) > 0])  # what is too near in time to tell apart
    return times_s[rising], values[rising], max(LEAST_DELTA, delta)


@given(shapes(), models)
def test_at_every_reading_a_subscriber_is_less_than_delta_off(shape, model):
    times_s, values, delta = shape
    result = replay(Trace(names=("x",), times_s=times_s, values=values[:, None]), delta=delta, model=model)
    assert (np.abs(result.believed[:, 0] - values) < delta).all()
    assert np.array_equal(result.believed[result.sent], values[result.sent[:, 0]])
    assert result.sent[0, 0]


@given(st.data(), models)
def test_at_the_ends_of_what_numbers_may_be_nothing_overflows(data, model):
    """Readings and times up to 1e15, steps down to the smallest that there are, delta from 1e-12 to 1e15."""
    edges = st.sampled_from([-MOST_VALUE, -1.0, -1e-15, 0.0, 1e-15, 1.0, MOST_VALUE])
    times_s = sorted(data.draw(st.sets(edges | st.floats(-MOST_VALUE, MOST_VALUE), min_size=2, max_size=30)))
    values = data.draw(st.lists(edges, min_size=len(times_s), max_size=len(times_s)))
    delta = data.draw(st.sampled_from([LEAST_DELTA, 1e-6, 1.0, 1e6, MOST_VALUE]))
    publisher, subscriber = SendingBank(1, delta=delta, model=model), ModelBank(1)
    for time_s, value in zip(times_s, values, strict=True):
        subscriber.apply(publisher.observe(time_s, np.array([value])))
        assert abs(subscriber.predict(time_s)[0] - value) < delta
        assert np.isfinite(subscriber.state).all()


def within(trace, model, delta):
    believed = replay(trace, delta=delta, model=model).believed
    assert (np.abs(believed - trace.values) < delta).all()


@needs_fires
@pytest.mark.parametrize("delta", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("model", CHOICES)
@pytest.mark.parametrize("path", FIRES, ids=lambda path: path.stem)
def test_the_bound_holds_on_every_column_of_the_measured_fires(path, model, delta):
    within(read_trace(path), model, delta)


@pytest.mark.parametrize("delta", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("model", CHOICES)
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_the_bound_holds_on_generated_fires(noise, model, delta):
    within(fire_trace(Fire(seed=7, noise=noise)), model, delta)


@pytest.mark.parametrize("pace", [1e-4, 1e-2, 1.0, 1e2, 1e4])
def test_models_save_at_any_pace(pace):
    """The same fire with a clock that is slower or faster; then the filter has to double its wander 80 times first."""
    trace = fire_trace(Fire(seed=1))
    paced = replace(trace, times_s=trace.times_s * pace)
    sent = {model: replay(paced, delta=0.5, model=model).sent.sum() for model in CHOICES}
    assert sent["auto"] < (0.5 if pace >= 1 else 0.75) * sent["last-value"]


def test_readings_in_a_burst_do_not_make_a_filter_believe_in_their_slope():
    """Fifty readings within milliseconds, as after a pause: a second later noise must not have become a course."""
    noise = np.random.default_rng(1).normal(0, 5, 50)
    publisher = SendingBank(1, delta=0.5, model="kalman")
    for number, reading in enumerate(20 + noise):
        publisher.observe(1e9 + 5e-5 * number, np.array([reading]))
    assert abs(publisher.bank.predict(1e9 + 1.0)[0] - 20) < 20
