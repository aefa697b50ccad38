"""The systems that the exchange is judged by: nine classes on one link at a wanted load, and PlanEMQX's set-up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from firelane.predict import predict
from firelane.scenario import from_data, load
from firelane.scenario.model import Publisher, Scenario
from firelane.scenario.plan import Plan, make_plan
from firelane.scenario.routes import Routes, routes

CLASSES = 9
SUBSCRIBERS = 10
TOPICS = 45
LINK = "post"
# The order and the drop rates that PlanEMQX's planner chose (planemqx, section V-C, Listing 2).
PLANNED_ORDER = ("real-time", "streaming", "transactional", "analytics")
PLANNED_DROPS = {"streaming": 0.02, "analytics": 0.05}


def nine_classes(load_wanted: float, *, seed: int = 1) -> tuple[Routes, Plan]:
    """Ten subscribers with two subscriptions in each of nine classes, on one link of 8 Mbit/s at this load.

    The load counts wire bytes against the paced link, as everywhere. Payloads are exponential, fixed and sampled in
    turn, of 200 to 1200 bytes on average; every topic has four subscribers, in classes of their own.
    """
    random = np.random.default_rng(seed)
    means = np.round(random.uniform(200, 1200, TOPICS)).tolist()
    topics = {f"room/{n:02}": _topic(n, mean) for n, mean in enumerate(means)}
    names = list(topics)
    each = 2 * CLASSES
    wanted = [[names[(one * each + turn) % TOPICS] for turn in range(each)] for one in range(SUBSCRIBERS)]
    data = {
        "name": f"nine-classes-{load_wanted:g}",
        "priorities": CLASSES,
        "links": {LINK: {"bandwidth": 8e6}},
        "topics": topics,
        "publishers": {
            f"floor-{n}": {"publishes": {name: float(random.uniform(2, 10)) for name in names[n::3]}} for n in range(3)
        },
        "subscribers": {f"user-{n}": {"link": LINK, "subscribes": dict.fromkeys(one)} for n, one in enumerate(wanted)},
    }
    classes = np.concatenate([random.permutation(np.arange(each) % CLASSES) for _ in wanted])
    scenario = at_load(from_data(data), load_wanted)
    network = routes(scenario)
    return network, lanes(network, classes, made_by="nine classes by chance")


def _topic(number: int, mean: float) -> dict[str, Any]:
    if number % 3 == 2:
        return {"sizes": [round(0.5 * mean), mean, round(1.5 * mean)]}
    return {"size": mean, "sizes": ("exponential", "fixed")[number % 3]}


def planemqx(**link: Any) -> Scenario:
    """The shipped scenario, its link changed by these of the link's attributes."""
    scenario = load("planemqx")
    return replace(scenario, links={LINK: replace(scenario.links[LINK], **link)})


def planned(network: Routes, *, drops: bool = True) -> Plan:
    """The plan of PlanEMQX's planner: classes by category, and its drop rates unless they are not wanted."""
    category = [need.category for need in network.needs]
    rates = [PLANNED_DROPS.get(one, 0.0) if drops else 0.0 for one in category]
    return lanes(network, np.array([PLANNED_ORDER.index(one) for one in category]), np.array(rates), made_by="planemqx")


def lanes(network: Routes, classes: Any, drop_rates: Any = None, *, made_by: str) -> Plan:
    """A plan that gives every subscription a flow of its own."""
    rows = len(network.filters)
    return make_plan(
        network,
        subscription_flow=np.arange(rows),
        flow_priority=np.asarray(classes, np.int64),
        flow_drop_rate=np.zeros(rows) if drop_rates is None else drop_rates,
        made_by=made_by,
    )


def load_of(scenario: Scenario) -> float:
    """The load of the one link, before drops."""
    return predict(scenario).links[LINK].load


def at_load(scenario: Scenario, wanted: float) -> Scenario:
    """The same with all rates scaled to this load of the link."""
    return _scaled(scenario, wanted / load_of(scenario), set(scenario.topics))


def only(scenario: Scenario, category: str) -> Scenario:
    """The same without the subscriptions of other categories; nobody leaves."""
    kept = {
        name: replace(one, subscribes={f: need for f, need in one.subscribes.items() if need.category == category})
        for name, one in scenario.subscribers.items()
    }
    return replace(scenario, subscribers=kept)


def raised(scenario: Scenario, wanted: float, *, spare: str) -> Scenario:
    """The same with the rates of all topics that the spared category does not get raised to this load of the link."""
    pairs = [pair for one in scenario.subscribers.values() for pair in one.subscribes.items()]
    others = set(scenario.topics) - {topic for topic, need in pairs if need.category == spare}
    before = load_of(scenario)
    moving = before - load_of(_scaled(scenario, 0.0, others))
    return _scaled(scenario, 1 + (wanted - before) / moving, others)


def _scaled(scenario: Scenario, factor: float, topics: set[str]) -> Scenario:
    publishers = {
        name: Publisher(
            publishes={topic: rate * (factor if topic in topics else 1.0) for topic, rate in one.publishes.items()},
            link=one.link,
        )
        for name, one in scenario.publishers.items()
    }
    return replace(scenario, publishers=publishers)
