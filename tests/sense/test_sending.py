"""Streams without a network: the bound holds, what is lost is noticed and heals, silence is told from prediction."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from firelane.errors import FirelaneError
from firelane.sense import UpdateError
from firelane.sense.offer import Offer
from firelane.sense.receiving import ReceivingStream
from firelane.sense.sending import HEALED_IN, SendingStream
from firelane.sense.subscriber import FollowedStream
from firelane.sense.wire import decode, encode

COUNT = 40


def offer(count: int = COUNT, **more) -> Offer:
    return Offer(boot=more.pop("boot", 7), sensors=tuple(f"T{n}" for n in range(count)),
                 **({"precision": 0.5} | more))  # fmt: skip


def walk(seed: int, count: int = COUNT):
    """Readings that rise and fall smoothly, with noise."""
    random = np.random.default_rng(seed)
    value, slope = random.normal(20, 5, count), np.zeros(count)
    while True:
        slope = 0.9 * slope + random.normal(0, 0.3, count)
        value = value + slope
        yield value + random.normal(0, 0.05, count)


@pytest.mark.parametrize("most_bytes", [300, 60_000])
@pytest.mark.parametrize("apart", [False, True])
def test_a_subscriber_is_within_delta_of_every_reading(most_bytes, apart):
    sending, receiving = SendingStream(offer(), most_bytes=most_bytes), ReceivingStream()
    for second, readings in zip(range(200), walk(1), strict=False):
        for message in (*sending.observe(float(second), readings, apart=apart), *sending.beat(float(second))):
            assert len(message) <= most_bytes
            receiving.take(message, second + 0.02)
        known = receiving.read(second + 0.02)
        assert (np.abs(known.value - readings) < 0.5).all()
        assert (known.bound == 0.5).all()
        assert not known.lost.any()
    assert sending.sent < 0.8 * sending.readings
    assert receiving.updates == sending.sent
    assert receiving.missed == 0


@pytest.mark.parametrize("loss", [0.1, 0.3, 0.5])
def test_what_is_lost_is_noticed_and_bounds_are_only_claimed_where_they_hold(loss):
    sending, receiving = SendingStream(offer(heartbeat_s=2.0), heal=True), ReceivingStream()
    random = np.random.default_rng(int(100 * loss))
    sure = 0
    for second, readings in zip(range(400), walk(2), strict=False):
        messages = [*sending.observe(float(second), readings, apart=True), *sending.beat(float(second))]
        for message in messages:
            if random.random() >= loss:
                receiving.take(message, second + 0.02)
        # the last message is known to be the last only once another has come, so the claim is checked for what came
        if messages and receiving.ledger.numbering.next == sending._told.number and len(receiving):
            known = receiving.read(second + 0.02)
            claimed = np.isfinite(known.bound) & np.isfinite(known.value)
            sure += np.count_nonzero(claimed)
            assert (np.abs(known.value - readings)[claimed] < 0.5).all()
    assert receiving.missed > 0
    assert sure > 0


def test_a_link_that_lost_messages_heals_by_heartbeats_alone():
    sending, receiving = SendingStream(offer(heartbeat_s=1.0), heal=True), ReceivingStream()
    for second, readings in zip(range(100), walk(3), strict=False):
        for number, message in enumerate((*sending.observe(float(second), readings), *sending.beat(float(second)))):
            if second % 3 or number:
                receiving.take(message, float(second))
    steady = readings
    for second in range(100, 100 + 2 * HEALED_IN):
        for message in (*sending.observe(float(second), steady), *sending.beat(float(second))):
            receiving.take(message, float(second))
    assert len(receiving.missing()) == 0
    assert np.array_equal(receiving.bank.state, sending._sending.bank.state)


def test_who_comes_late_or_lost_something_can_ask():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    for second, readings in zip(range(50), walk(4), strict=False):
        messages = sending.observe(float(second), readings)
    for message in messages:
        receiving.take(message, 49.0)
    assert len(receiving.missing()) > COUNT / 2  # an update without the state is of no use to the late
    for message in sending.whole(49.5, receiving.missing()):
        receiving.take(message, 49.5)
    assert len(receiving.missing()) == 0
    assert (np.abs(receiving.read(49.5).value - readings) < 2.0).all()
    assert np.array_equal(receiving.bank.state, sending._sending.bank.state)


def test_a_publisher_that_begins_anew_is_believed_from_the_start():
    receiving = ReceivingStream()
    for boot, value in ((1, 20.0), (2, 90.0)):
        sending = SendingStream(offer(boot=boot))
        for message in sending.observe(5.0 - boot, np.full(COUNT, value)):
            receiving.take(message, 10.0 * boot)
    assert (receiving.read(20.0).value == 90.0).all()
    assert receiving.missed == 0


def test_messages_that_overtake_each_other_are_not_taken_for_lost():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    made = [message for second in range(3) for message in sending.observe(float(second), np.full(COUNT, second * 9.0))]
    for number in (0, 2, 1):
        receiving.take(made[number], 3.0)
    assert receiving.missed == 0
    more = sending.observe(3.0, np.full(COUNT, 80.0))
    receiving.take(more[0], 3.0)
    assert receiving.missed == 0


def test_every_reading_of_discrete_sensors_arrives_as_it_is():
    sending = SendingStream(offer(2, kind="discrete", precision=None))
    receiving = ReceivingStream()
    for second, values in enumerate(([0.0, 1.0], [0.0, 1.0], [1.0, 0.0])):
        messages = sending.observe(float(second), np.array(values))
        assert sending.sent == 2 * (second + 1)
        for message in messages:
            assert len(receiving.take(message, float(second))) == 2
        assert receiving.read(second + 0.7).value.tolist() == values
    assert receiving.delta == 0
    assert receiving.history(0)[1].tolist() == [0.0, 0.0, 1.0]
    with pytest.raises(FirelaneError, match="discrete"):
        sending.set_delta(4.0, 1.0)


def test_silence_is_stale_then_lost_and_a_heartbeat_ends_it():
    sending, receiving = SendingStream(offer(heartbeat_s=4.0)), ReceivingStream(offer(heartbeat_s=4.0))
    for message in sending.observe(0.0, np.zeros(COUNT)):
        receiving.take(message, 0.0)
    assert not receiving.read(5.0).stale.any()
    assert receiving.read(6.1).stale.all()
    assert not receiving.read(9.0).lost.any()
    assert receiving.read(10.1).lost.all()
    for message in sending.beat(11.0):
        receiving.take(message, 11.0)
    now = receiving.read(11.0)
    assert not now.stale.any()
    assert now.predicted.all()


def test_a_sensor_that_is_no_longer_read_is_lost_alone():
    sending, receiving = SendingStream(offer(heartbeat_s=2.0)), ReceivingStream()
    others = np.arange(1, COUNT)
    for second in range(20):
        chosen = others if second else None
        count = COUNT if chosen is None else len(chosen)
        for message in (*sending.observe(float(second), np.zeros(count), chosen), *sending.beat(float(second))):
            receiving.take(message, float(second))
    assert np.flatnonzero(receiving.read(19.0).lost).tolist() == [0]
    for message in sending.observe(20.0, np.full(1, 5.0), np.array([0])):
        receiving.take(message, 20.0)
    assert not receiving.read(20.0).lost.any()


def test_a_sensor_that_is_seldom_read_is_not_taken_for_gone():
    sending, receiving = SendingStream(offer(heartbeat_s=2.0)), ReceivingStream()
    for second in range(200):
        made = [] if second % 20 else sending.observe(float(second), np.zeros(COUNT))
        for message in (*made, *sending.beat(float(second))):
            receiving.take(message, float(second))
        if second > 25:
            assert not receiving.read(float(second)).lost.any()


def test_another_precision_is_told_at_once_and_kept():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    for message in sending.observe(0.0, np.zeros(COUNT)):
        receiving.take(message, 0.0)
    for message in sending.set_delta(0.5, 2.0):
        receiving.take(message, 0.5)
    assert (receiving.read(0.5).bound == 2.0).all()
    assert sending.observe(1.0, np.full(COUNT, 1.9)) == []
    assert sending.set_delta(1.0, 2.0) == []
    with pytest.raises(FirelaneError, match="delta"):
        sending.set_delta(1.0, math.nan)


def test_values_are_refreshed_every_delta_over_slope():
    """A ramp of 1 a second at delta 0.5: twice a second (section III-B2, where avi is 1 s)."""
    sending, receiving = SendingStream(offer(1), model="kalman"), ReceivingStream()
    for tenth in range(600):
        for message in sending.observe(tenth / 10, np.array([tenth / 10])):
            receiving.take(message, tenth / 10)
    receiving.refresh(60.0)
    assert receiving.next_refresh() == pytest.approx(60.5, abs=0.03)
    assert receiving.refresh(60.2) is None
    again = receiving.refresh(60.6)
    assert again is not None
    assert again.value[0] == pytest.approx(60.6, abs=0.5)
    assert again.valid_s[0] == pytest.approx(1.0, abs=0.06)
    steady = ReceivingStream(offer(1))
    for message in SendingStream(offer(1)).observe(0.0, np.array([3.0])):
        steady.take(message, 0.0)
    steady.refresh(0.0)
    assert steady.next_refresh() == steady.heartbeat_s  # the slope is 0


def test_clocks_need_not_agree():
    sending, receiving = SendingStream(offer(1), model="kalman"), ReceivingStream()
    for second in range(100):
        for message in sending.observe(1e6 + second, np.array([2.0 * second])):
            receiving.take(message, second + 0.1 + 0.05 * (second % 3))  # on its way for a tenth of a second or more
    assert receiving.read(100.1).value[0] == pytest.approx(200.0, abs=0.5)


def test_history_is_bounded_and_in_order():
    sending, receiving = SendingStream(offer(1), model="last-value"), ReceivingStream(history=10)
    for second in range(25):
        for message in sending.observe(float(second), np.array([10.0 * second])):
            receiving.take(message, float(second))
    times, values = receiving.history(0)
    assert times.tolist() == list(range(15, 25))
    assert values.tolist() == [10.0 * one for one in range(15, 25)]


def test_somebody_elses_message_is_counted_and_changes_nothing():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    for message in sending.observe(0.0, np.zeros(COUNT)):
        receiving.take(message, 0.0)
    for wrong in (b"", b"21.5", message[:50], message + b"x"):
        with pytest.raises(UpdateError):
            receiving.take(wrong, 1.0)
    assert receiving.refused == 4
    assert (receiving.read(1.0).value == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_bound_is_claimed_where_the_newest_update_is_missing_whatever_is_lost_doubled_or_overtaken(seed):
    random = np.random.default_rng(seed)
    sending, receiving = SendingStream(offer(heartbeat_s=2.0), most_bytes=300, heal=True), ReceivingStream()
    sent, newest, late, claimed = [], -1, [], 0
    for second, readings in zip(range(150), walk(seed), strict=False):
        for message in (*sending.observe(float(second), readings), *sending.beat(float(second))):
            batch = decode(message)
            counts = sent[-1].copy() if sent else np.zeros(COUNT, np.int64)
            counts[batch.updates.sensor] = batch.updates.sequence
            sent.append(counts)
            fate = random.choice(["arrives", "is lost", "comes twice", "is overtaken"], p=[0.6, 0.2, 0.1, 0.1])
            arriving = [message] * {"arrives": 1, "is lost": 0, "comes twice": 2, "is overtaken": 0}[fate]
            if fate == "is overtaken":
                late.append(message)
            elif late and random.random() < 0.3:
                arriving.append(late.pop(0))
            for one in arriving:
                newest = max(newest, decode(one).number)
                receiving.take(one, second + 0.02)
                sure = np.isfinite(receiving.read(second + 0.02).bound)
                claimed += np.count_nonzero(sure)
                assert (receiving.bank.sequence[sure] == sent[newest][sure]).all()
    assert claimed > 1000


def test_states_told_to_one_alone_after_a_message_that_it_has_lost_show_that_it_has():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    (first,) = sending.observe(0.0, np.zeros(COUNT))
    receiving.take(first, 0.0)
    (lost,) = sending.observe(1.0, np.arange(COUNT) % 2 * 9.0)
    told = replace(decode(sending.whole(1.0, np.array([1]))[0]), number=decode(lost).number, repeat=True)
    receiving.take(encode(told), 1.1)
    assert receiving.missed == 1
    assert receiving.missing().tolist() == [0, *range(2, COUNT)]
    receiving.take(encode(told), 1.2)
    assert receiving.missed == 1


def test_a_discrete_sensor_is_known_again_with_its_next_reading():
    sending = SendingStream(offer(2, precision=None, kind="discrete"))
    receiving = ReceivingStream()
    messages = [sending.observe(float(second), np.array([second % 2, 1.0]))[0] for second in range(4)]
    for message in (messages[0], messages[3]):
        receiving.take(message, 0.0)
    known = receiving.read(0.0)
    assert known.value.tolist() == [1.0, 1.0]
    assert known.bound.tolist() == [0.0, 0.0]
    assert receiving.missed == 2
    assert not len(receiving.missing())


@pytest.mark.parametrize(("place", "what"), [(22, "time"), (30, "delta")])
@pytest.mark.parametrize("number", [math.nan, math.inf, -1e300])
def test_a_heartbeat_with_a_time_or_delta_that_is_none_changes_nothing(place, what, number):
    sending, receiving = SendingStream(offer()), ReceivingStream()
    receiving.take(sending.observe(0.0, np.zeros(COUNT))[0], 0.0)
    beat = bytearray(sending.beat(5.0)[0])
    struct.pack_into(">d", beat, place, number)
    with pytest.raises(UpdateError, match="a delta or a time that is none"):
        receiving.take(bytes(beat), 5.0)
    known = receiving.read(5.0)
    assert (known.bound == 0.5).all()
    assert (known.value == 0.0).all()
    assert receiving.refused == 1


def test_a_new_offer_of_other_sensors_does_not_give_them_the_values_of_those_before():
    followed = FollowedStream("house", lambda: 0.0)
    one = Offer(boot=1, sensors=("cellar", "attic"), precision=0.5)
    followed.offered(one)
    followed.take(SendingStream(one).observe(0.0, np.array([10.0, 30.0]))[0], 0.0)
    assert followed["attic"].value == 30.0
    followed.offered(replace(one, boot=2, sensors=("attic", "cellar")))
    assert math.isnan(followed["attic"].value)
    assert math.isinf(followed["attic"].bound)
