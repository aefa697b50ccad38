"""Filter updates a second on one core, and what a reading costs its publisher.

An update is a Kalman filter's prediction and correction with one reading. Ours takes them as a subscriber does: a batch
of updates, checked, for 10 000 sensors in one call, with the wander of every slope adapted too. The peer is filterpy,
a filter of the same two states per sensor, one by one, as its users would; its matrices are set up beforehand and stay.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from filterpy.common import Q_discrete_white_noise
from filterpy.kalman import KalmanFilter

from firelane.arrays import Floats
from firelane.bench import OURS, Measure, Target, interleaved, main
from firelane.sense import ModelBank, SendingBank, Updates

SENSORS = 10_000
STEPS, QUICK_STEPS = 500, 20
PEER_UPDATES, QUICK_PEER_UPDATES = 20_000, 500
PEER = "filterpy, one by one"
LEAST_UPDATES_HZ = 20e6
LEAST_RATIO = 500


def measures(*, quick: bool = False) -> list[Measure]:
    """Updates a second beside filterpy's; the cost of a reading that is kept, and of one that is sent."""
    steps, peer_updates = (QUICK_STEPS, QUICK_PEER_UPDATES) if quick else (STEPS, PEER_UPDATES)
    updates_hz(2)  # compiles
    updates = interleaved(
        "filter updates", "/s", {OURS: lambda: updates_hz(steps), PEER: lambda: filterpy_hz(peer_updates)}
    )
    kept_s, sent_s = observe_s(steps, jump=0.0), observe_s(steps, jump=100.0)
    ours, peer = updates[OURS], updates[PEER]
    return [
        Measure(
            name="sense, filter updates",
            ours=ours,
            peers={PEER: peer},
            unit="/s",
            targets={
                OURS: Target(words="at least 20 M/s", met=ours >= LEAST_UPDATES_HZ),
                PEER: Target(words=f"at least {LEAST_RATIO} times", met=ours >= LEAST_RATIO * peer),
            },
        ),
        Measure(name="sense, a reading that need not be sent", ours=kept_s, unit="s"),
        Measure(name="sense, a reading that is sent, as an update", ours=sent_s, unit="s"),
    ]


def updates_hz(steps: int) -> float:
    """Updates a second that a subscriber's bank takes; every one carries a reading far from the prediction."""
    draw = np.random.default_rng(1)
    publisher, subscriber = SendingBank(SENSORS, delta=0.5, model="kalman"), ModelBank(SENSORS)
    readings = draw.normal(0.0, 100.0, (steps + 1, SENSORS))
    batches = [publisher.observe(float(step), row) for step, row in enumerate(readings)]
    subscriber.apply(batches[0])
    started = perf_counter()
    for batch in batches[1:]:
        subscriber.apply(batch)
    spent_s = perf_counter() - started
    assert np.array_equal(subscriber.state, publisher.bank.state)
    return _rows(batches[1:]) / spent_s


def _rows(batches: list[Updates]) -> int:
    return sum(len(one) for one in batches)


def filterpy_hz(updates: int) -> float:
    """Updates a second of one filterpy filter."""
    peer = KalmanFilter(dim_x=2, dim_z=1)
    peer.F = np.array([[1.0, 1.0], [0.0, 1.0]])
    peer.H = np.array([[1.0, 0.0]])
    peer.R[:] = 0.125
    peer.Q = Q_discrete_white_noise(dim=2, dt=1.0, var=5e-5)
    readings = np.random.default_rng(1).normal(0.0, 100.0, updates)
    started = perf_counter()
    for reading in readings:
        peer.predict()
        peer.update(reading)
    return updates / (perf_counter() - started)


def observe_s(steps: int, *, jump: float) -> float:
    """What one reading costs a publisher that chooses its models (`auto`), all of them kept or, with a jump, sent."""
    publisher = SendingBank(SENSORS, delta=0.5)
    readings: list[Floats] = [np.full(SENSORS, jump * (step * step % 7)) for step in range(steps + 2)]
    for step in (0, 1):
        publisher.observe(float(step), readings[step])
    started = perf_counter()
    for step in range(2, steps + 2):
        publisher.observe(float(step), readings[step])
    return (perf_counter() - started) / (steps * SENSORS)


if __name__ == "__main__":
    main(measures)
