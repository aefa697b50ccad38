"""Scenario + Plan -> Metrics in closed form: every stage a message passes, end to end.

Implements: firedex, section 3.2, Eq. 2, 6, 7; overload by the fluid limit of strict priority.
Differs:    links and the stages before them see the batches that fan-out makes; the mean over a topic's
            publishers is weighted by their rates; a saturated queue is reported as such.
Symbols:    Delta -> delay_s, z -> loss, Gamma -> the factor (1 - loss), Xi -> success.
Checked by: tests/agreement/test_prediction_equals_simulation.py, tests/predict/test_predict.py
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.metrics import Metrics, class_mean, link_loads, make_metrics
from firelane.predict import queues
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan, plain_plan
from firelane.scenario.routes import Routes, routes

Arrivals = Literal["fan-out", "independent", "paper"]
SMALL_BUFFER_LOSS = 1e-3
BUSY_PUBLISHER_LINK = 0.1  # up to it, Poisson arrivals after the publishers' links are right within 5 % end to end


def predict(scenario: Scenario | Routes, plan: Plan | None = None, *, arrivals: Arrivals = "fan-out") -> Metrics:
    """What the scenario does under the plan (none: one class, no drops), in the long run.

    `arrivals` chooses the model of the link: batches by fan-out (exact), independent Poisson streams
    (Cobham), or the paper's Eq. 4 and 5.
    """
    if not isinstance(scenario, Routes):
        scenario = routes(scenario)
    plan = plan or plain_plan(scenario)
    return _Prediction(scenario, plan, arrivals).metrics()


@dataclass(slots=True)
class _Stage:
    """What a stage does: mean delay and share let through, per topic or per stream."""

    delay_s: Floats
    through: Floats


@dataclass(slots=True)
class _Prediction:
    routes: Routes
    plan: Plan
    arrivals: Arrivals
    notes: list[str] = field(default_factory=list)

    def metrics(self) -> Metrics:
        r = self.routes
        flow, priority, drop_rate = self.plan.per_subscription(r)
        owner, klass, drop = r.owners(priority, drop_rate)
        published = r.topic_rate_hz
        publisher = self._publisher()
        arriving = published * publisher.through
        broker_in = self._broker_in(arriving)
        rate = (arriving * broker_in.through)[r.stream_topic]
        broker_out = self._broker_out(rate)
        _, others, _ = queues.own_batch(
            np.ones(len(rate)), np.zeros(len(rate), np.int64), r.stream_topic, r.stream_lane
        )
        # How long after the first of its batch a copy comes: out of the broker each of n copies takes an
        # exponential time d, the first of them d/n; through the switch they follow one another.
        late = broker_out.delay_s * others / (1 + others)
        switch = self._switch(rate * broker_out.through, late)
        late = np.maximum(late, others / 2 * self._switch_s())
        kept = broker_out.through * switch.through * (1 - drop)
        link, load = self._link(rate * kept, 1 - drop, klass, late if late.any() else None)
        lane_loss = np.array([lane.link.loss for lane in r.lanes])[r.stream_lane]
        offered = published[r.stream_topic]
        delivered = rate * kept * link.through * (1 - lane_loss)
        stages = {
            "publisher": publisher.delay_s[r.stream_topic],
            "broker_in": broker_in.delay_s[r.stream_topic],
            "broker_out": broker_out.delay_s,
            "switch": switch.delay_s,
            "link": link.delay_s,
        }
        delay = sum(stages[name] for name in ("broker_in", "broker_out", "switch", "link"))
        columns = self._columns(owner, offered, delivered, np.asarray(delay))
        columns |= {"flow": flow, "priority": priority, "drop_rate": drop_rate}
        staged = len(r.publisher_lanes) or any(s.any() for n, s in stages.items() if n not in ("link", "publisher"))
        by_class = {name: class_mean(s, delivered, klass) for name, s in stages.items()}
        by_class["end_to_end"] = class_mean(delay + stages["publisher"], delivered, klass)
        return make_metrics(
            r,
            self.plan,
            source="predicted",
            links=link_loads(r, load),
            columns=columns,
            stages=by_class if staged else {},
            notes=tuple(self.notes),
        )

    def _columns(self, owner: Ints, offered: Floats, delivered: Floats, delay: Floats) -> dict[str, Any]:
        """Streams gathered into subscriptions."""
        rows = len(self.routes.filters)
        carried = sum_by(owner, delivered, rows)
        weight = np.where(delivered > 0, delivered, 0.0)
        total = sum_by(owner, np.where(weight > 0, delay * weight, 0.0), rows)
        unstable = sum_by(owner, ~np.isfinite(delay), rows) > 0
        mean = np.divide(total, carried, out=np.full(rows, np.nan), where=(carried > 0) & ~unstable)
        return {
            "stable": ~unstable,
            "offered_hz": sum_by(owner, offered, rows),
            "delivered_hz": carried,
            "success": self.routes.claimed_share(delivered, offered),
            "delay_mean_s": mean,
        }

    def _publisher(self) -> _Stage:
        """The unmanaged side, per topic: FIFO, propagation, errors (section 3.1.3)."""
        r = self.routes
        topics, lanes = len(r.topics), [lane.link for lane in r.publisher_lanes]
        if not lanes:
            return _Stage(np.zeros(topics), np.ones(topics))
        lane = r.source_lane  # -1 picks the last entry: no link at all
        per_byte_s, overhead_s = r.source_service_s()
        service, second = _moments(r, r.source_topic, per_byte_s, overhead_s)
        inside = lane >= 0
        delay = np.zeros(len(lane))
        delay[inside] = queues.fifo_delay_s(
            r.source_rate_hz[inside], service[inside], second[inside], lane[inside], len(lanes)
        )
        if self.arrivals == "paper":
            for one in range(len(lanes)):
                here = lane == one
                delay[here] = queues.processor_sharing_delay_s(r.source_rate_hz[here], service[here])
        load = sum_by(lane[inside], (r.source_rate_hz * service)[inside], len(lanes))
        self._note_publisher_links(load)
        through = np.append(np.minimum(1.0, 1 / np.maximum(load, 1e-300)), 1.0)
        through *= np.array([1 - link.loss for link in lanes] + [1.0])
        delay += np.array([link.propagation_s for link in lanes] + [0.0])[lane]
        weight = r.source_rate_hz
        total = sum_by(r.source_topic, weight, topics)
        mean = sum_by(r.source_topic, weight * delay, topics)
        passed = sum_by(r.source_topic, weight * through[lane], topics)
        some = total > 0
        return _Stage(
            np.divide(mean, total, out=np.zeros(topics), where=some),
            np.divide(passed, total, out=np.ones(topics), where=some),
        )

    def _note_publisher_links(self, load: Floats) -> None:
        for lane, one in zip(self.routes.publisher_lanes, load, strict=True):
            if one >= 1:
                self.notes.append(f"the publishers' link {lane.name} is saturated: load {one:.2f}")
        if (load < 1).all() and load.max() > BUSY_PUBLISHER_LINK:
            self.notes.append(f"publishers' links have load up to {load.max():.2f} and shape what arrives: end to end "
                              "this prediction may then be off by 10 %; simulate to be sure")  # fmt: skip

    def _broker_in(self, arriving_hz: Floats) -> _Stage:
        """Q_b^in of Eq. 6: publications of all topics, M/M/1."""
        input_hz, _ = self.routes.broker_rates_hz()
        topics = len(arriving_hz)
        if input_hz is None:
            return _Stage(np.zeros(topics), np.ones(topics))
        total = np.array([arriving_hz.sum()])
        delay = queues.mm1_delay_s(total, np.array([input_hz]))[0]
        if np.isnan(delay):
            self.notes.append(f"the broker's input is saturated: {total[0]:.0f} Hz of {input_hz:.0f} Hz")
        return _Stage(np.full(topics, delay), np.full(topics, min(1.0, input_hz / max(total[0], 1e-300))))

    def _broker_out(self, rate_hz: Floats) -> _Stage:
        """Q_b,s^out of Eq. 6: one queue per subscriber, which sees one copy of a publication at most."""
        r = self.routes
        _, output_hz = r.broker_rates_hz()
        if output_hz is None:
            return _Stage(np.zeros(len(rate_hz)), np.ones(len(rate_hz)))
        total = sum_by(r.stream_subscriber, rate_hz, len(r.subscribers))
        delay = queues.mm1_delay_s(total, np.full(len(total), output_hz))
        for one in np.flatnonzero(np.isnan(delay)):
            self.notes.append(f"the broker's output to {r.subscribers[one]} is saturated: {total[one]:.0f} Hz")
        through = np.minimum(1.0, output_hz / np.maximum(total, 1e-300))
        return _Stage(delay[r.stream_subscriber], through[r.stream_subscriber])

    def _switch_s(self) -> Floats:
        """Mean service time of each stream's switch, 0 without one."""
        each = np.array([1 / lane.link.switch_hz if lane.link.switch_hz else 0.0 for lane in self.routes.lanes])
        return each[self.routes.stream_lane]

    def _switch(self, rate_hz: Floats, late_s: Floats) -> _Stage:
        """Q_x^in: all flows of the switch together, arriving in batches."""
        r = self.routes
        service, lanes = self._switch_s(), len(r.lanes)
        if not service.any():
            return _Stage(service, np.ones(len(rate_hz)))
        batch = r.stream_topic if self.arrivals == "fan-out" else np.arange(len(rate_hz))
        delay = queues.batch_fifo_delay_s(rate_hz, service, 2 * service**2, batch, r.stream_lane, lanes, late_s)
        load = sum_by(r.stream_lane, rate_hz * service, lanes)
        for one in np.flatnonzero(load >= 1):
            self.notes.append(f"the switch before {r.lanes[one].name} is saturated: load {load[one]:.2f}")
        through = np.minimum(1.0, 1 / np.maximum(load, 1e-300))
        return _Stage(delay, through[r.stream_lane])

    def _link(self, rate_hz: Floats, kept: Floats, klass: Ints, late_s: Floats | None) -> tuple[_Stage, Floats]:
        """Q_x^out of Eq. 7 and propagation; `rate_hz` is after drops. Also the load per lane and class."""
        r = self.routes
        lane, lanes = r.stream_lane, len(r.lanes)
        service, second = _moments(r, r.stream_topic, *r.service_s())
        if self.arrivals == "fan-out":
            delay = queues.fan_out_delay_s(rate_hz, service, second, kept, klass, r.stream_topic, lane, lanes, late_s)
        elif self.arrivals == "independent":
            delay = queues.cobham_delay_s(rate_hz, service, second, klass, lane, lanes)
        else:
            delay = queues.collapsed_priority_delay_s(rate_hz, service, klass, lane, lanes)
        load = r.class_load(rate_hz, klass)
        delay = delay + np.array([one.link.propagation_s for one in r.lanes])[lane]
        self._note_small_buffers(load)
        if any(need.keep == "latest" for need in r.needs):
            self.notes.append("keep: latest is predicted as keep: all; simulate to see what it saves")
        return _Stage(delay, queues.served_share(load)[lane, klass]), load

    def _note_small_buffers(self, load: Floats) -> None:
        for lane, total in zip(self.routes.lanes, load.sum(axis=1), strict=True):
            buffer = lane.link.buffer_messages
            if buffer is not None and total < 1 and total**buffer > SMALL_BUFFER_LOSS:
                self.notes.append(f"links.{lane.link_name}: at load {total:.2f} a buffer of {buffer} loses messages "
                                  "that this prediction does not count; simulate to see them")  # fmt: skip


def _moments(r: Routes, topic: Ints, per_byte_s: Floats, overhead_s: Floats) -> tuple[Floats, Floats]:
    """Mean and second moment of service times: payloads vary, the overhead does not."""
    mean = r.topic_mean_bytes[topic] * per_byte_s + overhead_s
    return mean, mean**2 + r.topic_variance_bytes2[topic] * per_byte_s**2
