"""Packets to bytes, one function per packet type (MQTT 5 and 3.1.1, section 3)."""

from __future__ import annotations

from firelane.mqtt.fields import binary, string, two_bytes, variable
from firelane.mqtt.packets import (
    V5,
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Kind,
    Packet,
    Ping,
    Publish,
    Suback,
    Subscribe,
    Unsubscribe,
)
from firelane.mqtt.properties import write_properties


def encode(packet: Packet, version: int) -> bytes:
    """The bytes of a packet in a protocol version."""
    match packet:
        case Publish():
            return _publish(packet, version)
        case Ack():
            flags = 2 if packet.kind is Kind.PUBREL else 0
            return _framed(packet.kind, _ack_body(packet, version), flags)
        case Ping():
            return bytes((packet.kind << 4, 0))
        case Connect():
            return _framed(Kind.CONNECT, _connect_body(packet))
        case Connack():
            body = bytes((packet.session_present, packet.reason)) + _properties(packet.properties, version)
            return _framed(Kind.CONNACK, body)
        case Subscribe() | Unsubscribe():
            return _subscriptions(packet, version)
        case Suback():
            reasons = b"" if packet.kind is Kind.UNSUBACK and version != V5 else bytes(packet.reasons)
            body = two_bytes(packet.packet_id) + _properties(packet.properties, version) + reasons
            return _framed(packet.kind, body)
        case Disconnect():
            return _framed(Kind.DISCONNECT, _reason_and_properties(packet, version))
        case Auth():
            return _framed(Kind.AUTH, _reason_and_properties(packet, version))


def _framed(kind: Kind, body: bytes, flags: int = 0) -> bytes:
    return bytes((kind << 4 | flags,)) + variable(len(body)) + body


def _properties(properties: dict[str, object], version: int) -> bytes:
    return write_properties(properties) if version == V5 else b""


def _publish(packet: Publish, version: int) -> bytes:
    flags = packet.duplicate << 3 | packet.qos << 1 | packet.retain
    packet_id = two_bytes(packet.packet_id) if packet.qos else b""
    body = string(packet.topic) + packet_id + _properties(packet.properties, version) + packet.payload
    return _framed(Kind.PUBLISH, body, flags)


def _ack_body(packet: Ack, version: int) -> bytes:
    """Success without properties is the packet identifier alone, in both versions."""
    body = two_bytes(packet.packet_id)
    if version == V5 and (packet.reason or packet.properties):
        body += bytes((packet.reason,)) + (write_properties(packet.properties) if packet.properties else b"")
    return body


def _reason_and_properties(packet: Disconnect | Auth, version: int) -> bytes:
    if version != V5 or not (packet.reason or packet.properties):
        return b""
    return bytes((packet.reason,)) + (write_properties(packet.properties) if packet.properties else b"")


def _connect_body(packet: Connect) -> bytes:
    will = packet.will
    flags = packet.clean_start << 1 | (packet.user is not None) << 7 | (packet.password is not None) << 6
    body = string(packet.client_id)
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
        body += _properties(will.properties, packet.version) + string(will.topic) + binary(will.payload)
    body += string(packet.user) if packet.user is not None else b""
    body += binary(packet.password) if packet.password is not None else b""
    head = string("MQTT") + bytes((packet.version, flags)) + two_bytes(packet.keep_alive_s)
    return head + _properties(packet.properties, packet.version) + body


def _subscriptions(packet: Subscribe | Unsubscribe, version: int) -> bytes:
    head = two_bytes(packet.packet_id) + _properties(packet.properties, version)
    if isinstance(packet, Unsubscribe):
        return _framed(Kind.UNSUBSCRIBE, head + b"".join(string(one) for one in packet.filters), 2)
    parts = []
    for one in packet.subscriptions:
        options = one.qos | one.no_local << 2 | one.retain_as_published << 3 | one.retain_handling << 4
        parts.append(string(one.filter) + bytes((options,)))
    return _framed(Kind.SUBSCRIBE, head + b"".join(parts), 2)
