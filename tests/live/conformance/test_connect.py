"""CONNECT and CONNACK (sections 3.1 and 3.2): who is let in, who is turned away, and how they are told."""

from __future__ import annotations

import string

import pytest

from firelane.mqtt import fields
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, V5, Auth, Connack, Connect, Disconnect, Kind, Ping, Publish, Subscribe
from firelane.mqtt.packets import Subscription as To
from firelane.mqtt.reasons import Reason
from live.conformance.statements import differs, statement, statement3
from live.wire import unique


@statement("MQTT-3.1.4-5", "MQTT-3.2.0-1", "MQTT-3.2.0-2", "MQTT-3.2.2-1", "MQTT-3.2.2-8", "MQTT-4.2.0-1")
@statement3("MQTT-3.1.4-4", "MQTT-3.2.0-1", "MQTT-7.0.0-2", "MQTT-7.1.1-1")
def test_a_connect_is_answered_with_one_connack(dial, version):
    wire = dial(version)
    wire.send(Connect(client_id=unique("c"), version=version))
    answer = wire.receive()
    assert isinstance(answer, Connack)
    assert (answer.reason, answer.session_present) == (Reason.SUCCESS, False)
    wire.expect_nothing()


@statement("MQTT-3.2.0-1")
@statement3("MQTT-3.2.0-1")
def test_what_is_sent_right_behind_a_connect_is_answered_after_the_connack(dial, topic, version):
    wire = dial(version)
    packets = (
        Connect(client_id=unique("c"), version=version),
        Subscribe(packet_id=9, subscriptions=[To(filter=topic)]),
        Publish(topic=topic, payload=b"early"),
        Ping(Kind.PINGREQ),
    )
    wire.send_raw(b"".join(encode(packet, version) for packet in packets))
    assert isinstance(wire.receive(), Connack)
    assert wire.expect(Kind.SUBACK).packet_id == 9
    assert wire.expect(Kind.PUBLISH).payload == b"early"
    wire.expect(Kind.PINGRESP)


@statement("MQTT-4.2.0-1")
@statement3("MQTT-7.1.1-1")
def test_packets_may_arrive_byte_by_byte(dial, topic, version):
    wire = dial(version)
    for packet in (Connect(client_id=unique("c"), version=version), Ping(Kind.PINGREQ)):
        for byte in encode(packet, version):
            wire.send_raw(bytes((byte,)))
    wire.expect(Kind.CONNACK)
    wire.expect(Kind.PINGRESP)


@statement("MQTT-3.1.0-2", "MQTT-4.13.1-1")
@statement3("MQTT-3.1.0-2", "MQTT-4.8.0-1")
def test_a_second_connect_ends_the_connection(join, version):
    wire = join(version)
    wire.send(Connect(client_id=unique("c"), version=version))
    wire.expect_closed(Reason.PROTOCOL_ERROR)


@statement("MQTT-3.1.0-1", "MQTT-3.14.0-1")
@statement3("MQTT-3.1.0-1", "MQTT-3.2.2-6")
@pytest.mark.parametrize(
    "packet",
    [
        Publish(topic="t", payload=b""),
        Subscribe(packet_id=1, subscriptions=[To(filter="t")]),
        Ping(Kind.PINGREQ),
        Disconnect(),
        Auth(),
    ],
    ids=lambda packet: type(packet).__name__.lower(),
)
def test_a_connection_that_does_not_begin_with_connect_is_closed_without_a_word(dial, version, packet):
    wire = dial(version)
    wire.send(packet)
    wire.expect_closed()


@statement("MQTT-3.1.2-1")
@statement3("MQTT-3.1.2-1")
@pytest.mark.parametrize("name", ["mqtt", "MQTTX", "HTTP"])
def test_another_protocol_name_is_turned_away(dial, version, name):
    wire = dial(version)
    wire.send_raw(connect_packet(version, name=name.encode()))
    assert everything_from(wire) in (b"", *UNSUPPORTED)


@statement("MQTT-3.1.2-2", "MQTT-3.2.2-7")
@statement3("MQTT-3.1.2-2", "MQTT-3.2.2-5")
@pytest.mark.parametrize("level", [6, 99])
def test_an_unknown_protocol_level_is_turned_away_with_a_connack(dial, level):
    wire = dial()
    wire.send_raw(connect_packet(V5, level=level))
    assert everything_from(wire) in UNSUPPORTED


UNSUPPORTED = (b"\x20\x02\0\1", b"\x20\x03\0\x84\0")  # CONNACK as 3.1.1 and as 5 would have it


def everything_from(wire):
    """The bytes that come until the broker hangs up."""
    return b"".join(iter(lambda: wire.socket.recv(100), b""))


def connect_packet(version, *, name=b"MQTT", level=None, flags=2, properties=b"", payload=b"\0\1x"):
    """A CONNECT of which everything can be wrong."""
    body = fields.binary(name) + bytes((level or version, flags, 0, 0))
    body += fields.variable(len(properties)) + properties if version == V5 else b""
    return b"\x10" + fields.variable(len(body + payload)) + body + payload


def bad(what, version, reasons, *marks, **packet):
    return pytest.param(version, reasons, packet, marks=marks, id=f"{what}-{'5' if version == V5 else '3.1.1'}")


MALFORMED, ERROR = (Reason.MALFORMED_PACKET,), (Reason.PROTOCOL_ERROR,)
EITHER = MALFORMED + ERROR  # where the specification does not say which
NAME = (Reason.TOPIC_NAME_INVALID, *EITHER)
WILL = b"\0\1x\0\0\1w\0\1p"  # client identifier, will properties, topic and payload
WILL3 = b"\0\1x\0\1w\0\1p"
BAD = [
    bad("reserved flag", V5, MALFORMED, statement("MQTT-3.1.2-3"), flags=3),
    bad("reserved flag", V3, (), statement3("MQTT-3.1.2-3"), flags=3),
    bad("no client identifier", V5, MALFORMED, statement("MQTT-3.1.3-3"), payload=b""),
    bad("no client identifier", V3, (), statement3("MQTT-3.1.3-3"), payload=b""),
    bad("client identifier not UTF-8", V5, MALFORMED, statement("MQTT-3.1.3-4", "MQTT-1.5.4-1"), payload=b"\0\2\xc3("),
    bad("client identifier not UTF-8", V3, (), statement3("MQTT-3.1.3-4", "MQTT-1.5.3-1"), payload=b"\0\2\xc3("),
    bad("client identifier with null", V5, MALFORMED, statement("MQTT-1.5.4-2"), payload=b"\0\2x\0"),
    bad("client identifier with null", V3, (), statement3("MQTT-1.5.3-2"), payload=b"\0\2x\0"),
    bad("will without fields", V5, MALFORMED, statement("MQTT-3.1.2-9"), flags=6),
    bad("will without fields", V3, (), statement3("MQTT-3.1.2-9"), flags=6),
    bad("will QoS without will", V5, EITHER, statement("MQTT-3.1.2-11"), flags=0x0A),
    bad("will QoS without will", V3, (), statement3("MQTT-3.1.2-11", "MQTT-3.1.2-13"), flags=0x0A),
    bad("will QoS 3", V5, MALFORMED, statement("MQTT-3.1.2-12"), flags=0x1E, payload=WILL),
    bad("will QoS 3", V3, (), statement3("MQTT-3.1.2-14"), flags=0x1E, payload=WILL3),
    bad("will retain without will", V5, EITHER, statement("MQTT-3.1.2-13"), flags=0x22),
    bad("will retain without will", V3, (), statement3("MQTT-3.1.2-15"), flags=0x22),
    bad("will topic not UTF-8", V5, MALFORMED, statement("MQTT-3.1.3-11"), flags=6, payload=b"\0\1x\0\0\1\xff\0\1p"),
    bad("will topic not UTF-8", V3, (), statement3("MQTT-3.1.3-10"), flags=6, payload=b"\0\1x\0\1\xff\0\1p"),
    bad("will topic with wildcard", V5, NAME, flags=6, payload=b"\0\1x\0\0\1#\0\1p"),
    bad("will topic with wildcard", V3, (), flags=6, payload=b"\0\1x\0\1#\0\1p"),
    bad("user name without flag", V5, MALFORMED, statement("MQTT-3.1.2-16"), payload=b"\0\1x\0\1u"),
    bad("user name without flag", V3, (), statement3("MQTT-3.1.2-18"), payload=b"\0\1x\0\1u"),
    bad("flag without user name", V5, MALFORMED, statement("MQTT-3.1.2-17"), flags=0x82),
    bad("flag without user name", V3, (), statement3("MQTT-3.1.2-19"), flags=0x82),
    bad("user name not UTF-8", V5, MALFORMED, statement("MQTT-3.1.3-12"), flags=0x82, payload=b"\0\1x\0\1\xff"),
    bad("user name not UTF-8", V3, (), statement3("MQTT-3.1.3-11"), flags=0x82, payload=b"\0\1x\0\1\xff"),
    bad("password without flag", V5, MALFORMED, statement("MQTT-3.1.2-18"), flags=0x82, payload=b"\0\1x\0\1u\0\1p"),
    bad("password without flag", V3, (), statement3("MQTT-3.1.2-20"), flags=0x82, payload=b"\0\1x\0\1u\0\1p"),
    bad("flag without password", V5, MALFORMED, statement("MQTT-3.1.2-19"), flags=0xC2, payload=b"\0\1x\0\1u"),
    bad("flag without password", V3, (), statement3("MQTT-3.1.2-21"), flags=0xC2, payload=b"\0\1x\0\1u"),
    bad("password without user name", V3, (), statement3("MQTT-3.1.2-22"), flags=0x42, payload=b"\0\1x\0\1p"),
    bad("fields in the wrong order", V5, EITHER, statement("MQTT-3.1.3-1"), flags=0x86,
        payload=b"\0\1x\0\1u\0\0\1w\0\1p"),
    bad("fields in the wrong order", V3, (), statement3("MQTT-3.1.3-1"), flags=0x86, payload=b"\0\1u\0\1w\0\1p\0\1"),
    bad("receive maximum 0", V5, ERROR, properties=b"\x21\0\0"),
    bad("maximum packet size 0", V5, ERROR, properties=b"\x27\0\0\0\0"),
    bad("request problem information 2", V5, ERROR, properties=b"\x17\2"),
    bad("request response information 2", V5, ERROR, properties=b"\x19\2"),
    bad("session expiry twice", V5, ERROR, properties=b"\x11\0\0\0\1\x11\0\0\0\1"),
    bad("authentication data without method", V5, ERROR, differs("accepts authentication data without a method"),
        properties=b"\x16\0\1x"),
    bad("a property of PUBLISH", V5, MALFORMED, properties=b"\x23\0\1"),
    bad("an unknown property", V5, MALFORMED, properties=b"\x7f\0"),
    bad("will delay outside the will", V5, MALFORMED, properties=b"\x18\0\0\0\1"),
    bad("properties longer than the packet", V5, MALFORMED, properties=b"\x11\0\0\0\1", payload=b""),
]  # fmt: skip


@statement("MQTT-3.1.4-1", "MQTT-4.13.2-1")
@statement3("MQTT-3.1.4-1")
@pytest.mark.parametrize(("version", "reasons", "packet"), BAD)
def test_a_connect_of_the_wrong_form_is_refused(dial, version, reasons, packet):
    wire = dial(version)
    wire.send_raw(connect_packet(version, **packet))
    wire.expect_closed(*reasons)


@statement("MQTT-3.1.4-6")
@statement3("MQTT-3.1.4-5")
def test_what_follows_a_refused_connect_is_ignored(dial, join, topic, version):
    observer = join()
    observer.subscribe(topic)
    wire = dial(version)
    wire.send_raw(connect_packet(version, flags=3) + encode(Publish(topic=topic, payload=b"smuggled"), version))
    while wire.receive() is not None:
        pass
    observer.expect_nothing()


@statement("MQTT-3.1.3-5")
@statement3("MQTT-3.1.3-5")
def test_every_letter_and_digit_may_stand_in_an_identifier_of_up_to_23(join, version):
    every = string.digits + string.ascii_letters
    for client_id in (every[:23], every[23:46], every[46:], "Z"):
        join(version, client_id)


@statement("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16")
def test_a_client_without_identifier_is_given_one_that_is_its_own(join):
    one, other = join(client_id=""), join(client_id="")
    assigned = [wire.connack.properties["assigned_client_identifier"] for wire in (one, other)]
    assert assigned[0] != assigned[1]
    assert all(assigned)
    join(client_id=assigned[0])
    one.expect_closed(Reason.SESSION_TAKEN_OVER)
    other.ping()


@statement3("MQTT-3.1.3-6")
def test_clients_without_identifier_do_not_disturb_each_other(join):
    one, other = join(V3, client_id=""), join(V3, client_id="")
    one.ping()
    other.ping()


@statement3("MQTT-3.1.3-7", "MQTT-3.1.3-8", "MQTT-3.1.3-9", "MQTT-3.2.2-4", "MQTT-3.2.2-5")
def test_no_identifier_and_no_clean_session_is_refused(dial):
    wire = dial(V3)
    answer = wire.connect("", clean_start=False)
    assert (answer.reason, answer.session_present) == (2, False)
    wire.expect_closed()


@statement("MQTT-3.1.4-3")
@statement3("MQTT-3.1.4-2")
def test_a_client_that_connects_again_supersedes_its_older_connection(join, version):
    client_id = unique("c")
    older, newer = join(version, client_id), join(version, client_id)
    older.expect_closed(Reason.SESSION_TAKEN_OVER)
    newer.ping()


@statement("MQTT-4.12.0-1", "MQTT-4.12.0-4", "MQTT-3.1.4-2", "MQTT-3.2.2-6", "MQTT-3.2.2-7")
def test_an_unknown_authentication_method_is_refused(dial):
    wire = dial()
    answer = wire.connect(properties={"authentication_method": "none-such"})
    assert answer.reason in (Reason.BAD_AUTHENTICATION_METHOD, Reason.NOT_AUTHORIZED)
    assert not answer.session_present
    wire.expect_closed()


@statement("MQTT-4.12.0-6", "MQTT-3.1.2-28")
def test_nothing_is_said_of_authentication_or_responses_unless_asked(join):
    for asked in ({}, {"request_response_information": 0}):
        properties = join(properties=asked).connack.properties
        assert not {"authentication_method", "authentication_data", "response_information"} & set(properties)


@statement("MQTT-4.12.0-7", "MQTT-4.12.1-2")
@pytest.mark.parametrize("reason", [Reason.CONTINUE_AUTHENTICATION, Reason.RE_AUTHENTICATE])
def test_an_auth_that_nobody_asked_for_ends_the_connection(join, reason):
    wire = join()
    wire.send(Auth(reason=reason, properties={"authentication_method": "none-such"}))
    wire.expect_closed(Reason.PROTOCOL_ERROR)


@statement("MQTT-3.2.2-19", "MQTT-3.2.2-20")
def test_a_connack_keeps_to_the_clients_maximum_packet_size(dial):
    wire = dial()
    wire.connect(properties={"authentication_method": "none-such", "maximum_packet_size": 30})
    assert wire.largest_bytes <= 30


def test_the_announced_limits_are_possible(join):
    announced = join().connack.properties
    assert announced.get("receive_maximum", 65_535) > 0
    assert announced.get("maximum_packet_size", 2**28) > 1000
    assert announced.get("maximum_qos", 2) == 2
    assert announced.get("retain_available", 1) == 1


@differs("has limits of its own")
def test_firelane_announces_its_limits(join):
    announced = join().connack.properties
    limits = ("receive_maximum", "maximum_packet_size", "topic_alias_maximum")
    assert [announced.get(limit) for limit in limits] == [100, 1_000_000, 100]
