"""Cleaning against a plain dictionary: what is live is never lost, what is dead goes away."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from some_log import Gate, commit, contents, filled, opened, patch_syncs

from firelane.exchange.log.record import FRAME_BYTES, HEADER_BYTES

PUT, END = 1, 2
SEGMENT_BYTES = 160


def test_a_segment_without_live_records_can_go_at_once(tmp_path):
    log, _ = opened(tmp_path, segment_bytes=150)
    with log:
        first, second, third = (log.append(PUT, bytes(100)) for _ in range(3))
        commit(log)
        assert log.oldest_to_clean() is None
        log.release(second, 100)
        assert log.oldest_to_clean() is None  # only the oldest ever goes
        log.release(first, 100)
        assert log.oldest_to_clean() == 1
        log.drop_segment(1)
        assert log.oldest_to_clean() == 2
        log.drop_segment(2)
        log.release(third, 100)
        assert log.oldest_to_clean() is None  # it is written to
        assert log.live_bytes == 0
        assert log.bytes == HEADER_BYTES + FRAME_BYTES + 100
    assert [path.name for path in tmp_path.glob("*.log")] == ["00000003.log"]


def test_only_the_oldest_segment_can_be_dropped_and_never_the_one_written_to(tmp_path):
    log, _ = opened(tmp_path, segment_bytes=150)
    with log:
        log.append(PUT, bytes(100))
        with pytest.raises(ValueError, match="not the oldest, or it is still written to"):
            log.drop_segment(1)
        log.append(PUT, bytes(100))
        with pytest.raises(ValueError, match="not the oldest"):
            log.drop_segment(2)


def test_a_segment_that_is_not_yet_on_disk_is_not_cleaned(tmp_path, monkeypatch):
    log, _ = opened(tmp_path, segment_bytes=150, start=False)
    with log:
        for location in [log.append(PUT, bytes(100)) for _ in range(3)]:
            log.release(location, 100)
        assert log.oldest_to_clean() is None


def test_a_dropped_segment_is_deleted_only_after_what_was_saved_from_it_is_synced(tmp_path, monkeypatch):
    log, _ = opened(tmp_path, segment_bytes=150)
    first = log.append(PUT, b"precious" * 12)
    log.append(PUT, bytes(20))
    commit(log)
    gate = Gate()
    patch_syncs(monkeypatch, gate)
    ((location, kind, body),) = log.segment_records(1)
    assert location == first
    log.append(kind, body)
    log.release(location, len(body))
    log.drop_segment(1)
    assert log.live_bytes == 2 * FRAME_BYTES + 20 + 96
    log.flush()
    gate.wait()
    assert (tmp_path / "00000001.log").exists()
    monkeypatch.undo()
    gate.leave.release(100)
    commit(log)
    log.close()
    assert not (tmp_path / "00000001.log").exists()
    assert sorted(contents(tmp_path)) == [(PUT, bytes(20)), (PUT, b"precious" * 12)]


def test_what_is_live_in_a_dropped_segment_does_not_count_any_more(tmp_path):
    first, *_ = filled(tmp_path, [(PUT, bytes(100))] * 3, segment_bytes=150)
    log, _ = opened(tmp_path)
    with log:
        log.drop_segment(1)
        assert log.live_bytes == 2 * (FRAME_BYTES + 100)
        log.release(first, 100)
        assert log.live_bytes == 2 * (FRAME_BYTES + 100)


class Store:
    """The least a layer above does: named values, ended or replaced by later records."""

    def __init__(self, folder: Path):
        self.log, records = opened(folder, segment_bytes=SEGMENT_BYTES)
        self.at = {}
        for location, kind, body in records:
            self.replay(location, kind, body)

    def replay(self, location, kind, body):
        self.forget(body[0])
        if kind == PUT:
            self.at[body[0]] = location, len(body)
        else:
            self.log.release(location, len(body))

    def forget(self, name):
        if name in self.at:
            self.log.release(*self.at.pop(name))

    def put(self, name, value):
        body = bytes([name]) + value
        location = self.log.append(PUT, body)
        self.forget(name)
        self.at[name] = location, len(body)

    def end(self, name):
        self.log.release(self.log.append(END, bytes([name])), 1)
        self.forget(name)

    def clean(self):
        number = self.log.oldest_to_clean()
        if number is None:
            return False
        for location, kind, body in self.log.segment_records(number):
            if kind == PUT and self.at.get(body[0]) == (location, len(body)):
                self.put(body[0], body[1:])
        self.log.drop_segment(number)
        return True

    def values(self):
        return {name: self.log.read(location)[1][1:] for name, (location, _) in self.at.items()}


class Cleaning(RuleBasedStateMachine):
    """`history` has the states that a crash may go back to: the last one known to be on disk and all since."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.folder = self.root / "0"
        self.store = Store(self.folder)
        self.model = {}
        self.history = [{}]

    @rule(name=st.integers(0, 7), value=st.binary(max_size=60))
    def put(self, name, value):
        self.store.put(name, value)
        self.model[name] = value
        self.history.append(dict(self.model))

    @rule(name=st.integers(0, 7))
    def end(self, name):
        if name in self.model:
            self.store.end(name)
            del self.model[name]
            self.history.append(dict(self.model))

    @rule()
    def clean(self):
        self.store.clean()

    @rule()
    def flush(self):
        self.store.log.flush()

    @rule()
    def commit(self):
        commit(self.store.log)
        self.history = [dict(self.model)]

    @rule()
    def close_and_open(self):
        self.store.log.close()
        self.store = Store(self.folder)
        self.history = [dict(self.model)]
        assert self.store.values() == self.model

    @rule()
    def crash_and_open(self):
        crashed = self.folder
        self.folder = self.root / str(int(self.folder.name) + 1)
        copy_in_order(crashed, self.folder)
        self.store.log.close()
        self.store = Store(self.folder)
        self.model = self.store.values()
        assert self.model in self.history
        self.history = [dict(self.model)]

    @invariant()
    def values_are_as_in_the_model(self):
        assert self.store.values() == self.model
        live = sum(FRAME_BYTES + 1 + len(value) for value in self.model.values())
        assert self.store.log.live_bytes == live

    def teardown(self):
        self.put(0, b"so that there is a file")
        commit(self.store.log)
        while self.store.clean():
            commit(self.store.log)
        log = self.store.log
        assert log.bytes <= 2 * max(log.live_bytes, SEGMENT_BYTES)
        assert self.store.values() == self.model
        log.close()
        assert sum(path.stat().st_size for path in self.folder.glob("*.log")) == log.bytes
        shutil.rmtree(self.root)


def copy_in_order(source: Path, target: Path) -> None:
    """What a crash right now would leave; again from the start if a segment is deleted meanwhile."""
    while True:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        try:
            for path in sorted(source.glob("*.log")):
                shutil.copy(path, target)
        except FileNotFoundError:
            continue
        return


Cleaning.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCleaning = Cleaning.TestCase


def test_a_log_that_is_cleaned_stays_small_however_much_goes_through_it(tmp_path):
    store = Store(tmp_path)
    with store.log as log:
        most_bytes = 0
        for number in range(2000):
            store.put(number % 7 if number % 10 else 200 + number % 3, b"%030d" % number)
            if number % 10 == 0:
                commit(log)
            while store.clean():
                pass
            most_bytes = max(most_bytes, log.bytes)
        assert most_bytes <= 2 * max(log.live_bytes, SEGMENT_BYTES) + 10 * 50
