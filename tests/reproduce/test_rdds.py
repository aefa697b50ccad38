"""RDDS's evaluation: its parts by hand, and a very small run with everything."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.errors import FirelaneError
from firelane.reproduce.rdds import evaluation, experiments, fires, loss, suppression
from firelane.reproduce.rdds.crossing import TCP
from firelane.reproduce.rdds.device import Application
from firelane.reproduce.rdds.outcome import in_tens, point, settling, transient
from firelane.reproduce.rdds.play import CACHING, KALMAN, PLAIN
from firelane.reproduce.rdds.quota import quota
from firelane.reproduce.rdds.report import full_from, report
from firelane.sense import Trace
from firelane.sense.bank import AUTO


def test_a_trace_is_played_to_its_end_and_back():
    assert fires.played(np.arange(9), 4).tolist() == [0, 1, 2, 3, 2, 1, 0, 1, 2]


@given(row=st.integers(-(10**9), 10**9), rows=st.integers(2, 1000))
def test_a_played_trace_never_jumps_and_stays_within_itself(row, rows):
    before, after = fires.played(np.array([row, row + 1]), rows)
    assert abs(before - after) == 1
    assert 0 <= min(before, after) <= max(before, after) < rows


def small_fires() -> fires.Fires:
    return fires.Fires(name="small", step_s=2.0, values=np.arange(60.0).reshape(12, 5))


def test_sensors_read_the_trace_they_were_drawn_for_and_others_differ():
    one, again, other = (fires.sensors(small_fires(), 50, *seed) for seed in ((1, 7), (1, 7), (1, 8)))
    assert one.read(3).tolist() == again.read(3).tolist() != other.read(3).tolist()
    for place in range(50):
        row = fires.played(3 + one.offset, 12)[place]
        assert one.read(3)[place] == 5 * row + one.column[place]


def test_fires_are_read_back_as_they_were_saved(tmp_path):
    small_fires().save(tmp_path / "fires.npz")
    found = fires.load_fires(tmp_path / "fires.npz")
    assert (found.name, found.step_s) == ("small", 2.0)
    assert found.values.tolist() == small_fires().values.tolist()


def test_of_a_measured_fire_the_thermocouples_are_used_if_it_has_any(tmp_path):
    (tmp_path / "a.csv").write_text("TIME,TC1,SM1,TC2\n0,1,9,2\n5,3,9,4\n10,5,9,6\n")
    (tmp_path / "b.csv").write_text("TIME,x\n0,1\n1,2\n2,3\n")
    (one, trace), (other, whole) = fires.measured(tmp_path)
    assert (one, trace.names, trace.values.tolist()) == ("a", ("TC1", "TC2"), [[1, 2], [3, 4], [5, 6]])
    assert (other, whole.names) == ("b", ("x",))
    assert fires.as_fires(one, trace).step_s == 5.0


def test_fires_that_cannot_be_used_are_told_in_a_line(tmp_path):
    with pytest.raises(FirelaneError, match="no CSV files"):
        fires.measured(tmp_path)
    uneven = Trace(names=("a",), times_s=np.array([0.0, 1.0, 3.0]), values=np.zeros((3, 1)))
    with pytest.raises(FirelaneError, match="not equally far apart"):
        fires.as_fires("uneven", uneven)


def points() -> list[dict[str, float]]:
    return [
        {"delta": delta, CACHING: cached, KALMAN: cached + 0.1, AUTO: 1 - 0.32 / delta}
        for delta, cached in ((0.4, 0.2), (0.5, 0.4), (1.0, 0.6), (2.0, 0.8))
    ]


def test_between_two_precisions_the_line_tells_where_caching_suppresses_a_share():
    found = suppression.where_caching_is(points(), 0.44)
    assert found["delta"] == pytest.approx(0.6)
    assert (found[CACHING], found[KALMAN]) == (pytest.approx(0.44), pytest.approx(0.54))
    assert suppression.where_caching_is(points(), 0.9) is None


def test_twice_as_much_is_sent_at_half_the_delta_if_that_is_the_law():
    assert suppression.delta_for(points(), 2.0, 1.0) == (pytest.approx(0.5), pytest.approx(0.64))
    assert suppression.delta_for(points(), 9.0, 1.0) == (pytest.approx(0.4), pytest.approx(0.8))  # the most there is


def test_models_suppress_more_than_caching_and_their_error_stays_below_delta():
    """On ramps caching sends every delta / slope; a filter of value and slope next to nothing."""
    rows = np.arange(200.0)[:, None] * np.linspace(0.05, 0.4, 8)
    found = suppression.suppressed(fires.Fires(name="ramps", step_s=1.0, values=rows), (0.5,))[0]
    steps = np.ceil(0.5 / np.linspace(0.05, 0.4, 8) - 1e-9)  # readings from one update to the next
    assert found[CACHING] == pytest.approx(1 - (1 / steps).mean(), abs=0.01)
    assert found[KALMAN] > 0.95
    assert found["max_error"] < 0.5


def test_ten_samples_are_one_and_what_is_left_over_is_left_out():
    assert in_tens([1.0] * 10 + [2.0] * 10 + [9.0] * 3) == [1.0, 2.0]


def test_a_load_has_settled_when_three_samples_average_within_5_hundredths_of_the_target():
    assert settling([1.0, 1.0, 0.7, 0.7, 0.7], 0.7) == 3
    assert settling([0.7, 0.7, 0.7], 0.7) == 1
    assert settling([1.0, 1.0, 0.8, 0.8, 0.8], 0.7) is None


def test_a_transient_tells_when_the_target_fell_and_what_became_of_it():
    def sample(load: float, delta: float, target: float) -> dict[str, float]:
        return {"load": load, "delta": delta, "target": target, "waits": 0}

    samples = [sample(0.7, 0.2, 0.7)] * 10 + [sample(1.0, 0.4, 0.7)] * 2 + [sample(0.7, 0.6, 0.7)] * 12
    samples += [sample(0.7, 0.6, 0.7)] * 6 + [sample(0.4, 0.9, 0.4)] * 20
    found = transient(samples, 10, 24)
    assert (found["settled_in"], found["lowered_at"]) == (3, 30)
    assert (found["delta_before"], found["delta_after_surge"]) == (pytest.approx(0.2), pytest.approx(0.6))
    assert (found["lowered_to"], found["delta_at_last"]) == (pytest.approx(0.4), pytest.approx(0.9))
    assert found["load_after_surge"]["mean"] == pytest.approx(0.7)


def test_a_point_adds_up_and_counts_a_second():
    sample = {"at": 2.0, "readings": 100, "updates": 20, "sent": 20, "received": 60, "taken": 60}
    sample |= {
        "user_s": 0.15,
        "system_s": 0.05,
        "models_s": 0.05,
        "load": 0.5,
        "delta": 0.5,
        "target": None,
        "waits": 0,
    }
    run = {"samples": [sample, sample], "participants": 3, "sensors": 10, "interval_s": 0.5, "exchange_load": 0.1}
    run |= dict.fromkeys(("overflowed", "missed", "skipped", "own_sent", "own_received"), 0)
    found = point(run, cores=0.2)
    assert (found["messages_hz"], found["sent_hz"], found["received_hz"]) == (40, 10, 30)
    assert found["suppressed"] == pytest.approx(0.8)
    assert (found["kernel"], found["models"], found["rest"]) == pytest.approx((0.125, 0.125, 0.25))
    assert found["offered_hz"] == 4 * 10 / 0.5  # sent, and received of three


@pytest.mark.parametrize(
    ("more", "full"),
    [({}, False), ({"load": {"mean": 0.99}}, True), ({"overflowed": 1}, True), ({"own_received": 80}, True)],
)
def test_a_device_is_full_when_it_has_no_more_to_give_or_falls_behind(more, full):
    calm = {"way": AUTO, "load": {"mean": 0.5}, "overflowed": 0, "skipped": 0, "own_sent": 100, "own_received": 100}
    found = {"scalability": [calm | {"participants": 8}, calm | {"participants": 16} | more]}
    assert full_from(found, AUTO) == (16 if full else None)


def test_an_application_that_is_too_slow_counts_every_message_and_asks_for_what_it_can_take():
    """One message a second, two seconds for each: half of them are done, the others wait or were not let in."""
    now = 0.0
    application = Application(
        buffer=10, each_s=2.0, clock=lambda: now, now_s=0.0, most=0.8, window_s=200.0, occupancy=0.5
    )
    for second in range(200):
        now = float(second)
        application.arrived()
        application.processed(0.0)
        assert application.waits <= 10
    done = 200 - application.overflowed - application.waits
    assert done == pytest.approx(100, abs=2)
    asked = application.predict(200.0)
    can_hz, wanted = 0.5 + 1 / 18.0, 5 / 6  # X + 1/W, of which L*/(1 + L*); who is let in waits for nine before it
    assert asked == pytest.approx(0.8 * can_hz * wanted, rel=0.05)


@pytest.mark.slow
def test_a_quota_slows_a_process_down():
    with quota() as limit:
        if limit is None:
            assert os.geteuid() != 0 or not os.access("/sys/fs/cgroup", os.W_OK)
            pytest.skip("no control group can be made here")
        code = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            limit.add(process.pid)
            limit.set(0.2)
            used_s = float(process.communicate(timeout=60)[0])
        assert 0 < used_s < 2 * 0.2 + 0.2  # what it used before it was put there
        assert limit.folder.exists()
    assert not limit.folder.exists()


TINY = replace(
    experiments.QUICK,
    participants=(1, 4),
    samples=2,
    watched=10,
    units=(1,),
    controlled=6,
    uncontrolled=2,
    surge=6,
    slow=12,
    transient=20,
    window=4,
)
TINY_LOSS = replace(loss.QUICK, rows=8, losses=(0.0, 0.5), ways=(TCP,))
FIGURES = {f"figure-{number}.png" for number in (5, 8, 9, 10, 12, 13)}


@pytest.mark.slow
def test_a_very_small_run_has_everything_and_keeps_the_laws(tmp_path):
    effort = evaluation.Effort(generated=TINY, given=TINY, crossing=TINY_LOSS, given_crossing=TINY_LOSS, fires=4)
    results = evaluation.reproduce(tmp_path, quick=True, seed=3, effort=effort)
    found = results["fires"][fires.GENERATED]
    scale = {(one["way"], one["participants"]): one for one in found["scalability"]}
    assert set(scale) == {(way, count) for way in (PLAIN, CACHING, AUTO) for count in (1, 4)}
    for (way, _), one in scale.items():
        assert one["own_sent"] == one["own_received"]  # counted on both sides
        assert (one["missed"], one["overflowed"], one["skipped"]) == (0, 0, 0)
        assert one["kernel"] + one["models"] + one["rest"] == pytest.approx(one["load"]["mean"], rel=0.05)
        if way == PLAIN:
            assert one["suppressed"] == 0
            assert one["messages_hz"] == pytest.approx(one["offered_hz"], rel=0.1)
    for count in (1, 4):
        sent = [scale[way, count]["messages_hz"] for way in (PLAIN, CACHING, AUTO)]
        assert sent == sorted(sent, reverse=True)
    assert len(found["figure_13"]["load"]) == 20
    assert all(0 < one <= 1 for one in found["figure_13"]["delta"])
    _check_loss(found, tmp_path)
    assert {one.name for one in (tmp_path / fires.GENERATED).iterdir()} >= FIGURES
    assert json.loads((tmp_path / "results.json").read_text())["seed"] == 3
    told = (tmp_path / "report.md").read_text()
    assert told == report(results)
    for heading in ("In short", "What does not reproduce", "Figures 8 to 10", "Figure 11", "Figure 13", "Other models"):
        assert heading in told
    assert "nan" not in told


def _check_loss(found, folder) -> None:
    if os.geteuid() != 0:
        assert found["figure_11"] == []
        assert "only root can" in found["no_figure_11"]
        return
    none, half = found["figure_11"]
    assert none["rmse"] < 1.0  # delta
    assert none["within"] == 1.0
    assert half["loss"] == 0.5
    assert math.isfinite(half["rmse"])
    assert (folder / fires.GENERATED / "figure-11.png").exists()
