"""A thin link that several clients share, for tests whose time is their own."""

import pytest

from firelane.exchange.lanes import link as link_module
from firelane.mqtt.packets import Kind, Subscription
from firelane.scenario.model import Link, Match, Subscriber

BPS = 80_000.0  # ten bytes a millisecond
SERVICE_S = 0.1  # of a message of 1000 bytes


@pytest.fixture(autouse=True)
def control_packets_take_no_time(monkeypatch):
    """Or times would not be round."""
    monkeypatch.setattr(link_module, "MOST_CONTROL_S", 0.0)


def a_link(**fields):
    return Link(**{"bandwidth_bps": BPS, "pace": 1.0, "overhead_bytes": 0.0, **fields})


def a_fast_link(**fields):
    return a_link(bandwidth_bps=1e12, **fields)


def on_one_link(*names, link=None, **needs):
    subscribers = {
        name: Subscriber(link="thin", match=Match(client_id=name), subscribes=needs.get(name, {})) for name in names
    }
    return {"links": {"thin": link or a_link()}, "subscribers": subscribers}


def reliable(*filters):
    return [Subscription(filter=one, qos=1) for one in filters]


def body(letter):
    return letter.encode() * 1000


def wake(desk, seconds=0.0):
    """Let time pass, and the links notice."""
    desk.now += seconds
    desk.broker.wake(desk.now)
    desk.settle()


def played(desk, seconds, *lines):
    """What arrives when, and is acknowledged: time passes in steps of a tenth of a service time."""
    arrived = []
    steps = round(seconds / SERVICE_S * 10)
    start = desk.now
    for step in range(steps + 1):
        desk.now = start + step * SERVICE_S / 10
        wake(desk)
        for line in lines:
            for one in line.messages():
                arrived.append((round((desk.now - start) / SERVICE_S, 1), one.payload[:1].decode()))
                if one.qos:
                    line.ack(Kind.PUBACK, one.packet_id)
    return arrived


def letters(desk, seconds, *lines):
    """The same without the times."""
    return "".join(letter for _, letter in played(desk, seconds, *lines))
