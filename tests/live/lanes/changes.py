"""Ten changes in eight minutes, and what clients saw of them: the exchange knows its link's nominal speed and what
categories of subscriptions require, and nothing of what is going to happen.

Topics come at rates and sizes that vary; subscribers come and go; the bottleneck halves; an operator declares a phase.
What becomes of it is reckoned from both ends of every message, second by second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Thread

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.scenario import from_data
from firelane.scenario.model import Scenario
from firelane.scenario.routes import routes
from live.lanes.bottleneck import QUEUE_S, Bottleneck
from live.lanes.deliveries import Deliveries
from live.lanes.load import Act, Stage
from live.lanes.schedule import Schedule, schedule, varied

RATE_BPS = 2e6
SIZE_BYTES = 250
SECONDS = 485
HALVED, WHOLE = 25, 55
APPEARS, LEAVES = 80, 100
FLOOD, EBB = 120, 145
FEWER, ALL = 165, 185
PHASE, OVER = 205, 225
RAMP, TOP, DOWN = 245, 305, 320
CYCLES, PERIOD, CALM = 340, 30, 430
LARGER = 455
EMERGENCY = "emergency"
MOST_TIMES = {"streaming": 3.0, "analytics": 2.5}
FLOOD_TIMES = 10.0
SUPPRESSION = "suppression"

# Category -> how often each of its three topics comes, and what it requires.
RATES_HZ = {"real-time": 15.0, "streaming": 30.0, "transactional": 10.0, "analytics": 30.0}
CATEGORIES = {
    "real-time": {"max_delay": "50 ms", "max_loss": 0},
    "streaming": {"max_delay": "200 ms", "max_loss": 0.3},
    "transactional": {"max_delay": "1 s", "max_loss": 0},
    "analytics": {"max_loss": 0.9},
}
CHANGES = {
    HALVED: "bandwidth halves",
    WHOLE: "and recovers",
    APPEARS: "emergency appears",
    LEAVES: "and leaves",
    FLOOD: "flood on a topic",
    EBB: "and ends",
    FEWER: "half leave",
    ALL: "and return",
    PHASE: "phase declared",
    OVER: "and over",
    RAMP: "60 s ramp",
    DOWN: "and down",
    CYCLES: "cycles of 30 s",
    LARGER: "sizes triple",
}


def system() -> Scenario:
    """Three subscribers of each category with two topics each, and one that is there in an emergency only."""
    wants = {
        f"{category}-{one}": {f"{category}/{(one + turn) % 3}": {"category": category} for turn in range(2)}
        for category in RATES_HZ
        for one in range(3)
    }
    wanted = [*(f"real-time/{n}" for n in range(2)), *(f"streaming/{n}" for n in range(2))]
    wants[EMERGENCY] = {topic: {"category": "real-time"} for topic in wanted}
    topics = [f"{category}/{n}" for category in RATES_HZ for n in range(3)]
    return from_data(
        {
            "name": "ten-changes",
            "links": {"post": {"bandwidth": RATE_BPS, "buffer": 400}},
            "topics": {name: {"size": SIZE_BYTES} for name in topics},
            "publishers": {"field": {"publishes": {name: RATES_HZ[name.partition("/")[0]] for name in topics}}},
            "subscribers": {name: {"link": "post", "subscribes": one} for name, one in wants.items()},
            "categories": CATEGORIES,
            "exchange": {
                "control": {"planner": "plan"},
                "phases": {SUPPRESSION: [{"filter": "streaming/0", "need": {"category": "real-time"}}]},
            },
        }
    )


def served(scenario: Scenario) -> Scenario:
    """What the exchange is told: nothing of topics and who publishes them."""
    return replace(scenario, topics={}, publishers={})


def times(topic: str, at_s: Floats) -> Floats:
    """How many times as often as usual a topic comes, at these moments."""
    category = topic.partition("/")[0]
    if category not in MOST_TIMES:
        return np.ones(len(at_s))
    most = MOST_TIMES[category]
    ramp = np.interp(at_s, [RAMP, TOP, DOWN, DOWN + 1e-6], [1.0, most, most, 1.0]) if category == "streaming" else 1.0
    inside = (at_s >= CYCLES) & (at_s < CALM)
    wave = np.where(inside, 1 + 0.75 * (1 - np.cos(2 * np.pi * (at_s - CYCLES) / PERIOD)), 1.0)
    flood = np.where((at_s >= FLOOD) & (at_s < EBB), FLOOD_TIMES, 1.0) if topic == "analytics/0" else 1.0
    return np.asarray(ramp * wave * flood)


def rate_hz(moment_s: float) -> float:
    """How often all topics together come at a moment."""
    field = system().publishers["field"]
    return sum(rate * float(times(name, np.array([moment_s]))[0]) for name, rate in field.publishes.items())


def planned(scenario: Scenario, *, seed: int) -> Schedule:
    """All publications: drawn at the highest rates, and thinned."""
    most = {name: max(times(name, np.linspace(0, SECONDS, 10 * SECONDS))) for name in scenario.topics}
    field = scenario.publishers["field"]
    rates = {name: rate * most[name] for name, rate in field.publishes.items()}
    full = replace(scenario, publishers={"field": replace(field, publishes=rates)})
    drawn = schedule(full, seconds=SECONDS, seed=seed)
    share, larger = np.empty(len(drawn.at_s)), np.ones(len(drawn.at_s))
    for number, name in enumerate(drawn.routes.topics):
        inside = drawn.topic == number
        share[inside] = times(name, drawn.at_s[inside]) / most[name]
        if name.partition("/")[0] in MOST_TIMES:
            larger[inside] = np.where(drawn.at_s[inside] >= LARGER, 3.0, 1.0)
    return varied(drawn, share, larger, seed)


def leavers(scenario: Scenario) -> list[str]:
    """Half of those who are always there."""
    return [name for name in scenario.subscribers if name != EMERGENCY][::2]


def acts(scenario: Scenario, narrow: Bottleneck, declare: Callable[[str | None], None]) -> list[Act]:
    """What happens beside publications. What takes a while, happens in a thread."""

    def aside(work: Callable[..., None], *arguments: object) -> Callable[[Stage], None]:
        return lambda stage: Thread(target=work, args=arguments).start()

    def enter(*names: str) -> Callable[[Stage], None]:
        return lambda stage: Thread(target=lambda: [stage.enter(name) for name in names]).start()

    def leave(*names: str) -> Callable[[Stage], None]:
        return lambda stage: [stage.leave(name) for name in names] and None

    def narrowed(rate_bps: float) -> None:
        narrow.change(rate_bps, queue_bytes=RATE_BPS * QUEUE_S / 8)

    half = leavers(scenario)
    return [
        (HALVED, aside(narrowed, RATE_BPS / 2)),
        (WHOLE, aside(narrowed, RATE_BPS)),
        (APPEARS, enter(EMERGENCY)),
        (LEAVES, leave(EMERGENCY)),
        (FEWER, leave(*half)),
        (ALL, enter(*half)),
        (PHASE, aside(declare, SUPPRESSION)),
        (OVER, aside(declare, None)),
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seconds:
    """Second by second (of sending) what became of a category: messages due, how many came, and their mean delay."""

    due: Ints
    came: Ints
    delay_s: Floats


def by_second(got: Deliveries, which: Flags) -> Seconds:
    """Of some streams of the routes, while their subscribers were there."""
    r, plan = got.schedule.routes, got.schedule
    sent_s = (got.sent_ns - got.started_ns) / 1e9
    due = np.zeros(SECONDS + 1, np.int64)
    for stream in np.flatnonzero(which):
        there = present(r.subscribers[r.stream_subscriber[stream]], sent_s)
        moments = sent_s[there & (plan.topic == r.stream_topic[stream])]
        due += np.bincount(moments.astype(np.int64), minlength=SECONDS + 1)[: SECONDS + 1]
    when = sent_s[got.publication]
    there = np.zeros(len(when), np.bool_)
    for number, name in enumerate(r.subscribers):
        mine = got.subscriber == number
        there[mine] = present(name, when[mine])
    mine = which[got.stream] & there
    second = when[mine].astype(np.int64)
    came = np.bincount(second, minlength=SECONDS + 1)
    total = np.bincount(second, got.end_to_end_s[mine], SECONDS + 1)
    return Seconds(due=due, came=came, delay_s=np.divide(total, came, out=np.full(len(came), np.nan), where=came > 0))


def present(name: str, at_s: Floats) -> Flags:
    """Whether a subscriber was there, and for a second at least."""
    if name == EMERGENCY:
        inside: Flags = (at_s > APPEARS + 1) & (at_s < LEAVES - 0.5)
        return inside
    if name in leavers(system()):
        always: Flags = (at_s < FEWER - 0.5) | (at_s > ALL + 1)
        return always
    return np.ones(len(at_s), np.bool_)


def streams_of(got: Deliveries, category: str) -> Flags:
    """The streams of a category, as it is without a phase."""
    r = got.schedule.routes
    mine = np.array([need.category == category for need in r.needs], np.bool_)
    owner, _, _ = r.owners(np.zeros(len(r.needs), np.int64), np.zeros(len(r.needs)))
    return mine[owner]


def at(scenario: Scenario, moment_s: float) -> Scenario:
    """The scenario as it is at a moment, for those who ask what a plan could do then."""
    field = scenario.publishers["field"]
    rates = {name: rate * float(times(name, np.array([moment_s]))[0]) for name, rate in field.publishes.items()}
    larger = 3.0 if moment_s >= LARGER else 1.0
    topics = {
        name: replace(one, size_bytes=one.size_bytes * (larger if name.partition("/")[0] in MOST_TIMES else 1.0))
        for name, one in scenario.topics.items()
    }
    there = {n: s for n, s in scenario.subscribers.items() if present(n, np.array([moment_s]))[0]}
    half = HALVED <= moment_s < WHOLE
    links = {n: replace(one, bandwidth_bps=RATE_BPS / (2 if half else 1)) for n, one in scenario.links.items()}
    publishers = {"field": replace(field, publishes=rates)}
    return replace(scenario, topics=topics, publishers=publishers, subscribers=there, links=links)


def feasible(scenario: Scenario, moment_s: float) -> int:
    """How many bounds the best plan misses at a moment."""
    from firelane.plan import plan

    return len(plan(routes(at(scenario, moment_s))).missed)
