"""DDS domains that tests running side by side do not share: endpoints of two tests would take each other for theirs."""

import fcntl
import random
import tempfile
from collections import deque
from pathlib import Path
from typing import IO

HIGHEST = 99  # its ports are below those that systems hand out by themselves
ENOUGH = 6  # for the tests of one process, which run one after the other

_ours: deque[tuple[int, IO[str]]] = deque()  # with the files that are locked for as long as this process runs


def some_domain() -> int:
    """The next in turn of those that this process has for itself."""
    if len(_ours) < ENOUGH:
        _ours.appendleft(_another())
    _ours.rotate(-1)
    return _ours[-1][0]


def _another() -> tuple[int, IO[str]]:
    for domain in random.SystemRandom().sample(range(1, HIGHEST + 1), HIGHEST):
        file = (Path(tempfile.gettempdir()) / f"firelane-dds-domain-{domain}.lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # also against this process: another open file
        except BlockingIOError:
            file.close()
        else:
            return domain, file
    raise AssertionError("all DDS domains are in use by other tests")
