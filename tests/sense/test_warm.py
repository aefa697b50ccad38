"""What is warmed up is all that an exchange needs of the models' machine code."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHECK = """
import numpy as np
from firelane.sense import bank, filter, recoding
from firelane.sense.offer import Offer
from firelane.sense.sending import SendingStream
from firelane.sense.warm import warm_up
from firelane.sense.wire import decode

def loaded():
    both = {**vars(filter), **vars(recoding)}
    return {name: one.signatures for name, one in both.items() if hasattr(one, "signatures")}

sending = SendingStream(Offer(boot=1, sensors=("a", "b"), precision=0.5))
messages = [one for second in range(3) for one in sending.observe(float(second), np.full(2, 9.0 * second**2))]
before = loaded()
warm_up()
warm = loaded()
source = bank.ModelBank(2)
coarser = recoding.RecodingBank(source, 2.0, source.in_step)
for message in messages:
    batch = decode(message)
    source.apply(batch.updates)
    coarser.note(batch.updates, 0.5)
    coarser.due(batch.time_s, batch.time_s + 3.0, 0.5, batch.updates.sensor)
    source.predict(batch.time_s)
print(before != warm, loaded() == warm)
"""


@pytest.mark.slow
def test_real_streams_need_no_machine_code_beyond_what_was_warmed_up():
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
