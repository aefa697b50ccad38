"""Plants that are known are found again, and series that say nothing are refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.signal import lfilter

from firelane.cli import main
from firelane.errors import FirelaneError
from firelane.sense.identification import IdentifyError, identify
from firelane.sense.series import Series, excite, read_series
from firelane.sense.trace import TraceError


def recorded(a, b, *, samples=300, noise=0.005, swing=1.5, seed=1, levels=2) -> Series:
    """A series of a known plant, made by scipy's filter around a load of 0.6."""
    draw = np.random.default_rng(1000 + seed)
    gamma = excite(samples, gamma=1.0, swing=swing, levels=levels, seed=seed)
    poles = [1.0, *(-one for one in a)]
    load = 0.6 + lfilter([0.0, *b], poles, np.log(gamma)) + lfilter([1.0], poles, noise * draw.standard_normal(samples))
    return Series(times_s=np.arange(samples) * 5.0, load=load, gamma=gamma)


@pytest.mark.parametrize(
    ("a", "b"), [((0.4,), (-0.3,)), ((0.5, 0.1), (-0.4, 0.2)), ((0.3, -0.2, 0.3), (-0.3, 0.25, -0.15))]
)
def test_a_known_plant_is_found_again_with_its_order(a, b):
    found = [identify(recorded(a, b, seed=seed)) for seed in range(30)]
    right = [plant for plant in found if plant.order == len(a)]
    assert len(right) >= 20  # Akaike's criterion is known to take a larger order now and then
    for plant in right:
        assert plant.a == pytest.approx(a, abs=0.1)
        assert plant.b == pytest.approx(b, abs=0.03)
    for plant in found:
        assert plant.gain == pytest.approx(sum(b) / (1 - sum(a)), rel=0.1)
        assert plant.constant == pytest.approx(0.6 * (1 - sum(plant.a)), abs=0.01)
        assert plant.fit > 0.95
        assert plant.simulated_fit > 0.9
        assert plant.stable
        assert plant.period_s == 5.0


def test_without_noise_the_coefficients_are_exact_and_the_load_is_simulated_to_the_last_digits():
    series = recorded((0.5, 0.1), (-0.4, 0.2), noise=0.0)
    plant = identify(series, most_order=2)
    assert plant.a == pytest.approx((0.5, 0.1), abs=1e-6)
    assert plant.b == pytest.approx((-0.4, 0.2), abs=1e-6)
    np.testing.assert_allclose(plant.simulate(series.gamma, series.load), series.load, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_a_load_that_does_not_answer_is_refused(seed):
    draw = np.random.default_rng(seed)
    gamma = excite(200, gamma=1.0, seed=seed)
    load = 0.6 + 0.02 * draw.standard_normal(200)
    with pytest.raises(IdentifyError, match="does not answer"):
        identify(Series(times_s=np.arange(200) * 5.0, load=load, gamma=gamma))


def test_a_gamma_that_stands_still_or_follows_a_slow_wave_is_refused():
    times_s = np.arange(200) * 5.0
    for gamma, why in (
        (np.full(200, 1.0), "hardly changes"),
        (np.exp(0.5 * np.sin(times_s * 2 * math.pi / 300)), "too slowly"),
        (np.where(np.arange(200) < 100, 1.0, 2.0), "too slowly"),
    ):
        with pytest.raises(IdentifyError, match=why):
            identify(Series(times_s=times_s, load=0.6 - 0.1 * np.log(gamma), gamma=gamma))


def test_too_few_samples_are_refused():
    with pytest.raises(IdentifyError, match="too few"):
        identify(recorded((0.4,), (-0.3,), samples=39))


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_the_exciting_sequence_is_within_its_swing_rich_and_repeatable(levels):
    gamma = excite(400, gamma=2.0, swing=1.5, levels=levels)
    assert gamma.min() == pytest.approx(2 / 1.5)
    assert gamma.max() == pytest.approx(3.0)
    assert len(np.unique(gamma.round(9))) == levels
    assert np.mean(np.log(gamma / 2)) == pytest.approx(0.0, abs=0.08)
    power = np.abs(np.fft.rfft(np.log(gamma / 2)))[1:] ** 2
    assert power.reshape(4, -1).mean(axis=1).min() > 0.02 * power.mean()  # some in every quarter of the frequencies
    assert np.array_equal(gamma, excite(400, gamma=2.0, swing=1.5, levels=levels))
    assert not np.array_equal(gamma, excite(400, gamma=2.0, swing=1.5, levels=levels, seed=2))


@pytest.mark.parametrize("wrong", [{"gamma": 0.0}, {"swing": 1.0}, {"levels": 1}, {"hold": 0}, {"gamma": math.nan}])
def test_a_sequence_that_would_not_excite_is_refused(wrong):
    with pytest.raises(FirelaneError, match="excite"):
        excite(10, **({"gamma": 1.0} | wrong))


def write(path, series: Series):
    rows = zip(series.times_s, series.load, series.gamma, strict=True)
    path.write_text("time,load,gamma\n" + "".join(f"{t},{u},{g}\n" for t, u, g in rows))
    return path


def test_a_series_is_read_from_its_file(tmp_path):
    series = recorded((0.4,), (-0.3,))
    read = read_series(write(tmp_path / "series.csv", series))
    assert np.array_equal(read.load, series.load)
    assert np.array_equal(read.gamma, series.gamma)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("time,load\n0,1\n5,1\n", 'no one column "gamma"'),
        ("time,load,gamma\n0,0.5,1\n", "two rows"),
        ("time,load,gamma\n0,0.5,1\n5,-0.1,1\n", "row 2 has the load -0.1"),
        ("time,load,gamma\n0,0.5,1\n5,0.5,0\n", "row 2 has the gamma 0"),
        ("time,load,gamma\n0,0.5,1\n5,0.5,1\n10,0.5,1\n40,0.5,1\n", "row 4 does not come a period after"),
        ("time,load,gamma\n0,0.5,1\n5,,1\n", "reads nan"),
    ],
)
def test_a_series_that_cannot_be_used_is_told_in_a_line(tmp_path, text, why):
    (tmp_path / "series.csv").write_text(text)
    with pytest.raises(TraceError, match=why) as told:
        read_series(tmp_path / "series.csv")
    assert "series.csv" in str(told.value)
    assert "\n" not in str(told.value)


def test_the_command_prints_plant_fit_and_gains_and_draws(tmp_path):
    path = write(tmp_path / "series.csv", recorded((0.5,), (-0.5, 0.3)[:1]))
    done = CliRunner().invoke(main, ["sense", "identify", str(path), "-o", str(tmp_path / "fit.png")])
    assert done.exit_code == 0, done.output
    assert "U(t) = " in done.output
    assert "R²" in done.output
    assert "K_I" in done.output
    assert (tmp_path / "fit.png").stat().st_size > 10_000
    done = CliRunner().invoke(main, ["sense", "identify", str(path), "--json"])
    data = json.loads(done.output)
    assert data["plant"]["gain"] == pytest.approx(-1.0, rel=0.1)
    assert data["gains"]["integral"] > 0
    assert data["gains"]["settling_samples"] <= 5


def test_the_command_refuses_what_says_nothing_in_one_line(tmp_path):
    series = recorded((0.4,), (-0.3,))
    flat = Series(times_s=series.times_s, load=series.load, gamma=np.ones(len(series)))
    done = CliRunner().invoke(main, ["sense", "identify", str(write(tmp_path / "flat.csv", flat))])
    assert done.exit_code == 1
    assert "gamma hardly changes" in done.output
    assert len(done.output.strip().splitlines()) == 1
