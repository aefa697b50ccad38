"""Telemetry for tests: records made in a line, and a folder read as others will read it."""

import time
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset

from firelane.exchange.telemetry import Recorder, Writer
from firelane.scenario.telemetry_settings import TelemetrySettings

BOOT = 0xB007
AHEAD_S = 1_770_000_000.0 - 5000.0  # 2026-02-02T02:40:00Z at 5000 s
START_S = 5000.0


def noted(count, *, sampling=1.0, start=0):
    """A recorder that has seen so many deliveries, each of its own subscriber."""
    recorder = Recorder(sampling=sampling)
    note(recorder, count, start=start)
    return recorder


def note(recorder, count, *, start=0, outcome="delivered"):
    for number in range(start, start + count):
        recorder.delivery(START_S, f"client-{number}", "a/+", b"a/b", 2, 0, 100, 0.001, outcome)


def take(recorder, at_s=0.0):
    """Take what is noted, so long after the start."""
    return recorder.take(START_S + at_s, START_S + at_s + AHEAD_S)


def taken(count, at_s=0.0, *, start=0):
    return take(noted(count, start=start), at_s)


def writer(folder, tell=print, publish=None, **settings):
    return Writer(folder, TelemetrySettings(**settings), exchange="site", boot=BOOT, tell=tell, publish=publish)


def read(folder: Path) -> pa.Table:
    """All records of one kind, in their order, with the day of their file."""
    return dataset.dataset(folder, format="parquet", partitioning="hive").to_table().sort_by("record_id")


def subscribers(folder: Path) -> list[int]:
    """The numbers of the subscribers whose deliveries are in the folder."""
    return sorted(int(one.removeprefix("client-")) for one in read(folder / "deliveries")["subscriber"].to_pylist())


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("day=*/part-*.parquet"))


def until(condition, within_s=30.0):
    """Wait for something that another thread or process will bring about."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)
