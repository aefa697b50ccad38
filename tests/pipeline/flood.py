"""A publisher of delivery records at a steady rate, one in a message: `flood.py PORT TOPIC FIRST COUNT RATE FILE`.

Messages are sent with QoS 1. Records are numbered, of subscriber s0 to s9 in turn. FILE gets a line for each with its
number and time, all of which the broker has acknowledged when this ends.
"""

from __future__ import annotations

import json
import socket
import sys
import time

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Disconnect, Publish

BOOT = "00000000000000f1"
MOST_UNACKNOWLEDGED = 1000  # if the broker takes as many
STEP_S = 0.01


def record(number, ingress_us):
    """The fields that telemetry has, with a delay of a millisecond."""
    return {
        "record_id": f"{BOOT}-{number:012d}",
        "exchange": "flood",
        "ingress_us": ingress_us,
        "subscriber": f"s{number % 10}",
        "filter": "a/#",
        "topic": f"a/{number % 10}",
        "priority": 0,
        "qos": 0,
        "wire_bytes": 100,
        "delay_us": 1000,
        "outcome": "delivered",
        "weight": 1.0,
        "plan_version": 1,
    }


def flood(port, topic, first, count, rate_hz, noted):
    """Publish, until all are acknowledged; `noted(number, ingress_us)` is called for each."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(encode(Connect(client_id=f"flood-{first}"), V5))
        answers = Answers(connection)
        while answers.window == 0:
            answers.read(STEP_S)
        sent, begun_s = 0, time.monotonic()
        while answers.acknowledged < count:
            due = min(count, int((time.monotonic() - begun_s) * rate_hz) + 1)
            more = min(due - sent, answers.window - (sent - answers.acknowledged))
            if more > 0:
                connection.sendall(b"".join(_packet(topic, first + sent + one, noted) for one in range(more)))
                sent += more
            answers.read(0.0 if sent < due else STEP_S)
        connection.sendall(encode(Disconnect(), V5))


class Answers:
    """Counts PUBACKs; the window is known from CONNACK."""

    def __init__(self, connection):
        self.acknowledged = self.window = 0
        self._connection = connection
        self._buffer = bytearray()

    def read(self, patience_s):
        self._connection.settimeout(max(patience_s, 0.0005))
        try:
            arrived = self._connection.recv(65536)
        except TimeoutError:
            return
        finally:
            self._connection.settimeout(60)
        if not arrived:
            raise SystemExit("the broker hung up")
        self._buffer += arrived
        at = 0
        while (place := frame(self._buffer, at, 10**6)) is not None and place[1] <= len(self._buffer):
            if self.window:
                self.acknowledged += 1
            else:
                welcome = decode(self._buffer[at], bytes(self._buffer[place[0] : place[1]]), V5)
                self.window = min(welcome.properties.get("receive_maximum", 65_535), MOST_UNACKNOWLEDGED)
            at = place[1]
        del self._buffer[:at]


def _packet(topic, number, noted):
    ingress_us = time.time_ns() // 1000
    noted(number, ingress_us)
    payload = json.dumps(record(number, ingress_us)).encode()
    return encode(Publish(topic=topic, payload=payload, qos=1, packet_id=number % 65_535 + 1), V5)


def main(port, topic, first, count, rate_hz, path):
    with open(path, "w") as file:
        flood(
            int(port), topic, int(first), int(count), float(rate_hz),
            lambda number, ingress_us: file.write(f"{number} {ingress_us}\n"),
        )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
