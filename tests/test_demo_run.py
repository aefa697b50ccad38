"""The demo as people run it: two real exchanges, real clients, and nothing left when it is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from child_processes import children, running

pytestmark = pytest.mark.slow

PATIENCE_S = 60


def start(folder, *arguments):
    command = [sys.executable, "-m", "firelane.cli", "demo", "--picture", str(folder / "demo.png"), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child of who ignores it would ignore it too
    try:
        return subprocess.Popen(command, **pipes, text=True, cwd=folder, env={**os.environ, "TMPDIR": str(folder)})
    finally:
        signal.signal(signal.SIGINT, before)


def brokers_of(demo):
    """The process ids of its two exchanges, once both are there."""
    deadline = time.monotonic() + PATIENCE_S
    while len(found := children(demo.pid)) < 2:
        assert demo.poll() is None, demo.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    demo = start(folder, "--seconds", "5", "--json")
    brokers = brokers_of(demo)
    out, err = demo.communicate(timeout=10 * PATIENCE_S)
    assert demo.returncode == 0, err
    return folder, json.loads(out), err, brokers


def test_firelane_delivers_more_value_than_the_plain_broker(run):
    _, data, _, _ = run
    assert set(data) == {"plain", "firelane", "gain"}
    plain, firelane = data["plain"]["utility_rate"], data["firelane"]["utility_rate"]
    assert firelane > plain
    assert data["gain"] == pytest.approx(firelane / plain - 1)
    assert data["firelane"]["in_time_rate"] > data["plain"]["in_time_rate"]


def test_alarms_are_younger_and_none_is_lost(run):
    _, data, _, _ = run
    plain, firelane = (data[name]["classes"][0] for name in ("plain", "firelane"))
    assert plain["name"] == firelane["name"] == "alarms"
    assert firelane["age_mean_s"] < plain["age_mean_s"]
    assert firelane["delay_mean_s"] < plain["delay_mean_s"]
    assert firelane["delay_p99_s"] < plain["delay_p99_s"]
    assert firelane["dropped"] == 0


def test_both_get_the_same_and_all_of_it_is_accounted_for(run):
    _, data, _, _ = run
    assert data["plain"]["due"] == data["firelane"]["due"] > 1000
    for side in (data["plain"], data["firelane"]):
        assert side["due"] == side["delivered"] + sum(side["dropped"].values()) + side["queued"]
        for name in ("due", "delivered", "queued"):
            assert sum(one[name] for one in side["classes"]) == side[name]


def test_the_plain_broker_drops_only_what_does_not_fit_and_firelane_plans(run):
    _, data, _, _ = run
    assert {reason for reason, count in data["plain"]["dropped"].items() if count} == {"overflow"}
    assert data["plain"]["plans"] == 0
    assert data["firelane"]["plans"] >= 1  # the phase changed, if nothing else did


def test_it_draws_a_picture_and_says_nothing_else(run):
    folder, _, err, _ = run
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in folder.iterdir()] == ["demo.png"]
    assert err == ""


def test_nothing_is_left_running(run):
    *_, brokers = run
    assert not any(running(pid) for pid in brokers)


def test_without_a_terminal_it_speaks_in_lines(tmp_path):
    demo = start(tmp_path, "--seconds", "2")
    out, err = demo.communicate(timeout=10 * PATIENCE_S)
    assert (demo.returncode, err) == (0, "")
    assert "suppression" in out
    assert "Value delivered" in out
    assert "\x1b" not in out


def test_a_run_whose_exchange_dies_is_over_in_one_line(tmp_path):
    demo = start(tmp_path, "--seconds", "600")
    brokers = brokers_of(demo)
    assert demo.stdout.readline()  # the first line, so that it runs
    os.kill(max(brokers), signal.SIGKILL)
    _, err = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 1
    assert err.startswith("firelane: ")
    assert err.count("\n") == 1
    assert not any(running(pid) for pid in brokers)


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_the_exchanges_end_with_the_demo_however_it_ends(tmp_path, ended_by):
    demo = start(tmp_path, "--seconds", "600")
    brokers = brokers_of(demo)
    os.kill(demo.pid, ended_by)
    _, err = demo.communicate(timeout=PATIENCE_S)
    if ended_by != signal.SIGKILL:
        assert (demo.returncode, err) == (130, "firelane: interrupted\n")
        assert not any(running(pid) for pid in brokers)
        assert list(tmp_path.iterdir()) == []
    deadline = time.monotonic() + PATIENCE_S
    while any(running(pid) for pid in brokers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
