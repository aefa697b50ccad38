"""A disk that is full or broken: nothing is lost, and writing goes on when it can."""

import errno
import os
import shutil
import subprocess
import sys

import pytest
from some_log import commit, contents, opened, patch_syncs, until

from firelane.errors import StoreError
from firelane.exchange.log import files, writer

RECORDS = [(1, b"%050d" % number) for number in range(40)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)


class Broken:
    """Fails as long as it is broken, then does what it stands in for."""

    def __init__(self, real, code):
        self.real = real
        self.code = code
        self.broken = True
        self.tries = 0

    def __call__(self, *arguments):
        self.tries += 1
        if self.broken:
            raise OSError(self.code, os.strerror(self.code))
        return self.real(*arguments)


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("sync_data", errno.EIO),
        ("sync_folder", errno.EIO),
        ("write_all", errno.ENOSPC),
        ("write_durably", errno.EIO),
        ("segment_path", errno.EMFILE),
    ],
)
def test_whatever_fails_is_told_tried_again_and_loses_nothing(tmp_path, monkeypatch, part, code):
    told, broken = [], Broken(getattr(writer, part), code)
    monkeypatch.setattr(writer, part, broken)
    log, _ = opened(tmp_path, start=False)
    with log:
        log.start(lambda position: told.append(log.committed == position), told.append)
        locations = [log.append(*record) for record in RECORDS]
        log.flush()
        until(lambda: broken.tries > 3)
        assert log.committed == 0
        assert log.failed == f"{tmp_path}: cannot be written: {os.strerror(code)}"
        more = log.append(2, b"meanwhile")
        log.flush()
        assert [log.read(location) for location in [*locations, more]] == [*RECORDS, (2, b"meanwhile")]
        broken.broken = False
        commit(log)
        assert log.failed is None
        assert told[:3] == [f"{tmp_path}: cannot be written: {os.strerror(code)}", None, True]
    assert contents(tmp_path) == [*RECORDS, (2, b"meanwhile")]


def test_a_batch_that_failed_half_way_is_taken_back(tmp_path, monkeypatch):
    log, _ = opened(tmp_path, segment_bytes=100_000)
    with log:
        log.append(*RECORDS[0])
        commit(log)
        size = (tmp_path / "00000001.log").stat().st_size
        broken = Broken(writer.sync_data, errno.EIO)
        patch_syncs(monkeypatch, broken)
        log.append(*RECORDS[1])
        log.flush()
        until(lambda: log.failed)
        monkeypatch.setattr(writer, "RETRY_S", 60)
        until(lambda: (tmp_path / "00000001.log").stat().st_size == size)
        broken.broken = False
    assert contents(tmp_path) == RECORDS[:2]


def test_writes_that_take_only_a_part_are_continued(tmp_path, monkeypatch):
    real, real_durably = os.pwrite, os.pwritev
    monkeypatch.setattr(files.os, "pwrite", lambda file, data, offset: real(file, data[:7], offset))
    monkeypatch.setattr(files.os, "pwritev", lambda file, data, *rest: real_durably(file, [data[0][:7]], *rest))
    log, _ = opened(tmp_path)
    with log:
        for record in RECORDS:
            log.append(*record)
        commit(log)
    monkeypatch.undo()
    assert contents(tmp_path) == RECORDS


@pytest.mark.parametrize("code", files.NOT_AT_ONCE)
def test_a_file_system_that_cannot_write_and_sync_at_once_is_written_and_then_synced(tmp_path, monkeypatch, code):
    synced = []

    def refuses(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "pwritev", refuses)
    monkeypatch.setattr(files, "sync_data", synced.append)
    log, _ = opened(tmp_path)
    with log:
        for record in RECORDS:
            log.append(*record)
        commit(log)
        assert log.failed is None
        assert synced
    assert contents(tmp_path) == RECORDS


@pytest.mark.parametrize("start", [True, False])
def test_closing_while_nothing_can_be_written_says_what_is_lost(tmp_path, monkeypatch, start):
    log, _ = opened(tmp_path, segment_bytes=100_000, start=start)
    log.append(*RECORDS[0])
    monkeypatch.setattr(writer, "write_durably", Broken(writer.write_durably, errno.ENOSPC))
    with pytest.raises(StoreError, match=r"the last 59 bytes were not written .*No space left"):
        log.close()
    monkeypatch.undo()
    assert contents(tmp_path) == []


def test_a_deletion_that_fails_is_tried_again_while_writing_goes_on(tmp_path, monkeypatch):
    log, _ = opened(tmp_path, segment_bytes=100)
    with log:
        for record in RECORDS[:3]:
            log.append(*record)
        commit(log)
        broken = Broken(writer.sync_folder, errno.EIO)
        monkeypatch.setattr(writer, "sync_folder", broken)
        log.drop_segment(1)
        until(lambda: broken.tries > 3)
        log.append(2, b"")  # still fits in the last segment
        commit(log)
        broken.broken = False
        until(lambda: log.failed is None)
    assert contents(tmp_path) == [*RECORDS[1:3], (2, b"")]


FILL = """
import os, resource, sys, time
from pathlib import Path
from firelane.exchange.log import Log, writer

writer.RETRY_S = 0.01
folder, ballast = Path(sys.argv[1]) / "log", Path(sys.argv[1]) / "ballast"

def make_scarce():
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    else:
        ballast.write_bytes(bytes(900_000))

def make_room():
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        ballast.unlink()

def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)

make_scarce()
bodies = [b"%d " % number * 40 for number in range(3000)]
told = []
with Log.open(folder, cap_bytes=10**9, segment_bytes=10**8 if sys.argv[2] == "limit" else 50_000) as log:
    assert not list(log.records())
    log.start(lambda position: None, told.append)
    locations = []
    for body in bodies:
        locations.append(log.append(1, body))
        if len(locations) % 50 == 0:
            log.flush()
    log.flush()
    until(lambda: log.failed)
    time.sleep(0.05)
    assert log.committed < log.appended
    assert [log.read(location)[1] for location in locations] == bodies
    make_room()
    until(lambda: log.committed == log.appended)
    assert log.failed is None
    assert len(told) == 2, told
with Log.open(folder, cap_bytes=10**9) as log:
    assert [body for _, _, body in log.records()] == bodies
    assert log.recovered.cut_bytes == 0
print(told[0])
"""


def test_a_file_that_may_not_grow_is_waited_for(tmp_path):
    done = subprocess.run([sys.executable, "-c", FILL, tmp_path, "limit"], capture_output=True, text=True, check=False)
    assert done.stdout == f"{tmp_path}/log: cannot be written: File too large\n", done.stderr


def test_a_full_file_system_is_waited_for(tmp_path):
    inside = 'mount -t tmpfs -o size=1m none "$2" && exec "$0" -c "$1" "$2" space'
    if not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount")
    command = ["unshare", "-m", "sh", "-c", inside, sys.executable, FILL, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{tmp_path}/log: cannot be written: No space left on device\n", done.stderr
