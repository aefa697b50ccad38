"""A disk that the log itself has filled: the spare file makes the room to get out of it."""

import errno
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from some_log import commit, contents, opened, until

from firelane.exchange.log import writer
from firelane.exchange.log.spare import LEAST_BYTES, MOST_BYTES, Spare, spare_bytes

PUT, END = 1, 2
BODY_BYTES = 1000
Room = namedtuple("Room", "f_bavail f_frsize")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)


class Quota:
    """Makes a folder behave as a disk of this many bytes."""

    def __init__(self, folder, size_bytes, code, monkeypatch):
        self.folder, self.size_bytes, self.code, self.pwrite = folder, size_bytes, code, os.pwrite
        monkeypatch.setattr(os, "pwrite", self.write)
        monkeypatch.setattr(os, "statvfs", lambda _: Room(self.free_bytes, 1))

    @property
    def free_bytes(self):
        return self.size_bytes - sum(path.stat().st_size for path in self.folder.iterdir())

    def write(self, file, data, offset):
        if offset + len(data) - os.fstat(file).st_size > self.free_bytes:
            raise OSError(self.code, os.strerror(self.code))
        return self.pwrite(file, data, offset)


def fill(log):
    """Append until there is no room; the locations."""
    locations = []
    while not log.failed:
        locations.append(log.append(PUT, bytes(BODY_BYTES)))
        log.flush()
        until(lambda: log.committed == log.appended or log.failed)
    return locations


def end_all(log, locations):
    """What the layer above does as messages are delivered."""
    for number, location in enumerate(locations):
        log.note(END, b"%d" % number)
        log.release(location, BODY_BYTES)
    log.flush()


def clean(log):
    while (number := log.oldest_to_clean()) is not None:
        log.drop_segment(number)


def recovers(folder):
    """Fill the disk twice over; what was live is ended, and nobody else makes room."""
    log, _ = opened(folder, segment_bytes=20_000)
    with log:
        until(lambda: (folder / "spare").exists() and (folder / "spare").stat().st_size == LEAST_BYTES)
        for _ in range(2):
            end_all(log, fill(log))
            clean(log)
            until(lambda: log.committed == log.appended and log.failed is None)
            assert (folder / "spare").stat().st_size == LEAST_BYTES
            assert len(list(folder.glob("*.log"))) <= 3
        log.append(PUT, b"new")
    assert contents(folder)[-1] == (PUT, b"new")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_log_that_has_filled_its_quota_recovers_once_its_records_are_ended(tmp_path, monkeypatch, code):
    Quota(tmp_path, 250_000, code, monkeypatch)
    recovers(tmp_path)


ON_DISK = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[2])
import test_log_spare

test_log_spare.writer.RETRY_S = 0.01
test_log_spare.recovers(Path(sys.argv[1]))
"""


def test_a_log_that_has_filled_its_disk_recovers_once_its_records_are_ended(tmp_path):
    inside = 'mount -t tmpfs -o size=1m none "$2" && exec "$0" -c "$1" "$2" "$3"'
    if not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount")
    command = ["unshare", "-m", "sh", "-c", inside, sys.executable, ON_DISK, tmp_path, Path(__file__).parent]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_waited_is_written_with_the_room_of_the_spare_but_nothing_new_is_invited_into_it(tmp_path, monkeypatch):
    told = []
    quota = Quota(tmp_path, 250_000, errno.ENOSPC, monkeypatch)
    log, _ = opened(tmp_path, segment_bytes=20_000, start=False)
    log.start(lambda position: None, told.append)
    with log:
        fill(log)
        until(lambda: log.committed == log.appended)
        assert not (tmp_path / "spare").exists()
        assert log.failed == f"{tmp_path}: cannot be written: No space left on device"
        quota.size_bytes *= 2
        until(lambda: log.failed is None)  # without anything to write
        assert (tmp_path / "spare").exists()
        assert told == [f"{tmp_path}: cannot be written: No space left on device", None]


def test_while_there_is_no_room_a_segment_is_cleaned_only_if_little_is_to_be_copied(tmp_path, monkeypatch):
    Quota(tmp_path, 450_000, errno.ENOSPC, monkeypatch)
    log, _ = opened(tmp_path, segment_bytes=100_000)
    with log:
        locations = fill(log)
        kept = LEAST_BYTES // 2 // BODY_BYTES
        end_all(log, locations[kept:-kept])
        assert locations[kept - 1] >> 32 == 1
        assert log.bytes > 2 * max(log.live_bytes, log.segment_bytes)
        assert log.oldest_to_clean() is None
        log.release(locations[0], BODY_BYTES)
        assert log.oldest_to_clean() == 1


def test_the_spare_does_not_count_in_the_bytes_of_the_log_and_an_old_one_is_used(tmp_path):
    (tmp_path / "spare").write_bytes(bytes(2 * LEAST_BYTES))
    for number in range(2):
        log, _ = opened(tmp_path)
        with log:
            log.append(PUT, b"")
            commit(log)
            assert log.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
            assert (tmp_path / "spare").stat().st_size == LEAST_BYTES
        assert len(contents(tmp_path)) == number + 1


def test_a_spare_that_cannot_be_made_is_no_failure(tmp_path):
    (tmp_path / "spare").mkdir()
    log, _ = opened(tmp_path)
    with log:
        log.append(PUT, b"")
        commit(log)
        assert log.failed is None


def test_a_spare_that_there_is_too_little_room_for_leaves_nothing_behind(tmp_path, monkeypatch):
    Quota(tmp_path, LEAST_BYTES - 1, errno.ENOSPC, monkeypatch)
    spare = Spare(tmp_path, LEAST_BYTES)
    assert not spare.make()
    assert not spare.give_up()
    assert list(tmp_path.iterdir()) == []


def test_a_spare_is_made_again_only_with_twice_its_size_free(tmp_path, monkeypatch):
    quota = Quota(tmp_path, 2 * LEAST_BYTES - 1, errno.ENOSPC, monkeypatch)
    spare = Spare(tmp_path, LEAST_BYTES)
    assert spare.make()
    assert spare.give_up()
    assert not spare.make_again()
    quota.size_bytes += 1
    assert spare.given_up
    assert spare.make_again()
    assert not spare.given_up


@pytest.mark.parametrize(("cap_bytes", "expected"), [(1, LEAST_BYTES), (100_000_000, 1_000_000), (10**12, MOST_BYTES)])
def test_a_spare_is_a_hundredth_of_the_cap_within_bounds(cap_bytes, expected):
    assert spare_bytes(cap_bytes) == expected
