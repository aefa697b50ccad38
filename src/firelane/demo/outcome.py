"""What came of the demo: value, delay, age and drops of both brokers, in all, by kind of data and over time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firelane.arrays import Flags, Floats
from firelane.demo.arrivals import Arrivals
from firelane.demo.fire import ALARMS, KINDS, Fire
from firelane.served import Counts

PLAIN, FIRELANE = "plain", "firelane"
STEP_S = 1.0  # of what is shown over time
MOST_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of data at one broker."""

    name: str
    due: int
    delivered: int
    dropped: int
    queued: int
    success: float | None
    utility_rate: float | None
    delay_mean_s: float | None
    delay_p99_s: float | None
    age_mean_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """The run in short steps, by when things were sent: mean delay, the value that arrived in the end, and in time."""

    middle_s: Floats
    alarm_delay_s: Floats
    delay_s: Floats
    value: Floats
    in_time: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """One broker when the run ended.

    `delivered` is what its subscribers had received by then and `queued` what came later or not yet, as they noted;
    `due` and `dropped` are counted by the exchange itself.
    """

    utility_rate: float
    in_time_rate: float
    due: int
    delivered: int
    dropped: dict[str, int]
    queued: int
    doubled: int
    plans: int
    kinds: list[Kind]
    steps: Steps

    def to_data(self) -> dict[str, Any]:
        """As in `--json`."""
        keys = ("utility_rate", "in_time_rate", "due", "delivered", "dropped", "queued", "plans")
        return {key: getattr(self, key) for key in keys} | {"classes": [asdict(one) for one in self.kinds]}

    def kind(self, name: str) -> Kind:
        """The numbers of one kind of data."""
        return next(one for one in self.kinds if one.name == name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demo:
    """A fire, and what came of it at the plain broker and at Firelane."""

    fire: Fire
    plain: Outcome
    firelane: Outcome
    picture: Path

    @property
    def gain(self) -> float:
        """How much more value Firelane delivers."""
        return self.firelane.utility_rate / self.plain.utility_rate - 1

    def to_data(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {PLAIN: self.plain.to_data(), FIRELANE: self.firelane.to_data(), "gain": self.gain}


def outcome(arrivals: Arrivals, counts: Counts, plans: int) -> Outcome:
    """What the subscribers' notes and the exchange's counts say."""
    utility = _whole_run(arrivals)
    achieved, in_time, most = (float(one.sum()) for one in utility)
    return Outcome(
        utility_rate=achieved / most,
        in_time_rate=in_time / most,
        due=counts.due,
        delivered=int(arrivals.got.sum()),
        dropped=counts.dropped,
        queued=int(arrivals.late.sum()) + counts.queued,
        doubled=arrivals.doubled,
        plans=plans,
        kinds=_kinds(arrivals, utility[0], utility[2]),
        steps=_steps(arrivals),
    )


def _whole_run(arrivals: Arrivals) -> tuple[Floats, Floats, Floats]:
    """By subscription: achieved, in time and most. Needs differ by phase, and a phase counts by how long it lasts."""
    fire = arrivals.fire
    total = np.zeros((3, len(fire.routes.filters)))
    for phase in fire.phases:
        weight = (phase.end_s - phase.start_s) / fire.seconds
        total += weight * np.array(arrivals.utilities(arrivals.got, phase.start_s, phase.end_s, phase))
    return total[0], total[1], total[2]


def _kinds(arrivals: Arrivals, achieved: Floats, most: Floats) -> list[Kind]:
    kind, ages, rows = arrivals.fire.kind, arrivals.ages_s().tolist(), []
    delay_s, due, got, late = arrivals.delay_s, arrivals.due, arrivals.got, arrivals.late
    for number, name in enumerate(KINDS):
        inside = arrivals.of_kind(number)
        delays = delay_s[inside & got]
        asked, came, queued = int((inside & due).sum()), len(delays), int((inside & late).sum())
        worth = float(most[kind == number].sum())
        rows.append(
            Kind(
                name=name,
                due=asked,
                delivered=came,
                dropped=asked - came - queued,
                queued=queued,
                success=came / asked if asked else None,
                utility_rate=float(achieved[kind == number].sum()) / worth if worth else None,
                delay_mean_s=float(delays.mean()) if came else None,
                delay_p99_s=float(np.percentile(delays, 99)) if came else None,
                age_mean_s=ages[number],
            )
        )
    return rows


def _steps(arrivals: Arrivals) -> Steps:
    fire = arrivals.fire
    count = int(np.clip(round(fire.seconds / STEP_S), 2, MOST_STEPS))
    edges = np.linspace(0.0, fire.seconds, count + 1)
    arrived = arrivals.arrived
    alarms = arrived & arrivals.of_kind(KINDS.index(ALARMS))
    values = [
        [float(part.sum()) for part in arrivals.utilities(arrived, start, end, fire.phase_at((start + end) / 2))]
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    achieved, in_time, most = np.array(values).T
    worth = np.where(most > 0, most, np.nan)
    return Steps(
        middle_s=(edges[:-1] + edges[1:]) / 2,
        alarm_delay_s=_mean_delays(arrivals, alarms, edges),
        delay_s=_mean_delays(arrivals, arrived, edges),
        value=achieved / worth,
        in_time=in_time / worth,
    )


def _mean_delays(arrivals: Arrivals, chosen: Flags, edges: Floats) -> Floats:
    """The mean delay of what was sent between two edges each; NaN where nothing arrived."""
    publication, _ = np.nonzero(chosen)
    sent_s, delay_s = arrivals.sent_s[publication], arrivals.delay_s[chosen]
    count, _ = np.histogram(sent_s, edges)
    total, _ = np.histogram(sent_s, edges, weights=delay_s)
    mean_s: Floats = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return mean_s
