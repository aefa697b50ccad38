"""What a scenario's publishers will send and when, drawn before any clock starts.

Every (publisher, topic) pair is a Poisson stream of its own. A payload carries its number in the schedule, from which
source, topic, sequence, size and planned time all follow, so the smallest payload is `STAMP.size` bytes; smaller sizes
are raised to it, which adds about STAMP.size ** 2 / (2 * mean) bytes to the mean of exponential sizes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.mqtt.fields import string, variable
from firelane.scenario.model import Scenario, Topic
from firelane.scenario.routes import Routes, routes

STAMP = struct.Struct("<II")  # which run, which publication
PUBLISH = b"\x30"
NO_PROPERTIES = b"\x00"
ZEROS = bytes(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Publications in the order of their times, one entry each; a source is a (publisher, topic) pair of the routes."""

    routes: Routes
    seconds: float
    at_s: Floats
    source: Ints
    size_bytes: Ints

    @property
    def topic(self) -> Ints:
        return self.routes.source_topic[self.source]

    @property
    def publisher(self) -> Ints:
        return source_publisher(self.routes.scenario)[self.source]

    @property
    def sequence(self) -> Ints:
        """The number of each publication within its source, from 0."""
        order = np.argsort(self.source, kind="stable")
        counts = np.bincount(self.source, minlength=len(self.routes.source_topic))
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order)) - starts
        return numbers

    def offered_bps(self) -> Floats:
        """What these very publications put on each of the routes' lanes, in wire bits a second: chance included."""
        r = self.routes
        per_byte, overhead = r.service_s()
        bytes_of = np.bincount(self.topic, self.size_bytes, len(r.topics))
        count_of = np.bincount(self.topic, minlength=len(r.topics))
        busy_s = bytes_of[r.stream_topic] * per_byte + count_of[r.stream_topic] * overhead
        per_lane = np.bincount(r.stream_lane, busy_s, len(r.lanes)) / self.seconds
        return per_lane * [lane.link.paced_bps for lane in r.lanes]


def source_publisher(scenario: Scenario) -> Ints:
    """The publisher of each source, as the routes number sources."""
    counts = [len(one.publishes) for one in scenario.publishers.values()]
    return np.repeat(np.arange(len(counts)), counts)


def schedule(scenario: Scenario | Routes, *, seconds: float, seed: int) -> Schedule:
    """Poisson streams at the scenario's rates and sizes."""
    r = scenario if isinstance(scenario, Routes) else routes(scenario)
    random = np.random.default_rng(seed)
    counts = random.poisson(r.source_rate_hz * seconds)
    source = np.repeat(np.arange(len(counts)), counts)
    at_s = random.uniform(0, seconds, len(source))  # given their number, the moments of a Poisson stream are uniform
    order = np.argsort(at_s, kind="stable")
    source = source[order]
    size = np.empty(len(source), np.int64)
    for number, topic in enumerate(r.scenario.topics.values()):
        inside = r.source_topic[source] == number
        size[inside] = sizes(topic, random, int(inside.sum()))
    return Schedule(routes=r, seconds=seconds, at_s=at_s[order], source=source, size_bytes=size)


def varied(one: Schedule, share: Floats, larger: Floats, seed: int) -> Schedule:
    """Of each publication only this share by chance, and so many times as large."""
    kept = np.random.default_rng(seed).random(len(one.at_s)) < share
    return replace(
        one,
        at_s=one.at_s[kept],
        source=one.source[kept],
        size_bytes=np.clip(np.round(one.size_bytes * larger), STAMP.size, len(ZEROS)).astype(np.int64)[kept],
    )


def sizes(topic: Topic, random: np.random.Generator, count: int) -> Ints:
    """So many payload sizes of a topic, in whole bytes, each with room for the stamp."""
    if topic.sizes == "exponential":
        drawn = random.exponential(topic.mean_bytes, count)
    elif topic.sizes == "fixed":
        drawn = np.full(count, topic.mean_bytes)
    else:
        drawn = random.choice(topic.sizes, count)
    return np.clip(np.round(drawn), STAMP.size, len(ZEROS)).astype(np.int64)


class Packets:
    """The PUBLISH packets of a schedule in MQTT 5, made one by one: all of them at once would fill the memory."""

    def __init__(self, plan: Schedule, run: int) -> None:
        self.run = run
        self._heads = [string(name) + NO_PROPERTIES for name in plan.routes.topics]
        self._topic = plan.topic.tolist()
        self._size = plan.size_bytes.tolist()

    def __getitem__(self, number: int) -> bytes:
        head, size = self._heads[self._topic[number]], self._size[number]
        fill = ZEROS[: size - STAMP.size]
        return b"".join((PUBLISH, variable(len(head) + size), head, fill, STAMP.pack(self.run, number)))

    def fits(self, packet: bytearray, start: int, end: int, number: int) -> bool:
        """Whether this body is that publication's: its topic, as ordinary brokers pass it on, and its size."""
        if not 0 <= number < len(self._topic):
            return False
        head = self._heads[self._topic[number]]
        return packet.startswith(head, start) and end - start == len(head) + self._size[number]
