"""Several packets in one read: the common ones take a short way together, and nobody can tell."""

from __future__ import annotations

import pytest

from firelane.exchange.reading import LOOKED_AT_ONCE
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, V5, Ack, Kind, Publish
from firelane.mqtt.reasons import Reason
from firelane.scenario.settings import AccessRule

PINGREQ = b"\xc0\x00"


def message(topic, packet_id, qos=1, payload=b"x", version=V5):
    return encode(Publish(topic=topic, payload=payload, qos=qos, packet_id=packet_id), version)


@pytest.fixture
def slow(make_desk):
    """A desk whose log is committed by hand, one who wants `a`, and one whose `a` takes the short way."""
    desk = make_desk(prompt=False)
    ann, ben = desk.subscriber("ann"), desk.join("ben")
    ben.publish("a", b"0", qos=1)
    desk.commit()
    ben.take_all()
    ann.take_all()
    return desk, ann, ben


def test_answers_come_in_the_order_of_the_messages_and_not_before_the_log_has_them(slow):
    desk, _, ben = slow
    ben.send_raw(message("a", 5) + message("new", 6) + message("a", 7, qos=2) + message("a", 8) + PINGREQ)
    assert ben.acks() == []
    desk.commit()
    assert ben.acks() == [(Kind.PUBACK, 5), (Kind.PUBACK, 6), (Kind.PUBREC, 7), (Kind.PUBACK, 8)]


def test_each_is_told_for_itself_that_nobody_wants_it(slow):
    desk, _, ben = slow
    ben.publish("nobody", b"", qos=1)
    ben.take_all()
    ben.send_raw(message("nobody", 5) + message("a", 6) + message("nobody", 7))
    desk.commit()
    told = [(one.packet_id, one.reason) for one in ben.got if isinstance(one, Ack)]
    nobody = Reason.NO_MATCHING_SUBSCRIBERS
    assert told[-3:] == [(5, nobody), (6, Reason.SUCCESS), (7, nobody)]


@pytest.mark.parametrize("version", [V3, V5])
def test_what_came_before_nonsense_counts(make_desk, version):
    desk = make_desk()
    ann, ben = desk.subscriber("ann"), desk.join("ben", version)
    ben.publish("a", b"0", qos=1)
    before = desk.broker.counts.publish_received
    ben.send_raw(b"".join(message("a", one, payload=b"%d" % one, version=version) for one in (1, 2, 3)) + b"\x00\x00")
    assert ben.closed
    assert desk.broker.counts.publish_received == before + 3
    assert ann.payloads() == [b"0", b"1", b"2", b"3"]


def test_a_window_that_several_answers_open_is_filled_in_order(desk):
    ann, ben = desk.join("ann", receive_maximum=3), desk.join("ben")
    ann.subscribe("a", qos=1)
    for number in range(9):
        ben.publish("a", b"%d" % number, qos=1)
    got = []
    while sent := ann.messages():
        got += [one.payload for one in sent]
        ann.send_raw(b"".join(bytes((0x40, 2)) + one.packet_id.to_bytes(2, "big") for one in sent))
    assert got == [b"%d" % number for number in range(9)]


def test_a_read_does_not_fill_the_log_far_beyond_its_cap(make_desk):
    desk = make_desk(limits={"log_bytes": 20_000}, segment_bytes=2000)
    ann, ben = desk.subscriber("ann"), desk.join("ben")
    ben.publish("a", b"0", qos=1)
    ann.drop()
    ben.take_all()
    ben.send_raw(b"".join(message("a", one, payload=bytes(1000)) for one in range(1, 300)))
    assert desk.log.live_bytes < 20_000 + LOOKED_AT_ONCE * 1200
    refused = [one for one in ben.got if isinstance(one, Ack) and one.reason == Reason.QUOTA_EXCEEDED]
    assert len(refused) > 200


def plain(topic=b"a", payload=b"x", properties=b"\0"):
    """PUBLISH of QoS 0 by hand, with or without what MQTT 5 has between topic and payload."""
    body = len(topic).to_bytes(2, "big") + topic + properties + payload
    return bytes((0x30, len(body))) + body


TOO_FAST = {"limits": {"publish_hz": 0.5}}
RULED = {
    "access": [
        AccessRule(who="ben", filter="a", deny=["publish"]),
        AccessRule(who="*", filter="#", allow=["publish", "subscribe"]),
    ]
}
ODD = {
    "plain": (plain(), {}),
    "no payload": (plain(payload=b""), {}),
    "no properties where there must be": (plain(payload=b"", properties=b""), {}),
    "with a property": (plain(properties=b"\x02\x01\x01"), {}),
    "a topic longer than the packet": (b"\x30\x03\x00\x09a", {}),
    "no topic": (plain(topic=b""), {}),
    "too short": (b"\x30\x02\x00\x01", {}),
    "empty": (b"\x30\x00", {}),
    "half of it": (plain(payload=bytes(80))[:40], {}),
    "a byte of the next": (plain() + b"\x30", {}),
    "a length of two bytes, cut where one would end": (b"\x30\x85\x01\x00\x01a" + bytes(129), {}),
    "larger than allowed": (plain(payload=bytes(90)), {"limits": {"packet_bytes": 80}}),
    "too fast": (plain(), TOO_FAST),
    "not allowed": (plain(), RULED),
    "unknown topic": (plain(topic=b"b"), {}),
}


@pytest.mark.parametrize("version", [V3, V5])
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd)
def test_a_message_alone_in_its_read_fares_as_it_does_behind_another_packet(make_desk, odd, version):
    packet, settings = ODD[odd]
    seen = []
    for before in (b"", PINGREQ):
        desk = make_desk(**settings)
        ann, ben = desk.subscriber("ann"), desk.join("ben", version)
        desk.join("cat").publish("a", b"first")  # from now on its topic is known
        counts, received = desk.broker.counts, desk.broker.counts.packets_received
        ben.send_raw(before + packet)
        taken = counts.packets_received - received - bool(before)
        refused = (counts.publish_refused, counts.protocol_errors, ben.closed, len(desk.broker.stalled))
        seen.append((ann.payloads(), taken, counts.publish_received, counts.publish_bytes_received, refused))
    alone, behind = seen
    assert alone == behind
