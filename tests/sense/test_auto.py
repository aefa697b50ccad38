"""`auto` against each model alone, on measured and on generated fires."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from firelane.sense import Fire, SendingBank, Trace, fire_trace, read_trace, replay
from trace_data import FIRES, needs_fires

SINGLE = ("last-value", "kalman")


@cache
def sent_of(path, model, sensors="*", delta=0.5):
    return replay(read_trace(path, sensors=sensors), delta=delta, model=model).sent_of


@needs_fires
@pytest.mark.parametrize("delta", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("path", FIRES, ids=lambda path: path.stem)
def test_auto_sends_less_than_caching_on_every_measured_fire(path, delta):
    assert sent_of(path, "auto", delta=delta).sum() < sent_of(path, "last-value", delta=delta).sum()
    of_thermocouples = [sent_of(path, model, "TC*", delta).sum() for model in ("auto", "last-value")]
    assert of_thermocouples[0] < 0.97 * of_thermocouples[1]


@needs_fires
@pytest.mark.parametrize("path", FIRES, ids=lambda path: path.stem)
def test_auto_sends_at_most_three_updates_more_than_the_best_model_of_each_sensor(path):
    best = np.minimum.reduce([sent_of(path, model) for model in SINGLE])
    assert (sent_of(path, "auto") - best).max() <= 3


@pytest.mark.slow
def test_auto_sends_much_less_than_caching_over_a_thousand_generated_traces():
    fires = [fire_trace(Fire(seed=seed)) for seed in range(42)]
    assert sum(len(one.names) for one in fires) >= 1000
    sent = {model: sum(int(replay(one, delta=0.5, model=model).sent.sum()) for one in fires)
            for model in ("auto", "last-value")}  # fmt: skip
    assert sent["auto"] < 0.5 * sent["last-value"]


def test_auto_finds_the_model_for_each_sensor():
    """A ramp is the filter's; a square wave is worth one update an edge when the last value is kept."""
    times_s = np.arange(0, 400, 1.0)
    ramp, square = 0.3 * times_s, 5.0 * (times_s // 20 % 2)
    trace = Trace(names=("ramp", "square"), times_s=times_s, values=np.column_stack([ramp, square]))
    result = replay(trace, delta=0.5)
    assert result.sent_of[0] <= 10
    alone = replay(trace, delta=0.5, model="last-value").sent_of
    assert alone[1] == 20
    assert result.sent_of[1] <= alone[1] + 3


def test_a_switch_is_an_update_with_the_whole_state_and_nothing_else_but_the_first_is():
    times_s = np.arange(0, 200, 1.0)
    readings = np.where(times_s < 100, 5.0 * (times_s // 5 % 2), 2.0 * times_s)  # steps, then a ramp
    publisher, models = SendingBank(1, delta=0.5), []
    for time_s, reading in zip(times_s, readings, strict=True):
        updates = publisher.observe(time_s, np.array([reading]))
        if len(updates):
            switched = not models or models[-1] != updates.model[0]
            assert updates.whole[0] == switched
            assert len(updates.state) == switched
            models.append(int(updates.model[0]))
    assert {(0, 1), (1, 0)} <= set(pairwise(models))
