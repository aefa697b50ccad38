"""How often updates are due while something accelerates: the paper's Eq. 5."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.sense import ModelBank, SendingBank, Trace, most_updates_hz, replay
from firelane.sense import filter as kernels

SECONDS, STEP_S = 200.0, 0.01
CASES = [(acceleration, delta) for acceleration in (0.01, 0.1, 1.0, 4.9) for delta in (0.1, 0.5, 2.0)]


def falling(acceleration):
    times_s = np.arange(0, SECONDS, STEP_S)
    return Trace(names=("x",), times_s=times_s, values=(acceleration * times_s**2 / 2)[:, None])


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


@pytest.mark.slow
@pytest.mark.parametrize("model", ["kalman", "auto"])
@pytest.mark.parametrize(("acceleration", "delta"), CASES)
def test_slopes_learnt_from_updates_come_close_to_the_bound(acceleration, delta, model):
    """After a tenth of the time, in which the slope and its wander are learnt."""
    sent = replay(falling(acceleration), delta=delta, model=model).sent[len(np.arange(0, SECONDS, STEP_S)) // 10 :]
    assert sent.sum() <= 1 + 1.15 * most_updates_hz(acceleration, delta) * 0.9 * SECONDS


def test_where_acceleration_varies_the_largest_one_bounds_the_rate():
    times_s = np.arange(0, 600, 1.0)
    publisher, sent = SendingBank(1, delta=0.5), 0
    for time_s in times_s:
        sent += len(publisher.observe(time_s, np.array([50 * np.sin(time_s / 60)])))
    assert sent / 600 <= most_updates_hz(50 / 60**2, 0.5)
