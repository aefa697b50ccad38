"""The errors that Firelane shows to its users, each in one line.

    FirelaneError               show this to the user in one line
    |-- ScenarioError           a scenario file or value is wrong
    |-- PlanError               a plan cannot be read or does not fit its scenario
    |-- StoreError              the folder that keeps an exchange's data cannot be used
    |-- ServeError              an exchange cannot be started
    `-- InfeasibleError         no plan meets the minimum shares and loss bounds

Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

LONGEST_KEY = 200


def printable(text: str) -> str:
    """The text with line breaks, terminal commands and the like spelt out."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def why_of(problem: Exception) -> str:
    """What went wrong in the system's own words: Python adds addresses to them that are told anyway."""
    if reason := getattr(problem, "reason", None):  # of TLS, as WRONG_VERSION_NUMBER
        return str(reason).lower().replace("_", " ")
    number = getattr(problem, "errno", None)
    if number and number > 0:  # below that they are of other lists, as of names that nobody knows
        return os.strerror(number).lower()
    return getattr(problem, "strerror", None) or str(problem)


class FirelaneError(Exception):
    """Something the user can mend: what was wrong, where, and what to do, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class ScenarioError(FirelaneError):
    """A scenario that cannot be used: `source` (a file), `key` (a dotted path) and `problem`."""

    def __init__(self, problem: str, *, key: str = "", source: str = "") -> None:
        self.problem = problem
        self.key = key
        self.source = source
        shown = key if len(key) <= LONGEST_KEY else key[:LONGEST_KEY] + "..."
        super().__init__(": ".join(part for part in (source, shown, problem) if part))


class PlanError(FirelaneError):
    """A plan that cannot be read, written or applied to the scenario at hand."""


class StoreError(FirelaneError):
    """Kept data that cannot be read or written: `path` (a file or folder) and `problem`."""

    def __init__(self, problem: str, *, path: str) -> None:
        self.problem = problem
        self.path = path
        super().__init__(f"{path}: {problem}")


class ServeError(FirelaneError):
    """An exchange cannot listen where it should, or with what it was given."""

    @classmethod
    def listening(cls, host: str, port: int, problem: Exception, remedy: str) -> Self:
        """An address at which nothing can be listened to."""
        number = getattr(problem, "errno", None) or 0
        if number == errno.EADDRNOTAVAIL or number < 0:  # below are names that nobody knows
            remedy = "choose another --host"
        return cls(f"cannot listen on {host} port {port}: {why_of(problem)}; {remedy}")


class InfeasibleError(FirelaneError):
    """The least that must be delivered over `link` needs more than it can carry."""

    def __init__(self, link: str, needed_load: float, allowed_load: float) -> None:
        self.link = link
        self.needed_load = needed_load
        self.allowed_load = allowed_load
        super().__init__(
            f"links.{link}: min_share, max_loss and tolerance alone need load {needed_load:.3f}, "
            f"but headroom leaves {allowed_load:.3f}; relax them, lower headroom or raise bandwidth"
        )


def first_of(problems: ExceptionGroup[Exception]) -> Exception:
    """What went wrong, taken out of the groups that tasks put it in: rather what can be told in a line than a bug."""
    problem: Exception = problems.subgroup(FirelaneError) or problems
    while isinstance(problem, ExceptionGroup):
        problem = problem.exceptions[0]
    return problem


@contextmanager
def plainly() -> Iterator[None]:
    """What a task of ours has to tell the user is told as it is, not as a group; bugs stay what they are."""
    try:
        yield
    except ExceptionGroup as problems:
        first = first_of(problems)
        if isinstance(first, FirelaneError):
            raise first from None
        raise
