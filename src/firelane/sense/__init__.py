"""Sensor readings sent only when a model that both ends share fails to predict them.

What is named here is loaded when it is first asked for: machine code takes a while, and not everybody needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firelane.sense.agreement import LoadSignals
    from firelane.sense.bank import CHOICES, ModelBank, SendingBank
    from firelane.sense.fire import Fire, fire_trace
    from firelane.sense.identification import IdentifyError, Plant, identify
    from firelane.sense.load import LinkLoad, Load, MessageLoad, ProcessorLoad
    from firelane.sense.occupancy import OccupancyPredictor
    from firelane.sense.precision import Gains, PrecisionController
    from firelane.sense.publisher import SensorPublisher
    from firelane.sense.rate import most_updates_hz
    from firelane.sense.replaying import Replay, replay
    from firelane.sense.series import Series, excite, read_series
    from firelane.sense.subscriber import SensorSubscriber
    from firelane.sense.trace import Trace, TraceError, read_trace
    from firelane.sense.updates import UpdateError, Updates

_HOMES = {
    "CHOICES": "bank",
    "Fire": "fire",
    "Gains": "precision",
    "IdentifyError": "identification",
    "LinkLoad": "load",
    "Load": "load",
    "LoadSignals": "agreement",
    "MessageLoad": "load",
    "ModelBank": "bank",
    "OccupancyPredictor": "occupancy",
    "Plant": "identification",
    "PrecisionController": "precision",
    "ProcessorLoad": "load",
    "Replay": "replaying",
    "SendingBank": "bank",
    "SensorPublisher": "publisher",
    "SensorSubscriber": "subscriber",
    "Series": "series",
    "Trace": "trace",
    "TraceError": "trace",
    "UpdateError": "updates",
    "Updates": "updates",
    "excite": "series",
    "fire_trace": "fire",
    "identify": "identification",
    "most_updates_hz": "rate",
    "read_series": "series",
    "read_trace": "trace",
    "replay": "replaying",
}

__all__ = [
    "CHOICES",
    "Fire",
    "Gains",
    "IdentifyError",
    "LinkLoad",
    "Load",
    "LoadSignals",
    "MessageLoad",
    "ModelBank",
    "OccupancyPredictor",
    "Plant",
    "PrecisionController",
    "ProcessorLoad",
    "Replay",
    "SendingBank",
    "SensorPublisher",
    "SensorSubscriber",
    "Series",
    "Trace",
    "TraceError",
    "UpdateError",
    "Updates",
    "excite",
    "fire_trace",
    "identify",
    "most_updates_hz",
    "read_series",
    "read_trace",
    "replay",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
