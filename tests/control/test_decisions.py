"""Decisions in memory and on disk."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.dataset as ds
import pytest

from firelane.control import archive, decisions
from firelane.control.archive import Archive
from firelane.control.decisions import Decisions, Entry
from firelane.control.effect import Effect

START = datetime(2026, 5, 9, 7, tzinfo=UTC)
EFFECT = Effect(utility_rate=0.8, missed=1, delay_mean_s=None, loss=0.25)


def entry(number=1, kind="load", **more):
    return Entry(
        id=f"run-{number}",
        time=START + timedelta(seconds=number),
        kind=kind,
        cause="thin: the load is 2.00, the plan was for 1.00",
        phase=None,
        subscriptions=2,
        topics=2,
        rate_hz=25.0,
        bandwidths_bps={"thin": 8000.0},
        version_before=1,
        version=2,
        predicted=EFFECT,
        predicted_before=EFFECT,
        why=("one", "two"),
        **more,
    )


def rows(folder):
    return ds.dataset(folder, format="parquet").to_table().to_pylist()


def wait_for(folder, entry_id):
    deadline = time.monotonic() + 10
    while not any(folder.rglob("*.parquet")) or all(row["id"] != entry_id for row in rows(folder)):
        assert time.monotonic() < deadline


def test_the_newest_come_first_and_can_be_narrowed():
    kept = Decisions()
    for number, kind in enumerate(["start", "load", "needs", "load"]):
        kept.add(entry(number, kind))
    assert [one.id for one in kept.newest_first()] == ["run-3", "run-2", "run-1", "run-0"]
    assert [one.id for one in kept.newest_first("load")] == ["run-3", "run-1"]
    assert [one.id for one in kept.newest_first("load", START + timedelta(seconds=2))] == ["run-3"]
    assert (kept.by_kind["load"], kept.by_kind["alert"]) == (2, 0)


def test_a_verdict_is_counted_once_and_told_again():
    told = []
    kept = Decisions(told.append)
    kept.add(entry())
    kept.judge("run-1", "kept", measured=EFFECT)
    kept.judge("run-9", "kept")
    assert [(one.verdict, one.measured) for one in told] == [("pending", None), ("kept", EFFECT)]
    assert kept.by_verdict["kept"] == 1
    kept.add(entry(2, verdict="unchanged"))
    assert kept.by_verdict["unchanged"] == 1


def test_memory_is_bounded_and_identifiers_differ(monkeypatch):
    monkeypatch.setattr(decisions, "MOST_KEPT", 3)
    kept = Decisions()
    for number in range(9):
        kept.add(entry(number))
    assert len(list(kept.newest_first())) == 3
    assert len({kept.new_id() for _ in range(9)} | {Decisions().new_id()}) == 10


def test_what_was_decided_and_judged_is_read_back_from_the_folder(tmp_path):
    with Archive(tmp_path, tell=print) as out:
        out.put(entry())
        out.put(replace(entry(), verdict="kept", measured=EFFECT, model_error=0.02))
        out.put(entry(2, "start"))
    found = rows(tmp_path)
    assert [(row["id"], row["verdict"]) for row in found] == [
        ("run-1", "pending"),
        ("run-1", "kept"),
        ("run-2", "pending"),
    ]
    assert found[1]["measured"] == {"utility_rate": 0.8, "missed": 1, "delay_mean_s": None, "loss": 0.25}
    assert found[0]["measured"] is None
    assert found[0]["time"] == START + timedelta(seconds=1)
    assert dict(found[0]["bandwidths_bps"]) == {"thin": 8000.0}
    assert found[0]["why"] == ["one", "two"]


def test_rows_are_on_disk_soon_in_few_files_and_those_of_other_runs_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "ROWS_A_FILE", 5)
    for run in range(2):
        with Archive(tmp_path, tell=print) as out:
            for number in range(100 * run, 100 * run + 12):
                out.put(entry(number))
                wait_for(tmp_path, f"run-{number}")
    assert len(rows(tmp_path)) == 24
    assert len(list(tmp_path.rglob("*.parquet"))) == 6
    assert list(tmp_path.rglob("*.draft")) == []


def test_the_oldest_files_give_way(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "ROWS_A_FILE", 1)
    monkeypatch.setattr(archive, "KEPT_BYTES", 60_000)
    with Archive(tmp_path, tell=print) as out:
        for number in range(60):
            out.put(entry(number))
            time.sleep(0.001)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.parquet")) <= 60_000
    assert rows(tmp_path)[-1]["id"] == "run-59"


def test_a_disk_that_cannot_be_written_is_told_once(tmp_path):
    (tmp_path / "taken").write_text("")
    lines = []
    with Archive(tmp_path / "taken", tell=lines.append) as out:
        for number in range(5):
            out.put(entry(number))
            time.sleep(0.01)
    assert len(lines) == 1
    assert "decisions are not kept on disk" in lines[0]


def test_more_than_can_be_written_is_told_and_nobody_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_WAITING", 2)
    lines = []
    out = Archive(tmp_path, tell=lines.append)  # whose thread does not run
    for number in range(5):
        out.put(entry(number))
    assert len(lines) == 1


@pytest.mark.parametrize("name", [field.name for field in archive.SCHEMA])
def test_every_column_is_a_field_of_an_entry(name):
    assert hasattr(entry(), name)
