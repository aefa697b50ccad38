"""A first plan before the first is needed, as machine code is loaded or made at its first use."""

from __future__ import annotations

from firelane.scenario.control_settings import Planner
from firelane.scenario.model import Link, Need, Publisher, Scenario, Subscriber, Topic


def warm_up(planner: Planner = "tune") -> None:
    """Plan and predict something small that goes all ways: curves of all kinds, filters that overlap, too much load."""
    from firelane.predict import predict
    from firelane.tune import tune

    link = Link(bandwidth_bps=1000.0, each=True)
    several = {"a": Need(utility="linear"), "b": Need(utility="step", knee=0.5), "+": Need(utility="saturating")}
    scenario = Scenario(
        name="warm-up",
        links={"thin": link},
        topics={"a": Topic(size_bytes=100.0), "b": Topic(size_bytes=100.0)},
        publishers={"p": Publisher(publishes={"a": 10.0, "b": 10.0})},
        subscribers={
            "plain": Subscriber(link="thin", subscribes={"a": Need(), "b": Need()}),
            "mixed": Subscriber(link="thin", subscribes=several),
        },
    )
    predict(scenario, tune(scenario))
    if planner == "plan":
        from firelane.plan import plan

        plan(scenario, seconds=1.0)
