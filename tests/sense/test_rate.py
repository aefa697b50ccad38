"""How often updates are due while something accelerates: the paper's Eq. 5."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firelane.sense import ModelBank, SendingBank, Trace, most_updates_hz, replay
from firelane.sense import filter as kernels

INTERVALS, READINGS = 300, 25  # of the bound, and in each of them
CASES = [(acceleration, delta) for acceleration in (0.01, 0.1, 1.0, 4.9) for delta in (0.1, 0.5, 2.0)]


def test_the_papers_vehicle_needs_one_and_a_half_updates_a_second():
    assert most_updates_hz(4.9, 1.0) == pytest.approx(1.56, abs=0.01)  # section III-B3
    assert most_updates_hz(-4.9, 1.0) == most_updates_hz(4.9, 1.0)


@pytest.mark.parametrize(("acceleration", "delta"), CASES)
def test_a_model_with_the_right_slope_lasts_as_long_as_the_bound_says(acceleration, delta):
    bank = ModelBank(1)
    bank.state[0], bank.sequence[0] = 0.0, 1
    bank.state[0, kernels.SLOPE] = 3.0
    times_s = np.linspace(0, 1 / most_updates_hz(acceleration, delta), 1000)[1:-1]
    truth = 3.0 * times_s + acceleration * times_s**2 / 2
    assert all(abs(bank.predict(t)[0] - x) < delta for t, x in zip(times_s, truth, strict=True))


def test_a_filter_that_follows_turns_an_error_of_its_slope_around_and_keeps_the_bound():
    """With gains of 1 and 2/dt an error s of the slope becomes -s. Two intervals then last 2 sqrt(s^2 + 2 a d) / a."""
    acceleration, delta, wrong = 0.3, 0.5, 0.2
    bank = ModelBank(1)
    bank.state[0], bank.sequence[0] = 0.0, 1
    bank.state[0, [kernels.VARIANCE, kernels.SLOPE_VARIANCE, kernels.NOISE]] = 1e-9
    bank.state[0, [kernels.SLOPE, kernels.WANDER, kernels.SIDE]] = -wrong, 1e9, 1.0
    time_s, root = 0.0, math.sqrt(wrong**2 + 2 * acceleration * delta)
    for error in (wrong, -wrong, wrong, -wrong):
        assert acceleration * time_s - bank.state[0, kernels.SLOPE] == pytest.approx(error, abs=1e-4)
        time_s += (root - error) / acceleration  # when the prediction is off by delta
        truth = acceleration * time_s**2 / 2
        assert truth - bank.predict(time_s)[0] == pytest.approx(delta, abs=1e-4)
        kernels.correct(bank.state, 0, time_s, truth)
    assert 4 / time_s == pytest.approx(acceleration / root, rel=1e-4)
    assert 4 / time_s < most_updates_hz(acceleration, delta)


def followed(model, interval_s, delta, *shapes):
    """Updates, as shares of what the bound allows, once half of the time has passed in which the wander is learnt."""
    acceleration = 2 * delta / interval_s**2
    assert most_updates_hz(acceleration, delta) == pytest.approx(1 / interval_s)
    times_s = np.arange(INTERVALS * READINGS) * (interval_s / READINGS)
    values = np.column_stack([shape(times_s, acceleration, interval_s) for shape in shapes])
    trace = Trace(names=tuple(map(str, range(len(shapes)))), times_s=times_s, values=values)
    return replay(trace, delta=delta, model=model).sent[len(times_s) // 2 :].sum(axis=0) / (INTERVALS / 2)


def steady(times_s, acceleration, interval_s):
    return acceleration * times_s**2 / 2


def swinging(rate):
    return lambda times_s, acceleration, interval_s: (
        -acceleration * (interval_s / rate) ** 2 * np.sin(rate * times_s / interval_s)
    )


def switching(every, seed):
    """Full acceleration this way or that, at random."""

    def positions(times_s, acceleration, interval_s):
        turns = np.random.default_rng(seed).random(len(times_s)) < times_s[1] / (every * interval_s)
        speeds = np.cumsum(acceleration * (1 - 2 * (np.cumsum(turns) % 2))) * times_s[1]
        return np.cumsum(speeds) * times_s[1]

    return positions


@pytest.mark.parametrize("model", ["kalman", "auto"])
@pytest.mark.parametrize(("interval_s", "delta"), [(1e-3, 0.5), (0.64, 1.0), (4.5, 0.1), (20.0, 2.0), (1e4, 1e-3)])
def test_slopes_learnt_from_updates_keep_the_bound_at_any_pace(model, interval_s, delta):
    """On a steady acceleration 1 by theory, and 1 % for its gains, which are finite. Where it varies, the slope may be
    as old as the interval t before, and so off by a t; from a t t + a t^2 / 2 = d follows sqrt(3) times the bound.
    The filter alone may do worse on swings that are hardly larger than delta; `auto` does not stay with it there.
    """
    varying = [swinging(rate) for rate in (0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.1, 1.2, 1.3, 1.4)]
    varying += [switching(every, seed) for every in (0.5, 1.0, 2.0, 5.0, 20.0) for seed in range(5)]
    share = followed(model, interval_s, delta, steady, *varying)
    assert share[0] <= 1.01
    assert share[1:].max() <= (math.sqrt(3) if model == "auto" else 2)
    assert share[1:].mean() <= 1


def test_where_acceleration_varies_the_largest_one_bounds_the_rate():
    times_s = np.arange(0, 600, 1.0)
    publisher, sent = SendingBank(1, delta=0.5), 0
    for time_s in times_s:
        sent += len(publisher.observe(time_s, np.array([50 * np.sin(time_s / 60)])))
    assert sent / 600 <= most_updates_hz(50 / 60**2, 0.5)
