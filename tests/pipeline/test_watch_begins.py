"""What keeps a watch from beginning is told in one line, before Spark is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firelane.errors import FirelaneError
from firelane.pipeline.watch.arriving import records_folder, unusable
from firelane.pipeline.watch.queries import FilesLooked
from firelane.pipeline.watch.run import run


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    def started(*_):
        raise FirelaneError("Spark is started")

    monkeypatch.setattr("firelane.pipeline.watch.run.session", started)


def begin(source, output, alerts_topic="a"):
    run(
        str(source), output=output, scenario=None, window_s=10.0, late_s=30.0, alerts_topic=alerts_topic, master=None,
        seconds=0.0, quiet=True,
    )  # fmt: skip


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out" / ".watch").mkdir(parents=True)
    return tmp_path / "in", tmp_path / "out"


@pytest.mark.parametrize("name", ["metrics", "loads", "rejects", "alerts"])
def test_the_tables_of_another_job_are_left_alone(folders, name):
    source, output = folders
    (output / ".watch").rmdir()
    (output / name / "day=2026-01-01").mkdir(parents=True)
    with pytest.raises(FirelaneError, match=f"out: the table {name} is here, but no .watch: .*; name another folder"):
        begin(source, output)
    assert not (output / ".watch").exists()


def test_whatever_else_is_in_an_output_does_not_matter(folders):
    source, output = folders
    (output / ".watch").rmdir()
    (output / "pictures").mkdir()
    with pytest.raises(FirelaneError, match="Spark is started"):
        begin(source, output)


@pytest.mark.parametrize("inside", ["", "out", "deep/out"])
def test_tables_are_not_written_to_where_records_are_read(tmp_path, inside):
    records = tmp_path / "data" / "deliveries"
    records.mkdir(parents=True)
    with pytest.raises(FirelaneError, match=r"this is where the input is; .*deliveries"):
        begin(tmp_path / "data", records / inside)
    with pytest.raises(FirelaneError, match="Spark is started"):
        begin(tmp_path / "data", tmp_path / "data" / "out")


@pytest.mark.parametrize("topic", ["", "alerts/#", "alerts/+/now"])
def test_a_topic_to_which_nothing_can_be_published_is_refused(folders, topic):
    with pytest.raises(FirelaneError, match=f'^"{re.escape(topic)}" is no topic for alerts: a topic name may not '):
        begin(*folders, topic)


@pytest.mark.parametrize("half", [b"", b'{"source": "mq', b"7", b"\xff"])
def test_settings_that_are_not_whole_are_one_line(folders, half):
    source, output = folders
    (output / ".watch" / "settings.json").write_bytes(half)
    with pytest.raises(FirelaneError, match=r"\.watch/settings\.json: is not whole; name another folder"):
        begin(source, output)


def test_settings_that_cannot_be_read_are_one_line(folders):
    source, output = folders
    (output / ".watch" / "settings.json").mkdir()
    with pytest.raises(FirelaneError, match=r"\.watch/settings\.json: cannot be read: Is a directory"):
        begin(source, output)


def test_an_output_that_cannot_be_is_named(folders):
    source, output = folders
    (output / "file").touch()
    with pytest.raises(FirelaneError, match=r"out/file/.*: cannot be read: Not a directory"):
        begin(source, output / "file")
    with pytest.raises(FirelaneError, match="xxx: cannot be used: File name too long"):
        begin(source, output / ("x" * 300))


def test_a_source_that_cannot_be_read_is_named(monkeypatch, tmp_path):
    with pytest.raises(FirelaneError, match="xxx: cannot be read: File name too long"):
        records_folder(Path("x" * 300))

    def denied(folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("firelane.pipeline.watch.arriving.os.listdir", denied)
    with pytest.raises(FirelaneError, match=f"^{tmp_path}: cannot be read: Permission denied$"):
        records_folder(tmp_path)


def test_a_file_that_is_gone_when_it_is_looked_at_is_not_refused(tmp_path):
    assert unusable(tmp_path / "gone.parquet") is None


def test_a_file_that_goes_while_it_is_looked_at_harms_nobody(tmp_path, monkeypatch):
    def half_and_gone(file):
        file.unlink()
        return "not a whole Parquet file"

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "half.parquet").write_bytes(b"half")
    monkeypatch.setattr("firelane.pipeline.watch.arriving.unusable", half_and_gone)
    assert FilesLooked(tmp_path / "in", tmp_path / "rejects").look() == []
