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
from firelane.scenario.routes import Routes, some_routes
from firelane.scenario.upstream import Upstream, upstream

Arrivals = Literal["fan-out", "independent", "paper"]
SMALL_BUFFER_LOSS = 1e-3
BUSY_PUBLISHER_LINK = 0.1  # up to it, Poisson arrivals after the publishers' links are right within 5 % end to end


def predict(scenario: Scenario | Routes, plan: Plan | None = None, *, arrivals: Arrivals = "fan-out") -> Metrics:
    """What the scenario does under the plan (none: one class, no drops), in the long run.

    `arrivals` chooses the model of the link: batches by fan-out (exact), independent Poisson streams
    (Cobham), or the paper's Eq. 4 and 5.
    """
    network = some_routes(scenario)
    return _Prediction(network, upstream(network), arrivals).metrics(plan)


def before_link(network: Routes, before: Upstream) -> tuple[Floats, Floats | None]:
    """What messages of each stream take up to their link, and how far apart batches then come, if they do."""
    stages, late_s = _Prediction(network, before, "fan-out").before_link()
    return stages["broker_in"] + stages["broker_out"] + stages["switch"], late_s


@dataclass(slots=True)
class _Prediction:
    routes: Routes
    before: Upstream  # the links
    arrivals: Arrivals
    notes: list[str] = field(default_factory=list)

    def metrics(self, plan: Plan | None) -> Metrics:
        r = self.routes
        plan_or_plain = plan or plain_plan(r)
        flow, priority, drop_rate = plan_or_plain.per_subscription(r)
        owner, klass, drop = r.owners(priority, plan_or_plain.withheld(r))
        rate = self.before.stream_rate_hz * (1 - drop)
        load = r.class_load(rate, klass)
        kept = 1 - drop if r.stream_told is None else (1 - drop) * r.stream_told
        stages = self._stages(rate, kept, klass)
        loss = np.array([lane.link.loss for lane in r.lanes])[r.stream_lane]
        delivered = rate * queues.served_share(load)[r.stream_lane, klass] * (1 - loss)
        delay = stages["broker_in"] + stages["broker_out"] + stages["switch"] + stages["link"]
        self._note(delay, rate)
        columns = self._columns(owner, r.published_hz, delivered, delay)
        return make_metrics(
            r,
            plan,
            source="predicted",
            owner=owner,
            links=link_loads(r, load),
            columns=columns | {"flow": flow, "priority": priority, "drop_rate": drop_rate},
            stages=self._by_class(stages, delay, delivered, klass),
            notes=self.before.notes + tuple(self.notes),
        )

    def _columns(self, owner: Ints, offered: Floats, delivered: Floats, delay: Floats) -> dict[str, Any]:
        """Streams gathered into subscriptions."""
        rows = len(self.routes.filters)
        carried = sum_by(owner, delivered, rows)
        known = np.isfinite(delay)
        total = sum_by(owner, np.where(known, delay * delivered, 0.0), rows)
        every = (sum_by(owner, ~known, rows) == 0) & (carried > 0)
        return {
            "stable": sum_by(owner, ~(known & self.before.stable), rows) == 0,
            "offered_hz": sum_by(owner, offered, rows),
            "delivered_hz": carried,
            "success": self.routes.claimed_share(delivered, offered),
            "delay_mean_s": np.divide(total, carried, out=np.full(rows, np.nan), where=every),
        }

    def _stages(self, rate_hz: Floats, kept: Floats, klass: Ints) -> dict[str, Floats]:
        """Mean delay of every stage, per stream; `rate_hz` is after drops, `kept` what they leave."""
        stages, late = self.before_link()
        return {**stages, "link": self._link(rate_hz, kept, klass, late)}

    def before_link(self) -> tuple[dict[str, Floats], Floats | None]:
        """Mean delay of the stages that no plan changes, and how far they draw batches apart, if so; per stream."""
        r = self.routes
        count = len(r.stream_topic)
        broker_in, broker_out = self._broker_in(), self._broker_out()
        together = not (broker_out.any() or r.switch_s().any())
        late = np.zeros(count)
        if not together:
            alike = np.zeros(count, np.int64)
            _, others, _ = queues.own_batch(np.ones(count), alike, r.stream_topic, r.stream_lane)
            # How long after the first of its batch a copy comes: out of the broker each of n copies takes an
            # exponential time d, the first of them d/n; through the switch they follow one another.
            late = broker_out * others / (1 + others)
        switch = self._switch(late)
        if not together:
            late = np.maximum(late, others / 2 * r.switch_s())
        stages = {
            "publisher": self._publisher()[r.stream_topic],
            "broker_in": np.full(count, broker_in),
            "broker_out": broker_out,
            "switch": switch,
        }
        return stages, None if together else late

    def _by_class(
        self, stages: dict[str, Floats], delay: Floats, delivered: Floats, klass: Ints
    ) -> dict[str, dict[int, float | None]]:
        """The stages per class, if there is any but the link."""
        if not any(stages[name].any() for name in ("publisher", "broker_in", "broker_out", "switch")):
            return {}
        by_class = {name: class_mean(one, delivered, klass) for name, one in stages.items()}
        return by_class | {"end_to_end": class_mean(delay + stages["publisher"], delivered, klass)}

    def _publisher(self) -> Floats:
        """The unmanaged side, per topic: FIFO and propagation (section 3.1.3), weighted by the sources' rates."""
        r = self.routes
        topics, lanes = len(r.topics), [lane.link for lane in r.publisher_lanes]
        if not lanes:
            return np.zeros(topics)
        service, second = moments(r, r.source_topic, *r.source_service_s())
        inside = r.source_lane >= 0
        delay = np.zeros(len(inside))
        delay[inside] = queues.fifo_delay_s(
            r.source_rate_hz[inside], service[inside], second[inside], r.source_lane[inside], len(lanes)
        )
        if self.arrivals == "paper":
            for one in range(len(lanes)):
                here = r.source_lane == one
                delay[here] = queues.processor_sharing_delay_s(r.source_rate_hz[here], service[here])
        delay[inside] += np.array([link.propagation_s for link in lanes])[r.source_lane[inside]]
        total = sum_by(r.source_topic, r.source_rate_hz, topics)
        summed = sum_by(r.source_topic, r.source_rate_hz * delay, topics)
        return np.asarray(np.divide(summed, total, out=np.zeros(topics), where=total > 0))

    def _broker_in(self) -> float:
        """Q_b^in of Eq. 6: publications of all topics, M/M/1."""
        input_hz, _ = self.routes.broker_rates_hz()
        if input_hz is None:
            return 0.0
        return float(queues.mm1_delay_s(np.array([self.before.broker_in_hz]), np.array([input_hz]))[0])

    def _broker_out(self) -> Floats:
        """Q_b,s^out of Eq. 6: one queue per subscriber, which sees one copy of a publication at most."""
        r = self.routes
        _, output_hz = r.broker_rates_hz()
        if output_hz is None:
            return np.zeros(len(r.stream_topic))
        delay = queues.mm1_delay_s(self.before.broker_out_hz, np.full(len(r.subscribers), output_hz))
        return delay[r.stream_subscriber]

    def _switch(self, late_s: Floats) -> Floats:
        """Q_x^in: all flows of the switch together, arriving in batches."""
        r, service = self.routes, self.routes.switch_s()
        if not service.any():
            return service
        batch = r.stream_topic if self.arrivals == "fan-out" else np.arange(len(service))
        return queues.batch_fifo_delay_s(
            self.before.switch_in_hz, service, 2 * service**2, batch, r.stream_lane, len(r.lanes), late_s
        )

    def _link(self, rate_hz: Floats, kept: Floats, klass: Ints, late_s: Floats | None) -> Floats:
        """Q_x^out of Eq. 7 and propagation."""
        r = self.routes
        lane, lanes = r.stream_lane, len(r.lanes)
        service, second = moments(r, r.stream_topic, *r.service_s())
        if self.arrivals == "fan-out":
            delay = queues.fan_out_delay_s(rate_hz, service, second, kept, klass, r.stream_topic, lane, lanes, late_s)
        elif self.arrivals == "independent":
            delay = queues.cobham_delay_s(rate_hz, service, second, klass, lane, lanes)
        else:
            delay = queues.collapsed_priority_delay_s(rate_hz, service, klass, lane, lanes)
        propagation_s: Floats = np.array([one.link.propagation_s for one in r.lanes])[lane]
        return delay + propagation_s

    def _note(self, delay: Floats, rate_hz: Floats) -> None:
        """Say where this prediction is known to fall short."""
        r, loads = self.routes, self.before.publisher_load
        if len(loads) and (loads < 1).all() and loads.max() > BUSY_PUBLISHER_LINK:
            self.notes.append(f"publishers' links have load up to {loads.max():.2f} and shape what arrives: end to end "
                              "this prediction may then be off by 12 % or more; simulate to be sure")  # fmt: skip
        if r.needs.latest.any():
            self.notes.append("keep: latest is predicted as keep: all; simulate to see what it saves")
        self._note_small_buffers(delay, rate_hz)

    def _note_small_buffers(self, delay: Floats, rate_hz: Floats) -> None:
        """A queue that settles may still overflow: messages in it by Little's law, their tail as exponential."""
        r = self.routes
        waiting = sum_by(r.stream_lane, np.nan_to_num(rate_hz * delay), len(r.lanes))
        for link_name in dict.fromkeys(lane.link_name for lane in r.lanes):
            here = np.array([lane.link_name == link_name for lane in r.lanes])
            buffer = r.scenario.link(link_name).buffer_messages
            if buffer is None:
                continue
            mean = float(waiting[here].max(initial=0.0))  # of the classes that the link keeps up with
            if mean > 0 and np.exp(-buffer / mean) > SMALL_BUFFER_LOSS:
                self.notes.append(f"links.{link_name}: with {mean:.0f} messages in it on average, a buffer of {buffer} "
                                  "loses some that this prediction does not count; simulate to see them")  # fmt: skip


def moments(r: Routes, topic: Ints, per_byte_s: Floats, overhead_s: Floats) -> tuple[Floats, Floats]:
    """Mean and second moment of service times: payloads vary, the overhead does not."""
    mean = r.topic_mean_bytes[topic] * per_byte_s + overhead_s
    return mean, mean**2 + r.topic_variance_bytes2[topic] * per_byte_s**2
