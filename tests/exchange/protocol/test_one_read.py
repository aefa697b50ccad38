"""Several packets in one read: the common ones take a short way together, and nobody can tell."""

from __future__ import annotations

import pytest

from firelane.exchange.protocol import publishing
from firelane.exchange.protocol.reading import LOOKED_AT_ONCE
from firelane.mqtt.encode import encode
from firelane.mqtt.fields import variable
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


def pair(name, value):
    return b"\x26" + b"".join(len(one).to_bytes(2, "big") + one for one in (name, value))


ROOM = ("room", "12")
GOOD = {
    "nothing": (b"", {}),
    "one user property": (pair(b"room", b"12"), {"user_property": [ROOM]}),
    "two, one of them twice": (
        pair(b"room", b"12") + pair(b"b", b"") + pair(b"room", b"13"),
        {"user_property": [ROOM, ("b", ""), ("room", "13")]},
    ),
    "letters from elsewhere": (
        pair("größe".encode(), "日本".encode()),
        {"user_property": [("größe", "日本")]},
    ),
    "more than one byte of length": (pair(b"long", b"x" * 150), {"user_property": [("long", "x" * 150)]}),
    "others before": (
        b"\x01\x01" + pair(b"room", b"12"),
        {"payload_format_indicator": 1, "user_property": [ROOM]},
    ),
    "others behind": (
        pair(b"room", b"12") + b"\x03\x00\x01x",
        {"user_property": [ROOM], "content_type": "x"},
    ),
    "an alias": (b"\x23\x00\x01", {}),
}
BAD = {
    "a null character in a name": pair(b"ro\0om", b"12"),
    "a null character in a value": pair(b"room", b"\0"),
    "no UTF-8": pair(b"room", b"\xff"),
    "a name without a value": pair(b"room", b"12")[:7],
    "a value cut short": pair(b"room", b"12")[:-1],
    "a value that ends behind the properties": pair(b"room", b"12")[:-3] + b"\x09",
    "what only brokers say": b"\x0b\x01",
}


def saying(properties, qos):
    body = b"\0\1a" + (b"\0\7" if qos else b"") + variable(len(properties)) + properties + b"the message behind"
    return bytes((0x30 | qos << 1,)) + variable(len(body)) + body


@pytest.fixture(params=["new topic", "known topic"])
def audience(request, make_desk):
    """Who wants `a` with bytes of its own, with those that all share, and with MQTT 3.1.1; and one who publishes."""
    desk = make_desk()
    own = desk.join("own")
    own.subscribe("a", qos=1, subscription_identifier=[9])
    audience = own, desk.subscriber("ann"), desk.subscriber("old", V3)
    if request.param == "known topic":
        desk.join("cat").publish("a", b"before")
        assert all(one.payloads() == [b"before"] for one in audience)
    return *audience, desk.join("ben")


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("said", GOOD, ids=lambda said: said)
def test_what_a_message_says_beside_itself_reaches_everybody(audience, said, qos):
    own, ann, old, ben = audience
    properties, meant = GOOD[said]
    ben.send_raw(PINGREQ + saying(properties, qos))
    (first,), (second,) = own.messages(), ann.messages()
    assert first.properties == meant | {"subscription_identifier": [9]}
    assert second.properties == meant
    assert first.payload == second.payload == b"the message behind"
    assert old.payloads() == [b"the message behind"]


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("said", BAD, ids=lambda said: said)
def test_nonsense_beside_a_message_reaches_nobody_and_ends_its_publisher(audience, said, qos):
    *others, ben = audience
    ben.send_raw(PINGREQ + saying(BAD[said], qos))
    assert ben.closed
    assert all(one.payloads() == [] and not one.closed for one in others)


def test_what_a_message_says_beside_itself_survives_a_crash_on_a_known_topic(make_desk):
    desk = make_desk()
    ann, ben = desk.subscriber("ann"), desk.join("ben")
    ben.publish("a", b"known")
    ann.drop()
    ben.publish("a", b"kept", qos=1, properties={"user_property": [("room", "12")]})
    desk.crash()
    (kept,) = desk.lasting("ann").messages()
    assert (kept.payload, kept.properties) == (b"kept", {"user_property": [("room", "12")]})


@pytest.mark.parametrize("qos", [0, 1])
def test_a_few_user_properties_do_not_make_the_way_long(desk, monkeypatch, qos):
    ann, ben = desk.subscriber("ann"), desk.join("ben")
    ben.publish("a", b"known")

    def long_way(*_):
        raise AssertionError("the long way")

    monkeypatch.setattr(publishing, "handle_publish", long_way)
    ben.send_raw(PINGREQ + saying(pair(b"room", b"12"), qos))
    assert ann.payloads() == [b"known", b"the message behind"]
