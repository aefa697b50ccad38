"""The PubSubCoord paper again: Figures 6 to 8 and Table 1, and the broker-cluster paper's city on a live cluster.

Implements: pubsubcoord, section 3.
Differs:    as in locality, scalability, coordination, deadlines and balancing.
Symbols:    as there.
Checked by: tests/reproduce/test_pubsubcoord.py
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import uvloop

from firelane import __version__
from firelane.errors import FirelaneError, first_of
from firelane.reproduce.pubsubcoord.balancing import BOUNDED, CityEffort, balancing
from firelane.reproduce.pubsubcoord.coordination import CrowdEffort, figure_7c
from firelane.reproduce.pubsubcoord.deadlines import PathEffort, figure_8
from firelane.reproduce.pubsubcoord.figures import draw
from firelane.reproduce.pubsubcoord.locality import LocalityEffort, figure_6
from firelane.reproduce.pubsubcoord.report import report
from firelane.reproduce.pubsubcoord.scalability import ScaleEffort, more_routers, more_topics
from firelane.scenario.save import write_whole
from firelane.show import progress_bar

Results = dict[str, Any]
CITY = 1  # the first seed draws one with a topic that is larger than what a router carries on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is run of each."""

    locality: LocalityEffort
    scale: ScaleEffort
    crowd: CrowdEffort
    paths: PathEffort
    city: CityEffort
    beside: bool = False  # the city is played beside the rest, which saves time and costs exactness

    @property
    def runs(self) -> int:
        """Of all of them."""
        return sum(one.runs for one in (self.locality, self.scale, self.crowd, self.paths, self.city))


FULL = Effort(
    locality=LocalityEffort(
        networks=5, routers=3, topics=(12, 16, 20), localities=(0.1, 0.3, 0.5, 0.7, 0.9), warm_s=2.0, run_s=5.0
    ),
    scale=ScaleEffort(networks=2, topics=(10, 20, 30, 40, 50), routers=(1, 2, 3, 4), warm_s=4.0, run_s=8.0),
    crowd=CrowdEffort(networks=10, routers=2, topics=1000, joining=(2000, 4000, 6000, 8000, 10_000)),
    paths=PathEffort(pairs=4, warm_s=3.0, run_s=30.0),
    city=CityEffort(topics=40, routers=3, steps=10, minutes=30, leader_steps=4, step_s=10.0, rate_hz=200.0, moves=10),
)
QUICK = Effort(
    locality=LocalityEffort(networks=2, routers=1, topics=(6,), localities=(0.0, 1.0), warm_s=1.0, run_s=1.5),
    scale=ScaleEffort(networks=1, topics=(5, 15), routers=(2,), warm_s=1.0, run_s=1.5),
    crowd=CrowdEffort(networks=1, routers=1, topics=100, joining=(200,)),
    paths=PathEffort(pairs=1, warm_s=1.5, run_s=1.5, cases=(1,), delays_s=(0.03,)),
    city=CityEffort(
        topics=12, routers=2, steps=2, minutes=60, leader_steps=5, step_s=1.0, rate_hz=60.0, moves=10,
        strategies=(BOUNDED,),
    ),
    beside=True,
)  # fmt: skip


def reproduce(output: Path, *, quick: bool, seed: int, effort: Effort | None = None) -> Results:
    """Run everything, and write report.md, results.json and the figures."""
    effort = effort or (QUICK if quick else FULL)
    started = perf_counter()
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FirelaneError(f"{output}: cannot make this folder: {problem.strerror}") from None
    try:
        with (
            progress_bar(effort.runs, "live") as progress,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            found = runner.run(_all(effort, seed, progress))
    except ExceptionGroup as problems:
        raise first_of(problems) from None
    results = {
        "paper": "pubsubcoord",
        "firelane": __version__,
        "seed": seed,
        "quick": quick,
        "networks": effort.locality.networks,
        "routers": effort.locality.routers,
        "scale_networks": effort.scale.networks,
        "crowd_networks": effort.crowd.networks,
        "path_s": effort.paths.run_s,
        **found,
        "seconds": perf_counter() - started,
    }
    write_whole(output / "results.json", json.dumps(results, indent=1, allow_nan=False) + "\n")
    draw(results, output)
    write_whole(output / "report.md", report(results))
    return results


async def _all(effort: Effort, seed: int, progress: Callable[[int], None]) -> Results:
    async def city() -> list[Results]:
        return await balancing(effort.city, seed=seed + CITY, progress=progress)

    async with asyncio.TaskGroup() as group:
        beside = group.create_task(city()) if effort.beside else None
        found: Results = {"figure_6": await figure_6(effort.locality, seed=seed, progress=progress)}
        found["figure_7a"] = await more_topics(effort.scale, seed=seed, progress=progress)
        needed = found["figure_7a"][-1]["load"]["router-1"]
        found["figure_7b"] = await more_routers(effort.scale, needed, seed=seed, progress=progress)
        found["figure_7c"] = await figure_7c(effort.crowd, seed=seed, progress=progress)
        found["figure_8"] = await figure_8(effort.paths, seed=seed, progress=progress)
        found["balancing"] = await (beside or city())
    return found
