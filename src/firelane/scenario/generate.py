"""Scenarios from a seed: the FireDeX paper's, a building on fire, and a city full of vehicles.

Implements: firedex, section 5.1, Table 2 and section 5.2 (numbers of subscribers and subscriptions).
Differs:    publishers advertise 62 % of the telemetry topics, which the paper leaves open: its loads follow.
Symbols:    lambda^pub -> rate_hz, G -> size_bytes, alpha -> weight, w -> bandwidth, rho~ -> headroom.
Checked by: tests/scenario/test_generate.py

Drawn numbers are rounded to what a person would write, inside their bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from firelane.arrays import Floats
from firelane.errors import ScenarioError
from firelane.scenario.model import MOST_PRIORITIES, Link, Need, Publisher, Scenario, Subscriber, Topic
from firelane.scenario.routes import routes

# --------------------------------------------------------------------------------- the FireDeX paper


@dataclass(frozen=True, slots=True)
class Bounded:
    """An exponential random variable that is drawn again until it lies in its bounds (section 5.1)."""

    mean: float
    least: float
    most: float
    decimals: int

    def draw(self, random: np.random.Generator, count: int) -> list[float]:
        """So many values, each rounded inside the bounds."""
        drawn = random.exponential(self.mean, count)
        while len(outside := np.flatnonzero((drawn < self.least) | (drawn > self.most))):
            drawn[outside] = random.exponential(self.mean, len(outside))
        return np.clip(np.round(drawn, self.decimals), self.least, self.most).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class TopicClass:
    """One row of Table 2."""

    name: str
    rate_hz: Bounded
    size_bytes: Bounded
    weight: Bounded

    def topics(self, count: int) -> list[str]:
        """The names of so many topics of this class."""
        return [f"{self.name}/{number}" for number in range(1, count + 1)]


TELEMETRY = TopicClass(
    "telemetry", Bounded(6, 4, 7, decimals=3), Bounded(110, 90, 500, decimals=1), Bounded(0.5, 0.01, 2, decimals=4)
)
ASYNC = TopicClass(
    "async", Bounded(4, 3, 5, decimals=3), Bounded(800, 500, 1100, decimals=1), Bounded(1, 0.1, 4, decimals=4)
)
SUBSCRIBER_BPS = 8e6


def firedex(
    *,
    seed: int,
    subscribers: int = 10,
    publishers: int = 10,
    telemetry_topics: int = 140,
    async_topics: int = 60,
    telemetry_subscriptions: int = 70,
    async_subscriptions: int = 42,
    priorities: int = 9,
    flows: int | None = 9,
    headroom: float = 0.1,
    buffer: int | None = 2000,
    shared: bool = False,
    async_weight_factor: float = 1.0,
    telemetry_share: float = 0.62,
) -> Scenario:
    """The scenario of the FireDeX paper's Table 2; `shared` joins the subscribers' links into one.

    With one seed, topics and publishers stay the same whatever is subscribed to and whatever it is worth,
    and fewer subscriptions are a part of more.
    """
    _at_least(0, seed=seed, telemetry_topics=telemetry_topics, async_topics=async_topics)
    _at_least(0, async_weight_factor=async_weight_factor)
    _at_least(1, subscribers=subscribers, publishers=publishers, priorities=priorities)
    _at_least(1, buffer=1 if buffer is None else buffer, flows=1 if flows is None else flows)
    _at_most(1, telemetry_share=telemetry_share)
    _at_most(0.99, headroom=headroom)
    _at_most(MOST_PRIORITIES, priorities=priorities)
    _at_most(telemetry_topics, telemetry_subscriptions=telemetry_subscriptions)
    _at_most(async_topics, async_subscriptions=async_subscriptions)
    sizes, rates, worth = (np.random.default_rng([seed, stream]) for stream in range(3))
    telemetry, events = TELEMETRY.topics(telemetry_topics), ASYNC.topics(async_topics)
    topics = _topics(sizes, TELEMETRY, telemetry) | _topics(sizes, ASYNC, events)
    publishes = [
        _advertised(rates, TELEMETRY, telemetry, telemetry_share) | _advertised(rates, ASYNC, events, 1.0)
        for _ in range(publishers)
    ]
    subscribes = [
        _wanted(worth, TELEMETRY, telemetry, telemetry_subscriptions, 1.0)
        | _wanted(worth, ASYNC, events, async_subscriptions, async_weight_factor)
        for _ in range(subscribers)
    ]
    bandwidth_bps = SUBSCRIBER_BPS * (subscribers if shared else 1)
    post = Link(bandwidth_bps=bandwidth_bps, buffer_messages=buffer, overhead_bytes=0.0, pace=1.0, each=not shared)
    return Scenario(
        name="firedex-shared" if shared else "firedex",
        priorities=priorities,
        headroom=headroom,
        flows=flows,
        links={"post": post},
        topics=topics,
        publishers={f"publisher-{n}": Publisher(publishes=one) for n, one in enumerate(publishes, 1)},
        subscribers={
            f"subscriber-{n}": Subscriber(link="post", subscribes=needs) for n, needs in enumerate(subscribes, 1)
        },
    )


def _topics(random: np.random.Generator, kind: TopicClass, names: list[str]) -> dict[str, Topic]:
    sizes = kind.size_bytes.draw(random, len(names))
    return {name: Topic(size_bytes=size) for name, size in zip(names, sizes, strict=True)}


def _advertised(random: np.random.Generator, kind: TopicClass, names: list[str], share: float) -> dict[str, float]:
    """A publisher's share of a class of topics, with a rate for each."""
    chosen = np.sort(random.permutation(len(names))[: round(share * len(names))]).tolist()
    return dict(zip((names[i] for i in chosen), kind.rate_hz.draw(random, len(chosen)), strict=True))


def _wanted(
    random: np.random.Generator, kind: TopicClass, names: list[str], count: int, factor: float
) -> dict[str, Need]:
    """A subscriber's choice of topics and their worth; all are drawn, so that fewer are a part of more."""
    chosen = np.sort(random.permutation(len(names))[:count]).tolist()
    weights = kind.weight.draw(random, len(names))
    return {names[i]: Need(weight=round(weights[i] * factor, 6)) for i in chosen}


# -------------------------------------------------------------------------------- a building on fire

POST = Link(bandwidth_bps=8e6, buffer_messages=2000, propagation_s=0.002)
FIREFIGHTERS = 6

# What each room's sensors send: messages a second, bytes.
ROOM_SENSORS = {
    "smoke": (3.0, Topic(size_bytes=120.0)),
    "temperature": (2.0, Topic(size_bytes=110.0, sizes="fixed")),
    "co": (2.0, Topic(size_bytes=100.0, sizes="fixed")),
    "occupancy": (2.0, Topic(size_bytes=400.0)),
    "camera": (0.7, Topic(size_bytes=15_000.0)),  # thumbnails
}
FLOOR_SENSORS = {
    "building/{}/water": (2.0, Topic(size_bytes=110.0, sizes="fixed")),
    "building/{}/sprinkler": (1.0, Topic(size_bytes=140.0)),
    "building/{}/doors": (1.0, Topic(size_bytes=160.0)),
    "alarm/{}": (0.3, Topic(size_bytes=300.0)),
}
CREW_SENSORS = {
    "crew/{}/vitals": (4.0, Topic(size_bytes=500.0)),
    "crew/{}/location": (4.0, Topic(size_bytes=130.0, sizes="fixed")),
}
FLAMES = 1.5  # sensors on the burning floor send this much more
MOST_BOUND_LOAD = 0.5  # of the link, for minimum shares and loss bounds together

_urgent = partial(Need, category="real-time")
_stream = partial(Need, category="streaming", utility="saturating")
_order = partial(Need, category="transactional")
_record = partial(Need, category="analytics", utility="linear")
_alarm = partial(_urgent, max_delay_s=0.1, max_loss=0.01)


def office_fire(*, seed: int, floors: int = 4, rooms: int = 6, load: float = 1.7) -> Scenario:
    """A building on fire whose traffic needs `load` times what the command post's one link carries."""
    _at_least(0, seed=seed)
    _at_least(1, floors=floors, rooms=rooms)
    _at_least(0.01, load=load)
    random = np.random.default_rng(seed)
    burning = int(random.integers(1, floors + 1))
    topics: dict[str, Topic] = {}
    publishers: dict[str, dict[str, float]] = {}
    for floor in range(1, floors + 1):
        heat = FLAMES if floor == burning else 1.0
        sensors = {f"{name}/{floor}": (rate * rooms * heat, topic) for name, (rate, topic) in ROOM_SENSORS.items()}
        sensors |= {name.format(floor): sensor for name, sensor in FLOOR_SENSORS.items()}
        topics |= {name: topic for name, (_, topic) in sensors.items()}
        publishers[f"bms-{floor}"] = {name: rate * random.uniform(0.8, 1.2) for name, (rate, _) in sensors.items()}
    for number in range(1, FIREFIGHTERS + 1):
        carried = {name.format(number): sensor for name, sensor in CREW_SENSORS.items()}
        topics |= {name: topic for name, (_, topic) in carried.items()}
        publishers[f"firefighter-{number}"] = {name: rate for name, (rate, _) in carried.items()}
    scenario = Scenario(
        name="office-fire",
        links={"post": POST},
        topics=topics,
        publishers={name: Publisher(publishes=rates) for name, rates in publishers.items()},
        subscribers={
            name: Subscriber(link="post", subscribes=needs) for name, needs in _at_the_post(burning, floors).items()
        },
    )
    scaled = _scaled(scenario, load)
    if _least_load(scaled) > MOST_BOUND_LOAD:
        raise ScenarioError(f"at {load:g} the needs of this building cannot be met; give less", key="load")
    return scaled


def _at_the_post(burning: int, floors: int) -> dict[str, dict[str, Need]]:
    """Who is at the command post and what they want; nobody's own filters overlap."""
    above = burning + 1 if burning < floors else max(1, burning - 1)
    return {
        "commander": {
            "alarm/+": _alarm(weight=10.0),
            "smoke/+": _urgent(weight=4.0, max_delay_s=0.1, min_share=0.5),
            "temperature/+": _urgent(weight=2.0, max_delay_s=0.2),
            "occupancy/+": _urgent(weight=5.0, max_delay_s=0.2, min_share=0.4),
            "camera/+": _stream(weight=3.0, max_delay_s=1.0),
            "crew/+/location": _urgent(weight=4.0, max_delay_s=0.2),
            "building/+/water": _order(weight=1.5, max_delay_s=1.0),
        },
        "safety-officer": {
            "alarm/+": _alarm(weight=8.0),
            "crew/+/vitals": _urgent(weight=8.0, max_delay_s=0.2, max_loss=0.05),
            "crew/+/location": _urgent(weight=5.0, max_delay_s=0.2, min_share=0.5),
            "smoke/+": _urgent(weight=2.0, max_delay_s=0.2),
            "co/+": _urgent(weight=4.0, max_delay_s=0.2),
            "temperature/+": _urgent(weight=3.0, max_delay_s=0.2),
        },
        "engine-1": _crew_officer(burning, above),
        "engine-2": _crew_officer(above, burning),
        "rescue-1": {
            "alarm/+": _alarm(weight=6.0),
            "occupancy/+": _urgent(weight=6.0, max_delay_s=0.2, min_share=0.2),
            "building/+/doors": _order(weight=3.0, max_delay_s=0.5),
            "crew/+/location": _urgent(weight=4.0, max_delay_s=0.2),
            "co/+": _urgent(weight=2.0, max_delay_s=0.5),
            "smoke/+": _urgent(weight=2.0, max_delay_s=0.5),
            f"camera/{burning}": _stream(weight=2.0, max_delay_s=1.0),
        },
        "building-operator": {
            "alarm/+": _order(weight=3.0, max_delay_s=1.0),
            "building/#": _order(weight=3.0, max_delay_s=1.0, max_loss=0.1),
            "temperature/+": _stream(weight=1.0, max_delay_s=2.0),
            "occupancy/+": _stream(weight=1.0, max_delay_s=2.0),
        },
        "logger": {
            "alarm/+": _record(weight=1.0),
            "smoke/+": _record(weight=0.5),
            "temperature/+": _record(weight=0.5),
            "co/+": _record(weight=0.5),
            "occupancy/+": _record(weight=0.4),
            "camera/+": _record(weight=0.6),
            "building/#": _record(weight=0.3),
            "crew/#": _record(weight=0.4),
        },
    }


def _crew_officer(own: int, other: int) -> dict[str, Need]:
    """An officer whose crew works on one floor and may have to move to another."""
    needs = {
        "alarm/+": _alarm(weight=6.0),
        "crew/+/vitals": _urgent(weight=3.0, max_delay_s=0.5),
        "crew/+/location": _urgent(weight=3.0, max_delay_s=0.2),
        "smoke/+": _urgent(weight=3.0, max_delay_s=0.1),
        "temperature/+": _urgent(weight=3.0, max_delay_s=0.2),
        "co/+": _urgent(weight=2.0, max_delay_s=0.5),
        "occupancy/+": _urgent(weight=3.0, max_delay_s=0.5),
    }
    for floor, worth in {other: 1.0, own: 3.0}.items():
        needs[f"camera/{floor}"] = _stream(weight=worth, max_delay_s=1.0)
    return needs | {f"building/{own}/water": _order(weight=3.0, max_delay_s=0.5)}


def _loads(scenario: Scenario) -> Floats:
    """Offered load of each subscription; for scenarios where nobody's filters overlap."""
    way = routes(scenario)
    per_byte, per_message = way.service_s()
    stream = way.topic_rate_hz[way.stream_topic] * (way.topic_mean_bytes[way.stream_topic] * per_byte + per_message)
    return np.bincount(way.claim_subscription, stream[way.claim_stream], len(way.filters)).astype(np.float64)


def _scaled(scenario: Scenario, load: float) -> Scenario:
    """The same with all rates scaled to this load, to three digits."""
    factor = load / float(_loads(scenario).sum())
    publishers = {
        name: Publisher(publishes={topic: float(f"{rate * factor:.3g}") for topic, rate in one.publishes.items()})
        for name, one in scenario.publishers.items()
    }
    return replace(scenario, publishers=publishers)


def _least_load(scenario: Scenario) -> float:
    """The load that minimum shares and loss bounds leave no choice about."""
    needs = [need for one in scenario.subscribers.values() for need in one.subscribes.values()]
    return float(_loads(scenario) @ [need.least_share for need in needs])


# ----------------------------------------------------------------------------- a city full of vehicles

CELL_BPS_PER_VEHICLE = 100e3
POPULARITY_SHAPE = 1.5  # of the Pareto distribution: a few zones draw most of the traffic
MOST_POPULAR = 20.0


def city(*, seed: int, zones: int = 200, vehicles: int = 2000, cells: int = 20) -> Scenario:
    """Vehicles on a grid of zones, each following its own zone and those around it over its radio cell.

    Cells are built for the mean number of vehicles, so those with popular zones are overloaded.
    """
    _at_least(0, seed=seed)
    _at_least(1, zones=zones, vehicles=vehicles, cells=cells)
    random = np.random.default_rng(seed)
    columns = math.ceil(math.sqrt(zones))
    popularity = np.minimum(1 + random.pareto(POPULARITY_SHAPE, zones), MOST_POPULAR)
    sizes = np.round(random.uniform(200, 600, zones)).tolist()
    position = random.choice(zones, vehicles, p=popularity / popularity.sum())
    weights = np.round(random.uniform(0.1, 1, (vehicles, 5)), 2).tolist()
    bandwidth_bps = CELL_BPS_PER_VEHICLE * max(1, math.ceil(vehicles / cells))
    topics = {f"zone/{n}": Topic(size_bytes=size) for n, size in enumerate(sizes)}
    return Scenario(
        name="city",
        links={
            f"cell-{n}": Link(bandwidth_bps=bandwidth_bps, buffer_messages=2000, propagation_s=0.01)
            for n in range(cells)
        },
        topics={"city/alerts": Topic(size_bytes=200.0, sizes="fixed"), **topics},
        publishers={
            "city": Publisher(publishes={"city/alerts": 0.5}),
            **{
                f"roadside-{n}": Publisher(publishes={f"zone/{n}": round(3 * math.sqrt(one), 2)})
                for n, one in enumerate(popularity.tolist())
            },
        },
        subscribers={
            f"vehicle-{n}": Subscriber(link=f"cell-{zone * cells // zones}", subscribes=_nearby(zone, around, worth))
            for n, (zone, worth) in enumerate(zip(position.tolist(), weights, strict=True))
            for around in [_neighbours(zone, zones, columns)]
        },
    )


def _neighbours(zone: int, zones: int, columns: int) -> list[int]:
    """The zones to the north, west, east and south on a grid with this many columns."""
    column = zone % columns
    candidates = [
        zone - columns,
        zone - 1 if column > 0 else -1,
        zone + 1 if column < columns - 1 else -1,
        zone + columns,
    ]
    return [one for one in candidates if 0 <= one < zones]


def _nearby(zone: int, neighbours: list[int], weights: list[float]) -> dict[str, Need]:
    """A vehicle's needs: alerts before its own zone before those around it."""
    needs = {
        "city/alerts": Need(weight=5.0, max_delay_s=0.1, max_loss=0.01, category="real-time"),
        f"zone/{zone}": Need(weight=round(2 + 2 * weights[0], 2), max_delay_s=0.2, category="real-time"),
    }
    for one, weight in zip(neighbours, weights[1:], strict=False):
        needs[f"zone/{one}"] = Need(weight=weight, max_delay_s=1.0, category="streaming")
    return needs


# ------------------------------------------------------------------------------------------ arguments


def _at_least(least: float, **arguments: float) -> None:
    for name, value in arguments.items():
        if not least <= value < math.inf:
            raise ScenarioError(f"{value} does not fit; give {least} or more", key=name)


def _at_most(most: float, **arguments: float) -> None:
    for name, value in arguments.items():
        if not 0 <= value <= most:
            raise ScenarioError(f"{value} does not fit; give 0 to {most}", key=name)
