"""A share of a core for some processes, by the kernel's control groups, version 2 or 1; only root can make one."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 20_000  # short, so that a process under a quota is slow rather than now and then away
END_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A control group of its own."""

    folder: Path
    version: int

    def add(self, pid: int) -> None:
        """Put a process, with all its threads, under the quota."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def set(self, cores: float | None) -> None:
        """So much of a core from now on; None is all there is."""
        most = None if cores is None else max(1000, round(cores * PERIOD_US))
        if self.version == 2:
            (self.folder / "cpu.max").write_text(f"{'max' if most is None else most} {PERIOD_US}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(-1 if most is None else most))


@contextmanager
def quota() -> Iterator[Quota | None]:
    """A control group until the block ends, by when its processes must have ended; None where none can be made."""
    made = _made()
    try:
        yield made
    finally:
        if made is not None:
            _remove(made.folder)


def _made() -> Quota | None:
    for root, version in ((GROUPS, 2), (GROUPS / "cpu", 1), (GROUPS / "cpu,cpuacct", 1)):
        if not (root / "cgroup.procs").exists():
            continue
        if version == 2 and "cpu" not in _controllers(root):
            continue
        folder = root / f"firelane-{secrets.token_hex(4)}"
        with suppress(OSError):
            folder.mkdir()
            group = Quota(folder=folder, version=version)
            try:
                group.set(None)
            except OSError:
                _remove(folder)
                raise
            return group
    return None


def _controllers(root: Path) -> list[str]:
    with suppress(OSError):
        return (root / "cgroup.subtree_control").read_text().split()
    return []


def _remove(folder: Path) -> None:
    give_up = time.monotonic() + END_S
    while True:
        try:
            os.rmdir(folder)
            return
        except OSError:  # somebody is still in it
            if time.monotonic() > give_up:
                return
            time.sleep(0.05)
