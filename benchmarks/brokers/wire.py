"""The packets of the load, encoded before the clock starts, and how to read many of one size at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, Connack, Connect, Kind, Publish, Suback, Subscribe, Subscription

PAYLOAD_BYTES = 64
CONNACK = encode(Connack(), V3)


def connect(client_id: str, *, clean: bool = True) -> bytes:
    """CONNECT of MQTT 3.1.1, which all the brokers speak; not clean means a durable session."""
    return encode(Connect(client_id=client_id, version=V3, clean_start=clean), V3)


def subscribe(topic_filter: str, qos: int) -> bytes:
    """SUBSCRIBE to one filter."""
    return encode(Subscribe(packet_id=1, subscriptions=[Subscription(filter=topic_filter, qos=qos)]), V3)


def suback(qos: int) -> bytes:
    """The answer when all is well."""
    return encode(Suback(kind=Kind.SUBACK, packet_id=1, reasons=[qos]), V3)


def publish(topic: str, qos: int) -> bytes:
    """PUBLISH with an empty stamp."""
    return encode(Publish(topic=topic, payload=bytes(PAYLOAD_BYTES), qos=qos, packet_id=min(qos, 1)), V3)


def layout(size_bytes: int) -> np.dtype[Any]:
    """Packets of one size as records: the payload, which begins with a stamp, is at the end of each."""
    payload = size_bytes - PAYLOAD_BYTES
    return np.dtype(
        {
            "names": ["first", "packet_id", "publisher", "sequence", "sent_ns"],
            "formats": ["u1", ">u2", "<u2", "<u2", "<i8"],
            "offsets": [0, payload - 2, payload, payload + 2, payload + 4],
            "itemsize": size_bytes,
        }
    )


def ring(publisher: int, topic: str, qos: int, length: int) -> bytearray:
    """So many packets of one publisher, to be sent round and round: numbered from 0, identified from 1."""
    template = publish(topic, qos)
    packets = bytearray(template * length)
    records = np.frombuffer(packets, layout(len(template)))
    records["publisher"] = publisher
    records["sequence"] = np.arange(length)
    if qos:
        records["packet_id"] = np.arange(1, length + 1)
    return packets


def pubacks(packet_ids: Any) -> bytes:
    """A PUBACK for each."""
    packets = np.empty(len(packet_ids), np.dtype([("head", ">u2"), ("packet_id", ">u2")]))
    packets["head"] = 0x4002
    packets["packet_id"] = packet_ids
    return packets.tobytes()
