"""A recorded trace sent through models: what a subscriber would have believed at every reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.sense.bank import AUTO, ModelBank, SendingBank
from firelane.sense.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """What was sent of a trace, and what a subscriber made of it."""

    trace: Trace
    model: str
    delta: float
    sent: Flags  # times x sensors
    believed: Floats  # by the subscriber, at the time of each reading and after its update

    @property
    def sent_of(self) -> Ints:
        """The updates of each sensor."""
        return np.asarray(self.sent.sum(axis=0), np.int64)

    def to_data(self) -> dict[str, Any]:
        """What `--json` prints."""
        error = np.abs(self.believed - self.trace.values)
        sent = int(np.count_nonzero(self.sent))
        return {
            "readings": self.sent.size,
            "sent": sent,
            "suppressed": 1 - sent / self.sent.size,
            "max_error": float(error.max()),
            "rmse": float(np.sqrt(np.mean(error * error))),
        }


def replay(
    trace: Trace, *, delta: float, model: str = AUTO, progress: Callable[[int], None] = lambda done: None
) -> Replay:
    """Send a trace, reading by reading, from a publisher's models to a subscriber's; nothing is lost on the way."""
    count = len(trace.names)
    publisher, subscriber = SendingBank(count, delta=delta, model=model), ModelBank(count)
    sent, believed = np.zeros(trace.values.shape, np.bool_), np.empty(trace.values.shape)
    for row, (time_s, readings) in enumerate(zip(trace.times_s, trace.values, strict=True)):
        updates = publisher.observe(time_s, readings)
        subscriber.apply(updates)
        sent[row, updates.sensor] = True
        believed[row] = subscriber.predict(time_s)
        progress(1)
    return Replay(trace=trace, model=model, delta=delta, sent=sent, believed=believed)
