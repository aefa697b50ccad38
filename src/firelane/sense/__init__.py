"""Sensor readings sent only when a model that both ends share fails to predict them."""

from firelane.sense.bank import CHOICES, ModelBank, SendingBank
from firelane.sense.rate import most_updates_hz
from firelane.sense.updates import UpdateError, Updates

__all__ = ["CHOICES", "ModelBank", "SendingBank", "UpdateError", "Updates", "most_updates_hz"]
