"""The codec against itself (round trips), against an independent one (the mqtt5 package), and against abuse."""

from __future__ import annotations

import contextlib

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.fields import Reader, variable
from firelane.mqtt.packets import (
    V3,
    V5,
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Kind,
    Ping,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from firelane.mqtt.properties import MOST_REPEATED, TABLE, WILL, _read_one, user_properties
from firelane.mqtt.reasons import REASONS, PacketError, Reason

MOST = 268_435_460
text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
topics = st.text(st.characters(exclude_characters="\0+#", exclude_categories=["Cs"]), min_size=1, max_size=12)
filters = st.one_of(topics.filter(lambda t: not t.startswith("$share/")), st.sampled_from(["#", "a/+/b", "+", "a/#"]))
ids = st.integers(1, 65_535)
binary = st.binary(max_size=40)


def values(one):
    """Legal values of a property."""
    if one.name == "user_property":
        return st.lists(st.tuples(text, text), min_size=1, max_size=3)
    if one.name == "subscription_identifier":
        return st.lists(st.integers(1, 268_435_455), min_size=1, max_size=1)
    if one.name == "response_topic":
        return topics
    if one.read.__name__ == "string":
        return text
    if one.read.__name__ == "binary":
        return binary
    sizes = {"byte": 255, "two_bytes": 65_535, "four_bytes": 2**32 - 1}
    return st.integers(one.least, one.most if one.most is not None else sizes[one.read.__name__])


def properties(where, *, without=()):
    optional = {one.name: values(one) for one in TABLE if where in one.where and one.name not in without}
    return st.fixed_dictionaries({}, optional=optional)


def with_properties(version, where, **how):
    return properties(where, **how) if version == V5 else st.just({})


@st.composite
def packets(draw, version):
    kind = draw(st.sampled_from([k for k in Kind if version == V5 or k is not Kind.AUTH]))
    fit = draw(with_properties(version, kind, without=("authentication_data",)))
    match kind:
        case Kind.CONNECT:
            will = None
            if draw(st.booleans()):
                will = Will(topic=draw(topics), payload=draw(binary), qos=draw(st.integers(0, 2)),
                            retain=draw(st.booleans()), properties=draw(with_properties(version, WILL)))  # fmt: skip
            user = draw(st.none() | text)
            password = draw(st.none() | binary) if user is not None or version == V5 else None
            return Connect(client_id=draw(text), version=version, clean_start=draw(st.booleans()), user=user,
                           keep_alive_s=draw(st.integers(0, 65_535)), password=password, will=will,
                           properties=fit)  # fmt: skip
        case Kind.CONNACK:
            return Connack(session_present=draw(st.booleans()), reason=draw(st.integers(0, 255)), properties=fit)
        case Kind.PUBLISH:
            qos = draw(st.integers(0, 2))
            return Publish(topic=draw(topics), payload=draw(binary), qos=qos, retain=draw(st.booleans()),
                           duplicate=bool(qos) and draw(st.booleans()), packet_id=draw(ids) if qos else 0,
                           properties=fit)  # fmt: skip
        case Kind.PUBACK | Kind.PUBREC | Kind.PUBREL | Kind.PUBCOMP:
            reason = draw(st.sampled_from(sorted(REASONS[kind]))) if version == V5 else 0
            return Ack(kind=kind, packet_id=draw(ids), reason=reason, properties=fit)
        case Kind.SUBSCRIBE:
            five = version == V5
            return Subscribe(packet_id=draw(ids), properties=fit, subscriptions=draw(st.lists(st.builds(
                Subscription, filter=filters, qos=st.integers(0, 2),
                no_local=st.booleans() if five else st.just(False),
                retain_as_published=st.booleans() if five else st.just(False),
                retain_handling=st.integers(0, 2) if five else st.just(0)), min_size=1, max_size=4)))  # fmt: skip
        case Kind.UNSUBSCRIBE:
            return Unsubscribe(packet_id=draw(ids), filters=draw(st.lists(filters, min_size=1, max_size=4)),
                               properties=fit)  # fmt: skip
        case Kind.SUBACK | Kind.UNSUBACK:
            empty = kind is Kind.UNSUBACK and version == V3
            reasons = [] if empty else draw(st.lists(st.integers(0, 255), min_size=1, max_size=4))
            return Suback(kind=kind, packet_id=draw(ids), reasons=reasons, properties=fit)
        case Kind.PINGREQ | Kind.PINGRESP:
            return Ping(kind)
        case Kind.DISCONNECT:
            reason = draw(st.sampled_from(sorted(REASONS[kind]))) if version == V5 else 0
            return Disconnect(reason=reason, properties=fit)
        case Kind.AUTH:
            return Auth(reason=draw(st.sampled_from(sorted(REASONS[kind]))), properties=fit)


def parsed(raw: bytes, version: int):
    start, end = frame(raw, 0, MOST)
    assert end == len(raw)
    return decode(raw[0], raw[start:end], version)


@pytest.mark.parametrize("version", [V3, V5])
@given(data=st.data())
def test_what_is_written_is_read_back(version, data):
    packet = data.draw(packets(version))
    assert parsed(encode(packet, version), version) == packet


odd_strings = st.sampled_from([b"", b"a", "ä".encode(), b"\0", b"a\0b", b"\xff"])


@st.composite
def almost_user_properties(draw):
    """Some, with good and bad strings, perhaps cut short, perhaps with others behind."""
    strings = [(draw(odd_strings), draw(odd_strings)) for _ in range(draw(st.integers(0, 3)))]
    pairs = [b"\x26" + b"".join(len(one).to_bytes(2, "big") + one for one in pair) for pair in strings]
    data = b"".join(pairs) + draw(st.sampled_from([b"", b"\x01\x01", b"\x26", b"\x0b\x00"]))
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@given(almost_user_properties() | binary)
def test_user_properties_read_in_one_go_are_those_read_one_by_one(data):
    pairs = user_properties(data, 0, len(data))
    reader, found = Reader(data), {}
    try:
        while reader.at < reader.end:
            _read_one(reader, Kind.PUBLISH, found)
    except PacketError:
        assert pairs is None
    else:
        only = found.keys() <= {"user_property"}
        assert pairs == (found.get("user_property", []) if only else None)


class Watched(bytes):
    """Remembers how far it was read."""

    furthest = 0

    def __getitem__(self, key):
        self.furthest = max(self.furthest, key.start if isinstance(key, slice) else key)
        return super().__getitem__(key)


def test_no_more_user_properties_are_read_than_a_packet_may_have():
    one = b"\x26\0\0\0\0"
    most = one * MOST_REPEATED
    assert len(user_properties(most, 0, len(most))) == MOST_REPEATED
    many = Watched(one * 100 * MOST_REPEATED)
    assert user_properties(many, 0, len(many)) is None
    assert many.furthest <= len(most) + len(one)
    with pytest.raises(PacketError) as refused:
        decode(0x30, b"\0\1a" + variable(len(many)) + many, V5)
    assert refused.value.reason is Reason.QUOTA_EXCEEDED


@given(packets(V5))
def test_an_independent_codec_reads_the_same_publish_and_subscribe(packet):
    raw = encode(packet, V5)
    if isinstance(packet, Publish):
        other, length = mqtt5.read(bytearray(raw))
        assert length == len(raw)
        assert (other.topic, other.payload, other.qos, other.retain, other.duplicate) == (
            packet.topic, packet.payload, packet.qos, packet.retain, packet.duplicate)  # fmt: skip
        assert other.user_properties == packet.properties.get("user_property", [])
        assert other.message_expiry_interval == packet.properties.get("message_expiry_interval")
        assert other.correlation_data == packet.properties.get("correlation_data")
        assert other.packet_id == (packet.packet_id or None)
    if isinstance(packet, Subscribe):
        other, _ = mqtt5.read(bytearray(raw))
        assert [one.pattern for one in other.topic_filters] == [one.filter for one in packet.subscriptions]
        assert [one.no_local for one in other.topic_filters] == [one.no_local for one in packet.subscriptions]


@given(st.integers(0, 255), st.binary(max_size=60), st.sampled_from([V3, V5]))
def test_any_bytes_are_a_packet_or_a_packet_error(first, body, version):
    with contextlib.suppress(PacketError):
        decode(first, body, version)


@pytest.mark.parametrize("version", [V3, V5])
@given(data=st.data())
def test_a_packet_cut_short_or_with_a_flipped_bit_never_crashes(version, data):
    raw = bytearray(encode(data.draw(packets(version)), version))
    start, end = frame(raw, 0, MOST)
    body = bytearray(raw[start:end])
    if body:
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] ^= 1 << data.draw(st.integers(0, 7))
        body = body[: data.draw(st.integers(0, len(body)))]
    with contextlib.suppress(PacketError):
        decode(raw[0], bytes(body), version)


BAD = [
    # (what, first byte, body, version, reason), each a normative statement of the specification
    ("type 0", 0x00, b"", V5, Reason.MALFORMED_PACKET),
    ("AUTH in 3.1.1", 0xF0, b"", V3, Reason.MALFORMED_PACKET),
    ("PUBLISH with QoS 3 [3.3.1-4]", 0x36, b"\0\1a\0\1\0", V5, Reason.MALFORMED_PACKET),
    ("DUP with QoS 0 [3.3.1-2]", 0x38, b"\0\1a\0", V5, Reason.MALFORMED_PACKET),
    ("wildcard in a topic name [3.3.2-2]", 0x30, b"\0\1#\0", V5, Reason.TOPIC_NAME_INVALID),
    ("empty topic without alias [3.3.2.1]", 0x30, b"\0\0\0", V5, Reason.PROTOCOL_ERROR),
    ("packet identifier 0 [2.2.1-3]", 0x32, b"\0\1a\0\0\0", V5, Reason.PROTOCOL_ERROR),
    ("topic alias 0 [3.3.2-8]", 0x30, b"\0\1a\3\x23\0\0", V5, Reason.TOPIC_ALIAS_INVALID),
    ("null character [1.5.4-2]", 0x30, b"\0\1\0\0", V5, Reason.MALFORMED_PACKET),
    ("bad UTF-8 [1.5.4-1]", 0x30, b"\0\2\xc3\x28\0", V5, Reason.MALFORMED_PACKET),
    ("surrogate in UTF-8 [1.5.4-1]", 0x30, b"\0\3\xed\xa0\x80\0", V5, Reason.MALFORMED_PACKET),
    ("a property of another packet", 0x30, b"\0\1a\5\x11\0\0\0\1", V5, Reason.MALFORMED_PACKET),
    ("a property twice", 0x30, b"\0\1a\4\x01\0\x01\0", V5, Reason.PROTOCOL_ERROR),
    ("payload format 2", 0x30, b"\0\1a\2\x01\2", V5, Reason.PROTOCOL_ERROR),
    ("SUBSCRIBE without filter [3.8.3-2]", 0x82, b"\0\1\0", V5, Reason.PROTOCOL_ERROR),
    ("SUBSCRIBE with wrong flags [3.8.1-1]", 0x80, b"\0\1\0\0\1a\0", V5, Reason.MALFORMED_PACKET),
    ("reserved options [3.8.3-5]", 0x82, b"\0\1\0\0\1a\xc0", V5, Reason.MALFORMED_PACKET),
    ("v5 options in 3.1.1 [3-8.3-4]", 0x82, b"\0\1\0\1a\4", V3, Reason.MALFORMED_PACKET),
    ("retain handling 3", 0x82, b"\0\1\0\0\1a\x30", V5, Reason.PROTOCOL_ERROR),
    ("no local on shared [3.8.3-4]", 0x82, b"\0\1\0\0\x0a$share/g/a\4", V5, Reason.PROTOCOL_ERROR),
    ("shared without filter [4.8.2-1]", 0x82, b"\0\1\0\0\x08$share/g\0", V5, Reason.TOPIC_FILTER_INVALID),
    ("# in the middle [4.7.1-1]", 0x82, b"\0\1\0\0\3#/a\0", V5, Reason.TOPIC_FILTER_INVALID),
    ("UNSUBSCRIBE without filter [3.10.3-2]", 0xA2, b"\0\1\0", V5, Reason.PROTOCOL_ERROR),
    ("CONNECT of version 3", 0x10, b"\0\6MQIsdp\3\2\0\0\0\1a", V5, Reason.UNSUPPORTED_PROTOCOL_VERSION),
    ("CONNECT with reserved flag [3.1.2-3]", 0x10, b"\0\4MQTT\5\3\0\0\0\0\1a", V5, Reason.MALFORMED_PACKET),
    ("will QoS without will [3.1.2-11]", 0x10, b"\0\4MQTT\5\x0a\0\0\0\0\1a", V5, Reason.MALFORMED_PACKET),
    ("password without user in 3.1.1 [3.1.2-22]", 0x10, b"\0\4MQTT\4\x42\0\0\0\1a\0\1p", V3, Reason.MALFORMED_PACKET),
    ("receive maximum 0 [3.1.2.11.3]", 0x10, b"\0\4MQTT\5\2\0\0\3\x21\0\0\0\1a", V5, Reason.PROTOCOL_ERROR),
    ("bytes after CONNECT", 0x10, b"\0\4MQTT\4\2\0\0\0\1ax", V3, Reason.MALFORMED_PACKET),
    ("PUBACK with a reason of SUBACK [3.4.2-1]", 0x40, b"\0\1\x11", V5, Reason.PROTOCOL_ERROR),
    ("DISCONNECT with a reason of CONNACK [3.14.2-1]", 0xE0, b"\x85", V5, Reason.PROTOCOL_ERROR),
    ("thousands of user properties", 0x30, b"\0\1a\xfb\x36" + b"\x26\0\1a\0\1b" * 1005, V5, Reason.QUOTA_EXCEEDED),
    ("thousands of filters", 0x82, b"\0\1\0" + b"\0\1a\0" * 10_001, V5, Reason.QUOTA_EXCEEDED),
    ("PINGREQ with a body", 0xC0, b"x", V5, Reason.MALFORMED_PACKET),
]  # fmt: skip


@pytest.mark.parametrize(("first", "body", "version", "reason"), [one[1:] for one in BAD], ids=[one[0] for one in BAD])
def test_a_forbidden_packet_is_refused_with_the_right_reason(first, body, version, reason):
    with pytest.raises(PacketError) as caught:
        decode(first, body, version)
    assert caught.value.reason is reason


def test_frames_wait_for_their_length_and_refuse_what_is_too_long():
    assert frame(b"\x30", 0, MOST) is None
    assert frame(b"\x30\x80", 0, MOST) is None
    assert frame(b"\x30\x80\x01", 0, MOST) == (3, 131)
    assert frame(b"xx\x30\x02ab", 2, MOST) == (4, 6)
    with pytest.raises(PacketError) as caught:
        frame(b"\x30\xff\xff\xff\xff\x01", 0, MOST)
    assert caught.value.reason is Reason.MALFORMED_PACKET
    with pytest.raises(PacketError) as caught:
        frame(b"\x30\x80\x00", 0, MOST)  # 0 in two bytes [1.5.5-1]
    assert caught.value.reason is Reason.MALFORMED_PACKET
    with pytest.raises(PacketError) as caught:
        frame(b"\x30\xff\x01", 0, 100)
    assert caught.value.reason is Reason.PACKET_TOO_LARGE
