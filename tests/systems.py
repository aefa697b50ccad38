"""Random systems of a given shape for the tests: a scenario, its routes and a plan at a wanted load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from firelane.predict import predict
from firelane.scenario import from_data
from firelane.scenario.plan import Plan, make_plan
from firelane.scenario.routes import Routes, routes


@dataclass(frozen=True, kw_only=True)
class Shape:
    load: float
    classes: int = 3
    shared: bool = True
    sizes: str = "exponential"
    independent: bool = False
    subscribers: int = 6
    topics: int = 30
    subscriptions: int = 12
    drops: bool = True
    link: dict[str, Any] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    publishers: int = 1
    publisher_load: float = 0.0

    def __str__(self) -> str:
        words = [
            "independent" if self.independent else "fan-out",
            "shared" if self.shared else "own",
            self.sizes,
            f"load {self.load}",
            f"{self.classes} classes",
            *(f"{k} {v}" for k, v in {**self.link, **self.broker}.items()),
        ]
        if self.publisher_load:
            words.append(f"{self.publishers} publisher links at {self.publisher_load}")
        return ", ".join(words)


def system(shape: Shape, seed: int) -> tuple[Routes, Plan]:
    """Topics, subscriptions, classes and drop rates by chance; the links' bandwidth gives the load."""
    rng = np.random.default_rng(seed)
    topics = {f"t/{i}": {"size": float(rng.uniform(50, 1000)), "sizes": shape.sizes} for i in range(shape.topics)}
    rates = {name: float(rng.uniform(3, 30)) for name in topics}
    names = list(topics)
    subscribers = {
        f"s{k}": {
            "link": "down",
            "subscribes": {names[i]: None for i in rng.choice(len(names), shape.subscriptions, replace=False)},
        }
        for k in range(shape.subscribers)
    }
    publishers: dict[str, Any] = {
        f"p{k}": {"publishes": {name: rate / shape.publishers for name, rate in rates.items()}}
        for k in range(shape.publishers)
    }
    links: dict[str, Any] = {
        "down": {"bandwidth": 8e6, "overhead": 0, "pace": 1, "each": not shape.shared, **shape.link}
    }
    if shape.publisher_load:
        offered = sum(8 * topics[name]["size"] * rate for name, rate in rates.items())
        own = offered / shape.publishers / shape.publisher_load
        links["up"] = {"bandwidth": own, "overhead": 0, "pace": 1, "each": True, "loss": "1 %"}
        for publisher in publishers.values():
            publisher["link"] = "up"
    data = {
        "name": "random",
        "priorities": shape.classes,
        "links": links,
        "topics": topics,
        "publishers": publishers,
        "subscribers": subscribers,
        "brokers": {"main": shape.broker} if shape.broker else {},
    }
    rows = shape.subscribers * shape.subscriptions
    # Every subscriber has every class, so that the lowest class is the same on every link.
    priority = np.concatenate(
        [rng.permutation(np.arange(shape.subscriptions) % shape.classes) for _ in range(shape.subscribers)]
    )
    drop = np.where(rng.random(rows) < 0.5, 0.0, rng.uniform(0, 0.8, rows)) if shape.drops else np.zeros(rows)

    def planned() -> tuple[Routes, Plan]:
        network = routes(from_data(data))
        plan = make_plan(
            network,
            subscription_flow=np.arange(rows),
            flow_priority=priority,
            flow_drop_rate=drop,
            made_by="chance",
        )
        return network, plan

    most = max(link.load for link in predict(*planned()).links.values())
    links["down"]["bandwidth"] *= most / shape.load
    return planned()
