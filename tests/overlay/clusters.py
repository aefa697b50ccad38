"""Clusters for tests, written in a few words."""

from __future__ import annotations

import numpy as np

from firelane.overlay.leader.cluster import Cluster

NOWHERE = -1


def cluster(load, place=None, *, capacity=(1, 1), past=(), orphaned=None, idle=False):
    """Topics t00, t01 ... with these loads on these routers, r0, r1 ...; a load of 0 is not there."""
    now = np.array(load, float)
    return Cluster(
        topics=tuple(f"t{number:02}" for number in range(len(now))),
        routers=tuple(f"r{number}" for number in range(len(capacity))),
        capacity=np.array(capacity, float),
        there=now > 0,
        place=np.full(len(now), NOWHERE) if place is None else np.array(place),
        orphaned=orphaned or {},
        past=np.array(past, float).reshape(-1, len(now)),
        now=now,
        idle=idle,
    )


def after(one, decided):
    """The placement after a decision, as numbers of routers."""
    homes = decided.homes
    return [
        int(homes[topic][1:]) if topic in homes else here
        for topic, here in zip(one.topics, one.place.tolist(), strict=True)
    ]


def carried(one, place, load=None):
    load = one.now if load is None else load
    return [sum(w for w, j in zip(load, place, strict=True) if j == router) for router in range(len(one.routers))]
