"""Generated fires: plausible physics, any size, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from firelane.cli import main
from firelane.errors import FirelaneError
from firelane.sense import Fire, fire_trace, read_trace
from firelane.sense import fire as physics

ONE = {"origin": 0, "alpha": 0.0469, "most_kw": 1000.0, "burns_s": 1e6}
NO_OPENINGS = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0))
DOOR = (np.array([0]), np.array([physics.OUTSIDE]), np.array([1.6]), np.array([2.0]), np.array([0.0]))


def burn(openings, rooms=1, steps=900, **changed):
    fire = ONE | changed
    return physics._burn(steps, 0.1, 10, np.full(rooms, 48.0), np.full(rooms, 93.0), *fire.values(), *openings)


def test_hot_gas_is_between_ambient_and_what_flashed_over_rooms_reach():
    peaks = [fire_trace(Fire(seed=seed, noise=0.0)).values.max() for seed in range(40)]
    for seed in range(40):
        assert fire_trace(Fire(seed=seed, noise=0.0)).values.min() >= 19.99
    assert 200 < np.median(peaks) < 900
    assert max(peaks) < 1300


def test_a_megawatt_in_a_room_with_an_open_door_reaches_what_mqh_predicts():
    """McCaffrey, Quintiere and Harkleroad's correlation: dT = 6.85 (Q^2 / (A sqrt(H) h A_T))^(1/3), within a third."""
    at_s = 600
    gas = burn(DOOR)[at_s, 0]
    h = np.sqrt(physics.GYPSUM / at_s)
    expected = 6.85 * (1000.0**2 / (1.6 * np.sqrt(2.0) * h * 93.0)) ** (1 / 3)
    assert gas - physics.AMBIENT_K == pytest.approx(expected, rel=0.33)


def test_flow_through_a_door_of_a_fully_developed_fire_is_kawagoes():
    hot, cold = physics.AIR_K_KG_M3 / 1273.0, physics.AIR_K_KG_M3 / physics.AMBIENT_K
    mean = (hot + cold) / 2
    flow = physics.DISCHARGE / 3 * 1.6 * mean * np.sqrt(physics.GRAVITY * 2.0 * (cold - hot) / mean)
    assert flow == pytest.approx(0.5 * 1.6 * np.sqrt(2.0), rel=0.1)


def test_a_fire_without_air_stays_small():
    assert burn(NO_OPENINGS).max() < burn(DOOR).max() - 100


def test_heat_goes_through_open_doors_and_nowhere_else():
    joined = (np.array([1]), np.array([0]), np.array([1.6]), np.array([2.0]), np.array([0.0]))
    gas = burn(joined, rooms=3)
    assert gas[-1, 0] > gas[-1, 1] > physics.AMBIENT_K + 20
    assert gas[-1, 2] == pytest.approx(physics.AMBIENT_K)


def test_what_goes_through_a_door_leaves_one_room_and_enters_the_other():
    there, back = ((np.array([a]), np.array([b]), *DOOR[2:]) for a, b in ((0, 1), (1, 0)))
    assert burn(there, rooms=2) == pytest.approx(burn(back, rooms=2))


def test_a_window_that_breaks_lets_heat_out_or_air_in():
    shut = (*DOOR[:4], np.array([1e9]))
    breaks = (*DOOR[:4], np.array([physics.ZERO_C_K + 60.0]))
    before = np.flatnonzero(burn(shut)[:, 0] > physics.ZERO_C_K + 60.0)[0]
    assert np.array_equal(burn(shut)[: before - 1], burn(breaks)[: before - 1])
    assert burn(breaks).max() > burn(shut).max() + 50  # the fire was starved


def test_finer_steps_change_little():
    coarse, fine = burn(DOOR)[-1, 0], physics._burn(
        900, 0.02, 50, np.full(1, 48.0), np.full(1, 93.0), *ONE.values(), *DOOR
    )[-1, 0]  # fmt: skip
    assert coarse == pytest.approx(fine, rel=1e-3)


def test_noise_is_what_was_asked_for():
    clean, noisy = (fire_trace(Fire(seed=3, noise=noise)).values for noise in (0.0, 0.3))
    assert (noisy - clean).std() == pytest.approx(0.3, rel=0.05)


def test_the_same_seed_gives_the_same_fire_and_another_one_another():
    assert np.array_equal(fire_trace(Fire(seed=5)).values, fire_trace(Fire(seed=5)).values)
    assert not np.array_equal(fire_trace(Fire(seed=5)).values, fire_trace(Fire(seed=6)).values)


@pytest.mark.parametrize(("rooms", "sensors"), [(1, 1), (2, 1), (300, 2)])
def test_buildings_of_any_size_burn(rooms, sensors):
    trace = fire_trace(Fire(rooms=rooms, sensors=sensors, seconds=120, step_s=5.0))
    assert trace.values.shape == (25, rooms * sensors)
    assert len(set(trace.names)) == rooms * sensors


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(FirelaneError, match="has no step of 60 s"):
        Fire(seconds=30, step_s=60)
    with pytest.raises(FirelaneError, match="more than 500,000,000"):
        Fire(rooms=10**6, seconds=1e6)


def test_the_command_writes_a_trace_that_can_be_replayed(tmp_path):
    path = tmp_path / "fire.csv"
    done = CliRunner().invoke(main, ["generate", "fire", "--rooms", "2", "--seconds", "60", "-o", str(path)])
    assert done.exit_code == 0, done.output
    assert np.array_equal(read_trace(path).values, fire_trace(Fire(rooms=2, seconds=60)).values)
