"""Logs for tests: small segments, and waiting for the writer."""

import threading
import time
from pathlib import Path

from firelane.exchange.log import Log, files, writer


def opened(folder: Path, *, cap_bytes=1_000_000, segment_bytes=200, sync=True, start=True):
    """A log whose records have been read: the log and the records."""
    log = Log.open(folder, cap_bytes=cap_bytes, segment_bytes=segment_bytes, sync=sync)
    try:
        records = list(log.records())
    except BaseException:
        log.close()
        raise
    if start:
        log.start(lambda position: None)
    return log, records


def contents(folder: Path, **settings):
    """Kind and body of every record in a folder."""
    log, records = opened(folder, start=False, **settings)
    log.close()
    return [(kind, body) for _, kind, body in records]


def filled(folder: Path, records, **settings):
    """Write records and close the log; returns their locations."""
    log, _ = opened(folder, start=False, **settings)
    with log:
        return [log.append(kind, body) for kind, body in records]


def commit(log: Log):
    """Flush and wait until all is on disk."""
    log.flush()
    until(lambda: log.committed == log.appended)


def until(condition, within_s=30.0):
    """Wait for something that another thread will bring about."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)


def patch_syncs(monkeypatch, sync):
    """Have `sync` called with the open file wherever a log waits for the disk."""

    def write_durably(file, data, offset):
        files.write_all(file, data, offset)
        sync(file)

    monkeypatch.setattr(writer, "sync_data", sync)
    monkeypatch.setattr(writer, "write_durably", write_durably)


class Gate:
    """Stands in for a sync that takes as long as a test wants."""

    def __init__(self):
        self.calls = 0
        self.entered = threading.Semaphore(0)
        self.leave = threading.Semaphore(0)

    def __call__(self, file):
        self.calls += 1
        self.entered.release()
        assert self.leave.acquire(timeout=30)

    def wait(self):
        assert self.entered.acquire(timeout=30)
