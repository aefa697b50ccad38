"""The models' machine code, loaded or made before the first sensor needs it: that takes from half a second to many."""

from __future__ import annotations

import numpy as np

from firelane.sense.bank import ModelBank, SendingBank
from firelane.sense.recoding import RecodingBank


def warm_up() -> None:
    """Take, predict and tell anew something small."""
    source = ModelBank(1)
    updates = SendingBank(1, delta=1.0).observe(0.0, np.zeros(1))
    source.apply(updates)
    source.predict(1.0)
    recoding = RecodingBank(source, 2.0)
    recoding.note(updates, 1.0)
    recoding.due(0.0, 1.0, 1.0)
