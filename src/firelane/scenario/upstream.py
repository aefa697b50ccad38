"""What reaches the links of what is published: publishers' links, the broker and switches take their share.

Implements: firedex, section 3.1 (Gamma, and the loads of Eq. 10 and of the M/M/1 queues in section 4.3).
Differs:    a stage that is offered more than it can carry lets through what it can (the fluid limit).
Symbols:    Gamma -> the factor (1 - loss), rho -> load.
Checked by: tests/scenario/test_upstream.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firelane.arrays import Flags, Floats, sum_by
from firelane.scenario.model import LEAST_SPARE
from firelane.scenario.routes import Routes

FULL = 1 - LEAST_SPARE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Upstream:
    """Rates along the way, whether every stage on it keeps up, and the loads of the stages."""

    arriving_hz: Floats  # per topic, at the exchange
    stream_rate_hz: Floats  # per stream, before the drop filter
    stable: Flags  # per stream: no stage before its link is saturated
    exchange_stable: Flags  # the same without the publishers' side
    publisher_load: Floats  # per publishers' lane
    broker_in_hz: float  # publications a second at the broker
    broker_out_hz: Floats  # per subscriber
    switch_in_hz: Floats  # per stream
    switch_load: Floats  # per lane
    notes: tuple[str, ...]

    def reach(self, routes: Routes) -> Floats:
        """The share of each subscription's messages that gets as far as its drop filter."""
        return routes.claimed_share(self.stream_rate_hz, routes.published_hz)


def upstream(routes: Routes) -> Upstream:
    """Follow the rates of a scenario up to its links."""
    r = routes
    input_hz, output_hz = r.broker_rates_hz()
    publisher_load, source_hz, source_stable = _publishers(r)
    arriving_hz = sum_by(r.source_topic, source_hz, len(r.topics))
    broker_in_hz = float(arriving_hz.sum())
    rate = arriving_hz[r.stream_topic] * _through(broker_in_hz / input_hz if input_hz else 0.0)
    if r.stream_told is not None:
        rate = rate * r.stream_told
    broker_out_hz = sum_by(r.stream_subscriber, rate, len(r.subscribers))
    out_load = broker_out_hz / output_hz if output_hz else np.zeros(len(r.subscribers))
    switch_in_hz = rate * _through(out_load)[r.stream_subscriber]
    switch_load = sum_by(r.stream_lane, switch_in_hz * r.switch_s(), len(r.lanes))
    topic_stable = sum_by(r.source_topic, ~source_stable, len(r.topics)) == 0
    broker_in_keeps_up = not input_hz or broker_in_hz < input_hz * FULL
    exchange_stable = (out_load < FULL)[r.stream_subscriber] & (switch_load < FULL)[r.stream_lane] & broker_in_keeps_up
    return Upstream(
        arriving_hz=arriving_hz,
        stream_rate_hz=switch_in_hz * _through(switch_load)[r.stream_lane],
        stable=topic_stable[r.stream_topic] & exchange_stable,
        exchange_stable=exchange_stable,
        publisher_load=publisher_load,
        broker_in_hz=broker_in_hz,
        broker_out_hz=broker_out_hz,
        switch_in_hz=switch_in_hz,
        switch_load=switch_load,
        notes=tuple(_notes(r, publisher_load, broker_in_hz, out_load, switch_load)),
    )


def _publishers(r: Routes) -> tuple[Floats, Floats, Flags]:
    """The load of each publishers' lane; what of each source gets through it; and does it keep up?"""
    lanes = len(r.publisher_lanes)
    if lanes == 0:
        return np.zeros(0), r.source_rate_hz, np.ones(len(r.source_topic), np.bool_)
    inside = r.source_lane >= 0
    per_byte_s, overhead_s = r.source_service_s()
    work = r.source_rate_hz * (r.topic_mean_bytes[r.source_topic] * per_byte_s + overhead_s)
    load = sum_by(r.source_lane[inside], work[inside], lanes)
    loss = np.array([lane.link.loss for lane in r.publisher_lanes] + [0.0])
    through = np.append(_through(load), 1.0) * (1 - loss)  # -1 picks the last: no link at all
    return load, r.source_rate_hz * through[r.source_lane], np.append(load < FULL, True)[r.source_lane]


def _through(load: Floats | float) -> Floats:
    """The share that a queue of this load serves in the long run."""
    return np.asarray(1.0 / np.maximum(load, 1.0), np.float64)


def _notes(r: Routes, publisher_load: Floats, broker_in_hz: float, out_load: Floats, switch_load: Floats) -> list[str]:
    input_hz, _ = r.broker_rates_hz()
    notes = [
        f"the publishers' link {lane.name} is saturated: load {load:.2f}"
        for lane, load in zip(r.publisher_lanes, publisher_load, strict=True)
        if load >= FULL
    ]
    if input_hz and broker_in_hz >= input_hz * FULL:
        notes.append(f"the broker's input is saturated: {broker_in_hz:.0f} Hz of {input_hz:.0f} Hz")
    notes += [
        f"the broker's output to {name} is saturated: load {load:.2f}"
        for name, load in zip(r.subscribers, out_load, strict=True)
        if load >= FULL
    ]
    notes += [
        f"the switch before {lane.name} is saturated: load {load:.2f}"
        for lane, load in zip(r.lanes, switch_load, strict=True)
        if load >= FULL
    ]
    return notes
