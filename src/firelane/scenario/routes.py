"""A scenario as arrays: which publication becomes which copies over which link.

A *stream* is what one subscriber gets of one topic: the unit that queues see. A *claim* is one
subscription's interest in a stream; filters of one subscriber that overlap claim the same stream, which
is carried once, by the claim with the best class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.errors import FirelaneError, ScenarioError
from firelane.mqtt import TopicTree, numbered
from firelane.scenario.model import MOST_PRIORITIES, Link, Need, Scenario, Topic
from firelane.scenario.overhead import mean_overheads_bytes, name_bytes, overheads_bytes
from firelane.scenario.utility import NeedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One real link: a scenario link, or one subscriber's (or publisher's) own copy of it."""

    name: str
    link_name: str
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routes:
    """Topics, subscriptions, lanes (links), streams and claims of a scenario, numbered and in arrays."""

    scenario: Scenario
    topics: list[str]
    topic_mean_bytes: Floats
    topic_variance_bytes2: Floats
    topic_overhead_bytes: Floats  # on average, where it is `auto`
    # One source per publisher and topic.
    source_topic: Ints
    source_lane: Ints  # -1: the publisher has no link
    source_rate_hz: Floats
    publisher_lanes: list[Lane]
    # One subscription per subscriber and filter.
    subscribers: list[str]
    subscription_subscriber: Ints
    filters: list[str]
    needs: NeedTable
    subscription_lane: Ints
    lanes: list[Lane]
    # One stream per subscriber and topic, sorted by topic; claims sorted by stream.
    stream_topic: Ints
    stream_subscriber: Ints
    stream_lane: Ints
    claim_stream: Ints
    claim_subscription: Ints
    # Sensors: by which factor the tolerance of each subscription may be widened at most (1: not at all), and how much
    # of its topic each stream is told of at its tolerance (None: all).
    widest: Floats
    stream_told: Floats | None = None

    @property
    def topic_rate_hz(self) -> Floats:
        """Publications per second of each topic, over all publishers."""
        return sum_by(self.source_topic, self.source_rate_hz, len(self.topics))

    @property
    def published_hz(self) -> Floats:
        """Per stream: messages a second that its subscriber is to get."""
        rate_hz = self.topic_rate_hz[self.stream_topic]
        return rate_hz if self.stream_told is None else rate_hz * self.stream_told

    def service_s(self) -> tuple[Floats, Floats]:
        """Per stream: seconds per payload byte on its lane, and seconds of overhead per message."""
        return self._service_s(self.stream_topic, self.stream_lane, self.lanes)

    def mean_service_s(self) -> Floats:
        """Per stream: mean seconds that one message takes of its lane."""
        per_byte_s, overhead_s = self.service_s()
        return self.topic_mean_bytes[self.stream_topic] * per_byte_s + overhead_s

    def switch_s(self) -> Floats:
        """Per stream: mean service time of the switch before its lane, 0 without one."""
        each = np.array([1 / lane.link.switch_hz if lane.link.switch_hz else 0.0 for lane in self.lanes])
        return each[self.stream_lane]

    def class_load(self, rate_hz: Floats, klass: Ints) -> Floats:
        """Work a second per lane (rows) and class (columns) when streams come at these rates."""
        place = self.stream_lane * MOST_PRIORITIES + klass
        load = sum_by(place, rate_hz * self.mean_service_s(), len(self.lanes) * MOST_PRIORITIES)
        return load.reshape(len(self.lanes), MOST_PRIORITIES)

    def source_service_s(self) -> tuple[Floats, Floats]:
        """The same for sources on their publishers' lanes (zero without one)."""
        return self._service_s(self.source_topic, self.source_lane, self.publisher_lanes)

    def _service_s(self, topic: Ints, lane: Ints, lanes: list[Lane]) -> tuple[Floats, Floats]:
        per_byte = np.array([8.0 / one.link.paced_bps for one in lanes] + [0.0])
        fixed = np.array([one.link.overhead_bytes or 0.0 for one in lanes] + [0.0])
        automatic = np.array([one.link.overhead_bytes is None for one in lanes] + [False])
        by_topic = self.topic_overhead_bytes[topic] if len(topic) else 0.0
        overhead = np.where(automatic[lane], by_topic, fixed[lane])
        return per_byte[lane], overhead * per_byte[lane]

    def broker_rates_hz(self) -> tuple[float | None, float | None]:
        """The input and output rate of the scenario's broker (firedex, section 3.2, models a single one)."""
        brokers = list(self.scenario.brokers.values())
        if len(brokers) > 1:
            problem = f"predict and simulate model one broker, this scenario has {len(brokers)}; keep one"
            raise ScenarioError(problem, key="brokers")
        return (brokers[0].input_hz, brokers[0].output_hz) if brokers else (None, None)

    def claimed_share(self, delivered: Floats, offered: Floats) -> Floats:
        """Success of each subscription over all streams it claims, whoever carries them."""
        rows = len(self.filters)
        got = sum_by(self.claim_subscription, delivered[self.claim_stream], rows)
        due = sum_by(self.claim_subscription, offered[self.claim_stream], rows)
        return np.divide(got, due, out=np.ones(rows), where=due > 0)

    def owners(self, priority: Ints, drop_rate: Floats) -> tuple[Ints, Ints, Floats]:
        """Who carries each stream under a plan: (subscription, class, drop rate) per stream.

        Among overlapping claims the best class wins, then the lower drop rate; the stream's drop rate is
        the lowest of its claims.
        """
        subscription = self.claim_subscription
        if len(subscription) == len(self.stream_topic):
            return subscription, priority[subscription], drop_rate[subscription]
        order = np.lexsort((drop_rate[subscription], priority[subscription], self.claim_stream))
        first = np.flatnonzero(np.diff(self.claim_stream[order], prepend=-1))
        owner = subscription[order][first]
        lowest = np.minimum.reduceat(drop_rate[subscription][order], first)
        return owner, priority[owner], lowest


def routes(scenario: Scenario, *, most_claims: int | None = None) -> Routes:
    """Number everything in a scenario and match its filters to its topics; FirelaneError if that is too much."""
    topic_number = {name: number for number, name in enumerate(scenario.topics)}
    lanes, subscriber_lane = _lanes(scenario, {n: s.link for n, s in scenario.subscribers.items()})
    subscriptions = _subscriptions(scenario, subscriber_lane)
    who = [subscriptions[name] for name in ("filters", "subscription_subscriber", "subscription_lane")]
    return Routes(
        scenario=scenario,
        topics=list(scenario.topics),
        topic_mean_bytes=np.array([topic.mean_bytes for topic in scenario.topics.values()]),
        topic_variance_bytes2=np.array([topic.variance_bytes2 for topic in scenario.topics.values()]),
        topic_overhead_bytes=topic_overheads_bytes(scenario.topics),
        **_sources(scenario, topic_number),
        subscribers=list(scenario.subscribers),
        lanes=lanes,
        **subscriptions,
        widest=np.where(subscriptions["needs"].tolerant, scenario.exchange.sense.widen, 1.0),
        **streams(scenario.topics, *who, most=most_claims),
    )


def some_routes(scenario: Scenario | Routes) -> Routes:
    """The routes, made if need be; a scenario without topics, which may do for `serve`, is refused."""
    network = scenario if isinstance(scenario, Routes) else routes(scenario)
    if not network.topics:
        problem = "there are none, so there is nothing to predict, simulate or plan; add topics and who publishes them"
        raise ScenarioError(problem, key="topics")
    return network


def topic_overheads_bytes(topics: dict[str, Topic]) -> Floats:
    """The mean overhead of every topic (`overhead: auto`), over its sizes."""
    names, shapes = name_bytes(topics), list(topics.values())
    mean = np.array([one.mean_bytes for one in shapes], np.float64)
    exponential = np.array([one.sizes == "exponential" for one in shapes], np.bool_)
    result = np.where(exponential, mean_overheads_bytes(mean, names), overheads_bytes(mean, names))
    for row, one in enumerate(shapes):
        if isinstance(one.sizes, tuple):
            result[row] = overheads_bytes(np.array(one.sizes), np.full(len(one.sizes), names[row])).mean()
    return result


def _lanes(scenario: Scenario, link_of: dict[str, str]) -> tuple[list[Lane], Ints]:
    """The real links of these clients, and each client's number among them."""
    lanes: list[Lane] = []
    numbers: dict[tuple[str, str | None], int] = {}
    names: set[str] = set()
    chosen = np.empty(len(link_of), np.int64)
    for position, (client, link_name) in enumerate(link_of.items()):
        link = scenario.link(link_name)
        key = (link_name, client if link.each else None)
        if key not in numbers:
            name = f"{link_name}:{client}" if link.each else link_name
            while name in names:  # another link happens to be called so
                name += "'"
            names.add(name)
            numbers[key] = len(lanes)
            lanes.append(Lane(name=name, link_name=link_name, link=link))
        chosen[position] = numbers[key]
    return lanes, chosen


def _sources(scenario: Scenario, topic_number: dict[str, int]) -> dict[str, Any]:
    linked = {n: p.link for n, p in scenario.publishers.items() if p.link is not None}
    lanes, numbers = _lanes(scenario, linked)
    lane_of = dict(zip(linked, numbers.tolist(), strict=True))
    topics: list[int] = []
    lane: list[int] = []
    rates: list[float] = []
    for name, publisher in scenario.publishers.items():
        topics += [topic_number[topic] for topic in publisher.publishes]
        rates += publisher.publishes.values()
        lane += [lane_of.get(name, -1)] * len(publisher.publishes)
    return {
        "source_topic": np.array(topics, np.int64),
        "source_lane": np.array(lane, np.int64),
        "source_rate_hz": np.array(rates, np.float64),
        "publisher_lanes": lanes,
    }


def _subscriptions(scenario: Scenario, subscriber_lane: Ints) -> dict[str, Any]:
    owner: list[int] = []
    filters: list[str] = []
    needs: list[Need] = []
    for number, subscriber in enumerate(scenario.subscribers.values()):
        owner += [number] * len(subscriber.subscribes)
        filters += subscriber.subscribes
        needs += subscriber.subscribes.values()
    subscription_subscriber = np.array(owner, np.int64)
    return {
        "subscription_subscriber": subscription_subscriber,
        "subscription_lane": subscriber_lane[subscription_subscriber],
        "filters": filters,
        "needs": NeedTable(needs),
    }


def streams(
    topics: Iterable[str], filters: list[str], subscriber: Ints, lane: Ints, *, most: int | None = None
) -> dict[str, Any]:
    """Who gets what: the fields of Routes on streams and claims, for topics numbered as they come.

    FirelaneError if there would be more than `most` claims.
    """
    count, start, found = _matching(numbered(topics), Counter(filters), most)
    kind = {one: number for number, one in enumerate(dict.fromkeys(filters))}
    kinds = np.array([kind[one] for one in filters], np.int64)
    size = count[kinds]
    subscription = np.repeat(np.arange(len(filters)), size)
    topic = found[np.repeat(start[kinds] - np.cumsum(size) + size, size) + np.arange(len(subscription))]
    # One stream per (topic, subscriber): the key sorts by topic first.
    subscribers = int(subscriber.max(initial=0)) + 1
    key = topic * subscribers + subscriber[subscription]
    order = np.argsort(key, kind="stable")
    stream_key, first, claim_stream = np.unique(key[order], return_index=True, return_inverse=True)
    stream_topic, stream_subscriber = np.divmod(stream_key, subscribers)
    return {
        "stream_topic": stream_topic,
        "stream_subscriber": stream_subscriber,
        "stream_lane": lane[subscription[order][first]],
        "claim_stream": claim_stream,
        "claim_subscription": subscription[order],
    }


def _matching(tree: TopicTree[int], wanted: dict[str, int], most: int | None) -> tuple[Ints, Ints, Ints]:
    """How many topics each filter matches, where they begin in a list of them all, and that list."""
    found: list[list[int]] = []
    claims = 0
    for one, times in wanted.items():
        found.append(sorted(tree.matching(one)))
        claims += times * len(found[-1])
        if most is not None and claims > most:
            raise FirelaneError(
                f"there are more pairs of subscription and topic than can be planned ({most}); "
                "use fewer topics, or fewer wildcards"
            )
    count = np.array([len(one) for one in found], np.int64)
    return count, np.cumsum(count) - count, np.array([topic for one in found for topic in one], np.int64)
