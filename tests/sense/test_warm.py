"""What is warmed up is all that an exchange needs of the models' machine code."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHECK = """
from firelane.sense import bank, crossing, filter, recoding
from firelane.sense.warm import warm_up
warm_up()
needed = [filter.follow, filter.believe, crossing.crossings]
print([one.__name__ for one in needed if len(one.signatures) != 1])
import numpy as np
from firelane.sense.sending import SendingStream
from firelane.sense.offer import Offer
from firelane.sense.wire import decode
sending = SendingStream(Offer(boot=1, sensors=("a", "b"), precision=0.5))
source = bank.ModelBank(2)
coarser = recoding.RecodingBank(source, 2.0, source.in_step)
for second in range(3):
    for message in sending.observe(float(second), np.full(2, 9.0 * second)):
        updates = decode(message).updates
        source.apply(updates)
        coarser.note(updates, 0.5)
        coarser.due(float(second), second + 3.0, 0.5, updates.sensor)
        source.predict(float(second))
print([one.__name__ for one in needed if len(one.signatures) != 1])
"""


@pytest.mark.slow
def test_real_streams_need_no_machine_code_beyond_what_was_warmed_up():
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
