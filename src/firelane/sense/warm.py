"""The models' machine code, loaded or made before the first sensor needs it: that takes from half a second to many."""

from __future__ import annotations

import numpy as np

from firelane.sense.bank import ModelBank
from firelane.sense.filter import FIELDS, LAST_VALUE
from firelane.sense.recoding import RecodingBank
from firelane.sense.updates import Updates


def warm_up() -> None:
    """Take, predict and tell anew something small."""
    one, source = np.ones(1), ModelBank(1)
    first = Updates(
        sensor=np.zeros(1, np.int64),
        sequence=np.ones(1, np.int64),
        time_s=one,
        value=one,
        delta=one,
        model=np.full(1, LAST_VALUE),
        whole=np.ones(1, np.bool_),
        state=np.ones((1, FIELDS)),
    )
    source.apply(first)
    coarser = RecodingBank(source, 2.0)
    coarser.note(first, 1.0)
    coarser.due(1.0, 2.0, 1.0)
    source.predict(1.0)
