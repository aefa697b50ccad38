"""A scenario under a plan as the arrays that the compiled loops run on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.errors import ScenarioError
from firelane.histogram import BUCKETS
from firelane.scenario.model import MOST_PRIORITIES
from firelane.scenario.plan import Plan
from firelane.scenario.routes import Routes
from firelane.simulate.kernel import EMPIRICAL, EXPONENTIAL, FIXED, NONE, Links, Queues, Tally, Traffic, alias_table

UNLIMITED_BUFFER = 1_000_000  # messages: what "no limit" means where memory is bounded
MOST_ENTRIES = 10_000_000  # messages that may wait on all links together: 300 MB
MOST_HISTOGRAM_ROWS = 50_000  # subscriptions with a histogram each: 100 MB a replication


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stages:
    """The optional FIFO stages before the link; None or empty arrays where a stage is absent."""

    publisher_lane: Ints  # per source, -1 without one; empty if no publisher has a link
    publisher_per_byte_s: Floats
    publisher_overhead_s: Floats
    publisher_loss: Floats  # per publisher lane
    publisher_propagation_s: Floats
    broker_in_s: float  # mean service time, 0: no such stage
    broker_out_s: float
    stream_subscriber: Ints
    switch_s: Floats  # per link, 0: none

    @property
    def any(self) -> bool:
        """Does anything stand before the link?"""
        return bool(len(self.publisher_lane) or self.broker_in_s or self.broker_out_s or self.switch_s.any())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class System:
    """Everything one replication needs."""

    traffic: Traffic
    links: Links
    stages: Stages
    stream_published: Ints  # which entry of `traffic` topics each stream's publications are counted in
    stream_owner: Ints  # the subscription that carries each stream
    histogram_rows: int
    per_subscription: bool  # histogram rows are subscriptions, else classes

    def queues(self, entries: int) -> Queues:
        """Empty queues with room for some entries."""
        links, streams = len(self.links.buffer), len(self.links.stream_link)
        rings = links * MOST_PRIORITIES
        entries += rings
        after = np.arange(1, entries + 1, dtype=np.uint32)
        after[:rings] = np.arange(rings)
        after[-1] = NONE
        return Queues(
            free_at=np.zeros(links),
            waiting=np.zeros(links, np.int64),
            classes=np.zeros(links, np.uint32),
            born=np.zeros(entries),
            service=np.zeros(entries),
            stream=np.zeros(entries, np.int32),
            after=after,
            before=np.arange(entries, dtype=np.uint32),
            held=np.full(streams, NONE, np.uint32),
            pool=np.array([rings], np.uint32),
        )

    def tally(self) -> Tally:
        """A tally at zero."""
        streams = len(self.links.stream_link)
        return Tally(
            delivered=np.zeros(streams, np.int64),
            lost=np.zeros(streams, np.int64),
            policy=np.zeros(streams, np.int64),
            overflow=np.zeros(streams, np.int64),
            superseded=np.zeros(streams, np.int64),
            delay_sum=np.zeros(streams),
            busy_sum=np.zeros(streams),
            histogram=np.zeros((self.histogram_rows, BUCKETS), np.uint32),
        )


def build(routes: Routes, plan: Plan, *, independent: bool) -> System:
    """The arrays of a scenario under a plan; `independent` gives every stream its own publications."""
    _, priority, _ = plan.per_subscription(routes)
    owner, stream_class, stream_drop = routes.owners(priority, plan.withheld(routes))
    per_subscription = len(routes.filters) <= MOST_HISTOGRAM_ROWS
    latest = routes.needs.latest
    per_byte_s, overhead_s = routes.service_s()
    lanes = [lane.link for lane in routes.lanes]
    links = Links(
        stream_link=routes.stream_lane.astype(np.int32),
        stream_class=stream_class.astype(np.int32),
        stream_row=(owner if per_subscription else stream_class).astype(np.int32),
        stream_latest=latest[owner],
        stream_drop=stream_drop,
        stream_loss=np.array([link.loss for link in lanes])[routes.stream_lane],
        per_byte_s=per_byte_s,
        overhead_s=overhead_s,
        propagation_s=np.array([link.propagation_s for link in lanes]),
        buffer=np.array([link.buffer_messages or UNLIMITED_BUFFER for link in lanes], np.int64),
    )
    stages = _stages(routes)
    if independent and stages.any:
        raise ScenarioError("--independent compares links with theory; leave out brokers, switch_rate and "
                            "publishers' links")  # fmt: skip
    streams = np.arange(len(routes.stream_topic))
    return System(
        traffic=_independent(routes) if independent else _traffic(routes, bool(len(stages.publisher_lane))),
        links=links,
        stages=stages,
        stream_published=streams if independent else routes.stream_topic,
        stream_owner=owner,
        histogram_rows=len(routes.filters) if per_subscription else MOST_PRIORITIES,
        per_subscription=per_subscription,
    )


def _traffic(routes: Routes, by_publisher: bool) -> Traffic:
    """Publications per topic, or per publisher and topic where publishers have links of their own."""
    topics = np.arange(len(routes.topics))
    source_topic = routes.source_topic if by_publisher else topics
    rate = routes.source_rate_hz if by_publisher else routes.topic_rate_hz
    start = np.searchsorted(routes.stream_topic, np.arange(len(topics) + 1))
    return _drawn(routes, topics, source_topic, rate, start)


def _independent(routes: Routes) -> Traffic:
    streams = np.arange(len(routes.stream_topic))
    rate = routes.topic_rate_hz[routes.stream_topic]
    return _drawn(routes, routes.stream_topic, streams, rate, np.arange(len(streams) + 1))


def _drawn(routes: Routes, topic: Ints, source_topic: Ints, rate: Floats, copy_start: Ints) -> Traffic:
    if not rate.sum() > 0:
        raise ScenarioError("nothing is published, so there is nothing to simulate; give publishers rates")
    kinds = [one.sizes for one in routes.scenario.topics.values()]
    code = {"exponential": EXPONENTIAL, "fixed": FIXED}
    kind = np.array([code[one] if isinstance(one, str) else EMPIRICAL for one in kinds], np.int64)
    samples = [np.array(() if isinstance(kinds[t], str) else kinds[t], np.float64) for t in topic]
    keep, other = alias_table(rate)
    return Traffic(
        mean_gap_s=1.0 / float(rate.sum()),
        alias_keep=keep,
        alias_other=other,
        source_topic=source_topic,
        size_kind=kind[topic],
        size_mean=routes.topic_mean_bytes[topic],
        sample_start=np.concatenate([[0], np.cumsum([len(one) for one in samples])]).astype(np.int64),
        samples=np.concatenate(samples),
        copy_start=copy_start.astype(np.int64),
        copy_stream=np.arange(len(routes.stream_topic), dtype=np.int32),
    )


def _stages(routes: Routes) -> Stages:
    input_hz, output_hz = routes.broker_rates_hz()
    per_byte_s, overhead_s = routes.source_service_s()
    linked = bool(len(routes.publisher_lanes))
    lanes = [lane.link for lane in routes.publisher_lanes]
    return Stages(
        publisher_lane=routes.source_lane if linked else np.empty(0, np.int64),
        publisher_per_byte_s=per_byte_s,
        publisher_overhead_s=overhead_s,
        publisher_loss=np.array([link.loss for link in lanes] + [0.0]),
        publisher_propagation_s=np.array([link.propagation_s for link in lanes] + [0.0]),
        broker_in_s=1.0 / input_hz if input_hz else 0.0,
        broker_out_s=1.0 / output_hz if output_hz else 0.0,
        stream_subscriber=routes.stream_subscriber,
        switch_s=np.array([1.0 / lane.link.switch_hz if lane.link.switch_hz else 0.0 for lane in routes.lanes]),
    )
