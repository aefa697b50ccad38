"""The demo: a burning office behind one thin link, as a plain broker and as Firelane would serve it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firelane import plots
from firelane.metrics import Metrics
from firelane.predict import predict
from firelane.scenario import load
from firelane.scenario.plan import Plan
from firelane.scenario.routes import routes
from firelane.show import progress_bar, working
from firelane.simulate import simulate
from firelane.tune import tune

PUBLICATIONS = 400_000
REPLICATIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demo:
    """What the demo found: predicted and simulated, plain and tuned."""

    plan: Plan
    predicted: dict[str, Metrics]
    simulated: dict[str, Metrics]
    picture: Path

    def to_data(self) -> dict[str, Any]:
        """The document of `--json`."""
        plain, tuned = (self.simulated[name] for name in ("plain", "firelane"))
        return {
            "plain": {"utility_rate": plain.utility()["rate"], "classes": plain.classes(of=tuned)},
            "firelane": {"utility_rate": tuned.utility()["rate"], "classes": tuned.classes()},
            "gain": tuned.utility()["rate"] / plain.utility()["rate"] - 1,
        }


def demo(*, seed: int, picture: Path) -> Demo:
    """Predict and simulate the shipped office fire with and without a plan, and draw both."""
    network = routes(load("office-fire"))
    with working("planning"):
        plan = tune(network, priorities="delay-adjusted", drops="optimised")
    plans = {"plain": None, "firelane": plan}
    with progress_bar(PUBLICATIONS * REPLICATIONS * len(plans), "simulating") as progress:
        simulated = {
            name: simulate(
                network, one, publications=PUBLICATIONS, replications=REPLICATIONS, seed=seed, progress=progress
            )
            for name, one in plans.items()
        }
    return Demo(
        plan=plan,
        predicted={name: predict(network, one) for name, one in plans.items()},
        simulated=simulated,
        picture=plots.plain_and_tuned(simulated["plain"], simulated["firelane"], picture),
    )
