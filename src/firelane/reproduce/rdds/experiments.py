"""The experiments of the RDDS paper on a stage: many firefighters, a controlled load, a surge.

Implements: rdds, section III-C3 (Fig. 5) and section IV-D1 and IV-E (Fig. 8-10, 12, 13).
Differs:    fewer sensors, so that it fits two cores; the measured device has a share of a core in which the same
            happens as on the paper's tablet: with every reading sent it is full at 16 firefighters. For the second
            experiment, 1500 sensors are a load of 0.7 with a delta (the paper's is 0.68) at which twice as much is sent
            as with 1, so that 0.4 can be kept, too. How fast it processes messages the paper does not say: it is such
            that half of that needs a load of 0.4, as it did there.
Symbols:    |C| -> participants, U_ref -> target, delta_max -> MOST_DELTA.
Checked by: tests/reproduce/test_rdds.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firelane.reproduce.rdds.outcome import TARGET, in_tens, loads, mean, point, transient
from firelane.reproduce.rdds.play import CACHING, KALMAN, PLAIN, SAMPLE_ROWS
from firelane.reproduce.rdds.stage import Stage
from firelane.reproduce.rdds.suppression import delta_for
from firelane.sense.bank import AUTO

FIREFIGHTERS = 32
FULL_AT = 16  # firefighters, with every reading sent
DELTA = 0.5
MOST_DELTA, UNCONTROLLED_DELTA = 1.0, 0.7
UNIT = 500  # sensors in the paper's second experiment, and multiples of it
SURGED = 3  # units
SPARE = 2.0  # times as much is sent on target, after the surge, as with the widest delta
READINGS_HZ = 100  # of a firefighter in the first experiment: a fifth of the paper's
BUFFERED = 4  # samples' messages, for which the application has room
SURGED_HZ = 800.0  # messages that a device here takes in then
SLOWED_TARGET = 0.4
ROOM, SURELY = 1.5, 0.95  # of what is needed: more, to see how much that is, and a little less, so that it is full
BATCHED = f"{AUTO}, batched"
Results = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How large and how long the runs are. Where an interval is less than the fires' step, the clock is scaled."""

    interval_s: float  # between readings, in the first experiment
    participants: Sequence[int]
    ways: Sequence[str]
    samples: int  # of each run
    watched: int  # readings in Figure 5
    control_interval_s: float  # between readings, in the second
    units: Sequence[int]  # of sensors, in Figure 12
    controlled: int  # samples, of which the second half counts
    uncontrolled: int
    surge: int  # the sample at which more sensors come
    slow: int  # and at which messages are processed slowly
    transient: int  # samples in all
    window: int  # samples between signals of subscribers

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.ways) * len(self.participants) + 2 * len(self.units) + 6


Progress = Callable[[int], None]


class Experiments:
    """All of them on one stage and with one kind of fires."""

    def __init__(
        self, stage: Stage, suppressed: Sequence[Results], effort: Effort, *, seed: int, progress: Progress
    ) -> None:
        self.stage = stage
        self.effort = effort
        self.seed = seed
        self.progress = progress
        self.sensors = max(1, round(READINGS_HZ * effort.interval_s))
        self.surged_delta, share = delta_for(suppressed, SPARE, MOST_DELTA)
        readings_hz = SURGED_HZ / share / (FIREFIGHTERS * SURGED)
        self.unit = max(1, round(min(readings_hz, UNIT) * effort.control_interval_s))

    def all(self) -> Results:
        """Everything, and with how much of a core."""
        cores = self.calibrate()
        more, received_hz = self.calibrate_control()
        return {
            "cores": cores,
            "control_cores": more,
            "unit": self.unit,
            "surged_delta": self.surged_delta,
            "sensors": self.sensors,
            "interval_s": self.effort.interval_s,
            "control_interval_s": self.effort.control_interval_s,
            "received_hz": received_hz,
            "figure_5": self.figure_5(cores),
            "scalability": self.scalability(cores),
            "figure_12": self.figure_12(more),
            "figure_13": self.figure_13(more, received_hz),
        }

    def _run(self, **more: Any) -> Results:
        results = self.stage.run(**{"participants": FIREFIGHTERS, "seed": self.seed} | more)
        self.progress(1)
        return results

    def _first(self, **more: Any) -> Results:
        """A run of the first experiment."""
        return self._run(sensors=self.sensors, interval_s=self.effort.interval_s, **more)

    def _second(self, **more: Any) -> Results:
        """A run of the second."""
        return self._run(interval_s=self.effort.control_interval_s, **more)

    def calibrate(self) -> float:
        """The share of a core that every reading of 16 firefighters fills."""
        cores = 1.0
        for participants in (FULL_AT // 2, FULL_AT):  # at first, there may be more of them than one core bears
            run = self._first(participants=participants, model=PLAIN, samples=self.effort.samples, cores=cores)
            needed = cores * float(np.mean(loads(run))) * (FULL_AT + 1) / (participants + 1)
            cores = min(1.0, ROOM * needed)
        return round(SURELY * needed, 3)

    def calibrate_control(self) -> tuple[float, float]:
        """The share of a core of which the surge takes the target load, at that delta; and messages a second."""
        cores, sensors, samples = 1.0, SURGED * self.unit, self.effort.uncontrolled
        for _ in range(2):  # with a quota that is about right a message costs more than without
            run = self._second(sensors=sensors, delta=self.surged_delta, samples=samples, cores=cores)
            cores = round(min(1.0, cores * float(np.mean(loads(run))) / TARGET), 3)
        received_hz = sum(one["received"] for one in run["samples"]) / sum(one["at"] for one in run["samples"])
        return cores, received_hz

    def figure_5(self, cores: float) -> Results:
        """The load of the same run, each second and every ten."""
        run = self._first(delta=DELTA, samples=self.effort.watched, sample_rows=1, cores=cores)
        each = loads(run)
        return {"each": each, "every_ten": in_tens(each)}

    def scalability(self, cores: float) -> list[Results]:
        """Figures 8 to 10: a point for each way and number of firefighters."""
        points = []
        for way in self.effort.ways:
            model, apart = (AUTO, False) if way == BATCHED else (way, True)
            for participants in self.effort.participants:
                run = self._first(
                    participants=participants,
                    model=model,
                    apart=apart,
                    delta=DELTA,
                    samples=self.effort.samples,
                    cores=cores,
                )
                points.append({"way": way} | point(run, cores))
        return points

    def figure_12(self, cores: float) -> list[Results]:
        """The load with more and more sensors, controlled and not."""
        points = []
        for units in self.effort.units:
            sensors = units * self.unit
            on = self._second(
                sensors=sensors, delta=MOST_DELTA, target=TARGET, samples=self.effort.controlled, cores=cores
            )
            off = self._second(sensors=sensors, delta=UNCONTROLLED_DELTA, samples=self.effort.uncontrolled, cores=cores)
            settled = on["samples"][self.effort.controlled // 2 :]
            points.append(
                {
                    "paper_sensors": units * UNIT,
                    "sensors": sensors,
                    "on": mean([one["load"] for one in settled]),
                    "delta": mean([one["delta"] for one in settled]),
                    "off": mean(loads(off)),
                }
            )
        return points

    def figure_13(self, cores: float, received_hz: float) -> Results:
        """A surge of sensors, then a subscriber that takes in messages too slowly."""
        effort = self.effort
        run = self._second(
            sensors=self.unit,
            more_sensors=(SURGED - 1) * self.unit,
            delta=MOST_DELTA,
            target=TARGET,
            samples=effort.transient,
            more_sample=effort.surge,
            slow_sample=effort.slow,
            each_s=TARGET / SLOWED_TARGET / received_hz / 2,
            window_samples=effort.window,
            buffer=round(BUFFERED * received_hz * effort.control_interval_s * SAMPLE_ROWS),
            cores=cores,
        )
        return transient(run["samples"], effort.surge, effort.slow) | {
            "overflowed": run["application_overflowed"],
            "period_s": run["period_s"],
        }


FULL = Effort(
    interval_s=0.5,
    participants=(1, 4, 16, 32),
    ways=(PLAIN, CACHING, KALMAN, AUTO, BATCHED),
    samples=3,
    watched=60,
    control_interval_s=0.2,
    units=(1, 3, 5),
    controlled=30,
    uncontrolled=10,
    surge=56,
    slow=80,
    transient=132,
    window=24,
)
GIVEN = replace(  # with measured fires, beside generated ones
    FULL,
    interval_s=0.2,
    participants=(1, 16, 32),
    ways=(PLAIN, CACHING, AUTO),
    samples=6,
    watched=50,
    units=(1, 5),
    surge=30,
    slow=54,
    transient=110,
)
QUICK = replace(
    GIVEN,
    interval_s=0.1,
    samples=4,
    watched=40,
    control_interval_s=0.1,
    controlled=16,
    uncontrolled=4,
    surge=18,
    slow=30,
    transient=56,
    window=8,
)
