"""What is live as a Scenario: measured rates and sizes, subscriptions as they are, and the rest as configured.

* All topics come from one publisher, `live`: rates are measured where the exchange takes messages in, so what
  publishers' links do to them has happened already.
* Of sizes, planning and prediction use the mean and the variance. Where neither `fixed` nor `exponential` fits, a list
  of a few sizes has exactly these two.
* A topic of the configured scenario that has not been seen counts at its configured rate, but at no more than once in
  all the time that there has been traffic. So it fades without ever being forgotten, and the first message of a rare
  alarm finds its lane ready.
* Members of a shared group take turns. Each of n is planned as one who gets an n-th of every topic: the group's part of
  topic `t` is a topic of its own, `$share/GROUP/t`. Where two filters of one group name match a topic, the group with
  fewer members counts for both.
* Several clients may be one subscriber of the scenario (`match`). A plan treats them alike, with the need of the one to
  whom it matters most, but each needs its own room on the link: all but the first are planned as twins of the first.
* Subscriptions of QoS 1 and 2 are never dropped by rate: their least share is 1.
* Streams of sensors are told coarser to who bears more (`network.telling`); there a tolerance can give way.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from firelane.arrays import Floats
from firelane.exchange.measuring.observed import Observed, SeenSubscription, SeenTopic
from firelane.mqtt import numbered
from firelane.mqtt.topics import plain_filter
from firelane.scenario.model import Link, Need, Publisher, Scenario, Subscriber, Topic
from firelane.scenario.overhead import mean_overheads_bytes, overheads_bytes

LIVE = "live"
TWIN = "\0"  # between a subscriber's name and a number; no client id and no name of a scenario can have it
SILENT_HZ = 1e-9

# How far (relative to the square of the mean) a variance may be from that of `fixed` and `exponential`.
NEARLY_FIXED, NEARLY_EXPONENTIAL = 1e-4, 1e-2
MOST_SIZES = 1000

Seats = dict[str, dict[str, SeenSubscription]]


def learnt(observed: Observed, scenario: Scenario | None = None, *, listened_s: float = 0.0) -> Scenario:
    """The scenario of what is live; `scenario` is the configured one, `listened_s` how long there has been traffic."""
    base = scenario or Scenario(name=LIVE)
    topics = traffic(observed.topics, shared_groups(observed.subscriptions), base, listened_s)
    return as_scenario(base, observed.links, topics, seats(observed.subscriptions))


def as_scenario(base: Scenario, links: dict[str, Link], topics: dict[str, SeenTopic], people: Seats) -> Scenario:
    """The configured scenario with other links, topics and subscribers."""
    return Scenario(
        name=base.name,
        priorities=base.priorities,
        headroom=base.headroom,
        flows=base.flows,
        links=dict(links),
        topics={name: topic_of(one) for name, one in topics.items()},
        publishers={LIVE: Publisher(publishes={name: one.rate_hz for name, one in topics.items()})},
        subscribers=_subscribers(people),
        categories=base.categories,
    )


def seats(subscriptions: Iterable[SeenSubscription]) -> Seats:
    """Who wants what, by subscriber and filter; whoever wants the same as another of its name is a twin."""
    result: Seats = {}
    alike: dict[tuple[str, str], list[dict[str, SeenSubscription]]] = {}
    for one in subscriptions:
        wants = result.setdefault(one.subscriber, {})
        if one.filter in wants:
            twins = alike.setdefault((one.subscriber, one.filter), [wants])
            wants = result.setdefault(f"{one.subscriber}{TWIN}{len(twins)}", {})
            twins.append(wants)
        wants[one.filter] = one
    for (_, topic_filter), twins in alike.items():
        _agree(topic_filter, twins)
    return result


def _agree(topic_filter: str, twins: list[dict[str, SeenSubscription]]) -> None:
    """Twins are treated alike, so they must need the same: what the one to whom it matters most needs."""
    need = max((wants[topic_filter].need for wants in twins), key=lambda one: one.weight)
    for wants in twins:
        if wants[topic_filter].need is not need:
            wants[topic_filter] = replace(wants[topic_filter], need=need)


def single(subscriber: str) -> str:
    """A subscriber's own name, also of its twins."""
    return subscriber.partition(TWIN)[0]


def shown(text: str) -> str:
    """A text in which twins may be named, for people."""
    return text.replace(TWIN, " twin ")


def shared_groups(subscriptions: Iterable[SeenSubscription]) -> dict[str, int]:
    """How many members there are of each shared group, by its filter."""
    return Counter(one.filter for one in subscriptions if one.filter.startswith("$share/"))


def traffic(
    seen: Iterable[SeenTopic], shared: dict[str, int], base: Scenario, listened_s: float
) -> dict[str, SeenTopic]:
    """Topics that are published or may soon be, and what shared groups get of them."""
    topics = {one.name: one for one in seen if one.rate_hz > SILENT_HZ}
    topics |= _awaited(base, topics, listened_s)
    return topics | _dealt(topics, shared) if shared else topics


def _awaited(base: Scenario, seen: dict[str, SeenTopic], listened_s: float) -> dict[str, SeenTopic]:
    """Topics of the configured scenario that have not been seen, each at most once in the time listened."""
    rates: defaultdict[str, float] = defaultdict(float)
    for publisher in base.publishers.values():
        for name, rate_hz in publisher.publishes.items():
            if name not in seen:
                rates[name] += rate_hz
    most_hz = 1 / listened_s if listened_s > 0 else math.inf
    return {
        name: SeenTopic(
            name=name,
            rate_hz=min(rate_hz, most_hz),
            mean_bytes=base.topics[name].mean_bytes,
            variance_bytes2=base.topics[name].variance_bytes2,
            latest_hz=0.0,
        )
        for name, rate_hz in rates.items()
        if rate_hz > SILENT_HZ
    }


def _dealt(topics: dict[str, SeenTopic], members: dict[str, int]) -> dict[str, SeenTopic]:
    """What one member gets of each topic of its shared group."""
    tree, seen = numbered(topics), list(topics.values())
    result: dict[str, SeenTopic] = {}
    for shared, count in members.items():
        plain = plain_filter(shared)
        group = shared.removesuffix(plain)
        for number in tree.matching(plain):
            part = seen[number]._replace(name=group + seen[number].name, rate_hz=seen[number].rate_hz / count)
            if part.name not in result or result[part.name].rate_hz < part.rate_hz:
                result[part.name] = part
    return result


def _subscribers(people: Seats) -> dict[str, Subscriber]:
    return {
        name: Subscriber(
            link=next(iter(wants.values())).link,
            subscribes={topic_filter: _held(one.need) if one.qos else one.need for topic_filter, one in wants.items()},
        )
        for name, wants in people.items()
    }


@lru_cache(maxsize=65_536)
def _held(need: Need) -> Need:
    """The need of a subscription that is never dropped by rate."""
    return replace(need, min_share=1.0)


def topic_of(seen: SeenTopic) -> Topic:
    """A topic with the mean and the variance that were seen."""
    mean, square = seen.mean_bytes, seen.mean_bytes**2
    if seen.variance_bytes2 <= NEARLY_FIXED * square:
        return Topic(size_bytes=mean, sizes="fixed")
    if abs(seen.variance_bytes2 - square) <= NEARLY_EXPONENTIAL * square:
        return Topic(size_bytes=mean, sizes="exponential")
    # `small` sizes and a large one: enough of the small ones that they need not be negative.
    small = min(MOST_SIZES, max(1, math.ceil(seen.variance_bytes2 / square)))
    less = min(mean, math.sqrt(seen.variance_bytes2 / small))
    return Topic(sizes=(mean - less,) * small + (mean + small * less,))


def overheads(mean: Floats, variance: Floats, name_bytes: Floats) -> Floats:
    """What the wire adds on average to messages of such topics (`topic_of`), for many at once."""
    square = mean**2
    small = np.clip(np.ceil(np.divide(variance, square, out=np.ones(len(mean)), where=square > 0)), 1, MOST_SIZES)
    less = np.minimum(mean, np.sqrt(variance / small))
    few, many = overheads_bytes(mean + small * less, name_bytes), overheads_bytes(mean - less, name_bytes)
    exponential = np.abs(variance - square) <= NEARLY_EXPONENTIAL * square
    fixed = variance <= NEARLY_FIXED * square
    return np.select(
        [fixed, exponential],
        [overheads_bytes(mean, name_bytes), mean_overheads_bytes(mean, name_bytes)],
        (small * many + few) / (small + 1),
    )
