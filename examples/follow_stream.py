"""A stream of sensors followed without Firelane, as a client in another language would: with paho-mqtt and floats.

Written from docs/reference/sense.md (messages) and docs/sense.md (arithmetic); values are Firelane's to the last bit.
Prints a line of JSON per message: what every sensor reads at the time of it. Ends when the stream does.

Run: firelane serve; firelane sense publish TRACE.csv; python examples/follow_stream.py building/temperature
"""

import argparse
import json
import math
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

VERSION = 2  # of the formulas
HEADER = struct.Struct(">2sBBHHHIIIdd")  # magic, format, flags, version, rows, sensors, boot, batch, total, time, delta
ROW, TIMED_ROW = struct.Struct(">HIBd"), struct.Struct(">HIBdd")  # sensor, sequence, kind, value and perhaps time
STATE = struct.Struct(">8d")  # level, slope, a, b, c, q, r, side
STEP = struct.Struct(">HI")  # sensor, sequence
HEARTBEAT, TIMED, DISCRETE, AGAIN, TRAIL = 1, 2, 4, 8, 16  # flags of a message
MODEL, GONE, WHOLE = 0x0F, 0x40, 0x80  # bits of a row's kind
WRAP = 2**32
SILENT_HEARTBEATS = 2.5

Numbers = tuple[float, ...]


@dataclass
class Sensor:
    """What is known of one sensor; `state` is level, slope, a, b, c, q, r and side; empty: nothing is known."""

    sequence: int = 0
    time: float = 0.0
    value: float = 0.0
    model: int = 0
    state: Numbers = ()
    in_step: bool = False  # every update since the last whole one has come
    latest: int = 0  # the highest sequence that was heard of
    open: bool = True  # there may be a higher one
    gone: bool = False

    def at(self, t: float) -> float | None:
        """What it reads at a time of the publisher's clock."""
        if not self.state:
            return None
        if self.model == 0 or t <= self.time:
            return self.value
        return self.state[0] + self.state[1] * (t - self.time)

    def take(self, sequence: int, t: float, v: float, model: int, state: Numbers) -> None:
        """One row: a whole one replaces what is known, the next in sequence corrects it."""
        if not (state or self.state):
            return  # nothing can be made of it; the state is asked for
        if sequence > self.sequence or (sequence == self.sequence and state and not self.in_step):
            self.in_step = bool(state) or (self.in_step and sequence == self.sequence + 1)
            self.state = state or corrected(self.state, t - self.time, v)
            self.gone = self.gone and sequence == self.sequence
            self.sequence, self.time, self.value, self.model = sequence, t, v, model

    def heard(self, sequence: int, *, newest: bool) -> None:
        """A row of it has come: that is its last update, if it is the highest, and in the newest message."""
        self.latest = max(self.latest, sequence)
        if newest and sequence == self.latest:
            self.open = False

    @property
    def lacks(self) -> bool:
        """Whether something of it is missing, or may be."""
        return self.open or self.sequence < self.latest or (self.sequence > 0 and not self.in_step)


def corrected(state: Numbers, dt: float, v: float) -> Numbers:
    """The filter's step, operation by operation as in docs/sense.md."""
    level, slope, a, b, c, q, r, side = state
    p = level + slope * dt
    y = v - p
    n = 1.0 if y > 0 else -1.0
    f = 2.0 if n == side else (0.125 if side != 0 else 1.0)
    u = max(((dt * dt) * dt) * dt, 1e-40)
    lo = 2e-6 * r if u <= 5e4 else (0.1 * r) / u
    hi = 2e6 * r if u >= 0.5 else (1e6 * r) / u
    q = max(lo, min(q * f, hi))
    qc = (q * dt) * dt
    qb = (qc * dt) / 2
    qa = (qb * dt) / 2
    w = b + dt * c
    a1 = (a + dt * (b + w)) + qa
    b1 = w + qb
    c1 = c + qc
    d = max(a * c - b * b, 0.0) + qc * (a + dt * (b + (dt * c) / 4))
    s = a1 + r
    g = a1 / s
    h = b1 / s
    return (p + g * y, slope + h * y, g * r, h * r, (r * c1 + d) / s, q, r, n)


class Stream:
    """What is known of a stream: messages in, and at any time what its sensors read."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.heartbeat_s = 10.0
        self.boot = self.next = -1
        self.total = 0  # updates of all sensors, by the newest message
        self.time = self.delta = math.nan  # as the last message had them
        self.sensors: list[Sensor] = []
        self.ahead_s = math.inf  # this side's clock, of the publisher's, by the quickest message
        self.heard_s = -math.inf

    def take(self, payload: bytes, now_s: float) -> None:
        """A message of the stream."""
        magic, form, flags, version, rows, sensors, boot, batch, total, self.time, delta = HEADER.unpack_from(payload)
        if (magic, form, version) != (b"FS", 2, VERSION):
            raise ValueError(f"format {form} and version {version} are not known here")
        if boot != self.boot or sensors != len(self.sensors):
            self.boot, self.next, self.ahead_s = boot, batch, math.inf
            self.sensors = [Sensor() for _ in range(sensors)]
        self.ahead_s, self.heard_s = min(self.ahead_s, now_s - self.time), now_s
        newest = self.count(batch, again=bool(flags & AGAIN))
        if newest:
            self.delta, self.total = delta, total
            for sensor in self.sensors if flags & HEARTBEAT else ():
                sensor.gone = False
        for number, sequence, kind, value, t, state in unpacked(payload, rows, flags, self.time):
            sensor = self.sensors[number]
            if not kind & GONE:
                sensor.take(sequence, t, value, kind & MODEL, state)
                sensor.in_step = sensor.in_step or (bool(flags & DISCRETE) and bool(sensor.state))
                sensor.heard(sequence, newest=newest)
            elif newest:
                sensor.gone = True
        for number, sequence in trail(payload, rows, flags) if flags & TRAIL else ():
            self.sensors[number].latest = max(self.sensors[number].latest, sequence)
        if sum(sensor.latest for sensor in self.sensors) % WRAP == self.total:
            for sensor in self.sensors:  # nobody has heard of more than there was, so each of these is the last
                sensor.open = False

    def count(self, batch: int, *, again: bool) -> bool:
        """Notice by its number whether messages before this one were lost; false if others have overtaken it."""
        number = batch + 1 if again else batch
        missed = (number - self.next) % WRAP
        if missed >= WRAP // 2:
            return batch == (self.next - 1) % WRAP
        self.next = (batch + 1) % WRAP
        for sensor in self.sensors if missed else ():
            sensor.open = True
        return True

    def lacking(self) -> list[int]:
        """Whose state is to be asked for."""
        return [number for number, one in enumerate(self.sensors) if one.lacks]

    def now(self, now_s: float) -> float:
        """What the publisher's clock shows."""
        return now_s - self.ahead_s

    def lost(self, now_s: float) -> bool:
        """Whether the publisher has been silent for too long."""
        return now_s - self.heard_s > SILENT_HEARTBEATS * self.heartbeat_s


def unpacked(
    payload: bytes, rows: int, flags: int, time_s: float
) -> Iterator[tuple[int, int, int, float, float, Numbers]]:
    """The rows of a message, each with its time, and its state if it is whole."""
    layout = TIMED_ROW if flags & TIMED else ROW
    state_at = HEADER.size + rows * layout.size
    for row in range(rows):
        number, sequence, kind, value, *own = layout.unpack_from(payload, HEADER.size + row * layout.size)
        state: Numbers = ()
        if kind & WHOLE:
            state, state_at = STATE.unpack_from(payload, state_at), state_at + STATE.size
        yield number, sequence, kind, value, own[0] if own else time_s, state


def trail(payload: bytes, rows: int, flags: int) -> Iterator[tuple[int, int]]:
    """The last updates in messages before this one, each a sensor and a sequence; they stand behind the states."""
    layout = TIMED_ROW if flags & TIMED else ROW
    kinds = payload[HEADER.size + 6 : HEADER.size + rows * layout.size : layout.size]
    at = HEADER.size + rows * layout.size + STATE.size * sum(kind >= WHOLE for kind in kinds)
    for step in range(payload[at]):
        yield STEP.unpack_from(payload, at + 1 + step * STEP.size)


class Follower:
    """A client that follows one stream over MQTT 5."""

    def __init__(self, topic: str, tolerance: float | None) -> None:
        self.topic, self.tolerance = topic, tolerance
        self.stream = Stream()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_connect, self.client.on_message = self.connected, self.arrived
        self.client.on_subscribe = self.answered
        self.ask_at, self.pause_s = math.inf, 1.0
        self.over = ""  # why it is

    def connected(self, client: mqtt.Client, *_: object) -> None:
        """Subscribe to the offer, and to the stream itself with what is asked of it."""
        client.subscribe("$sense/offer/" + self.topic, qos=1)
        wishes = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
        if self.tolerance is not None:
            wishes.UserProperty = ("tolerance", str(self.tolerance))
        client.subscribe(self.topic, options=SubscribeOptions(qos=0), properties=wishes)

    def answered(
        self, _client: object, _data: object, _number: int, reasons: list[ReasonCode], properties: Properties
    ) -> None:
        """A refusal says why."""
        if any(reason.is_failure for reason in reasons):
            self.over = getattr(properties, "ReasonString", "") or str(reasons[0])

    def arrived(self, _client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        """An offer, or a message of the stream."""
        now_s = time.monotonic()
        if message.topic != self.topic:
            offer = json.loads(message.payload or "null")
            if offer is None:
                self.over = "the stream has ended"
                return
            self.stream.names, self.stream.heartbeat_s = offer["sensors"], offer["heartbeat_s"]
            if not self.stream.sensors:  # who comes late knows nothing
                self.client.publish("$sense/resync/" + self.topic, json.dumps({"format": 1}))
            return
        stream = self.stream
        stream.take(bytes(message.payload), now_s)
        values = [sensor.at(stream.time) for sensor in stream.sensors]
        told = {"boot": stream.boot, "time": stream.time, "delta": stream.delta, "values": values}
        print(json.dumps(told), flush=True)

    def ask(self, now_s: float) -> None:
        """Ask for states that are lacking, after a second and then more and more seldom."""
        lacking = self.stream.lacking()
        if not lacking:
            self.ask_at, self.pause_s = math.inf, 1.0
        elif self.ask_at == math.inf:
            self.ask_at = now_s + self.pause_s
        elif now_s >= self.ask_at:
            self.client.publish("$sense/resync/" + self.topic, json.dumps({"format": 1, "sensors": lacking}))
            self.pause_s = min(2 * self.pause_s, 30.0)
            self.ask_at = now_s + self.pause_s

    def run(self, broker: str) -> str:
        """Follow the stream until it is over; returns why that is."""
        url = urlsplit(broker)
        self.client.connect(url.hostname or "127.0.0.1", url.port or 1883)
        while not self.over:
            self.client.loop(timeout=0.1)
            self.ask(time.monotonic())
        self.client.disconnect()
        return self.over


def main() -> None:
    """Follow a stream."""
    parser = argparse.ArgumentParser(description="follow a stream of sensors")
    parser.add_argument("topic")
    parser.add_argument("--broker", default="mqtt://127.0.0.1:1883")
    parser.add_argument("--tolerance", type=float)
    given = parser.parse_args()
    print(Follower(given.topic, given.tolerance).run(given.broker), file=sys.stderr)


if __name__ == "__main__":
    main()
