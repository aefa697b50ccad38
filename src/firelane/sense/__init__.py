"""Sensor readings sent only when a model that both ends share fails to predict them."""

from firelane.sense.agreement import LoadSignals
from firelane.sense.bank import CHOICES, ModelBank, SendingBank
from firelane.sense.fire import Fire, fire_trace
from firelane.sense.identify import IdentifyError, Plant, identify
from firelane.sense.load import LinkLoad, Load, MessageLoad, ProcessorLoad
from firelane.sense.occupancy import OccupancyPredictor
from firelane.sense.precision import Gains, PrecisionController
from firelane.sense.publisher import SensorPublisher
from firelane.sense.rate import most_updates_hz
from firelane.sense.replay import Replay, replay
from firelane.sense.series import Series, excite, read_series
from firelane.sense.subscriber import SensorSubscriber
from firelane.sense.trace import Trace, TraceError, read_trace
from firelane.sense.updates import UpdateError, Updates

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
