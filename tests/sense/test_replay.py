"""`firelane sense replay` from the file to the screen, the JSON and the picture."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from firelane.cli import main
from firelane.cli.options import SENSOR_MODELS
from firelane.sense import CHOICES, Trace, replay


def run(*arguments):
    return CliRunner().invoke(main, ["sense", "replay", *map(str, arguments)])


@pytest.fixture
def ramp(tmp_path):
    """A ramp of 0.1 a second: with delta 0.5 every fifth reading is sent by `last-value`."""
    times_s = np.arange(0.0, 101.0)
    path = tmp_path / "ramp.csv"
    Trace(names=("up", "flat"), times_s=times_s, values=np.column_stack([times_s / 8, 0 * times_s])).save(path)
    return path


def test_json_has_exactly_the_documented_keys_and_their_values(ramp):
    done = run(ramp, "--model", "last-value", "--delta", 0.5, "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert set(data) == {"readings", "sent", "suppressed", "max_error", "rmse"}
    assert data["readings"] == 202
    assert data["sent"] == 26 + 1  # at 0, 4, 8 ... 100 s; once
    assert data["suppressed"] == pytest.approx(1 - 27 / 202)
    assert data["max_error"] == 3 / 8
    squares = 25 * sum((step / 8) ** 2 for step in range(4))
    assert data["rmse"] == pytest.approx((squares / 202) ** 0.5)


def test_people_see_the_share_and_the_sensors(ramp):
    done = run(ramp, "--model", "last-value", "--sensors", "u*")
    assert done.exit_code == 0, done.output
    assert "26 of 101 readings sent, 74.3% suppressed" in done.stdout
    assert "flat" not in done.stdout


@pytest.mark.parametrize("sensors", ["*", "up"])
def test_the_picture_is_drawn(ramp, tmp_path, sensors):
    done = run(ramp, "--sensors", sensors, "-o", tmp_path / "x.png")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("text", "message"),
    [("TIME,a\n0,nan\n", 'sensor "a" reads nan'), ("TIME,a\n1,1\n0,1\n", "time does not go forward in row 2")],
)
def test_a_bad_file_is_one_line_and_exit_1(tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    done = run(tmp_path / "bad.csv")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr


@pytest.mark.parametrize("delta", ["0", "-1", "nan", "inf"])
def test_a_delta_that_is_none_is_refused(ramp, delta):
    done = run(ramp, "--delta", delta)
    assert done.exit_code in (1, 2)
    assert "Traceback" not in done.output


def test_the_models_of_the_command_line_are_those_of_the_bank():
    assert SENSOR_MODELS == CHOICES


@pytest.mark.parametrize("model", CHOICES)
def test_a_changed_sampling_rate_is_only_a_longer_step(model):
    """What is linear stays predicted whether readings come every second or every minute."""
    times_s = np.cumsum(np.concatenate([np.full(100, 1.0), np.full(50, 60.0), np.full(50, 0.1)]))
    trace = Trace(names=("x",), times_s=times_s, values=0.25 * times_s[:, None])
    result = replay(trace, delta=0.5, model=model)
    assert (np.abs(result.believed - trace.values) < 0.5).all()
    if model != "last-value":
        assert result.sent[100:].sum() <= 10  # the last value alone would be sent 50 times and more


def test_progress_counts_every_row():
    seen = []
    replay(Trace(names=("x",), times_s=np.arange(5.0), values=np.zeros((5, 1))), delta=1.0, progress=seen.append)
    assert sum(seen) == 5
