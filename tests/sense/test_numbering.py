"""What streams make of messages that are lost, late, doubled or repeated, and of precisions that change."""

from __future__ import annotations

import asyncio
import struct

import numpy as np
import pytest

from firelane.client import ClientError
from firelane.sense import UpdateError
from firelane.sense.numbering import MOST_LACKING, Numbering
from firelane.sense.offer import Offer, Resync, from_json
from firelane.sense.publisher import PublishedStream, SensorPublisher
from firelane.sense.receiving import ReceivingStream
from firelane.sense.sending import SendingStream
from firelane.sense.subscriber import FollowedStream, SensorSubscriber
from firelane.sense.updates import Updates
from firelane.sense.wire import WRAP, Batch, decode, encode

NOTHING = Updates(
    sensor=np.zeros(0, np.int64), sequence=np.zeros(0, np.int64), time_s=np.zeros(0), value=np.zeros(0),
    delta=np.zeros(0), model=np.zeros(0, np.int64), whole=np.zeros(0, np.bool_), state=np.zeros((0, 10)),
)  # fmt: skip


def offer(*names: str, boot: int = 7, **more) -> Offer:
    return Offer(boot=boot, sensors=names or ("T0", "T1"), **({"precision": 0.5} | more))


def batch(number: int, *, repeat: bool = False) -> Batch:
    return Batch(boot=7, number=number, sensors=2, time_s=0.0, delta=0.5, total=0, updates=NOTHING, repeat=repeat)


def taken(*numbers: int) -> Numbering:
    numbering = Numbering()
    for number in numbers:
        numbering.take(batch(number % WRAP))
    return numbering


# ---- numbers


@pytest.mark.parametrize("first", [0, -2, -1])
def test_what_never_came_is_counted_also_where_numbers_wrap(first):
    numbering = taken(first)
    assert numbering.take(batch((first + 3) % WRAP)) == (True, False)
    assert numbering.missed == 2
    assert numbering.take(batch((first + 1) % WRAP)) == (False, True)
    assert numbering.missed == 1
    assert numbering.take(batch((first + 1) % WRAP)) == (False, True)  # twice
    assert numbering.missed == 1
    assert numbering.take(batch((first + 4) % WRAP)) == (False, False)


def test_a_message_that_comes_twice_is_none_that_was_lost():
    numbering = taken(0, 5, 6)
    assert numbering.take(batch(6)) == (False, False)
    assert numbering.missed == 4


def test_what_is_repeated_says_what_the_last_message_was():
    numbering = taken(0, 1)
    assert numbering.take(batch(1, repeat=True)) == (False, False)
    assert numbering.take(batch(2, repeat=True)) == (True, False)  # message 2 is lost: this is not it
    assert numbering.missed == 1
    assert numbering.take(batch(1, repeat=True)) == (False, True)
    assert numbering.take(batch(3)) == (False, False)


def test_a_message_is_late_however_far_it_is_behind():
    numbering = taken(5_000_000)
    assert numbering.take(batch(0)) == (False, True)
    assert numbering.take(batch(5_000_001)) == (False, False)
    assert numbering.missed == 0


def test_what_is_remembered_of_losses_is_bounded():
    numbering = taken(*range(0, 100_000, 2))
    assert numbering.missed == 49_999
    assert len(numbering._lacking) <= MOST_LACKING
    numbering.take(batch(2_000_000_000))
    assert len(numbering._lacking) <= MOST_LACKING


# ---- messages that were overtaken


def test_a_message_that_was_overtaken_vouches_for_nothing():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    made = [sending.observe(float(second), np.full(2, second * 9.0))[0] for second in range(3)]
    made += sending.beat(3.0)
    for number in (0, 3, 1):  # the updates in message 2 are lost
        receiving.take(made[number], 3.0)
    assert np.isinf(receiving.read(3.0).bound).all()
    assert receiving.missed == 1


def test_a_state_that_was_overtaken_by_an_update_is_not_the_last_one():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    made = [sending.observe(float(second), np.full(2, second * 9.0))[0] for second in range(2)]
    receiving.take(made[1], 1.0)  # of no use without the state
    receiving.take(made[0], 1.0)
    assert np.isinf(receiving.read(1.0).bound).all()
    receiving.take(sending.whole(1.5)[0], 1.5)
    assert (receiving.read(1.5).bound == 0.5).all()
    assert np.array_equal(receiving.bank.state, sending._sending.bank.state)


def test_the_precision_is_that_of_the_latest_message():
    sending, receiving = SendingStream(offer()), ReceivingStream()
    first = sending.observe(0.0, np.zeros(2))[0]
    second = sending.beat(1.0)[0]
    third = sending.set_delta(2.0, 2.0)[0]
    for message in (first, third, second):
        receiving.take(message, 2.0)
    assert receiving.delta == 2.0


def test_a_life_that_is_over_is_not_believed_again():
    receiving = FollowedStream("t", lambda: 0.0)
    lives = [SendingStream(offer(boot=boot)) for boot in (1, 2)]
    receiving.offered(lives[0].offer)
    late = lives[0].observe(1.0, np.full(2, 20.0))[0]
    receiving.offered(lives[1].offer)
    receiving.take(lives[1].observe(2.0, np.full(2, 90.0))[0], 2.0)
    assert len(receiving.take(late, 2.1)) == 0
    assert receiving.outdated == 1
    assert (receiving.read(2.1).value == 90.0).all()


# ---- precisions that change


@pytest.mark.parametrize("most_bytes", [100, 60_000])
def test_a_tighter_precision_holds_for_what_was_read_before_it(most_bytes):
    sending, receiving = SendingStream(offer(), model="last-value", most_bytes=most_bytes), ReceivingStream()
    readings = np.array([1.7, 0.3])
    for message in (
        *sending.set_delta(0.0, 2.0), *sending.observe(1.0, np.zeros(2)), *sending.observe(2.0, readings),
    ):  # fmt: skip
        receiving.take(message, 2.0)
    assert (receiving.read(2.0).bound == 2.0).all()
    for message in sending.set_delta(3.0, 0.5):
        receiving.take(message, 3.0)
        known = receiving.read(3.0)
        assert (np.abs(known.value - readings) < known.bound).all()
    assert (known.bound == 0.5).all()
    assert receiving.updates == sending.sent == 3


# ---- sensors that are gone, names that change, words that are none


@pytest.mark.parametrize("most_bytes", [300, 1400, 60_000])
def test_all_sensors_that_are_gone_are_told_however_many(most_bytes):
    count = 5000
    names = tuple(map(str, range(count)))
    sending, receiving = SendingStream(offer(*names, heartbeat_s=1.0), most_bytes=most_bytes), ReceivingStream()
    messages = [*sending.observe(0.0, np.zeros(count)), *sending.beat(5.0)]
    for message in messages:
        assert len(message) <= most_bytes
        receiving.take(message, 5.0)
    assert receiving.read(5.0).lost.all()
    for message in (*sending.observe(6.0, np.zeros(count)), *sending.beat(6.5)):
        receiving.take(message, 6.5)
    assert not receiving.read(6.5).lost.any()


def test_names_of_a_new_life_do_not_stand_for_values_of_the_old_one():
    stream = FollowedStream("t", lambda: 1.0)
    stream.offered(offer("hot", "cold", boot=1))
    stream.take(SendingStream(offer("hot", "cold", boot=1)).observe(1.0, np.array([90.0, 5.0]))[0], 1.0)
    assert stream["hot"].value == 90.0
    stream.offered(offer("cold", "hot", boot=2))
    assert np.isnan(stream["hot"].value)


@pytest.mark.parametrize("field", ["time", "delta"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1.0])
def test_a_header_without_sense_is_refused(field, value):
    if (field, value) == ("time", -1.0):
        return
    payload = bytearray(encode(batch(0)))
    struct.pack_into(">d", payload, 22 if field == "time" else 30, value)
    receiving = ReceivingStream()
    with pytest.raises(UpdateError, match="delta or a time"):
        receiving.take(bytes(payload), 1.0)
    assert receiving.refused == 1


# ---- publishers and subscribers over a network that is none


class Nowhere:
    """A messenger that takes its time."""

    most_bytes, reliable = 60_000, True

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.on_connected: list = []
        self.subscribed: dict[str, object] = {}

    async def publish(self, topic, payload, **how):
        await asyncio.sleep(0.01 * (len(self.sent) % 3 == 0))
        self.sent.append(payload)

    async def subscribe(self, topic_filter, got, **how):
        self.subscribed[topic_filter] = got

    async def unsubscribe(self, topic_filter, got):
        del self.subscribed[topic_filter]


def test_messages_leave_in_the_order_of_their_numbers():
    async def main():
        network = Nowhere()
        sending = SendingStream(offer(heartbeat_s=0.001), most_bytes=100)
        stream = PublishedStream("t", sending, network.publish, lambda: 0.0)
        await asyncio.gather(
            *(work for step in range(20) for work in (
                stream.observe(np.full(2, 9.0 * step), time_s=float(step)), stream.tend(float(step))
            ))
        )  # fmt: skip
        numbers = [decode(one).number for one in network.sent]
        assert numbers == list(range(len(numbers)))

    asyncio.run(main())


def test_who_leaves_is_not_called_any_more_and_other_topics_take_no_room(monkeypatch):
    monkeypatch.setattr("firelane.sense.subscriber.MOST_SENSORS", 10)

    async def main():
        network, told = Nowhere(), []
        async with SensorSubscriber(network, "#", tell=told.append) as known:
            for number in range(100):
                known.arrived(f"other/{number}", b"{}")
            for topic, count in (("a", 6), ("b", 5), ("c", 4)):
                names = tuple(map(str, range(count)))
                known.arrived(topic, SendingStream(offer(*names)).observe(0.0, np.zeros(count))[0])
            await asyncio.sleep(0.05)
            assert known.others == 100
            assert {topic: len(one) for topic, one in known.streams.items()} == {"a": 6, "b": 0, "c": 4}
            assert len(told) == 2
            assert "no room" in told[1]
        assert not network.subscribed

    asyncio.run(main())


def test_who_lacks_more_than_fits_a_message_asks_for_all():
    """The numbers of 999 sensors are some 4 kB; a datagram takes 1400 bytes."""
    network = Nowhere()
    network.most_bytes = 1400
    known = SensorSubscriber(network, "#")
    few, many = Resync(sensors=tuple(range(100))), Resync(sensors=tuple(range(1, 1000)))
    assert from_json(Resync, known._asked(few)) == few
    assert from_json(Resync, known._asked(many)).everything


def test_a_callback_that_fails_ends_the_block_and_says_so():
    def fail(stream, updates):
        raise ValueError("a fault of the application's")

    async def main():
        async with asyncio.timeout(5), SensorSubscriber(Nowhere(), "#", on_update=fail) as known:
            known.arrived("a", SendingStream(offer()).observe(0.0, np.zeros(2))[0])
            await asyncio.sleep(3)

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(main())
    assert raised.group_contains(ValueError)


def test_an_offer_that_is_refused_after_a_new_connection_is_told_in_a_line():
    class Refusing(Nowhere):
        async def publish(self, topic, payload, **how):
            if self.sent and topic.startswith("$sense/offer"):
                raise ClientError("another client offers this stream")
            self.sent.append(payload)

    async def main():
        network = Refusing()
        async with asyncio.timeout(5), SensorPublisher(network) as publisher:
            await publisher.offer("t", ["T0"], precision=0.5)
            for call in network.on_connected:
                call()
            await asyncio.sleep(3)

    with pytest.raises(ClientError, match="another client"):
        asyncio.run(main())
