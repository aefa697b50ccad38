"""What the publishers of a scenario will send and when, drawn before any clock starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Publish
from firelane.scenario.model import Topic
from firelane.scenario.routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Publications in the order of their times, one entry each."""

    routes: Routes
    seconds: float
    at_s: Floats
    publisher: Ints
    topic: Ints
    size_bytes: Ints

    def packets(self) -> list[bytes]:
        """The PUBLISH packet of each."""
        names = self.routes.topics
        return [
            encode(Publish(topic=names[topic], payload=bytes(size)), V5)
            for topic, size in zip(self.topic.tolist(), self.size_bytes.tolist(), strict=True)
        ]

    def load(self) -> Floats:
        """What these very publications ask of each link, before drops: chance included."""
        r, topics = self.routes, len(self.routes.topics)
        many, total = np.bincount(self.topic, minlength=topics), np.bincount(self.topic, self.size_bytes, topics)
        per_byte_s, overhead_s = r.service_s()
        busy_s = total[r.stream_topic] * per_byte_s + many[r.stream_topic] * overhead_s
        return sum_by(r.stream_lane, busy_s, len(r.lanes)) / self.seconds


def typical(schedules: Iterable[Schedule]) -> Schedule:
    """The one whose load on every link is closest to what the scenario's rates and sizes amount to."""
    return min(schedules, key=_off)


def _off(one: Schedule) -> float:
    r = one.routes
    expected = sum_by(r.stream_lane, r.topic_rate_hz[r.stream_topic] * r.mean_service_s(), len(r.lanes))
    return float(np.max(np.abs(one.load() / expected - 1)))


def schedule(routes: Routes, *, seconds: float, seed: int | list[int]) -> Schedule:
    """A Poisson stream for every topic of every publisher, with payloads of the topics' sizes."""
    random = np.random.default_rng(seed)
    counts = random.poisson(routes.source_rate_hz * seconds)
    source = np.repeat(np.arange(len(counts)), counts)
    at_s = random.uniform(0, seconds, len(source))  # given their number, the moments of a Poisson stream are uniform
    order = np.argsort(at_s)
    topic = routes.source_topic[source[order]]
    size = np.empty(len(topic), np.int64)
    for number, one in enumerate(routes.scenario.topics.values()):
        inside = topic == number
        size[inside] = np.round(_sizes(one, random, int(inside.sum())))
    return Schedule(
        routes=routes,
        seconds=seconds,
        at_s=at_s[order],
        publisher=_publisher(routes)[source[order]],
        topic=topic,
        size_bytes=size,
    )


def _sizes(topic: Topic, random: np.random.Generator, count: int) -> Floats:
    if topic.sizes == "exponential":
        return random.exponential(topic.mean_bytes, count)
    if topic.sizes == "fixed":
        return np.full(count, topic.mean_bytes)
    return random.choice(topic.sizes, count)


def _publisher(routes: Routes) -> Ints:
    """The publisher of each source, as the routes number sources."""
    counts = [len(one.publishes) for one in routes.scenario.publishers.values()]
    return np.repeat(np.arange(len(counts)), counts)
