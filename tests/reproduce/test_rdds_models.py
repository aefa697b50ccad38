"""The models that were tried beside the filter in use: each does what it is for, and none is worth having here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firelane.reproduce.rdds.models import IN_USE, MODELS, compare, neighbours, sent_with
from firelane.sense import Fire, Trace, fire_trace, most_updates_hz, read_trace, replay
from trace_data import FIRES, needs_fires

pytestmark = pytest.mark.slow  # they compile for some seconds

BY_NAME = {model.name: model for model in MODELS}


def trace_of(times_s, *columns):
    names = tuple(f"T1_{number}" for number in range(1, len(columns) + 1))
    return Trace(names=names, times_s=times_s, values=np.column_stack(columns))


def updates(trace, name, delta=0.5):
    return sent_with(trace, BY_NAME[name], delta)[0].sum(axis=0)


def test_the_filter_they_are_compared_with_is_the_one_in_use():
    for seed in range(3):
        trace = fire_trace(Fire(seed=seed, noise=0.2))
        assert np.array_equal(sent_with(trace, IN_USE, 0.5)[0], replay(trace, delta=0.5, model="kalman").sent)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_model_keeps_within_delta_by_what_was_sent_alone(model):
    """Readings that were not sent are replaced by what was believed in their place: nothing may change."""
    trace = fire_trace(Fire(seed=2, noise=0.2))
    sent, believed = sent_with(trace, model, 0.5)
    assert (np.abs(believed - trace.values) < 0.5).all()
    known = replace(trace, values=np.where(sent, trace.values, believed))
    sent_again, believed_again = sent_with(known, model, 0.5)
    assert np.array_equal(sent_again, sent)
    assert np.array_equal(believed_again, believed)


def test_a_third_state_predicts_what_accelerates_steadily():
    times_s = np.arange(0.0, 300.0)
    trace = trace_of(times_s, 0.1 * times_s**2 / 2)
    assert updates(trace, "three states")[0] < 0.3 * most_updates_hz(0.1, 0.5) * 300
    assert updates(trace, "kalman")[0] > 0.9 * most_updates_hz(0.1, 0.5) * 300


def test_a_damped_slope_predicts_what_comes_to_rest_at_its_pace():
    times_s = np.arange(0.0, 200.0)
    trace = trace_of(times_s, 300 * (1 - np.exp(-times_s / 20)))
    assert updates(trace, "damped in 20 s")[0] < 0.5 * updates(trace, "kalman")[0]


def test_of_twins_that_are_each_others_neighbours_only_one_has_to_tell():
    draw = np.random.default_rng(1)
    times_s = np.arange(0.0, 400.0)
    same = np.cumsum(np.cumsum(draw.normal(0, 0.05, 400)))
    trace = trace_of(times_s, same, same)
    all_of_it = replace(BY_NAME["neighbours, a third"], share=1.0)
    first, second = sent_with(trace, all_of_it, 0.5)[0].sum(axis=0)
    assert first > 40
    assert second <= 0.1 * first


def test_neighbours_are_next_to_each_other_in_the_same_place():
    weights = neighbours(("TCA_1", "TCA_2", "TCA_3", "TCB_2", "TCG", "GASA_1", "GASA_3"))
    assert weights[0].tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert weights[1].tolist() == [0.5, 0, 0.5, 0, 0, 0, 0]
    assert not weights[3:].any()


def test_what_could_be_gained_at_most_counts_the_best_model_of_each_sensor():
    times_s = np.arange(0.0, 300.0)
    bend, square = 0.1 * times_s**2 / 2, 5.0 * (times_s // 20 % 2)
    trace = trace_of(times_s, bend, square)
    row = next(one for one in compare({"x": [trace]}, [0.5]) if one["model"] == "three states")
    least = updates(trace, "three states")[0] + replay(trace, delta=0.5, model="last-value").sent_of[1]
    assert row["chosen"] == pytest.approx(1 - least / 600)
    assert row["suppressed"] == pytest.approx(1 - updates(trace, "three states").sum() / 600)


@needs_fires
def test_none_of_them_gains_two_points_or_a_tenth_of_the_updates_on_measured_fires():
    rows = compare({path.stem: [read_trace(path, sensors="TC*")] for path in FIRES})
    base = {(row["traces"], row["delta"]): row["suppressed"] for row in rows if row["model"] == IN_USE.name}
    assert len(rows) == 2 * 4 * len(MODELS)
    for row in rows:
        assert row["suppressed"] - base[row["traces"], row["delta"]] < 0.02
        assert row["fewer"] < 0.10
