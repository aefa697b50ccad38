"""What loss does to a stream, over UDP, TCP and DDS: packets and the error of a subscriber, side by side.

Implements: rdds, section IV-D2 (Fig. 11).
Differs:    packets are lost on their way to the subscriber, from the exchange or, with DDS, from the publisher; the
            paper's 14.5 % more messages from 0.2 to 0.3 are those of TCP with nothing lost on the way back. Our
            subscribers ask for what they know they have missed; over UDP one that does not is there as well.
Symbols:    delta -> delta.
Checked by: tests/reproduce/test_rdds.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from firelane.errors import FirelaneError
from firelane.reproduce.lossy import LossyLink, lossy_link
from firelane.reproduce.rdds.crossing import DDS, RELIABLE_DDS, TCP, UDP, WAYS, Crossed
from firelane.reproduce.rdds.worker import Worker, WorkerError, worker
from firelane.scenario import from_data
from firelane.scenario.plan import plain_plan
from firelane.scenario.routes import routes
from firelane.served import served

SN_PORT = 1884
LEAD_S = 4.0
ATTEMPTS = 3
Results = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossEffort:
    """How large and how long the runs are."""

    interval_s: float
    sensors: int
    groups: int
    rows: int
    losses: Sequence[float]
    ways: Sequence[str] = WAYS

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.losses) * len(self.ways)


FULL = LossEffort(interval_s=1.0, sensors=400, groups=40, rows=30, losses=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
GIVEN = replace(FULL, losses=(0.0, 0.5))
QUICK = LossEffort(interval_s=0.2, sensors=200, groups=20, rows=25, losses=(0.0, 0.5), ways=(UDP, TCP, DDS))


def figure_11(fires: Path, effort: LossEffort, *, seed: int, progress: Callable[[int], None]) -> list[Results]:
    """A row for each way and share; all ways at the same time, each on a link of its own. NetworkError without root."""

    def points(way: str) -> list[Results]:
        with ExitStack() as stack:
            line = _Line(stack, fires, effort, way, seed)
            found = []
            for loss in effort.losses:
                found.append(line.run(loss))
                progress(1)
            return found

    ways = [way for way in effort.ways if way not in (DDS, RELIABLE_DDS) or there_is_dds()]
    with ThreadPoolExecutor(len(ways)) as pool:
        return [point for some in pool.map(points, ways) for point in some]


def there_is_dds() -> bool:
    """Whether the extra `dds` is installed."""
    return find_spec("cyclonedds") is not None


class _Line:
    """A lossy link with an exchange and a publisher on one side and a subscriber on the other."""

    def __init__(self, stack: ExitStack, fires: Path, effort: LossEffort, way: str, seed: int) -> None:
        self.fires, self.effort, self.way, self.seed = fires, effort, way, seed
        self.link: LossyLink = stack.enter_context(lossy_link())
        scenario = from_data({"name": "rdds"})
        near, far = self.link.near, self.link.far
        with near.entered():
            settings = (f"mqtt_sn={{port: {SN_PORT}}}", "anonymous=always")
            plan = plain_plan(routes(scenario))
            self.exchange = stack.enter_context(served(scenario, plan, host=near.address, settings=settings))
            self.speaker: Worker = stack.enter_context(worker("crossing", f"the publisher over {way}", "speak"))
        with far.entered():
            self.listener: Worker = stack.enter_context(worker("crossing", f"the subscriber over {way}", "listen"))

    def run(self, loss: float) -> Results:
        """What came of it with so much loss; once more if the ends were not ready for it."""
        for attempt in range(ATTEMPTS):
            try:
                heard = self._attempt(loss, LEAD_S * (1 + attempt))
            except WorkerError:
                continue
            if heard.pop("ready"):
                return {"way": self.way, "loss": loss, **heard}
        raise FirelaneError(f"the ends of a stream over {self.way} were not ready in time; is this machine busy?")

    def _attempt(self, loss: float, lead_s: float) -> Results:
        effort, link = self.effort, self.link
        link.lose(0.0)
        begin_at = time.monotonic() + lead_s
        run = Crossed(
            way=self.way,
            near=link.near.address,
            far=link.far.address,
            mqtt_port=self.exchange.mqtt_port,
            sn_port=SN_PORT,
            fires=self.fires,
            begin_at=begin_at,
            rows=effort.rows,
            sensors=effort.sensors,
            groups=effort.groups,
            seed=self.seed,
            interval_s=effort.interval_s,
        )
        self.speaker.begin(run)
        self.listener.begin(run)
        time.sleep(max(0.0, begin_at - time.monotonic()))
        link.lose(loss)
        within_s = lead_s + effort.rows * effort.interval_s
        time.sleep(effort.rows * effort.interval_s)
        packets, back = link.crossed().packets, link.crossed_back().packets
        link.lose(0.0)
        try:
            heard = self.listener.results(within_s)
        finally:
            spoke = self.speaker.results(within_s)
        return heard | {"published": spoke["messages"], "packets": packets, "packets_back": back}
