"""MQTT-SN's codec against bytes written by hand from the specification, an independent one (scapy's), and abuse."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib import mqttsn as scapy

from firelane.mqtt.reasons import PacketError
from firelane.mqtt.sn.decode import decode
from firelane.mqtt.sn.encode import PUBLISH_BYTES, REGISTER_BYTES, encode, framed_bytes
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Advertise,
    Answer,
    Connect,
    Disconnect,
    GatewayInfo,
    Kind,
    PingRequest,
    Plain,
    Publish,
    Register,
    SearchGateway,
    Step,
    Suback,
    Subscribe,
    TopicKind,
    WillMessage,
    WillTopic,
    is_short,
)

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300)
some_text = text.filter(bool)
short = st.one_of(st.text("abc/", min_size=2, max_size=2), st.just("é"))
number, byte = st.integers(0, 65_535), st.integers(0, 255)
payload = st.one_of(st.binary(max_size=300), st.just(bytes(2000)))
qos, flag = st.integers(0, 2), st.booleans()


def publishing(kind, topic):
    fields = {"qos": st.integers(-1, 2), "retain": flag, "duplicate": flag, "message_id": number, "payload": payload}
    return st.builds(Publish, topic_kind=st.just(kind), topic=topic, **fields)


def subscribing(kind, topic):
    common = {"topic_kind": st.just(kind), "topic": topic, "message_id": number}
    wanted = st.builds(Subscribe, kind=st.just(Kind.SUBSCRIBE), qos=qos, duplicate=flag, **common)
    return st.one_of(wanted, st.builds(Subscribe, kind=st.just(Kind.UNSUBSCRIBE), **common))


messages = st.one_of(
    st.builds(Advertise, gateway_id=byte, duration_s=number),
    st.builds(SearchGateway, radius=byte),
    st.builds(GatewayInfo, gateway_id=byte, address=st.binary(max_size=10)),
    st.builds(Connect, client_id=text, duration_s=number, clean_session=flag, will=flag, protocol_id=byte),
    st.builds(Answer, kind=st.sampled_from([Kind.CONNACK, Kind.WILLTOPICRESP, Kind.WILLMSGRESP]), return_code=byte),
    st.builds(Plain, kind=st.sampled_from([Kind.WILLTOPICREQ, Kind.WILLMSGREQ, Kind.PINGRESP])),
    st.builds(
        WillTopic, kind=st.sampled_from([Kind.WILLTOPIC, Kind.WILLTOPICUPD]), topic=some_text, qos=qos, retain=flag
    ),
    st.builds(WillTopic, kind=st.sampled_from([Kind.WILLTOPIC, Kind.WILLTOPICUPD])),
    st.builds(WillMessage, kind=st.sampled_from([Kind.WILLMSG, Kind.WILLMSGUPD]), payload=payload),
    st.builds(Register, topic_id=number, message_id=number, topic=text),
    st.builds(
        Acknowledged,
        kind=st.sampled_from([Kind.REGACK, Kind.PUBACK]),
        topic_id=number,
        message_id=number,
        return_code=byte,
    ),
    publishing(TopicKind.NORMAL, number),
    publishing(TopicKind.PREDEFINED, number),
    publishing(TopicKind.SHORT, short),
    st.builds(Step, kind=st.sampled_from([Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP, Kind.UNSUBACK]), message_id=number),
    subscribing(TopicKind.NORMAL, text),
    subscribing(TopicKind.PREDEFINED, number),
    subscribing(TopicKind.SHORT, short),
    st.builds(Suback, message_id=number, topic_id=number, qos=qos, return_code=byte),
    st.builds(PingRequest, client_id=text),
    st.builds(Disconnect, duration_s=st.none() | number),
)

# By hand, from the tables of section 5.4; the section of each is beside it.
VECTORS = [
    (Advertise(gateway_id=7, duration_s=900), "05 00 07 03 84"),  # 5.4.1
    (SearchGateway(radius=1), "03 01 01"),  # 5.4.2
    (GatewayInfo(gateway_id=7), "03 02 07"),  # 5.4.3
    (Connect(client_id="ab", duration_s=60), "08 04 04 01 00 3c 61 62"),  # 5.4.4: clean session is bit 2
    (Connect(client_id="ab", duration_s=60, clean_session=False, will=True), "08 04 08 01 00 3c 61 62"),
    (Answer(kind=Kind.CONNACK, return_code=1), "03 05 01"),  # 5.4.5
    (Plain(kind=Kind.WILLTOPICREQ), "02 06"),  # 5.4.6
    (WillTopic(kind=Kind.WILLTOPIC, topic="w", qos=1, retain=True), "04 07 30 77"),  # 5.4.7
    (WillTopic(kind=Kind.WILLTOPIC), "02 07"),  # an empty one deletes the will
    (Plain(kind=Kind.WILLMSGREQ), "02 08"),  # 5.4.8
    (WillMessage(kind=Kind.WILLMSG, payload=b"x"), "03 09 78"),  # 5.4.9
    (Register(topic_id=0, message_id=1, topic="a/b"), "09 0a 00 00 00 01 61 2f 62"),  # 5.4.10
    (Acknowledged(kind=Kind.REGACK, topic_id=5, message_id=1, return_code=2), "07 0b 00 05 00 01 02"),  # 5.4.11
    (Publish(topic=5, payload=b"hi", qos=1, message_id=9, duplicate=True), "09 0c a0 00 05 00 09 68 69"),  # 5.4.12
    (Publish(topic="ab", topic_kind=TopicKind.SHORT, payload=b"", retain=True), "07 0c 12 61 62 00 00"),
    (Publish(topic=1, topic_kind=TopicKind.PREDEFINED, payload=b"", qos=-1), "07 0c 61 00 01 00 00"),
    (Acknowledged(kind=Kind.PUBACK, topic_id=5, message_id=9), "07 0d 00 05 00 09 00"),  # 5.4.13
    (Step(kind=Kind.PUBCOMP, message_id=9), "04 0e 00 09"),  # 5.4.14
    (Step(kind=Kind.PUBREC, message_id=9), "04 0f 00 09"),
    (Step(kind=Kind.PUBREL, message_id=9), "04 10 00 09"),
    (Subscribe(kind=Kind.SUBSCRIBE, message_id=3, topic="a/#", qos=2), "08 12 40 00 03 61 2f 23"),  # 5.4.15
    (
        Subscribe(kind=Kind.SUBSCRIBE, message_id=3, topic=1, topic_kind=TopicKind.PREDEFINED, duplicate=True),
        "07 12 81 00 03 00 01",
    ),
    (Suback(message_id=3, topic_id=6, qos=2), "08 13 40 00 06 00 03 00"),  # 5.4.16
    (
        Subscribe(kind=Kind.UNSUBSCRIBE, message_id=4, topic="ab", topic_kind=TopicKind.SHORT),
        "07 14 02 00 04 61 62",  # 5.4.17
    ),
    (Step(kind=Kind.UNSUBACK, message_id=4), "04 15 00 04"),  # 5.4.18
    (PingRequest(), "02 16"),  # 5.4.19
    (PingRequest(client_id="ab"), "04 16 61 62"),
    (Plain(kind=Kind.PINGRESP), "02 17"),  # 5.4.20
    (Disconnect(), "02 18"),  # 5.4.21
    (Disconnect(duration_s=300), "04 18 01 2c"),
    (WillTopic(kind=Kind.WILLTOPICUPD, topic="w"), "04 1a 00 77"),  # 5.4.22
    (WillMessage(kind=Kind.WILLMSGUPD, payload=b"y"), "03 1c 79"),  # 5.4.23
    (Answer(kind=Kind.WILLTOPICRESP), "03 1b 00"),  # 5.4.24
    (Answer(kind=Kind.WILLMSGRESP, return_code=3), "03 1d 03"),  # 5.4.25
]


@pytest.mark.parametrize(("message", "wire"), VECTORS, ids=lambda one: one if isinstance(one, str) else "")
def test_bytes_are_those_of_the_specification(message, wire):
    assert encode(message) == bytes.fromhex(wire)
    assert decode(bytes.fromhex(wire)) == message


def test_every_kind_has_a_vector():
    assert {bytes.fromhex(wire)[1] for _, wire in VECTORS} == set(Kind)


@given(messages)
def test_what_was_written_is_read(message):
    assert decode(encode(message)) == message


@given(messages)
def test_scapy_reads_what_was_written_and_writes_it_again(message):
    """Its dissector takes the message apart into fields, and its fields put together anew make the same bytes."""
    wire = encode(message)
    taken_apart = scapy.MQTTSN(wire)
    assert (taken_apart.type, taken_apart.len) == (wire[3 if wire[0] == 1 else 1], len(wire))
    body = taken_apart.payload
    if len(wire) == 2:  # scapy builds no message without a body
        assert not body
        return
    anew = scapy.MQTTSN(type=taken_apart.type) / type(body)(**body.fields)
    assert bytes(anew) == wire


@given(publishing(TopicKind.NORMAL, number))
def test_scapy_sees_the_same_fields_in_a_publication(message):
    seen = scapy.MQTTSN(encode(message))[scapy.MQTTSNPublish]
    assert (seen.tid, seen.mid, seen.data) == (message.topic, message.message_id, message.payload)
    assert (seen.qos, seen.retain, seen.dup) == (message.qos % 4, message.retain, message.duplicate)


@given(some_text, number, flag, flag)
def test_scapy_sees_the_same_fields_in_connect(client_id, duration_s, clean, will):
    message = Connect(client_id=client_id, duration_s=duration_s, clean_session=clean, will=will)
    seen = scapy.MQTTSN(encode(message))[scapy.MQTTSNConnect]
    assert (seen.client_id.decode(), seen.duration, seen.prot_id) == (client_id, duration_s, 1)
    assert (seen.cleansess, seen.will) == (clean, will)


def test_the_length_takes_three_bytes_from_256_on():
    longest_short, shortest_long = (encode(Publish(topic=1, payload=bytes(size))) for size in (248, 249))
    assert (longest_short[0], len(longest_short)) == (255, 255)
    assert (shortest_long[:3], len(shortest_long)) == (b"\1\1\2", 258)


def test_a_long_length_is_read_also_where_a_short_one_would_do():
    assert decode(bytes.fromhex("01 00 04 17")) == Plain(kind=Kind.PINGRESP)


@given(st.integers(0, 600))
def test_how_long_a_message_will_be_is_known_beforehand(size):
    assert len(encode(Publish(topic=1, payload=bytes(size)))) == framed_bytes(PUBLISH_BYTES, size)
    assert len(encode(Register(topic_id=1, message_id=1, topic="t" * size))) == framed_bytes(REGISTER_BYTES, size)


def test_what_does_not_fit_a_datagram_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        encode(Publish(topic=1, payload=bytes(65_530)))
    with pytest.raises(ValueError, match="short topic name"):
        encode(Publish(topic="abc", topic_kind=TopicKind.SHORT, payload=b""))


@pytest.mark.parametrize(
    "wire",
    [
        "",
        "02",
        "03 17",  # shorter than it says
        "02 17 00",  # longer than it says
        "03 17 00",  # PINGRESP has no body
        "01 00 05 17",  # the same in the long form
        "01 00",
        "00 17",
        "02 03",  # reserved
        "02 fe",  # forwarder encapsulation, which is between forwarders and gateways
        "04 04 04 01",  # CONNECT that ends in its duration
        "07 0c 03 00 01 00 00",  # topic id type 3
        "07 12 60 00 03 61 62",  # SUBSCRIBE with QoS -1
        "07 12 01 00 03 01 02 03",
        "08 04 04 01 00 3c ff fe",  # a client id that is not UTF-8
        "08 04 04 01 00 3c 61 00",  # or has a null character
        "04 0f 00",
        "07 0c 02 ff ff 00 00",  # a short name that is not UTF-8
    ],
)
def test_what_breaks_the_format_is_a_packet_error(wire):
    with pytest.raises(PacketError):
        decode(bytes.fromhex(wire))


@given(
    st.one_of(st.binary(max_size=80), st.builds(lambda body: bytes((len(body) + 1,)) + body, st.binary(max_size=60)))
)
def test_random_bytes_are_a_message_or_a_packet_error(datagram):
    with contextlib.suppress(PacketError):
        decode(datagram)


@given(messages, st.data())
def test_a_message_with_a_byte_changed_is_a_message_or_a_packet_error(message, data):
    wire = bytearray(encode(message))
    wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(byte)
    with contextlib.suppress(PacketError):
        decode(bytes(wire))


def test_a_name_of_two_bytes_is_short():
    assert [is_short(name) for name in ("ab", "é", "a", "abc", "éa", "")] == [True, True, False, False, False, False]
