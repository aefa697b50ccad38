"""Sensor readings sent only when a model that both ends share fails to predict them."""

from firelane.sense.bank import CHOICES, ModelBank, SendingBank
from firelane.sense.fire import Fire, fire_trace
from firelane.sense.publisher import SensorPublisher
from firelane.sense.rate import most_updates_hz
from firelane.sense.replay import Replay, replay
from firelane.sense.subscriber import SensorSubscriber
from firelane.sense.trace import Trace, TraceError, read_trace
from firelane.sense.updates import UpdateError, Updates

__all__ = [
    "CHOICES",
    "Fire",
    "ModelBank",
    "Replay",
    "SendingBank",
    "SensorPublisher",
    "SensorSubscriber",
    "Trace",
    "TraceError",
    "UpdateError",
    "Updates",
    "fire_trace",
    "most_updates_hz",
    "read_trace",
    "replay",
]
