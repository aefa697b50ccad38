"""Malformed packets and protocol errors (section 4.13; 4.8 in 3.1.1): they end the connection, and nothing else.

What is wrong with CONNECT is in test_connect.py, with names and filters in test_topics.py.
"""

from __future__ import annotations

import pytest

from firelane.mqtt import fields
from firelane.mqtt.packets import V3, V5, Disconnect, Kind, Publish
from firelane.mqtt.reasons import Reason
from live.conformance.statements import differs, statement, statement3

MALFORMED, ERROR = (Reason.MALFORMED_PACKET,), (Reason.PROTOCOL_ERROR,)
EITHER = MALFORMED + ERROR  # where the specification does not say which
NAME = (Reason.TOPIC_NAME_INVALID, *EITHER)
DISCONNECT_REASONS = {0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}


def both(what, first, body, reasons=MALFORMED, *marks):
    """A packet that is wrong in both versions; `P` stands for empty properties, which 3.1.1 does not have."""
    yield five(what, first, body.replace(b"P", b"\0"), reasons, *marks)
    yield three(what, first, body.replace(b"P", b""), *marks)


def five(what, first, body, reasons=MALFORMED, *marks):
    own = [mark for mark in marks if mark.name != "statement" or mark.args[0][0] == "5.0"]
    return pytest.param(V5, bytes((first,)) + fields.variable(len(body)) + body, reasons, marks=own, id=f"{what}-5")


def three(what, first, body, *marks):
    own = [mark for mark in marks if mark.name != "statement" or mark.args[0][0] == "3.1.1"]
    return pytest.param(V3, bytes((first,)) + fields.variable(len(body)) + body, (), marks=own, id=f"{what}-3.1.1")


FLAGS = (statement("MQTT-2.1.3-1"), statement3("MQTT-2.2.2-1", "MQTT-2.2.2-2"))
UTF8 = (statement("MQTT-1.5.4-1"), statement3("MQTT-1.5.3-1"))
NULL = (statement("MQTT-1.5.4-2"), statement3("MQTT-1.5.3-2"))
IDENTIFIER = (statement("MQTT-2.2.1-3"), statement3("MQTT-2.3.1-1"))

UNSEEN = differs("does not look at the flags of these packets")
IGNORED = differs("ignores packets that only servers send")
ACCEPTED = differs("accepts this property as it is")

PACKETS = [
    # reserved flags and types
    *both("PUBREL flags", 0x60, b"\0\1", MALFORMED, *FLAGS, statement("MQTT-3.6.1-1"), statement3("MQTT-3.6.1-1")),
    *both("SUBSCRIBE flags", 0x80, b"\0\1P\0\1a\0", MALFORMED, *FLAGS, statement("MQTT-3.8.1-1"),
          statement3("MQTT-3.8.1-1")),
    *both("UNSUBSCRIBE flags", 0xA0, b"\0\1P\0\1a", MALFORMED, *FLAGS, statement("MQTT-3.10.1-1"),
          statement3("MQTT-3.10.1-1")),
    *both("DISCONNECT flags", 0xE1, b"", MALFORMED, *FLAGS, statement("MQTT-3.14.1-1"), statement3("MQTT-3.14.1-1")),
    *both("PUBACK flags", 0x41, b"\0\1", MALFORMED, *FLAGS, UNSEEN),
    *both("PUBREC flags", 0x52, b"\0\1", MALFORMED, *FLAGS, UNSEEN),
    *both("PUBCOMP flags", 0x78, b"\0\1", MALFORMED, *FLAGS, UNSEEN),
    *both("PINGREQ flags", 0xC1, b"", MALFORMED, *FLAGS, UNSEEN),
    five("AUTH flags", 0xF1, b"\x18\4\x15\0\1x", MALFORMED, statement("MQTT-2.1.3-1", "MQTT-3.15.1-1")),
    *both("type 0", 0x00, b"", EITHER),
    three("type 15", 0xF0, b"", statement3("MQTT-4.8.0-1")),
    # packets that only a server sends
    *both("CONNACK", 0x20, b"\0\0P", EITHER),
    *both("SUBACK", 0x90, b"\0\1P\0", EITHER, IGNORED),
    *both("UNSUBACK", 0xB0, b"\0\1P", EITHER, IGNORED),
    *both("PINGRESP", 0xD0, b"", EITHER, IGNORED),
    # lengths
    *both("PUBLISH cut short", 0x30, b"\0\5ab"),
    *both("PUBLISH without identifier", 0x32, b"\0\1a"),
    *both("PUBACK cut short", 0x40, b"\0"),
    *both("SUBSCRIBE cut short", 0x82, b"\0\1P\0\1a"),
    *both("SUBSCRIBE filter cut short", 0x82, b"\0\1P\0\5a\0"),
    *both("UNSUBSCRIBE cut short", 0xA2, b"\0\1P\0\5a"),
    *both("PINGREQ with a body", 0xC0, b"x", MALFORMED, differs("ignores the body of PINGREQ")),
    five("properties longer than the packet", 0x30, b"\0\1a\x09\1\1"),
    five("property cut short", 0x30, b"\0\1a\2\2\0"),
    # PUBLISH
    *both("QoS 3", 0x36, b"\0\1a\0\1Px", MALFORMED, statement("MQTT-3.3.1-4"), statement3("MQTT-3.3.1-4")),
    *both("DUP at QoS 0", 0x38, b"\0\1aP", EITHER, statement("MQTT-3.3.1-2"), statement3("MQTT-3.3.1-2"),
          differs("ignores DUP at QoS 0")),
    *both("PUBLISH identifier 0", 0x32, b"\0\1a\0\0P", EITHER, *IDENTIFIER),
    *both("name not UTF-8", 0x30, b"\0\2\xc3(P", MALFORMED, *UTF8, statement("MQTT-3.3.2-1"),
          statement3("MQTT-3.3.2-1")),
    *both("name with a surrogate", 0x30, b"\0\3\xed\xa0\x80P", MALFORMED, *UTF8),
    *both("name of overlong UTF-8", 0x30, b"\0\2\xc1\x81P", MALFORMED, *UTF8),
    *both("name with null", 0x30, b"\0\2a\0P", MALFORMED, *NULL, statement("MQTT-4.7.3-2"), statement3("MQTT-4.7.3-2")),
    five("subscription identifier in PUBLISH", 0x30, b"\0\1a\2\x0b\1", ERROR, statement("MQTT-3.3.4-6"), ACCEPTED),
    five("payload format 2", 0x30, b"\0\1a\2\1\2", EITHER, ACCEPTED),
    five("response topic not UTF-8", 0x30, b"\0\1a\4\x08\0\1\xff", MALFORMED, statement("MQTT-3.3.2-13")),
    five("response topic with wildcard", 0x30, b"\0\1a\4\x08\0\1#", NAME, statement("MQTT-3.3.2-14"), ACCEPTED),
    five("content type not UTF-8", 0x30, b"\0\1a\4\x03\0\1\xff", MALFORMED, statement("MQTT-3.3.2-19")),
    five("user property not UTF-8", 0x30, b"\0\1a\x07\x26\0\1a\0\1\xff", MALFORMED, statement("MQTT-1.5.7-1")),
    five("user property with null", 0x30, b"\0\1a\x07\x26\0\1\0\0\1a", MALFORMED, statement("MQTT-1.5.7-1")),
    five("a property twice", 0x30, b"\0\1a\4\1\1\1\1", ERROR),
    five("a property of CONNECT", 0x30, b"\0\1a\3\x21\0\1"),
    five("an unknown property", 0x30, b"\0\1a\2\x7f\1"),
    five("property length too long", 0x30, b"\0\1a\x80\x80\x80\x80\1"),
    # SUBSCRIBE
    *both("SUBSCRIBE identifier 0", 0x82, b"\0\0P\0\1a\0", EITHER, *IDENTIFIER),
    *both("SUBSCRIBE without filter", 0x82, b"\0\1P", ERROR, statement("MQTT-3.8.3-2"), statement3("MQTT-3.8.3-3")),
    *both("SUBSCRIBE QoS 3", 0x82, b"\0\1P\0\1a\3", ERROR, statement3("MQTT-3-8.3-4")),
    *both("SUBSCRIBE reserved bits", 0x82, b"\0\1P\0\1a\xc0", MALFORMED, statement("MQTT-3.8.3-5"),
          statement3("MQTT-3-8.3-4")),
    three("SUBSCRIBE options of MQTT 5", 0x82, b"\0\1\0\1a\4", statement3("MQTT-3-8.3-4")),
    five("retain handling 3", 0x82, b"\0\1\0\0\1a\x30", ERROR),
    *both("filter not UTF-8", 0x82, b"\0\1P\0\2\xc3(\0", MALFORMED, *UTF8, statement("MQTT-3.8.3-1"),
          statement3("MQTT-3.8.3-1")),
    *both("filter with null", 0x82, b"\0\1P\0\2a\0\0", MALFORMED, *NULL, statement("MQTT-4.7.3-2"),
          statement3("MQTT-4.7.3-2")),
    five("subscription identifier 0", 0x82, b"\0\1\2\x0b\0\0\1a\0", ERROR),
    five("two subscription identifiers", 0x82, b"\0\1\4\x0b\1\x0b\2\0\1a\0", ERROR),
    five("SUBSCRIBE with a property of PUBLISH", 0x82, b"\0\1\2\1\1\0\1a\0"),
    # UNSUBSCRIBE
    *both("UNSUBSCRIBE identifier 0", 0xA2, b"\0\0P\0\1a", EITHER, *IDENTIFIER),
    *both("UNSUBSCRIBE without filter", 0xA2, b"\0\1P", ERROR, statement("MQTT-3.10.3-2"), statement3("MQTT-3.10.3-2")),
    *both("UNSUBSCRIBE filter not UTF-8", 0xA2, b"\0\1P\0\2\xc3(", MALFORMED, *UTF8, statement("MQTT-3.10.3-1"),
          statement3("MQTT-3.10.3-1")),
    # acknowledgements and the rest
    *both("PUBREL identifier 0", 0x62, b"\0\0", EITHER),
    five("PUBACK with a property of PUBLISH", 0x40, b"\0\1\0\2\1\1"),
    five("reason string twice", 0x40, b"\0\1\0\x08\x1f\0\1a\x1f\0\1b", ERROR),
    three("DISCONNECT with a body", 0xE0, b"\0"),
    five("DISCONNECT with a property of PUBLISH", 0xE0, b"\0\2\1\1"),
]  # fmt: skip


@statement("MQTT-4.13.1-1", "MQTT-4.13.2-1", "MQTT-3.14.4-2", "MQTT-3.14.2-1", "MQTT-3.14.2-2")
@statement3("MQTT-4.8.0-1")
@pytest.mark.parametrize(("version", "raw", "reasons"), PACKETS)
def test_a_wrong_packet_ends_the_connection(join, version, raw, reasons):
    wire = join(version)
    wire.send_raw(raw)
    wire.expect_closed(*reasons)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x80"])
def test_a_remaining_length_of_five_bytes_ends_the_connection(join, version, length):
    wire = join(version)
    wire.send_raw(b"\x30" + length)
    wire.expect_closed(Reason.MALFORMED_PACKET, Reason.PACKET_TOO_LARGE)


@statement("MQTT-3.14.4-1", "MQTT-3.14.4-2", "MQTT-3.14.2-1", "MQTT-3.14.2-2")
def test_the_server_says_why_and_then_nothing_more(join, topic):
    wire, publisher = join(), join()
    wire.subscribe(topic)
    wire.send_raw(b"\x36\x07\0\1a\0\1\0x")
    for _ in range(10):
        publisher.publish(topic)
    goodbye = wire.expect(Kind.DISCONNECT)
    assert goodbye.reason in DISCONNECT_REASONS
    assert "session_expiry_interval" not in goodbye.properties
    assert wire.receive() is None


@statement("MQTT-4.13.2-1")
def test_the_errors_of_one_client_are_of_no_consequence_to_others(join, topic, version):
    one, other = join(version), join(version)
    other.subscribe(topic)
    one.publish(topic, b"before")
    one.send_raw(b"\x36\x07\0\1a\0\1\0x")
    one.expect_closed(Reason.MALFORMED_PACKET)
    assert other.take().payload == b"before"
    other.ping()


@statement("MQTT-3.14.4-2", "MQTT-3.14.4-1")
@statement3("MQTT-3.14.4-1", "MQTT-3.14.4-2")
def test_after_a_disconnect_the_connection_is_closed_and_nothing_more_is_read(join, topic, version):
    wire, observer = join(version), join(version)
    observer.subscribe(topic)
    wire.send(Disconnect())
    wire.send(Publish(topic=topic, payload=b"too late"))
    wire.expect_closed()
    observer.expect_nothing()


@statement("MQTT-3.14.2-1")
@pytest.mark.parametrize("reason", [0x01, 0x7F])
def test_a_disconnect_with_an_unknown_reason_closes_the_connection_all_the_same(join, reason):
    wire = join()
    wire.send(Disconnect(reason=reason))
    packet = wire.receive()
    assert packet is None or packet.reason in EITHER
