"""A building on fire, drawn before any clock starts: who sends what when, and what it is worth in which phase.

Both brokers are driven by the same drawing. Flames spread over one floor and then to the next, whose sensors send
more and more; crews go in when the responders turn from size-up to suppression, and other data matters then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.scenario.generate import office_fire
from firelane.scenario.model import Need, Publisher, Scenario, Topic, wire_bytes
from firelane.scenario.routes import Routes, routes

LOAD = 1.7  # what is offered over the whole run, by what the link carries
MOMENTS = np.linspace(0.0, 1.0, 1001)  # of the run, for means over it
SUPPRESSION_AT = 0.4
FLASHOVER = 0.4  # how long a floor takes to burn whole
SPREADS_AT = 0.6  # when the next floor begins to burn
LEAST_BYTES = 4  # a payload begins with its number

ALARMS, VIDEO, RECORDS = "alarms", "video", "records"
_KINDS = {
    "alarm": ALARMS,
    "vitals": "vitals",
    "location": "location",
    "smoke": "smoke, CO",
    "co": "smoke, CO",
    "temperature": "temperature",
    "occupancy": "occupancy",
    "building": "building",
    "camera": VIDEO,
}
KINDS = (*dict.fromkeys(_KINDS.values()), RECORDS)

# How much more or less than usual each kind of data matters to the responders.
SIZE_UP = {"occupancy": 2.0, VIDEO: 2.0, "smoke, CO": 1.5, "vitals": 0.5, "location": 0.5, "temperature": 0.5}
SUPPRESSION = {"vitals": 2.0, "location": 2.0, "temperature": 2.0, "building": 2.0, "occupancy": 0.5, VIDEO: 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the run, and what every subscription of the routes needs in it."""

    name: str
    start_s: float
    end_s: float
    needs: Sequence[Need]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fire:
    """Publications in the order of their times, one entry each, and the phases; `routes` is how it begins."""

    routes: Routes
    seconds: float
    phases: list[Phase]
    burning: int  # the floor where it starts
    second: int  # the floor that catches fire later
    at_s: Floats
    topic: Ints
    size_bytes: Ints

    @property
    def subscription(self) -> Ints:
        """By topic and subscriber: the subscription that carries it, -1 if there is none. No filters overlap here."""
        r = self.routes
        table = np.full((len(r.topics), len(r.subscribers)), -1, np.int64)
        claimed = r.claim_stream
        table[r.stream_topic[claimed], r.stream_subscriber[claimed]] = r.claim_subscription
        return table

    @property
    def kind(self) -> Ints:
        """Of every subscription the kind of data, a position in KINDS."""
        return _kinds(self.routes)

    @property
    def copies(self) -> Ints:
        """How many subscribers get each publication."""
        copies: Ints = np.count_nonzero(self.subscription >= 0, axis=1)[self.topic]
        return copies

    @property
    def holding_s(self) -> Floats:
        """How long each publication holds the link for one subscriber."""
        link, topics = self.routes.lanes[0].link, self.routes.topics
        sent = zip(self.size_bytes.tolist(), self.topic.tolist(), strict=True)
        return np.array([wire_bytes(size, topics[topic], link) for size, topic in sent]) * 8 / link.paced_bps

    @property
    def load(self) -> float:
        """What all of this needs of the link, by what it carries in the time."""
        return float(self.copies @ self.holding_s) / self.seconds

    def phase_at(self, moment_s: float) -> Phase:
        """The phase at a moment of the run, and the last one after it."""
        return next((one for one in self.phases if moment_s < one.end_s), self.phases[-1])

    def spread(self, moment_s: float) -> bool:
        """Whether a second floor burns by now."""
        return moment_s > SPREADS_AT * self.seconds


def draw_fire(*, seconds: float, seed: int) -> Fire:
    """A fire that takes this long; its traffic needs `LOAD` times what the command post's link carries."""
    usual = office_fire(seed=seed, load=LOAD)
    smoke = {topic: hz for one in usual.publishers.values() for topic, hz in one.publishes.items() if "smoke" in topic}
    floors = sorted(smoke, key=lambda topic: smoke[topic])
    burning = int(floors[-1].removeprefix("smoke/"))
    second = burning + 1 if burning < len(floors) else burning - 1
    usual = _weighted(usual, SIZE_UP)
    network = routes(usual)
    growth = np.array([_growth(name, burning, second) for name in network.topics])
    growth *= LOAD / _mean_load(network, growth)
    random = np.random.default_rng(seed)
    at_s, topic = _publications(network.topic_rate_hz[:, None] * growth, seconds, random)
    drawn = Fire(
        routes=routes(_at_rates(usual, dict(zip(network.topics, growth[:, 0].tolist(), strict=True)))),
        seconds=seconds,
        phases=_phases(network, seconds),
        burning=burning,
        second=second,
        at_s=at_s,
        topic=topic,
        size_bytes=_sizes(list(usual.topics.values()), topic, random),
    )
    return _at_load(_at_load(drawn))  # once is not exact, as headers do not scale


def kind_of(subscriber: str, topic_filter: str) -> str:
    """The kind of data that a subscription is about; the logger's are records, whatever is in them."""
    if subscriber == "logger":
        return RECORDS
    levels = topic_filter.split("/")
    return _KINDS[levels[-1] if levels[0] == "crew" else levels[0]]


def _kinds(network: Routes) -> Ints:
    owners = (network.subscribers[one] for one in network.subscription_subscriber.tolist())
    return np.array([KINDS.index(kind_of(*pair)) for pair in zip(owners, network.filters, strict=True)])


def _phases(network: Routes, seconds: float) -> list[Phase]:
    """Size-up with the needs that there are, then suppression with its own."""
    change_s = SUPPRESSION_AT * seconds
    factor = [SUPPRESSION.get(KINDS[one], 1.0) / SIZE_UP.get(KINDS[one], 1.0) for one in _kinds(network).tolist()]
    later = [replace(need, weight=round(need.weight * by, 6)) for need, by in zip(network.needs, factor, strict=True)]
    return [
        Phase(name="size-up", start_s=0.0, end_s=change_s, needs=network.needs),
        Phase(name="suppression", start_s=change_s, end_s=seconds, needs=later),
    ]


def _weighted(scenario: Scenario, factor: dict[str, float]) -> Scenario:
    """The same with other weights, by kind; of video only the newest picture is of use."""

    def need(kind: str, one: Need) -> Need:
        return replace(one, weight=one.weight * factor.get(kind, 1.0), keep="latest" if kind == VIDEO else "all")

    subscribers = {
        name: replace(one, subscribes={f: need(kind_of(name, f), wanted) for f, wanted in one.subscribes.items()})
        for name, one in scenario.subscribers.items()
    }
    return replace(scenario, subscribers=subscribers)


def without_needs(scenario: Scenario) -> Scenario:
    """The same as a plain broker knows it: who subscribes to what, but not what it is worth."""
    subscribers = {
        name: replace(one, subscribes=dict.fromkeys(one.subscribes, Need()))
        for name, one in scenario.subscribers.items()
    }
    return replace(scenario, subscribers=subscribers)


def _at_rates(scenario: Scenario, factor: dict[str, float]) -> Scenario:
    """The same with other rates, by topic."""
    publishers = {
        name: Publisher(publishes={topic: hz * factor[topic] for topic, hz in one.publishes.items()})
        for name, one in scenario.publishers.items()
    }
    return replace(scenario, publishers=publishers)


def _growth(topic: str, burning: int, second: int) -> Floats:
    """How a topic's rate goes with the fire, at every one of `MOMENTS`."""
    levels = topic.split("/")
    if levels[0] == "crew":
        return 0.6 + 0.8 * _spread(MOMENTS, SUPPRESSION_AT - 0.1, SUPPRESSION_AT + 0.1)
    starts = {burning: 0.0, second: SPREADS_AT}
    floor = int(levels[1])
    flames = _spread(MOMENTS, starts[floor], starts[floor] + FLASHOVER) if floor in starts else np.zeros(len(MOMENTS))
    return 3.0 + 9.0 * flames if levels[0] == "alarm" else 0.7 + 0.9 * flames


def _spread(moment: Floats, start: float, end: float) -> Floats:
    return np.clip((moment - start) / (end - start), 0.0, 1.0)


def _at_load(fire: Fire) -> Fire:
    """The same with those sizes that vary scaled so that all of it needs `LOAD` times what the link carries."""
    topics = fire.routes.scenario.topics.values()
    varies = np.array([one.sizes == "exponential" for one in topics])[fire.topic]
    varying_s = float((fire.copies * fire.holding_s)[varies].sum())
    factor = 1.0 + (LOAD - fire.load) * fire.seconds / varying_s
    scaled = np.maximum(np.round(fire.size_bytes * factor), LEAST_BYTES).astype(np.int64)
    return replace(fire, size_bytes=np.where(varies, scaled, fire.size_bytes))


def _mean_load(network: Routes, growth: Floats) -> float:
    rate_hz = (network.topic_rate_hz * growth.mean(axis=1))[network.stream_topic]
    return float(rate_hz @ network.mean_service_s())


def _publications(rate_hz: Floats, seconds: float, random: np.random.Generator) -> tuple[Floats, Ints]:
    """Poisson streams whose rates change: (time, topic), by time. Rates are given by topic and moment."""
    peak_hz = rate_hz.max(axis=1)
    topic = np.repeat(np.arange(len(peak_hz)), random.poisson(peak_hz * seconds))
    at_s = random.uniform(0.0, seconds, len(topic))
    place = np.minimum((at_s / seconds * len(MOMENTS)).astype(np.int64), len(MOMENTS) - 1)
    kept = random.uniform(size=len(topic)) * peak_hz[topic] < rate_hz[topic, place]
    order = np.argsort(at_s[kept], kind="stable")
    return at_s[kept][order], topic[kept][order]


def _sizes(topics: list[Topic], topic: Ints, random: np.random.Generator) -> Ints:
    """Payload sizes in whole bytes, each with room for the number."""
    mean = np.array([one.mean_bytes for one in topics])[topic]
    varies = np.array([one.sizes == "exponential" for one in topics])[topic]
    drawn = np.where(varies, mean * random.exponential(size=len(topic)), mean)
    return np.maximum(np.round(drawn), LEAST_BYTES).astype(np.int64)
