"""Random scenarios with categories: what they need, how full their links are and how much overlaps come by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from firelane.scenario import Scenario, from_data

NAMES = ("real-time", "streaming", "transactional", "analytics", *(f"kind-{i}" for i in range(5, 17)))


def some_scenario(
    seed: int,
    *,
    categories: int | None = None,
    load: float | None = None,
    topics: int = 6,
    subscribers: int = 4,
    links: int = 1,
    stages: bool = False,
    overlaps: bool = False,
    bounds: float = 0.7,
    tightness: tuple[float, float] = (0.5, 4.0),
) -> Scenario:
    """Categories with a few subscriptions each on links of about this load; a share of them states bounds.

    A delay bound is between so many times the delay that a message would have alone at half load.
    """
    rng = np.random.default_rng(seed)
    count = categories or int(rng.integers(1, 5))
    wanted_load = load or float(rng.choice([0.6, 0.85, 0.95, 1.1, 1.4]))
    sizes = {f"t/{i}": float(rng.uniform(100, 2000)) for i in range(topics)}
    rates = {name: float(rng.uniform(5, 40)) for name in sizes}
    names = list(sizes)
    people: dict[str, Any] = {}
    for place in range(max(subscribers, count)):
        kind = NAMES[place % count]
        chosen = rng.choice(len(names), int(rng.integers(1, 4)), replace=False)
        wanted: dict[str, Any] = {names[i]: {"category": kind} for i in chosen}
        if overlaps and rng.random() < 0.6:
            wanted["t/+"] = {"category": NAMES[int(rng.integers(count))]}
        people[f"s{place}"] = {"link": f"down-{place % links}", "subscribes": wanted}
    bps = [1.0] * links
    for place, one in enumerate(people.values()):
        claimed = set(names) if "t/+" in one["subscribes"] else set(one["subscribes"])
        bps[place % links] += sum(8 * sizes[name] * rates[name] for name in claimed)
    down = {
        f"down-{i}": {"bandwidth": bps[i] / wanted_load, "overhead": 0, "pace": 1, "propagation": "1 ms"}
        for i in range(links)
    }
    if stages:
        down["down-0"] |= {"switch_rate": 2000.0, "loss": 0.01}
    typical_s = 2 * 8 * np.mean(list(sizes.values())) / min(one["bandwidth"] for one in down.values())
    for one in people.values():
        for need in one["subscribes"].values():
            need["weight"] = float(rng.integers(1, 5))
            if rng.random() < bounds:
                need["max_delay"] = float(typical_s * rng.uniform(*tightness))
    stated: dict[str, Any] = {}
    for kind in NAMES[:count]:
        chance = rng.random()
        stated[kind] = {"weight": float(rng.integers(1, 5))}
        if chance < 0.3:
            stated[kind]["max_loss"] = 0.0
        elif chance < 0.8:
            stated[kind]["max_loss"] = float(rng.choice([0.02, 0.05, 0.1, 0.3]))
        if rng.random() < bounds / 2:
            stated[kind]["max_delay"] = float(typical_s * rng.uniform(*tightness))
    return from_data(
        {
            "name": f"random-{seed}",
            "priorities": max(9, count),
            "links": down,
            "topics": {name: {"size": size} for name, size in sizes.items()},
            "publishers": {"p": {"publishes": rates}},
            "subscribers": people,
            "categories": stated,
            "brokers": {"main": {"output_rate": 3000.0, "input_rate": 5000.0}} if stages else {},
        }
    )
