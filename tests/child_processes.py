"""Which processes another one has started, and whether they still run."""

import os
from pathlib import Path


def children(pid=None):
    """The processes that this one, or another one, has started and that are still there."""
    wanted, found = pid or os.getpid(), set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = _fields(path)
        if fields and int(fields[1]) == wanted:
            found.add(int(path.parent.name))
    return found


def running(pid):
    """Whether a process is there, and not only its name."""
    fields = _fields(Path(f"/proc/{pid}/stat"))
    return bool(fields) and fields[0] != "Z"


def _fields(stat):
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []
