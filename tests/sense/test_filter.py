"""One filter: as filterpy reckons it, as the documentation says it, and to the last bit."""

from __future__ import annotations

import re

import numpy as np
import pytest
from filterpy.common import Q_discrete_white_noise
from filterpy.kalman import KalmanFilter
from hypothesis import given
from numba import njit
from some_readings import Filter, deltas, traces

from firelane.sense import SendingBank
from firelane.sense import filter as kernels


def filterpys(time_s, reading, noise):
    peer = KalmanFilter(dim_x=2, dim_z=1)
    peer.x = np.array([[reading], [0.0]])
    peer.P = np.diag([noise, kernels.FIRST_SLOPE_VARIANCE * noise])
    peer.H = np.array([[1.0, 0.0]])
    peer.R[:] = noise
    return peer


def test_states_equal_filterpys_on_the_same_parameters():
    draw = np.random.default_rng(1)
    times_s = np.cumsum(draw.uniform(0.2, 9.0, 400))
    readings = 20 + 0.02 * times_s + np.cumsum(draw.normal(0, 1.0, 400))
    ours = SendingBank(1, delta=0.5, model="kalman")
    ours.observe(times_s[0], readings[:1])
    peer, updated_s, updates = filterpys(times_s[0], readings[0], 0.125), times_s[0], 1
    for time_s, reading in zip(times_s[1:], readings[1:], strict=True):
        if not len(ours.observe(time_s, np.array([reading]))):
            continue
        state, dt = ours.bank.state[0], time_s - updated_s
        peer.F = np.array([[1.0, dt], [0.0, 1.0]])
        peer.Q = Q_discrete_white_noise(dim=2, dt=dt, var=state[kernels.WANDER])
        peer.predict()
        peer.update(reading)
        updated_s, updates = time_s, updates + 1
        assert state[[kernels.LEVEL, kernels.SLOPE]] == pytest.approx(peer.x[:, 0], rel=1e-9, abs=1e-9)
        covariance = state[[kernels.VARIANCE, kernels.COVARIANCE, kernels.COVARIANCE, kernels.SLOPE_VARIANCE]]
        assert covariance == pytest.approx(peer.P.ravel(), rel=1e-9, abs=1e-9)
    assert updates > 100


@given(traces(), deltas)
def test_the_documented_arithmetic_gives_the_same_bits(trace, delta):
    times_s, readings = trace
    ours = SendingBank(readings.shape[1], delta=delta, model="kalman")
    theirs = [Filter(float(times_s[0]), float(one), delta) for one in readings[0]]
    ours.observe(times_s[0], readings[0])
    for time_s, row in zip(times_s[1:], readings[1:], strict=True):
        for sensor in ours.observe(time_s, row).sensor:
            theirs[sensor].correct(float(time_s), float(row[sensor]))
        assert ours.bank.state.tolist() == [one.state() for one in theirs]


def test_machine_code_has_no_fused_multiply_add():
    state = SendingBank(1, delta=0.5).bank.state
    for kernel, *arguments in ((kernels.correct, state, 0, 1.0, 1.0), (kernels.predicted, state, 1, 0, 1.0)):
        anew = njit(kernel.py_func)  # what comes from numba's cache cannot be looked at
        anew(*arguments)
        (code,) = anew.inspect_asm().values()
        assert "mulsd" in code or "mulpd" in code or "fmul" in code  # else the next line would prove nothing
        assert not {"fmadd", "fmla", "fmsub", "fnmadd"} & set(re.findall(r"fn?m(?:add|sub|la)", code))


def test_variances_stay_positive_however_long_or_short_the_steps():
    draw = np.random.default_rng(2)
    ours = SendingBank(200, delta=0.5, model="kalman")
    time_s = np.zeros(200)
    for _ in range(300):
        ours.observe(time_s, draw.normal(0, 50, 200))
        time_s = time_s + 10 ** draw.uniform(-3, 5, 200)
    assert (ours.bank.state[:, [kernels.VARIANCE, kernels.SLOPE_VARIANCE]] > 0).all()
    assert np.isfinite(ours.bank.state).all()
