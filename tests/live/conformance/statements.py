"""The numbered normative statements of MQTT 5.0 and 3.1.1 (Appendix B of each), and how a test names those it checks.

`statements.tsv` has one line for each: what it says in our words, whom it concerns, and why it is not tested where
it is not. The numbers are those of the standards, misprint `MQTT-3-8.3-4` included.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("statements.tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    version: str
    statement: str
    concerns: str  # server, client or both
    says: str
    untested: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.version, self.statement


def catalogue() -> list[Statement]:
    with FILE.open(newline="") as lines:
        return [Statement(**row) for row in csv.DictReader(lines, delimiter="\t")]


_KNOWN = {one.key for one in catalogue()}


def statement(*numbers: str) -> pytest.MarkDecorator:
    """The statements of MQTT 5.0 that a test checks."""
    return _mark("5.0", numbers)


def statement3(*numbers: str) -> pytest.MarkDecorator:
    """The statements of MQTT 3.1.1 that a test checks."""
    return _mark("3.1.1", numbers)


def _mark(version: str, numbers: tuple[str, ...]) -> pytest.MarkDecorator:
    unknown = [number for number in numbers if (version, number) not in _KNOWN]
    assert not unknown, f"MQTT {version} has no {unknown}"
    return pytest.mark.statement(*((version, number) for number in numbers))


def differs(why: str, version: int | None = None) -> pytest.MarkDecorator:
    """Mosquitto 2.0.11 is known to differ here (in one protocol version only, if given), and why."""
    return pytest.mark.differs(why, version=version)
