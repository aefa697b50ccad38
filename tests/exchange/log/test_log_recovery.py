"""What is found after a crash or damage: whole records or an error, never anything else."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from some_log import commit, contents, filled, opened, patch_syncs

from firelane.errors import StoreError
from firelane.exchange.log import Found, Log, record, writer
from firelane.exchange.log import log as log_module
from firelane.exchange.log.record import FRAME_BYTES, HEADER_BYTES, VOUCHED_AT, pack_header, pack_vouched, read_header

RECORDS = [(number, bytes([number]) * (2 * number)) for number in range(8)]


def several_segments(folder: Path) -> list[Path]:
    filled(folder, RECORDS, segment_bytes=90)
    segments = sorted(folder.glob("*.log"))
    assert len(segments) >= 3
    return segments


def unvouch(path: Path) -> None:
    """Leave a segment as a crash right after its creation would: nothing in it is known to have been synced."""
    with path.open("r+b") as file:
        file.seek(VOUCHED_AT)
        file.write(pack_vouched(HEADER_BYTES))


def read_until_error(folder: Path) -> list[tuple[int, bytes]]:
    got = []
    with Log.open(folder, cap_bytes=1) as log, pytest.raises(StoreError) as caught:
        got.extend((kind, body) for _, kind, body in log.records())
    assert "\n" not in str(caught.value)
    assert got == RECORDS[: len(got)]
    return caught.value


def whole_before(size: int, records) -> int:
    """How many records fit whole in the first `size` bytes of a segment."""
    count, at = 0, HEADER_BYTES
    for _, body in records:
        at += FRAME_BYTES + len(body)
        count += at <= size
    return count


def test_a_last_segment_cut_behind_what_it_vouches_for_gives_the_whole_records_before_the_cut_and_goes_on(tmp_path):
    filled(tmp_path / "whole", RECORDS, segment_bytes=10_000)
    last = tmp_path / "whole" / "00000001.log"
    unvouch(last)
    data = last.read_bytes()
    for size in range(len(data)):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / last.name).write_bytes(data[:size])
        kept = whole_before(size, RECORDS)
        log, records = opened(folder, start=False, segment_bytes=10_000)
        with log:
            assert [found[1:] for found in records] == RECORDS[:kept]
            whole = HEADER_BYTES + sum(FRAME_BYTES + len(body) for _, body in RECORDS[:kept])
            torn = data[min(whole, size) : size] if size >= HEADER_BYTES else data[:size]
            cut_file = folder / "00000001.cut" if torn else None
            assert log.recovered == Found(records=kept, segments=1, cut_bytes=len(torn), cut_file=cut_file)
            assert cut_file is None or cut_file.read_bytes() == torn
            log.append(99, b"after")
        log, records = opened(folder, start=False)
        log.close()
        assert [found[1:] for found in records] == [*RECORDS[:kept], (99, b"after")]
        assert log.recovered == Found(records=kept + 1, segments=1)
        shutil.rmtree(folder)


def test_a_last_segment_that_lacks_confirmed_records_is_refused_until_it_is_restored(tmp_path):
    last = several_segments(tmp_path)[-1]
    data = last.read_bytes()
    for size in range(HEADER_BYTES, len(data)):
        last.write_bytes(data[:size])
        for _ in range(2):
            assert str(read_until_error(tmp_path)) == (
                f"{last}: damaged at byte {size}: {len(data) - size} bytes of confirmed records are missing at the "
                "end; restore this file from a copy, or move the folder away to start empty"
            )
        assert last.read_bytes() == data[:size]
    last.write_bytes(data)
    assert contents(tmp_path) == RECORDS


@pytest.mark.parametrize("tail", [b"\x00" * 5000, b"\xff" * 3, bytes(range(256)), b"\x00\x00\x00\x00\x8d\xef\x02\xd2"])
def test_rubbish_behind_the_last_record_is_cut_and_kept_beside_it(tmp_path, tail):
    last = several_segments(tmp_path)[-1]
    for times in (1, 2):
        with last.open("ab") as file:
            file.write(tail)
        log, records = opened(tmp_path, start=False)
        log.close()
        assert [found[1:] for found in records] == RECORDS
        assert log.recovered.cut_bytes == len(tail)
        assert last.with_suffix(".cut").read_bytes() == times * tail


def test_any_flipped_bit_in_an_earlier_segment_is_reported(tmp_path):
    for path in several_segments(tmp_path)[:-1]:
        data = path.read_bytes()
        for place in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            error = read_until_error(tmp_path)
            assert error.path == str(path)
            assert "restore this file" in error.problem
        path.write_bytes(data)
    assert contents(tmp_path) == RECORDS


def test_any_flipped_bit_in_what_the_last_segment_vouches_for_is_reported_too(tmp_path):
    path = several_segments(tmp_path)[-1]
    data = path.read_bytes()
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        read_until_error(tmp_path)
        assert path.read_bytes() == flipped


def test_the_place_of_the_damage_is_said(tmp_path):
    path = several_segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    second = HEADER_BYTES + FRAME_BYTES + len(RECORDS[0][1])
    data[second + FRAME_BYTES] ^= 1
    path.write_bytes(data)
    assert f"{path}: damaged at byte {second}: the checksum" in str(read_until_error(tmp_path))


def test_an_earlier_segment_cut_anywhere_is_reported(tmp_path):
    path = several_segments(tmp_path)[0]
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        read_until_error(tmp_path)


def test_a_missing_segment_is_reported_and_giving_up_the_older_ones_helps(tmp_path):
    segments = several_segments(tmp_path)
    segments[1].unlink()
    assert "the file is missing" in str(read_until_error(tmp_path))
    segments[0].unlink()
    kept = contents(tmp_path)
    assert kept == RECORDS[-len(kept) :]


def test_a_segment_under_another_name_is_reported(tmp_path):
    segments = several_segments(tmp_path)
    shutil.copy(segments[0], segments[1])
    assert "segment 1 under another name" in str(read_until_error(tmp_path))


def test_damage_found_while_reading_one_record_is_reported(tmp_path):
    locations = filled(tmp_path, RECORDS, segment_bytes=200)
    log, _ = opened(tmp_path, start=False)
    with log:
        path = tmp_path / "00000001.log"
        data = bytearray(path.read_bytes())
        data[locations[1] & 0xFFFF_FFFF] ^= 0x80
        path.write_bytes(data)
        assert log.read(locations[0]) == RECORDS[0]
        with pytest.raises(StoreError, match="damaged at byte"):
            log.read(locations[1])
        with pytest.raises(StoreError, match="damaged at byte"):
            list(log.segment_records(1))


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_a_crash_while_a_segment_is_created_costs_nothing(tmp_path, size):
    count = len(several_segments(tmp_path))
    created = tmp_path / f"{count + 1:08d}.log"
    created.write_bytes(pack_header(count + 1)[:size])
    log, records = opened(tmp_path, start=False)
    with log:
        assert [found[1:] for found in records] == RECORDS
        assert log.append(99, b"first") >> 32 == count + 1
    assert contents(tmp_path) == [*RECORDS, (99, b"first")]


def test_a_newer_format_is_refused_in_one_line(tmp_path):
    (tmp_path / "00000001.log").write_bytes(pack_header(1, version=2) + b"who knows")
    assert "log format 2 is newer than this Firelane reads (1)" in str(read_until_error(tmp_path))


def test_segments_of_an_older_version_are_read_by_their_own_reader_and_cleaned_into_the_newest(tmp_path, monkeypatch):
    def read_lines(read, at, end):  # as if version 0 had had records of eight bytes
        return 5, read(8), at + 8

    monkeypatch.setitem(record.READERS, 0, read_lines)
    (tmp_path / "00000001.log").write_bytes(pack_header(1, version=0) + b"number 1number 2")
    log, records = opened(tmp_path)
    with log:
        assert [found[1:] for found in records] == [(5, b"number 1"), (5, b"number 2")]
        assert log.read(records[1][0]) == (5, b"number 2")
        assert log.append(6, b"new") >> 32 == 2
        for _, kind, body in log.segment_records(1):
            log.append(kind, body)
        log.drop_segment(1)
        commit(log)
    assert contents(tmp_path) == [(6, b"new"), (5, b"number 1"), (5, b"number 2")]
    assert not (tmp_path / "00000001.log").exists()


CHILD = """
import os, random, sys
from pathlib import Path
from firelane.exchange.log import Log

log = Log.open(Path(sys.argv[1]), cap_bytes=10**9, segment_bytes=20_000)
number = sum(1 for _ in log.records())
log.start(lambda position: os.write(1, b"%d\\n" % position))
while True:
    for _ in range(random.randrange(20)):
        log.append(number % 256, b"%d " % number * (number % 50))
        number += 1
    log.flush()
"""


def test_what_was_reported_as_committed_survives_a_kill(tmp_path):
    kept = 0
    for seed in range(6):
        pause_s = random.Random(seed).uniform(0, 0.15)
        child = subprocess.Popen([sys.executable, "-c", CHILD, tmp_path], stdout=subprocess.PIPE)
        reported = child.stdout.readline()
        time.sleep(pause_s)
        os.kill(child.pid, signal.SIGKILL)
        reported += child.communicate()[0]
        committed = int(reported[: reported.rindex(b"\n")].split()[-1])
        records = contents(tmp_path)
        assert records == [(number % 256, b"%d " % number * (number % 50)) for number in range(len(records))]
        assert sum(FRAME_BYTES + len(body) for _, body in records[kept:]) >= committed
        kept = len(records)
    assert kept > 100


class PowerCut:
    """Keeps what a disk would have after a power cut: contents and names as last synced.

    An eager disk also has names, headers and sizes as they are at the moment, with zeros for what was not synced.
    """

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.check = lambda: None
        self.synced = {}
        self.names = {}
        patch_syncs(monkeypatch, self.sync_data)
        monkeypatch.setattr(writer, "sync_folder", self.sync_folder)

    def sync_data(self, file):
        self.check()
        self.synced[os.fstat(file).st_ino] = Path(f"/proc/self/fd/{file}").read_bytes()

    def sync_folder(self, _):
        self.check()
        self.names = self.names_now()
        self.check()

    def names_now(self):
        return {path.name: path.stat().st_ino for path in self.folder.glob("*.log")}

    def left_over(self, elsewhere, *, eager):
        shutil.rmtree(elsewhere, ignore_errors=True)
        elsewhere.mkdir()
        for name, inode in (self.names_now() if eager else self.names).items():
            data = self.synced.get(inode, b"")
            if eager:
                now = (self.folder / name).read_bytes()
                data = now[:HEADER_BYTES] + data[HEADER_BYTES:].ljust(len(now) - HEADER_BYTES, b"\0")
            (elsewhere / name).write_bytes(data)
        return [body for _, body in contents(elsewhere)]


def test_what_a_killed_process_had_not_synced_is_synced_before_it_is_built_upon(tmp_path, monkeypatch):
    last = several_segments(tmp_path)[-1]
    synced = []
    monkeypatch.setattr(log_module, "sync_data", lambda file: synced.append(os.fstat(file).st_ino))
    contents(tmp_path)
    assert synced == [last.stat().st_ino]


def test_what_was_found_on_opening_is_vouched_for_with_the_first_batch(tmp_path):
    filled(tmp_path, RECORDS, segment_bytes=10_000)
    path = tmp_path / "00000001.log"
    unvouch(path)
    size = path.stat().st_size
    log, _ = opened(tmp_path, segment_bytes=10_000)
    with log:
        log.append(1, b"")
        commit(log)
        assert read_header(path.read_bytes()[:HEADER_BYTES], 1) == (1, size)


@pytest.mark.parametrize("eager", [True, False])
def test_what_was_reported_as_committed_survives_a_power_cut(tmp_path, monkeypatch, eager):
    monkeypatch.setattr(writer, "VOUCH_BYTES", 1)
    disk = PowerCut(tmp_path / "log", monkeypatch)
    log, _ = opened(tmp_path / "log", segment_bytes=150, start=False)
    live, lost, ends = {}, [], {}

    def check():
        expected = {body for end, body in list(ends.items()) if end <= log.committed and body in live}
        lost.extend(expected.difference(disk.left_over(tmp_path / "copy", eager=eager)))

    disk.check = check
    log.start(lambda position: check())
    for number in range(60):
        body = b"%020d" % number
        live[body] = log.append(1, body)
        ends[log.appended] = body
        if number >= 8 and number % 5:  # each fifth stays for good
            log.release(live.pop(b"%020d" % (number - 8)), 20)
        while (oldest := log.oldest_to_clean()) is not None:
            for location, kind, body in log.segment_records(oldest):
                if live.get(body) == location:
                    live[body] = log.append(kind, body)
            log.drop_segment(oldest)
        if number % 3 == 0:
            commit(log)
    commit(log)
    log.close()
    assert lost == []
    assert log.bytes <= 2 * max(log.live_bytes, 150) + 150
    assert {body for _, body in contents(tmp_path / "log")} >= set(live)
