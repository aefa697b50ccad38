"""Every way to decide, side by side: utility and delay of the same scenario under each plan.

Run: python examples/compare_plans.py [SCENARIO]
"""

import sys

from firelane.predict import predict
from firelane.scenario import load
from firelane.scenario.routes import routes
from firelane.tune import DROP_METHODS, tune


def main(name: str) -> None:
    """Print one line per drop method."""
    network = routes(load(name))
    print(f"plain broker: utility rate {predict(network).utility()['rate']:.1%}")
    for drops in DROP_METHODS:
        plan = tune(network, priorities="delay-adjusted", drops=drops)
        metrics = predict(network, plan)
        top = metrics.classes()[0]["delay_mean_s"]
        print(f"{drops:12s} utility rate {metrics.utility()['rate']:6.1%}, top class {1e3 * top:.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "office-fire")
