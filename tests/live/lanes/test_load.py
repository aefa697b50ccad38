"""The load against a broker that does what it is told: honest deliveries are whole, and every mischief is noticed."""

import socket
from threading import Thread

import numpy as np
import pytest

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connack
from firelane.scenario import from_data
from live.brokers import mosquitto
from live.lanes.clients import LoadError, Place
from live.lanes.crooked import crooked
from live.lanes.load import drive
from live.lanes.schedule import schedule

pytestmark = pytest.mark.xdist_group("load")

SECONDS = 1.0


@pytest.fixture(scope="module")
def plan():
    topics = {f"room/{n}": {"size": "400 B"} for n in range(6)}
    scenario = from_data(
        {
            "name": "small",
            "topics": topics,
            "publishers": {
                "p": {"publishes": dict.fromkeys(topics, 40)},
                "q": {"publishes": {"room/1": 60}},
            },
            "subscribers": {
                "all": {"subscribes": {"room/+": None}},
                "two": {"subscribes": {"room/1": None, "room/4": None}},
            },
        }
    )
    return schedule(scenario, seconds=SECONDS, seed=1)


def driven(plan, tamper=None):
    with crooked(*([tamper] if tamper else [])) as broker:
        return drive(plan, Place(port=broker.port), quiet_s=0.2)


class EveryTenth:
    """Does something to every tenth packet of one subscriber."""

    def __init__(self, to, what):
        self.to, self.what, self.count, self.done = to, what, 0, 0

    def __call__(self, subscriber, packet):
        self.count += subscriber == self.to
        if subscriber != self.to or self.count % 10:
            return [packet]
        self.done += 1
        return self.what(packet)


def test_an_honest_broker_delivers_everything_once_and_in_order(plan):
    deliveries = driven(plan)
    deliveries.check()
    due_to_two = np.isin(plan.topic, [1, 4]).sum()
    assert deliveries.due == len(plan.at_s) + due_to_two == len(deliveries.publication)
    assert (deliveries.end_to_end_s > 0).all()
    assert deliveries.sender.offered_hz == pytest.approx(len(plan.at_s) / SECONDS, rel=0.5)
    assert deliveries.sender.late_most_s > 0
    assert deliveries.sender.held_back == 0


def test_deliveries_say_who_got_what(plan):
    deliveries = driven(plan)
    names = deliveries.schedule.routes
    to_two = deliveries.subscriber == names.subscribers.index("two")
    assert set(deliveries.topic[to_two].tolist()) == {1, 4}
    assert {names.filters[one] for one in deliveries.subscription()[to_two]} == {"room/1", "room/4"}
    assert {names.filters[one] for one in deliveries.subscription()[~to_two]} == {"room/+"}
    assert np.array_equal(deliveries.size_bytes, plan.size_bytes[deliveries.publication])


def test_lost_messages_are_missing(plan):
    tamper = EveryTenth("two", lambda packet: [])
    deliveries = driven(plan, tamper)
    assert deliveries.missing == tamper.done > 0
    assert (deliveries.doubled, deliveries.stray, deliveries.reordered().sum()) == (0, 0, 0)
    streams = np.flatnonzero(deliveries.missing_by_stream())
    assert set(plan.routes.stream_subscriber[streams].tolist()) == {plan.routes.subscribers.index("two")}


def test_doubled_messages_are_counted(plan):
    tamper = EveryTenth("all", lambda packet: [packet, packet])
    deliveries = driven(plan, tamper)
    assert deliveries.doubled == tamper.done > 0
    assert deliveries.missing == 0


def test_messages_that_are_held_back_are_reordered(plan):
    held = []

    def swap(subscriber, packet):
        """Every other message of room/1 waits for the next one."""
        if subscriber != "two" or b"room/1" not in packet:
            return [packet]
        held.append(packet)
        return held[-1:] + held[-2:-1] if len(held) % 2 == 0 else []

    deliveries = driven(plan, swap)
    # A pair is out of order if both its messages come from one publisher: order among several is not promised.
    inside = np.flatnonzero(plan.topic == 1)
    pairs = plan.source[inside[: len(inside) // 2 * 2]].reshape(-1, 2)
    assert deliveries.reordered().sum() == (pairs[:, 0] == pairs[:, 1]).sum() > 0
    assert deliveries.missing == len(inside) % 2


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        (lambda packet: [packet[:-8] + bytes(4) + packet[-4:]], "nobody sent"),
        (lambda packet: [packet[:-4] + b"\xff" * 4], "nobody sent"),
        (lambda packet: [packet[:5] + b"X" + packet[6:]], "nobody sent"),
        (lambda packet: [b"\xd0\x00"], "amid the messages"),
    ],
    ids=["another run", "another number", "another topic", "another packet"],
)
def test_what_nobody_sent_ends_the_run(plan, what, complaint):
    with pytest.raises(LoadError, match=complaint):
        driven(plan, EveryTenth("all", what))


REFUSALS = {"publisher p got Connack": encode(Connack(reason=0x87), V5), "hung up on publisher p": b""}


@pytest.mark.parametrize("complaint", REFUSALS)
def test_a_broker_that_refuses_is_named(complaint):
    scenario = from_data(
        {"name": "one", "topics": {"a": {"size": 100}}, "publishers": {"p": {"publishes": {"a": 1}}}, "subscribers": {}}
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse():
            link, _ = listener.accept()
            with link:
                link.recv(1000)
                link.sendall(REFUSALS[complaint])

        thread = Thread(target=refuse)
        thread.start()
        with pytest.raises(LoadError, match=complaint):
            drive(schedule(scenario, seconds=1, seed=1), Place(port=listener.getsockname()[1]))
        thread.join()


def test_mosquitto_is_found_faultless(plan, tmp_path):
    with mosquitto(tmp_path) as broker:
        deliveries = drive(plan, Place(port=broker.port), broker_pid=broker.process.pid, quiet_s=0.3)
    deliveries.check()
