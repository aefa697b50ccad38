"""What a leader would do next, as a Plan that places every topic that crosses."""

from __future__ import annotations

from typing import Any

import numpy as np

from firelane.arrays import Ints
from firelane.balance.greedy import NOWHERE
from firelane.overlay.leader.cluster import Cluster, Decision
from firelane.scenario.plan import Plan


def plan_of(cluster: Cluster, decided: Decision | None, *, strategy: str, version: int) -> Plan:
    """The placement after what was decided; `promised` has the moves, and the routers' loads before and after."""
    after = _after(cluster, decided)
    none = np.empty(0, np.int64)
    pairs = zip(cluster.topics, after.tolist(), cluster.there.tolist(), strict=True)
    return Plan(
        version=version,
        made_by=f"overlay {strategy}",
        flow_id=none,
        flow_subscriber=[],
        flow_priority=none,
        flow_drop_rate=np.empty(0),
        subscriber=[],
        filter=[],
        subscription_flow=none,
        delta=[],
        placement={topic: cluster.routers[j] for topic, j, there in pairs if there and j != NOWHERE},
        promised=_promised(cluster, after) if cluster.routers else {},
        why=_why(cluster, decided),
    )


def _after(cluster: Cluster, decided: Decision | None) -> Ints:
    number = {name: j for j, name in enumerate(cluster.routers)}
    homes = decided.homes if decided else {}
    pairs = zip(cluster.topics, cluster.place.tolist(), strict=True)
    return np.array([number[homes[topic]] if topic in homes else here for topic, here in pairs], np.int64)


def _promised(cluster: Cluster, after: Ints) -> dict[str, Any]:
    names = cluster.routers
    changed = np.flatnonzero(cluster.there & (after != cluster.place)).tolist()
    before = cluster.carried(cluster.place, cluster.now).tolist()
    return {
        "before": dict(zip(names, before, strict=True)),
        "after": dict(zip(names, cluster.carried(after, cluster.now).tolist(), strict=True)),
        "moves": [
            {
                "topic": cluster.topics[i],
                "from": cluster.orphaned.get(i) if cluster.place[i] == NOWHERE else names[cluster.place[i]],
                "to": names[after[i]],
                "load": float(cluster.now[i]),
            }
            for i in changed
        ],
    }


def _why(cluster: Cluster, decided: Decision | None) -> tuple[str, ...]:
    if not cluster.routers:
        return ("no router lives; start one",)
    if decided is None:
        return ("no topic crosses from one edge to another",)
    return decided.why or ("nothing to move",)
