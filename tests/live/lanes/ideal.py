"""What perfect links would have done with the very same publications: the yardstick for a live run.

A finite run differs from its long-run prediction by chance, near saturation by tens of percent; from this only by what
the exchange does otherwise. Copies of one publication queue in random order, and what a drop rate takes is drawn anew,
so single deliveries are comparable only where nothing is dropped.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from firelane.arrays import Floats
from firelane.scenario.model import MOST_PRIORITIES
from firelane.scenario.plan import Plan, plain_plan
from live.lanes.deliveries import Deliveries
from live.lanes.schedule import Schedule


@dataclass(slots=True)
class _Link:
    """One message at a time, best class first, no preemption; a full buffer pushes out the newest of the worst."""

    most: float
    started: list[tuple[int, int, float]]  # (publication, stream, when its service started)
    free_s: float = 0.0
    waiting: int = 0
    queues: list[deque[tuple[int, int, float, float]]] = field(
        default_factory=lambda: [deque() for _ in range(MOST_PRIORITIES)]
    )

    def take(self, klass: int, number: int, stream: int, now_s: float, service_s: float) -> None:
        if self.waiting >= self.most:
            worst = max(place for place, queue in enumerate(self.queues) if queue)
            if klass >= worst:
                return
            self.queues[worst].pop()
            self.waiting -= 1
        self.queues[klass].append((number, stream, now_s, service_s))
        self.waiting += 1

    def serve_until(self, now_s: float) -> None:
        while self.waiting and self.free_s <= now_s:
            queue = next(queue for queue in self.queues if queue)
            number, stream, arrived_s, service_s = queue.popleft()
            start_s = max(self.free_s, arrived_s)
            self.started.append((number, stream, start_s))
            self.free_s = start_s + service_s
            self.waiting -= 1


def ideal(plan: Schedule, lanes: Plan | None = None, *, at_s: Floats | None = None, seed: int = 0) -> Deliveries:
    """The deliveries of perfect links; `at_s` are the real moments of sending, the planned ones if not given.

    A subscriber has a message when its service starts, as with a link that is only paced.
    """
    r, random = plan.routes, np.random.default_rng(seed)
    moments = plan.at_s if at_s is None else at_s
    _, priority, drop_rate = (lanes or plain_plan(r)).per_subscription(r)
    _, klass, drop = r.owners(priority, drop_rate)
    per_byte_s, overhead_s = r.service_s()
    started: list[tuple[int, int, float]] = []
    links = [_Link(one.link.buffer_messages or math.inf, started) for one in r.lanes]
    streams = [np.flatnonzero(r.stream_topic == number) for number in range(len(r.topics))]
    topic, size = plan.topic, plan.size_bytes
    for number in np.argsort(moments, kind="stable").tolist():
        now_s, copies = float(moments[number]), streams[topic[number]]
        kept = random.permutation(copies[random.random(len(copies)) >= drop[copies]])
        for lane in set(r.stream_lane[kept].tolist()):
            links[lane].serve_until(now_s)
        service_s = size[number] * per_byte_s[kept] + overhead_s[kept]
        for stream, held_s in zip(kept.tolist(), service_s.tolist(), strict=True):
            links[r.stream_lane[stream]].take(int(klass[stream]), number, stream, now_s, held_s)
    for link in links:
        link.serve_until(math.inf)
    return _deliveries(plan, moments, started)


def _deliveries(plan: Schedule, moments: Floats, started: list[tuple[int, int, float]]) -> Deliveries:
    number, stream, start_s = (np.array(column) for column in zip(*started, strict=True))
    return Deliveries(
        schedule=plan,
        started_ns=0,
        sent_ns=np.round(moments * 1e9).astype(np.int64),
        held_back=0,
        publication=number,
        subscriber=plan.routes.stream_subscriber[stream],
        received_ns=np.round(start_s * 1e9).astype(np.int64),
    )
