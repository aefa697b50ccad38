"""Time to find the subscriptions that want a message, among 100 000 different filters with wildcards.

A building's filters, drawn at random: `site/+/floor/F/room/R/#`, `site/S/floor/+/room/R/kind/K` and the like. Ours is
measured twice: the walk through the tree of filters, as for a topic seen for the first time, and the route as it is
remembered for a topic seen before. The peer is the matcher that ships with paho-mqtt, a tree in Python too.
"""

from __future__ import annotations

import random
from time import perf_counter
from typing import Any

from paho.mqtt.matcher import MQTTMatcher

from firelane.bench import OURS, Measure, Target, interleaved, main
from firelane.exchange.clients.access import Identity
from firelane.exchange.clients.session import Session, new_subscription
from firelane.exchange.delivering.routes import Routes
from firelane.mqtt import FilterTree

FILTERS, QUICK_FILTERS = 100_000, 5_000
TOPICS = 2_000
MOST_WALK_S = 100e-6
MOST_KNOWN_S = 1e-6


def measures(*, quick: bool = False) -> list[Measure]:
    """How long one look-up takes."""
    draw = random.Random(1)
    filters = _distinct(draw, QUICK_FILTERS if quick else FILTERS)
    topics = [_topic(draw) for _ in range(TOPICS)]
    tree: FilterTree[int] = FilterTree()
    peer: Any = MQTTMatcher()  # type: ignore[no-untyped-call]
    for number, one in enumerate(filters):
        tree.add(one, number)
        peer[one] = number
    assert sorted(tree.matching(topics[0])) == sorted(peer.iter_match(topics[0]))
    routes = _routes(filters)
    for topic in topics:
        routes.find(topic.encode())
    encoded = [topic.encode() for topic in topics]
    walk = interleaved(
        "matching",
        "s",
        {
            OURS: lambda: _seconds(tree.matching, topics),
            "paho-mqtt": lambda: _seconds(lambda topic: list(peer.iter_match(topic)), topics),
        },
    )
    known = interleaved("matching again", "s", {OURS: lambda: _seconds(routes.find, encoded)})
    return [
        Measure(
            name=f"matching, {len(filters):,} filters",
            ours=walk[OURS],
            peers={"paho-mqtt": walk["paho-mqtt"]},
            unit="s",
            targets={OURS: Target(words="microseconds", met=walk[OURS] < MOST_WALK_S)},
        ),
        Measure(
            name="matching, a topic seen before",
            ours=known[OURS],
            unit="s",
            targets={OURS: Target(words="below 1 µs", met=known[OURS] < MOST_KNOWN_S)},
        ),
    ]


def _seconds(look_up: object, topics: list[str] | list[bytes]) -> float:
    assert callable(look_up)
    started = perf_counter()
    for topic in topics:
        look_up(topic)
    return (perf_counter() - started) / len(topics)


def _routes(filters: list[str]) -> Routes:
    routes = Routes(lambda session, topic: True)
    for number in range(1000):
        session = Session(number=number + 1, client_id=f"c{number}", identity=Identity(client_id=f"c{number}"))
        for one in filters[number::1000]:
            routes.add(new_subscription(session, one, qos=0))
    return routes


def _distinct(draw: random.Random, count: int) -> list[str]:
    filters: dict[str, None] = {}
    while len(filters) < count:
        filters[_filter(draw)] = None
    return list(filters)


def _filter(draw: random.Random) -> str:
    site = draw.choice(["+", str(draw.randrange(20))])
    floor = draw.choice(["+", str(draw.randrange(30))])
    room = draw.choice(["+", str(draw.randrange(200)), str(draw.randrange(200))])
    end = draw.choice(["#", f"kind/{draw.randrange(50)}", "kind/+"])
    return f"site/{site}/floor/{floor}/room/{room}/{end}"


def _topic(draw: random.Random) -> str:
    place = f"site/{draw.randrange(20)}/floor/{draw.randrange(30)}/room/{draw.randrange(200)}"
    return f"{place}/kind/{draw.randrange(50)}"


if __name__ == "__main__":
    main(measures)
