"""Messages of a stream: what is written can be read, what is damaged is refused, nothing is too long."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.sense import ModelBank, SendingBank, UpdateError
from firelane.sense.wire import MOST_TRAIL, Batch, Trail, decode, encode, portions

FULL_TRAIL = Trail(sensor=np.arange(MOST_TRAIL), sequence=np.arange(MOST_TRAIL))


def some_updates(sensors: int = 50, seconds: int = 3):
    bank, random = SendingBank(sensors, delta=0.5), np.random.default_rng(1)
    readings = random.normal(20, 5, sensors)
    for second in range(seconds):
        updates = bank.observe(float(second), readings)
        readings = readings + random.normal(0, 1, sensors)
    return bank, updates


def batch(updates, *, time_s: float = 2.0, **more) -> Batch:
    return Batch(boot=7, number=9, sensors=50, time_s=time_s, delta=0.5, total=11, updates=updates, **more)


def test_the_bytes_are_those_of_the_documentation():
    bank = SendingBank(2, delta=0.25, model="kalman")
    first = bank.observe(3.0, np.array([20.0, -1.5]))
    header = struct.pack(">2sBBHHHIIIdd", b"FS", 2, 1 | 16, 2, 2, 2, 5, 6, 9, 3.0, 0.25)
    rows = struct.pack(">HIBd", 0, 1, 0x81, 20.0) + struct.pack(">HIBd", 1, 1, 0x81, -1.5)
    noise = 0.5 * 0.25**2
    states = b"".join(
        struct.pack(">8d", value, 0.0, noise, 0.0, 8 * noise, 4e-4 * noise, noise, 0.0) for value in (20.0, -1.5)
    )
    trail = struct.pack(">BHIHI", 2, 1, 3, 0, 4)
    made = encode(
        Batch(
            boot=5,
            number=6,
            sensors=2,
            time_s=3.0,
            delta=0.25,
            total=2**32 + 9,
            updates=first,
            heartbeat=True,
            trail=Trail(sensor=np.array([1, 0]), sequence=np.array([3, 4])),
        )
    )
    assert made == header + rows + states + trail
    read = decode(made)
    assert (read.total, read.trail.sensor.tolist(), read.trail.sequence.tolist()) == (9, [1, 0], [3, 4])


def test_a_message_of_another_format_is_refused_and_says_so():
    _, updates = some_updates()
    made = bytearray(encode(batch(updates)))
    made[2] = 1
    for cut in (len(made), 20):
        with pytest.raises(UpdateError, match="format 1, known is 2"):
            decode(bytes(made[:cut]))


def test_what_was_written_is_read_to_the_last_bit():
    _, updates = some_updates()
    read = decode(encode(batch(updates)))
    assert (read.boot, read.number, read.sensors, read.time_s, read.delta) == (7, 9, 50, 2.0, 0.5)
    for name in ("sensor", "sequence", "time_s", "value", "delta", "model", "whole", "state"):
        assert np.array_equal(getattr(read.updates, name), getattr(updates, name)), name


def test_rows_have_times_of_their_own_where_they_differ_from_the_messages():
    _, updates = some_updates()
    read = decode(encode(batch(updates, time_s=2.5)))
    assert read.time_s == 2.5
    assert np.array_equal(read.updates.time_s, updates.time_s)


def test_a_heartbeat_may_be_empty():
    _, updates = some_updates()
    read = decode(encode(batch(updates.pick(np.zeros(0, np.int64)), heartbeat=True)))
    assert read.heartbeat
    assert len(read.updates) == 0


@pytest.mark.parametrize("most_bytes", [1, 150, 200, 1400, 100_000])
def test_portions_fit_and_nothing_is_left_out(most_bytes):
    bank, updates = some_updates(seconds=1)  # all whole
    other = ModelBank(50)
    parts = list(portions(updates, most_bytes))
    for part in parts:
        made = encode(batch(part, time_s=0.0, trail=FULL_TRAIL))
        assert len(made) <= most_bytes or len(part) == 1
        other.apply(decode(made).updates)
    assert sum(len(part) for part in parts) == len(updates)
    assert np.array_equal(other.state, bank.bank.state)


@given(st.binary(max_size=300))
def test_bytes_of_somebody_else_are_refused_in_a_line(payload):
    with pytest.raises(UpdateError):
        decode(payload)


@given(st.data())
def test_a_damaged_message_is_refused_or_read_but_never_a_crash(data):
    _, updates = some_updates(seconds=2)
    made = bytearray(encode(batch(updates, trail=FULL_TRAIL)))
    for place in data.draw(st.lists(st.integers(0, len(made) - 1), min_size=1, max_size=8)):
        made[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(made)))
    with suppress(UpdateError):
        ModelBank(50).apply(decode(bytes(made[:cut])).updates)
