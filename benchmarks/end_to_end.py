"""Seconds from a YAML file of 100 000 subscriptions to a plan and its prediction.

The scenario is the FireDeX paper's Table 2 with a thousand subscribers of a hundred subscriptions each, every
one behind a link of its own that is offered more than it can carry. There is no peer: nothing else does this.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from firelane.bench import OURS, ROUNDS, Measure, Target, interleaved, main
from firelane.predict import predict
from firelane.scenario import load
from firelane.scenario.generate import firedex
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan
from firelane.scenario.save import save
from firelane.tune import tune

LOAD, TUNE, PREDICT = "load from YAML", "tune", "predict"
MOST_SECONDS = {LOAD: 5.0, TUNE: 2.0}


class Job:
    """The three steps, each timed by itself; each takes what the one before it made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._scenario: Scenario
        self._plan: Plan

    def load(self) -> float:
        """File -> Scenario."""
        started = perf_counter()
        self._scenario = load(self._path)
        return perf_counter() - started

    def tune(self) -> float:
        """Scenario -> Plan, as `firelane tune` does by default."""
        started = perf_counter()
        self._plan = tune(self._scenario, priorities="delay-adjusted", drops="optimised")
        return perf_counter() - started

    def predict(self) -> float:
        """Scenario and Plan -> Metrics."""
        started = perf_counter()
        predict(self._scenario, self._plan)
        return perf_counter() - started


def measures(quick: bool = False) -> list[Measure]:
    """The steps on the large scenario, after the same on a small one, which compiles."""
    seconds(subscribers=2, rounds=1)
    subscribers = 10 if quick else 1000
    return [
        Measure(
            name=f"end to end, {subscribers * 100:,} subscriptions: {step}",
            ours=taken,
            unit="s",
            targets=target(step, taken),
        )
        for step, taken in seconds(subscribers=subscribers, rounds=1 if quick else ROUNDS).items()
    ]


def target(step: str, taken: float) -> dict[str, Target]:
    """What was promised of a step, if anything."""
    if step not in MOST_SECONDS:
        return {}
    most = MOST_SECONDS[step]
    return {OURS: Target(words=f"less than {most:g} s", met=taken < most)}


def seconds(*, subscribers: int, rounds: int) -> dict[str, float]:
    """The time of each step with so many subscribers."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "large.yaml"
        save(firedex(seed=1, subscribers=subscribers, telemetry_subscriptions=60, async_subscriptions=40), path)
        job = Job(path)
        steps = {LOAD: job.load, TUNE: job.tune, PREDICT: job.predict}
        return interleaved(f"{subscribers * 100:,} subscriptions", "s", steps, rounds=rounds)


if __name__ == "__main__":
    main(measures)
