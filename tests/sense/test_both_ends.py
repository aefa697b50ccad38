"""Publisher and subscriber: the same to the last bit, and within delta of every reading."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from some_readings import SENSORS, deltas, models, traces

from firelane.errors import FirelaneError
from firelane.sense import ModelBank, SendingBank, UpdateError
from firelane.sense import state as kernels


@given(traces(), deltas, models)
def test_a_subscriber_fed_with_updates_alone_agrees_bit_for_bit_and_within_delta(trace, delta, model):
    publisher, subscriber = SendingBank(SENSORS, delta=delta, model=model), ModelBank(SENSORS)
    for time_s, readings in zip(*trace, strict=True):
        updates = publisher.observe(time_s, readings)
        subscriber.apply(updates)
        assert np.array_equal(subscriber.state, publisher.bank.state)
        assert np.array_equal(subscriber.model, publisher.bank.model)
        believed = subscriber.predict(time_s)
        assert (np.abs(believed - readings) < delta).all()
        assert np.array_equal(believed[updates.sensor], readings[updates.sensor])
        later_s = time_s + 7.5
        assert np.array_equal(subscriber.predict(later_s), publisher.bank.predict(later_s))
    assert subscriber.in_step.all()


@given(traces(), deltas, st.data())
def test_after_losses_a_whole_update_brings_both_ends_together(trace, delta, data):
    publisher, subscriber = SendingBank(SENSORS, delta=delta), ModelBank(SENSORS)
    for time_s, readings in zip(*trace, strict=True):
        updates = publisher.observe(time_s, readings)
        kept = data.draw(st.lists(st.booleans(), min_size=len(updates), max_size=len(updates)))
        subscriber.apply(updates.pick(np.array(kept, np.bool_) | updates.whole))
        same = (subscriber.state == publisher.bank.state).all(axis=1)
        assert same[subscriber.in_step & (subscriber.sequence == publisher.bank.sequence)].all()
        assert same[updates.sensor[updates.whole]].all()


@given(traces(), deltas, models, st.data())
def test_the_whole_state_sent_again_heals_what_was_lost_and_serves_who_comes_late(trace, delta, model, data):
    publisher, lossy, late = SendingBank(SENSORS, delta=delta, model=model), ModelBank(SENSORS), ModelBank(SENSORS)
    for time_s, readings in zip(*trace, strict=True):
        updates = publisher.observe(time_s, readings)
        kept = data.draw(st.lists(st.booleans(), min_size=len(updates), max_size=len(updates)))
        lossy.apply(updates.pick(np.array(kept, np.bool_) | (updates.sequence == 1)))
    for subscriber in (lossy, late):
        subscriber.apply(publisher.bank.whole())
        assert subscriber.in_step.all()
        for column in ("state", "model", "sequence", "delta"):
            assert np.array_equal(getattr(subscriber, column), getattr(publisher.bank, column))


def test_a_whole_update_heals_a_sensor_that_has_its_number_but_missed_the_one_before():
    publisher, subscriber = SendingBank(1, delta=0.5, model="kalman"), ModelBank(1)
    subscriber.apply(publisher.observe(0.0, np.zeros(1)))
    publisher.observe(1.0, np.full(1, 9.0))  # lost
    subscriber.apply(publisher.observe(2.0, np.zeros(1)))
    assert subscriber.sequence[0] == publisher.bank.sequence[0] == 3
    assert not subscriber.in_step[0]
    assert not np.array_equal(subscriber.state, publisher.bank.state)
    subscriber.apply(publisher.bank.whole(np.array([0])))
    assert subscriber.in_step[0]
    assert np.array_equal(subscriber.state, publisher.bank.state)


def test_an_older_whole_update_changes_nothing_even_if_a_sensor_is_not_in_step():
    publisher, subscriber = SendingBank(1, delta=0.5, model="kalman"), ModelBank(1)
    subscriber.apply(publisher.observe(0.0, np.zeros(1)))
    publisher.observe(1.0, np.full(1, 9.0))  # lost
    old = publisher.bank.whole()
    subscriber.apply(publisher.observe(2.0, np.zeros(1)))
    before = subscriber.state.copy()
    subscriber.apply(old)
    assert np.array_equal(subscriber.state, before)
    assert not subscriber.in_step[0]


def test_a_bank_passes_on_only_states_that_it_knows():
    publisher, between = SendingBank(3, delta=0.5, model="kalman"), ModelBank(3)
    assert len(between.whole()) == len(publisher.bank.whole()) == 0
    between.apply(publisher.observe(0.0, np.zeros(2), np.array([0, 2])))
    assert between.whole().sensor.tolist() == [0, 2]
    assert between.whole(np.array([1, 2])).sensor.tolist() == [2]
    publisher.observe(1.0, np.full(1, 9.0), np.array([2]))  # lost
    between.apply(publisher.observe(2.0, np.zeros(1), np.array([2])))
    assert between.whole().sensor.tolist() == [0]


@given(traces(), deltas, models)
def test_updates_that_come_twice_or_late_change_nothing(trace, delta, model):
    publisher, subscriber = SendingBank(SENSORS, delta=delta, model=model), ModelBank(SENSORS)
    sent = [publisher.observe(time_s, readings) for time_s, readings in zip(*trace, strict=True)]
    for updates in sent:
        subscriber.apply(updates)
    for updates in sent:
        subscriber.apply(updates)
        assert np.array_equal(subscriber.state, publisher.bank.state)


def test_some_sensors_at_their_own_times_are_as_good_as_all_at_once():
    draw = np.random.default_rng(3)
    readings = np.cumsum(draw.normal(0, 0.4, (50, SENSORS)), axis=0)
    whole, parts = SendingBank(SENSORS, delta=0.5), SendingBank(SENSORS, delta=0.5)
    for step, row in enumerate(readings):
        whole.observe(float(step), row)
        for sensor in (2, 0, 1):
            parts.observe(float(step), row[[sensor]], np.array([sensor]))
    assert np.array_equal(whole.bank.state, parts.bank.state)


def test_a_delta_for_every_sensor_is_kept_and_told():
    publisher = SendingBank(2, delta=np.array([0.5, 5.0]), model="last-value")
    assert publisher.observe(0.0, np.zeros(2)).delta.tolist() == [0.5, 5.0]
    assert publisher.observe(1.0, np.array([0.5, 4.9])).sensor.tolist() == [0]


@given(traces(), st.lists(deltas, min_size=1, max_size=8), models)
def test_delta_may_change_while_it_runs_and_both_ends_stay_the_same(trace, changes, model):
    publisher, subscriber = SendingBank(SENSORS, delta=changes[0], model=model), ModelBank(SENSORS)
    for step, (time_s, readings) in enumerate(zip(*trace, strict=True)):
        publisher.delta = delta = changes[step % len(changes)]
        updates = publisher.observe(time_s, readings)
        subscriber.apply(updates)
        assert (updates.delta == delta).all()
        assert np.array_equal(subscriber.state, publisher.bank.state)
        assert (np.abs(subscriber.predict(time_s) - readings) < delta).all()


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, 1e16, np.ones(2), np.array([1.0, np.nan, 1.0])])
def test_a_delta_that_is_none_is_refused_and_the_old_one_stays(wrong):
    publisher = SendingBank(3, delta=0.5)
    with pytest.raises(FirelaneError, match="delta"):
        publisher.delta = wrong
    assert publisher.delta.tolist() == [0.5] * 3


def test_a_wider_delta_leaves_the_noise_of_a_filter_as_its_first_update_made_it():
    publisher = SendingBank(1, delta=0.5)
    publisher.observe(0.0, np.zeros(1))
    publisher.delta = 5.0
    publisher.observe(1.0, np.array([9.0]))
    assert publisher.bank.state[0, kernels.NOISE] == 0.5 * 0.25


def test_a_difference_of_exactly_delta_is_sent():
    publisher = SendingBank(1, delta=0.5, model="last-value")
    publisher.observe(0.0, np.zeros(1))
    assert len(publisher.observe(1.0, np.array([0.5]))) == 1
    assert len(publisher.observe(2.0, np.array([np.nextafter(1.0, 0.0)]))) == 0


def test_before_its_first_update_a_sensor_is_unknown():
    assert np.isnan(ModelBank(1).predict(0.0)).all()


@pytest.mark.parametrize("reading", [np.nan, np.inf, -np.inf, 1e200])
def test_readings_that_are_no_numbers_are_refused(reading):
    publisher = SendingBank(2, delta=0.5)
    with pytest.raises(UpdateError, match="sensor 1 reads"):
        publisher.observe(0.0, np.array([1.0, reading]))
    assert publisher.bank.sequence.tolist() == [0, 0]


@pytest.mark.parametrize("time_s", [1.0, 0.5, np.nan, np.inf])
def test_time_that_does_not_go_forward_is_refused_even_after_a_reading_that_was_not_sent(time_s):
    publisher = SendingBank(1, delta=0.5)
    publisher.observe(0.0, np.zeros(1))
    assert len(publisher.observe(1.0, np.zeros(1))) == 0
    with pytest.raises(UpdateError, match="time does not go forward at sensor 0"):
        publisher.observe(time_s, np.zeros(1))


def started():
    publisher, subscriber = SendingBank(2, delta=0.5, model="kalman"), ModelBank(2)
    subscriber.apply(publisher.observe(0.0, np.zeros(2)))
    return publisher.observe(1.0, np.full(2, 9.0)), subscriber


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"version": 1}, "version 1 of the models, this side knows version 2"),
        ({"model": np.array([1, 7])}, "update 2 of sensor 1 uses a model that is not one of last-value, kalman"),
        ({"value": np.array([np.nan, 9.0])}, "update 2 of sensor 0 has a value that is no number"),
        ({"value": np.array([9.0])}, "the columns of updates have different lengths"),
        ({"delta": np.array([0.5, 0.0])}, "update 2 of sensor 1 has a delta that is none"),
        ({"sensor": np.array([0, 2])}, "update 2 of sensor 2 is not one of the 2"),
        ({"sequence": np.array([2, 0])}, "update 0 of sensor 1 has no number"),
        ({"time_s": np.zeros(2)}, "update 2 of sensor 0 goes back in time; ask its publisher for the whole state"),
        ({"whole": np.array([True, False])}, "the states of whole updates are not all there"),
    ],
)
def test_updates_that_cannot_be_right_are_refused_in_one_line(changed, message):
    updates, subscriber = started()
    before = subscriber.state.copy()
    with pytest.raises(UpdateError, match=message):
        subscriber.apply(replace(updates, **changed))
    assert np.array_equal(subscriber.state, before)


@pytest.mark.parametrize("field", range(kernels.FIELDS))
@pytest.mark.parametrize("value", [-np.inf, np.nan, 1e200])
def test_a_state_that_no_filter_has_is_refused(field, value):
    whole = SendingBank(2, delta=0.5).observe(0.0, np.zeros(2))
    whole.state[1, field] = value
    with pytest.raises(UpdateError, match="a whole update carries a state that no filter has"):
        ModelBank(2).apply(whole)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, value) for field in (kernels.VARIANCE, kernels.SLOPE_VARIANCE, kernels.WANDER, kernels.NOISE)
          for value in (0.0, -1.0)),
        (kernels.COVARIANCE, -1.0), (kernels.SIDE, 0.5), (kernels.TIME, 7.0), (kernels.VALUE, 7.0),
    ],
)  # fmt: skip
def test_a_state_with_a_part_that_cannot_be_is_refused(field, value):
    whole = SendingBank(2, delta=0.5).observe(0.0, np.zeros(2))
    whole.state[1, field] = value
    with pytest.raises(UpdateError, match="a whole update carries a state that no filter has"):
        ModelBank(2).apply(whole)


sizes = st.floats(1e-100, 1e100)


@given(st.tuples(sizes, sizes, sizes, sizes, sizes), st.floats(-1e100, 1e100), traces(), st.sampled_from([0.0, 1.0]))
def test_whatever_state_is_taken_nothing_that_follows_is_no_number(parts, slope, trace, side):
    times_s, readings = trace
    whole = SendingBank(SENSORS, delta=0.5, model="kalman").observe(times_s[0] - 1.0, readings[0])
    whole.state[:, [kernels.VARIANCE, kernels.COVARIANCE, kernels.SLOPE_VARIANCE, kernels.WANDER, kernels.NOISE]] = (
        parts
    )
    whole.state[:, kernels.SLOPE], whole.state[:, kernels.SIDE] = slope, side
    bank = ModelBank(SENSORS)
    bank.apply(whole)
    for number, (time_s, row) in enumerate(zip(times_s, readings, strict=True), 2):
        bank.apply(
            replace(
                whole, sequence=np.full(SENSORS, number), time_s=np.full(SENSORS, time_s), value=row,
                whole=np.zeros(SENSORS, np.bool_), state=np.empty((0, kernels.FIELDS)),
            )
        )  # fmt: skip
        assert not np.isnan(bank.predict(time_s + 1.0)).any()


def test_a_sensor_that_vanishes_changes_no_other_and_is_followed_again_when_it_is_back():
    draw = np.random.default_rng(4)
    readings = np.cumsum(draw.normal(0, 0.4, (60, 2)), axis=0)
    both, one = SendingBank(2, delta=0.5), SendingBank(1, delta=0.5)
    subscriber = ModelBank(2)
    for step, row in enumerate(readings):
        there = np.array([0]) if 20 <= step < 40 else np.array([0, 1])
        subscriber.apply(both.observe(float(step), row[there], there))
        one.observe(float(step), row[:1])
        assert (np.abs(subscriber.predict(float(step)) - row)[there] < 0.5).all()
    assert np.array_equal(both.bank.state[:1], one.bank.state)
    assert both.read_s.tolist() == [59.0, 59.0]


def test_sensors_that_are_not_there_or_there_twice_are_refused():
    publisher = SendingBank(2, delta=0.5)
    with pytest.raises(UpdateError, match="a sensor is there twice"):
        publisher.observe(0.0, np.zeros(2), np.array([1, 1]))
    with pytest.raises(UpdateError, match="1 readings of 2 sensors"):
        publisher.observe(0.0, np.zeros(1))
    with pytest.raises(IndexError):
        publisher.observe(0.0, np.zeros(1), np.array([2]))
    with pytest.raises(IndexError):
        ModelBank(2).predict(0.0, np.array([2]))


def test_a_subscriber_that_comes_late_needs_the_whole_state():
    updates, _ = started()
    with pytest.raises(UpdateError, match="is the first one here and without the state"):
        ModelBank(2).apply(updates)


@pytest.mark.parametrize("delta", [0.0, -1.0, 1e-300, np.nan, np.inf])
def test_a_delta_must_be_more_than_nothing(delta):
    with pytest.raises(FirelaneError, match="a delta must be from 1e-12 to 1e\\+15"):
        SendingBank(1, delta=delta)


def test_an_unknown_model_is_refused():
    with pytest.raises(FirelaneError, match='no model "arima"; choose from: last-value, kalman, auto'):
        SendingBank(1, delta=0.5, model="arima")
