"""Appending, committing, reading back and counting."""

import gc
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from some_log import Gate, commit, contents, filled, opened, patch_syncs, until

from firelane.errors import FirelaneError, StoreError
from firelane.exchange.log import Found, Log, writer
from firelane.exchange.log.files import MOST_OPEN
from firelane.exchange.log.record import FRAME_BYTES, HEADER_BYTES

some_records = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=120)), max_size=40)


@given(some_records, st.integers(HEADER_BYTES + 1, 500), st.booleans(), st.sets(st.integers(0, 39)))
def test_what_is_appended_is_read_back_from_memory_from_the_file_and_after_opening_again(
    records, segment_bytes, sync, flush_after
):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, found = opened(folder, segment_bytes=segment_bytes, sync=sync)
        assert found == []
        with log:
            locations = []
            for number, (kind, body) in enumerate(records):
                locations.append(log.append(kind, body))
                if number in flush_after:
                    log.flush()
                assert [log.read(location) for location in locations] == records[: len(locations)]
            commit(log)
            assert [log.read(location) for location in locations] == records
        log, found = opened(folder, segment_bytes=segment_bytes, start=False)
        with log:
            assert found == [(location, *record) for location, record in zip(locations, records, strict=True)]
            assert [log.read(location) for location in locations] == records
            segments = {location >> 32 for location in locations}
            assert log.recovered == Found(records=len(records), segments=len(segments))


def test_a_location_is_the_segment_and_the_offset_in_its_file(tmp_path):
    body = bytes(100)
    locations = filled(tmp_path, [(7, body)] * 3, segment_bytes=HEADER_BYTES + 2 * (FRAME_BYTES + 100))
    assert locations == [1 << 32 | HEADER_BYTES, 1 << 32 | HEADER_BYTES + FRAME_BYTES + 100, 2 << 32 | HEADER_BYTES]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001.log", "00000002.log", "lock"]


def test_a_record_larger_than_a_segment_has_one_of_its_own(tmp_path):
    records = [(1, b"small"), (2, bytes(1000)), (3, b"small"), (4, bytes(1000)), (5, bytes(1000))]
    assert [location >> 32 for location in filled(tmp_path, records, segment_bytes=100)] == [1, 2, 3, 4, 5]
    assert contents(tmp_path, segment_bytes=100) == records


def test_a_segment_is_continued_when_the_log_is_opened_again(tmp_path):
    for number in range(10):
        filled(tmp_path, [(number, b"x")], segment_bytes=1000)
    assert contents(tmp_path) == [(number, b"x") for number in range(10)]
    assert len(list(tmp_path.glob("*.log"))) == 1


def test_nothing_is_appended_before_everything_kept_has_been_read(tmp_path):
    filled(tmp_path, [(1, b"a"), (1, b"b")])
    with Log.open(tmp_path, cap_bytes=1000) as log:
        with pytest.raises(RuntimeError, match="before the first append"):
            log.append(1, b"")
        next(log.records())
        with pytest.raises(RuntimeError, match="before the first append"):
            log.append(1, b"")
        with pytest.raises(RuntimeError, match="only once"):
            list(log.records())


def test_commits_are_told_in_order_up_to_all_that_was_appended(tmp_path):
    positions = []
    log, _ = opened(tmp_path, start=False)
    with log:
        log.start(positions.append)
        for _ in range(100):
            log.append(1, bytes(20))
            log.flush()
        until(lambda: positions and positions[-1] == log.appended)
    assert positions == sorted(set(positions))
    assert log.committed == log.appended == 100 * (FRAME_BYTES + 20)


def test_what_comes_during_a_sync_goes_together_in_the_next_batch_without_another_flush(tmp_path, monkeypatch):
    positions, gate = [], Gate()
    log, _ = opened(tmp_path, segment_bytes=10_000, start=False)
    log.append(1, b"")
    commit_of_header_and_first = log.appended
    patch_syncs(monkeypatch, gate)
    log.start(positions.append)
    log.flush()
    gate.wait()  # the header of the segment
    gate.leave.release()
    gate.wait()  # the first batch is in its sync
    for _ in range(10):
        log.append(1, bytes(10))
        log.flush()
    assert log.committed == 0
    gate.leave.release()
    gate.wait()
    assert positions == [commit_of_header_and_first]
    gate.leave.release()
    until(lambda: log.committed == log.appended)
    assert positions == [commit_of_header_and_first, log.appended]
    assert gate.calls == 3
    gate.leave.release()  # closing vouches for the segment
    log.close()
    assert len(contents(tmp_path)) == 11


def test_unflushed_records_are_written_on_closing_with_or_without_a_thread(tmp_path):
    for number, start in enumerate((False, True)):
        log, _ = opened(tmp_path, start=start)
        log.append(number, b"last words")
        log.close()
        log.close()
        assert log.committed == log.appended
    assert contents(tmp_path) == [(0, b"last words"), (1, b"last words")]


def test_a_folder_has_one_user_at_a_time(tmp_path):
    attempt = (
        f"import pathlib; from firelane.exchange.log import Log; Log.open(pathlib.Path({str(tmp_path)!r}), cap_bytes=1)"
    )
    with Log.open(tmp_path, cap_bytes=1):
        with pytest.raises(StoreError, match="in use by another exchange"):
            Log.open(tmp_path, cap_bytes=1)
        other = subprocess.run([sys.executable, "-c", attempt], capture_output=True, text=True, check=False)
        assert "in use by another exchange" in other.stderr.splitlines()[-1]
    subprocess.run([sys.executable, "-c", attempt], check=True)


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FirelaneError) as caught:
        Log.open(tmp_path / "file" / "log", cap_bytes=1)
    assert "cannot be written (Not a directory)" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_is_made_with_those_above_it(tmp_path):
    assert contents(tmp_path / "data" / "log") == []


def test_bytes_are_live_until_released_and_the_cap_is_on_what_is_live(tmp_path):
    log, _ = opened(tmp_path, cap_bytes=3 * (FRAME_BYTES + 50), segment_bytes=150)
    with log:
        locations = [log.append(1, bytes(50)) for _ in range(2)]
        assert log.live_bytes == 2 * (FRAME_BYTES + 50)
        assert log.bytes == HEADER_BYTES + log.live_bytes
        assert not log.full
        locations.append(log.append(1, bytes(50)))
        assert log.full
        log.release(locations[0], 50)
        assert not log.full
        assert log.live_bytes == 2 * (FRAME_BYTES + 50)
        assert log.bytes == 2 * HEADER_BYTES + 3 * (FRAME_BYTES + 50)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.log")) == log.bytes
    log, _ = opened(tmp_path, start=False)
    with log:  # who reads the records says again which of them matter
        assert log.live_bytes == 3 * (FRAME_BYTES + 50)
        log.release(locations[0], 50)
        assert log.live_bytes == 2 * (FRAME_BYTES + 50)


def test_saying_what_to_keep_counts_like_releasing_the_rest(tmp_path):
    records = [(1, bytes(10 * number)) for number in range(12)]
    locations = filled(tmp_path, records, segment_bytes=200)
    kept = {location: len(body) for location, (_, body) in list(zip(locations, records, strict=True))[5::2]}
    by_keeping, _ = opened(tmp_path, start=False)
    with by_keeping:
        by_keeping.keep_only(kept)
        by_keeping.note(2, b"an end")
        live_bytes, oldest = by_keeping.live_bytes, by_keeping.oldest_to_clean()
    by_releasing, found = opened(tmp_path, start=False)
    with by_releasing:
        for location, (_, body) in zip(locations, records, strict=True):
            if location not in kept:
                by_releasing.release(location, len(body))
        by_releasing.release(found[-1][0], len(b"an end"))
        assert (by_releasing.live_bytes, by_releasing.oldest_to_clean()) == (live_bytes, oldest)
    assert live_bytes == sum(FRAME_BYTES + size for size in kept.values())
    assert oldest == 1


def test_reading_from_many_segments_keeps_few_files_open(tmp_path):
    locations = filled(tmp_path, [(1, bytes(100))] * 100, segment_bytes=150)
    log, _ = opened(tmp_path, start=False)
    with log:
        before = len(os.listdir("/proc/self/fd"))
        for location in locations + locations[::-1]:
            assert log.read(location) == (1, bytes(100))
        assert len(os.listdir("/proc/self/fd")) - before <= MOST_OPEN


def test_nothing_waits_for_the_disk_without_sync(tmp_path, monkeypatch):
    def never(_):
        raise AssertionError("synced")

    patch_syncs(monkeypatch, never)
    monkeypatch.setattr(writer, "sync_folder", never)
    log, _ = opened(tmp_path, sync=False)
    with log:
        locations = [log.append(1, bytes(100)) for _ in range(5)]
        commit(log)
        for location in locations[:4]:
            log.release(location, 100)
        while (number := log.oldest_to_clean()) is not None:
            log.drop_segment(number)
    assert contents(tmp_path, sync=False) == [(1, bytes(100))]


def test_memory_does_not_grow_with_the_number_of_records(tmp_path):
    log, _ = opened(tmp_path, segment_bytes=1_000_000, cap_bytes=10**9)
    with log:

        def write(count):
            for number in range(count):
                log.append(1, b"%010d" % number)
                if number % 1000 == 0:
                    commit(log)
            commit(log)
            gc.collect()

        write(2000)
        tracemalloc.start()
        write(50_000)
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert grown < 50_000  # less than a byte for each
