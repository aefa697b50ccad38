"""Every statement that concerns a server is tested, or it is said why not; docs/conformance.md shows which is which."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from live.conformance.statements import catalogue

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "conformance.md"
VERSIONS = ("5.0", "3.1.1")


def every_test():
    """The area and the name of every test, and its marks with those of its cases."""
    for path in sorted(HERE.glob("test_*.py")):
        area = path.stem.removeprefix("test_")
        for name, function in vars(import_module(f"live.conformance.{path.stem}")).items():
            if name.startswith("test_"):
                yield area, name.removeprefix("test_").replace("_", " "), list(marks(function))


def marks(function):
    for mark in getattr(function, "pytestmark", ()):
        yield None, mark
        if mark.name == "parametrize":
            for case in mark.args[1]:
                yield from ((getattr(case, "id", None), own) for own in getattr(case, "marks", ()))


def named() -> dict[tuple[str, str], list[str]]:
    """The tests that name a statement, with the cases that do so."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for area, name, own in every_test():
        for case, mark in own:
            for key in mark.args if mark.name == "statement" else ():
                found.setdefault(key, {}).setdefault(f"{area}: {name}", []).append(case)
    return {key: [with_cases(*one) for one in by_test.items()] for key, by_test in found.items()}


def differences():
    """Where mosquitto differs, in which version if only in one, and why."""
    for area, name, own in every_test():
        found: dict[tuple[str, int | None], list[str]] = {}
        for case, mark in own:
            if mark.name == "differs":
                found.setdefault((mark.args[0], mark.kwargs["version"]), []).append(case)
        for (why, version), cases in found.items():
            yield with_cases(f"{area}: {name}", cases), {4: "3.1.1", 5: "5.0", None: ""}[version], why


def with_cases(test, cases):
    """Cases are named after what is special about them, then the version."""
    shown = dict.fromkeys(re.sub(r"-(5|3\.1\.1)$", "", case) for case in cases if isinstance(case, str))
    return f"{test} ({', '.join(shown)})" if shown else test


def test_the_catalogue_has_every_statement_of_the_standards_once():
    statements = catalogue()
    assert len({one.key for one in statements}) == len(statements)
    chapters = Counter((one.version, one.statement.removeprefix("MQTT-")[0]) for one in statements)
    assert {chapter: number for (version, chapter), number in chapters.items() if version == "5.0"} == {
        "1": 5, "2": 7, "3": 175, "4": 60, "6": 4}  # fmt: skip
    assert sum(one.version == "3.1.1" for one in statements) == 141


def test_every_statement_about_servers_is_tested_or_it_is_said_why_not():
    found = named()
    about_servers = [one for one in catalogue() if one.concerns != "client"]
    assert [one.key for one in about_servers if one.key not in found and not one.untested] == []
    assert [one.key for one in about_servers if one.key in found and one.untested] == [], "tested after all"


OPENING = """\
# Conformance to MQTT

The standards of MQTT [5.0](https://docs.oasis-open.org/mqtt/mqtt/v5.0/os/mqtt-v5.0-os.html) and
[3.1.1](https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/os/mqtt-v3.1.1-os.html) number their normative statements
(Appendix B of each). `tests/live/conformance` says each of them in our words, and checks those that concern a server
on running brokers, over a socket, with a client that is free to misbehave. Everything runs against `firelane serve`
and, as a second opinion on the tests, against mosquitto 2.0.11.

```
pytest tests/live/conformance                 # both brokers, about two minutes
pytest tests/live/conformance -k firelane     # one of them
```

This page is made from the tests by `tests/live/conformance/test_catalogue.py`.
"""

DIFFERENCES = """
## Where mosquitto differs

These tests are known to fail on mosquitto 2.0.11, and are expected to; some ask for more than the standard does. That a
server says why it ends a connection, and with the reason code that fits best, is asked of Firelane only: the standard
recommends it, and mosquitto often just hangs up.

| test | only in | mosquitto |
|---|---|---|
"""


def table(version: str, found: dict[tuple[str, str], list[str]]) -> str:
    lines = [
        f"\n## MQTT {version}\n",
        "| statement | concerns | in our words | tests, or why there are none |",
        "|---|---|---|---|",
    ]
    for one in catalogue():
        if one.version == version:
            tests_or_reason = "<br>".join(found.get(one.key, [])) or one.untested or "not about servers"
            lines.append(f"| {one.statement} | {one.concerns} | {one.says} | {tests_or_reason} |")
    return "\n".join(lines) + "\n"


def counted(found: dict[tuple[str, str], list[str]]) -> str:
    lines = ["\n| version | statements | about servers | tested | not tested, with a reason |", "|---|---|---|---|---|"]
    for version in VERSIONS:
        own = [one for one in catalogue() if one.version == version]
        about_servers = [one for one in own if one.concerns != "client"]
        tested = sum(one.key in found for one in about_servers)
        lines.append(f"| {version} | {len(own)} | {len(about_servers)} | {tested} | {len(about_servers) - tested} |")
    return "\n".join(lines) + "\n"


def test_the_page_about_conformance_is_up_to_date():
    found = named()
    rows = "".join(f"| {test} | {version} | {why} |\n" for test, version, why in differences())
    page = OPENING + counted(found) + DIFFERENCES + rows + "".join(table(version, found) for version in VERSIONS)
    if not PAGE.exists() or PAGE.read_text() != page:
        PAGE.write_text(page)
        pytest.fail(f"{PAGE.name} was out of date and has been rewritten; commit it")
