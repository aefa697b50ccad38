"""examples/follow_stream.py, written from the documentation, knows what Firelane's subscriber knows, bit for bit."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from firelane.sense.offer import Offer
from firelane.sense.receiving import ReceivingStream
from firelane.sense.sending import SendingStream

EXAMPLE = Path(__file__).parents[2] / "examples" / "follow_stream.py"
COUNT = 12


@pytest.fixture(scope="module")
def follow_stream():
    spec = importlib.util.spec_from_file_location("follow_stream", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["follow_stream"] = module
    spec.loader.exec_module(module)
    return module


def sent(seed: int, **more):
    """Messages of a stream whose precision changes; one sensor is not read any more in the end."""
    random = np.random.default_rng(seed)
    said = {"boot": 5, "sensors": tuple(f"T{number}" for number in range(COUNT)), "precision": 0.5, "heartbeat_s": 3.0}
    sending = SendingStream(Offer(**(said | more)), most_bytes=400, heal=True)
    sending._told.trailing = seed != 1
    value, slope = random.normal(20, 5, COUNT), np.zeros(COUNT)
    for second in np.cumsum(random.uniform(0.1, 2.0, 300)):
        slope = 0.9 * slope + random.normal(0, 0.3, COUNT)
        value = value + slope + random.normal(0, 0.05, COUNT)
        there = np.arange(COUNT if second < 150 else COUNT - 1)
        yield from sending.observe(second, value[there], there)
        yield from sending.beat(second)
        if random.random() < 0.02:
            yield from sending.whole(second, there[:3])
        if random.random() < 0.02 and not sending.offer.discrete:
            yield from sending.set_delta(second, random.uniform(0.3, 2.0))


def lossy(messages, seed: int, loss: float):
    """Some are lost, some come twice, some change places."""
    random, held = np.random.default_rng(seed), None
    for message in messages:
        if random.random() < loss:
            continue
        if held is None and random.random() < loss / 3:
            held = message
            continue
        yield message
        if random.random() < loss / 3:
            yield message
        if held is not None:
            yield held
            held = None


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("more", [{}, {"kind": "discrete", "precision": None}], ids=["continuous", "discrete"])
def test_both_know_the_same_to_the_last_bit(follow_stream, more, loss):
    ours, theirs = ReceivingStream(), follow_stream.Stream()
    for seed in range(3):
        known = told = 0
        messages = list(lossy(sent(seed, boot=seed, **more), seed, loss))
        for number, message in enumerate(messages):
            ours.take(message, float(number))
            theirs.take(message, float(number))
            for ahead_s in (-0.1, 0.0, 0.7, 100.0):
                values = ours.bank.predict(theirs.time + ahead_s)
                others = [one.at(theirs.time + ahead_s) for one in theirs.sensors]
                assert [None if np.isnan(one) else one for one in values.tolist()] == others
            assert theirs.lacking() == ours.missing().tolist()
            assert [one.gone for one in theirs.sensors] == ours.gone.tolist()
            assert theirs.delta == ours.delta
            known += COUNT - len(theirs.lacking())
            told += any(one.gone for one in theirs.sensors)
        assert known > (0.05 if loss > 0.3 else 0.4) * COUNT * len(messages)
        assert told
        assert loss == 0.0 or ours.missed > 0
