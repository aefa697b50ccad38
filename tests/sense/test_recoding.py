"""A stream told anew, coarser: the bound holds at every reading, and less is sent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from some_readings import SENSORS

from firelane.sense import Fire, ModelBank, SendingBank, fire_trace
from firelane.sense.crossing import line
from firelane.sense.filter import predicted
from firelane.sense.recoding import RecodingBank
from firelane.sense.state import FIELDS, MODELS

TICK_S, AHEAD_S, TOGETHER_S = 0.1, 0.2, 3.0
ROUNDING = 1 + 1e-9


class Between:
    """Publisher, somebody between, and a subscriber; time passes in ticks, whose phase is its own."""

    def __init__(self, sensors, delta, bound, model="auto", started_s=0.0):
        self.delta = delta
        self.publisher = SendingBank(sensors, delta=delta, model=model)
        self.source, self.subscriber = ModelBank(sensors), ModelBank(sensors)
        self.recoding = RecodingBank(self.source, bound)
        self.ticked_s = started_s
        self.received = self.rows = self.messages = 0

    def read(self, time_s, readings):
        """All sensors are read; whatever has to be sent arrives at once."""
        while self.ticked_s + TICK_S <= time_s:
            self.ticked_s += TICK_S
            self._send(self.ticked_s)
        updates = self.publisher.observe(time_s, readings)
        self.source.apply(updates)
        self.received += len(updates)
        if not len(updates):
            return  # nobody hears of it
        if self.recoding.bound <= self.delta:
            self._deliver(self.recoding.pass_on(updates))
        else:
            self.recoding.note(updates, self.delta)
            self._send(time_s)

    def _send(self, time_s):
        if self.recoding.next_s <= time_s + AHEAD_S:
            self._deliver(self.recoding.due(time_s, time_s + TOGETHER_S, self.delta))

    def _deliver(self, updates):
        self.rows += len(updates)
        self.messages += len(updates) > 0
        self.subscriber.apply(updates)


def worst_error(between, times_s, values):
    worst = 0.0
    for time_s, readings in zip(times_s, values, strict=True):
        between.read(time_s, readings)
        worst = max(worst, np.abs(between.subscriber.predict(time_s) - readings).max())
        assert between.subscriber.in_step.all()
    return worst


@pytest.mark.parametrize("ratio", [1.5, 3.0, 8.0, 20.0])
@pytest.mark.parametrize(("noise", "step_s"), [(0.0, 0.73), (0.1, 1.0), (0.3, 0.25)])
def test_the_bound_holds_at_every_reading_of_a_building_on_fire(noise, step_s, ratio):
    for seed in (1, 2):
        trace = fire_trace(Fire(rooms=2, sensors=3, seconds=240, step_s=step_s, noise=noise, seed=seed))
        between = Between(6, 0.5, 0.5 * ratio)
        assert worst_error(between, trace.times_s, trace.values) < 0.5 * ratio * ROUNDING


@given(
    steps_s=st.lists(st.floats(0.01, 5.0), min_size=2, max_size=60),
    seed=st.integers(0, 2**32 - 1),
    delta=st.floats(1e-2, 10.0),
    ratio=st.floats(1.5, 20.0),
    wild=st.floats(0.0, 30.0),
    model=st.sampled_from(["last-value", "kalman", "auto"]),
)
@settings(max_examples=150, deadline=None)
def test_the_bound_holds_for_any_readings(steps_s, seed, delta, ratio, wild, model):
    draw = np.random.default_rng(seed)
    times_s = np.cumsum(steps_s)
    slopes = np.cumsum(draw.normal(size=(len(times_s), SENSORS)), axis=0)
    values = delta * (np.cumsum(slopes * np.array(steps_s)[:, None], axis=0) + wild * draw.normal(size=slopes.shape))
    between = Between(SENSORS, delta, delta * ratio, model)
    assert worst_error(between, times_s, values) < delta * ratio * ROUNDING


def test_a_coarser_stream_is_told_less():
    trace = fire_trace(Fire(noise=0.1, seed=5))
    sent = {}
    for ratio in (4.0, 10.0, 20.0):
        between = Between(24, 0.5, 0.5 * ratio)
        worst_error(between, trace.times_s, trace.values)
        sent[ratio] = between.rows / between.received
    # Eq. 5 with what may differ in the place of delta: (ratio - 1) ** -1/2, which is 0.58, 0.33 and 0.23
    for ratio, share in sent.items():
        assert share < 1.25 * (ratio - 1) ** -0.5, sent


def test_what_need_not_be_coarser_is_passed_on_bit_for_bit():
    trace = fire_trace(Fire(rooms=2, noise=0.2, seed=3))
    between = Between(8, 0.5, 0.5)
    assert worst_error(between, trace.times_s, trace.values) < 0.5
    assert np.array_equal(between.subscriber.state, between.source.state)
    assert between.rows == between.received


def test_a_subscriber_may_come_late_and_its_bound_may_change_any_time():
    trace = fire_trace(Fire(rooms=2, noise=0.2, seed=4))
    between = Between(8, 0.5, 2.0)
    half = len(trace.times_s) // 2
    for time_s, readings in zip(trace.times_s[:half], trace.values[:half], strict=True):
        between.source.apply(between.publisher.observe(time_s, readings))
    for place, bound in enumerate((2.0, 5.0, 0.5, 5.0, 1.2, 0.5)):
        between.recoding.aim(bound)
        part = slice(half + 40 * place, half + 40 * (place + 1))
        assert worst_error(between, trace.times_s[part], trace.values[part]) < bound * ROUNDING


def test_what_is_not_known_for_sure_is_not_vouched_for():
    between = Between(2, 0.5, 2.0)
    between.read(1.0, np.array([10.0, 20.0]))
    lost = between.publisher.observe(2.0, np.array([30.0, 20.0]))
    assert lost.sensor.tolist() == [0]
    between.read(3.0, np.array([50.0, 20.0]))
    assert not between.source.in_step[0]
    assert between.subscriber.predict(3.0)[0] == 10.0  # and nothing was sent
    between.source.apply(between.publisher.bank.whole(np.array([0])))
    between.recoding.note(between.publisher.bank.whole(np.array([0])), between.delta)
    between.read(3.2, np.array([50.0, 20.0]))
    assert abs(between.subscriber.predict(3.2)[0] - 50.0) < 2.0


def test_the_line_between_updates_is_what_every_model_predicts():
    state = np.random.default_rng(1).normal(size=(1, FIELDS))
    for model in range(len(MODELS)):
        value, slope = line(state, np.array([model]), 0, state[0, 0] + 3.0)
        assert value == predicted(state, model, 0, state[0, 0] + 3.0 - state[0, 0])
        assert value + slope == pytest.approx(predicted(state, model, 0, 4.0))
