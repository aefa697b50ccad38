"""A scenario made in Python instead of YAML, tuned, predicted and simulated."""

from firelane.predict import predict
from firelane.scenario import Link, Need, Publisher, Scenario, Subscriber, Topic
from firelane.simulate import simulate
from firelane.tune import tune


def main() -> None:
    """Two subscribers share one radio link; the commander's smoke readings matter most."""
    scenario = Scenario(
        name="radio",
        links={"radio": Link(bandwidth_bps=1e6, buffer_messages=200)},
        topics={"smoke": Topic(size_bytes=120, sizes="fixed"), "camera": Topic(size_bytes=12_000)},
        publishers={"floor": Publisher(publishes={"smoke": 50.0, "camera": 12.0})},
        subscribers={
            "commander": Subscriber(link="radio", subscribes={"smoke": Need(weight=4), "camera": Need(weight=1)}),
            "logger": Subscriber(link="radio", subscribes={"#": Need(weight=0.2)}),
        },
    )
    plan = tune(scenario)
    for metrics in (predict(scenario, plan), simulate(scenario, plan, publications=100_000, seed=1)):
        for row in metrics.table.select(["subscriber", "filter", "priority", "success", "delay_mean_s"]).to_pylist():
            print(metrics.source, row)


if __name__ == "__main__":
    main()
