"""MQTT over WebSocket (section 6): binary frames, cut anywhere, under the subprotocol mqtt."""

from __future__ import annotations

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Kind, Ping, Publish, Subscribe, Subscription
from live.conformance.statements import differs, statement, statement3
from live.wire import PATIENCE_S, unique


@pytest.fixture
def socket(broker):
    uri = f"ws://127.0.0.1:{broker.websocket_port}/mqtt"
    with connect(uri, subprotocols=["mqtt"], compression=None, open_timeout=PATIENCE_S) as socket:
        yield socket


def bytes_until(socket, ending):
    """What comes in binary frames, until it ends as expected."""
    arrived = b""
    while not arrived.endswith(ending):
        frame = socket.recv(timeout=PATIENCE_S)
        assert isinstance(frame, bytes)
        arrived += frame
    return arrived


def conversation(topic, version):
    packets = (
        Connect(client_id=unique("c"), version=version),
        Subscribe(packet_id=1, subscriptions=[Subscription(filter=topic)]),
        Publish(topic=topic, payload=b"through a web"),
        Ping(Kind.PINGREQ),
    )
    return b"".join(encode(packet, version) for packet in packets)


@statement("MQTT-6.0.0-4")
@statement3("MQTT-6.0.0-4")
def test_the_server_chooses_the_subprotocol_mqtt(socket):
    assert socket.subprotocol == "mqtt"


@statement("MQTT-6.0.0-1", "MQTT-6.0.0-2")
@statement3("MQTT-6.0.0-1", "MQTT-6.0.0-2")
@pytest.mark.parametrize("frame_bytes", [1, 7, 1000])
def test_packets_may_be_cut_into_frames_anywhere(socket, topic, version, frame_bytes):
    sent = conversation(topic, version)
    for start in range(0, len(sent), frame_bytes):
        socket.send(sent[start : start + frame_bytes])
    arrived = bytes_until(socket, encode(Ping(Kind.PINGRESP), version))
    assert arrived.startswith(b"\x20")  # CONNACK
    assert b"through a web" in arrived


@statement("MQTT-6.0.0-2")
@statement3("MQTT-6.0.0-2")
def test_a_message_may_be_cut_into_continued_frames(socket, topic):
    sent = conversation(topic, V5)
    socket.send([sent[:5], sent[5:30], sent[30:]])
    assert b"through a web" in bytes_until(socket, encode(Ping(Kind.PINGRESP), V5))


@differs("reads text frames too")
@statement("MQTT-6.0.0-1")
@statement3("MQTT-6.0.0-1")
def test_a_text_frame_ends_the_connection(socket, topic, version):
    socket.send(encode(Connect(client_id=unique("c"), version=version), version))
    assert socket.recv(timeout=PATIENCE_S).startswith(b"\x20")
    socket.send(encode(Publish(topic=topic, payload=b"text"), version).decode())
    with pytest.raises(ConnectionClosed):
        answer_to(socket, encode(Ping(Kind.PINGREQ), version))


def answer_to(socket, sent):
    socket.send(sent)
    return socket.recv(timeout=PATIENCE_S)
