"""Settings of the exchange from the command line (`--set`) and the environment, on top of a scenario file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from firelane.errors import ScenarioError
from firelane.scenario.load import from_data, read_data
from firelane.scenario.model import Scenario
from firelane.scenario.yaml_text import SECRETS, parse_yaml

OPTION = "--set"
PREFIX = "FIRELANE_EXCHANGE__"
HOW = "write exchange.KEY=VALUE, e.g. exchange.keep_alive=60s"


def load_exchange(
    source: str | Path | None,
    assignments: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Scenario:
    """The scenario that `serve` runs: a file or none, then the environment, then the command line; defaults by dotted
    keys are for what none of them sets."""
    assignments, environment = list(assignments), environment or {}
    base = {"name": "exchange"} if source is None else read_data(source)
    data = with_overrides(base, assignments, environment)
    for key, value in (defaults or {}).items():
        data = _completed(data, key.split("."), value)
    try:
        return from_data(data, source="" if source is None else str(source))
    except ScenarioError as problem:
        if origin := _origin(problem.key, assignments, environment):
            raise ScenarioError(problem.problem, key=problem.key, source=origin) from None
        raise


def with_overrides(
    data: Mapping[str, Any], assignments: Iterable[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """The data with `exchange.KEY=VALUE` from the environment and then from the assignments; later ones win.

    Values are YAML, so lists and mappings can be given (a mapping replaces what was there, nothing unsets); a
    password or token is taken as it stands.
    """
    result = dict(data)
    for origin, key, text in _given(assignments, environment):
        try:
            result = _assigned(result, key.split("."), _value(key, text))
        except ScenarioError as problem:
            raise ScenarioError(problem.problem, key=key, source=origin) from None
    return result


def _completed(data: dict[str, Any], key: list[str], value: Any) -> dict[str, Any]:
    """The data with a value where there is none; what is no mapping is left for others to complain about."""
    name, *rest = key
    inner = data.get(name, {} if rest else None)
    if rest:
        return {**data, name: _completed(inner, rest, value)} if isinstance(inner, dict) else data
    return data if name in data else {**data, name: value}


def _value(key: str, text: str) -> Any:
    if key.rpartition(".")[2] in SECRETS:
        return text or None
    try:
        return parse_yaml(text, "")
    except ScenarioError:  # it may repeat the text, which may hold a secret
        raise ScenarioError("this value is not YAML; check its quotes and brackets") from None


def _given(assignments: Iterable[str], environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Where each override comes from, its dotted key and its text; a section before the keys inside it."""
    for name in sorted(environment):
        if name.startswith(PREFIX):
            key = name.removeprefix("FIRELANE_").lower().replace("__", ".")
            yield name, _checked(key, name), environment[name]
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ScenarioError(f"there is no = in it; {HOW}", source=OPTION)
        yield OPTION, _checked(key.strip(), OPTION), text


def _checked(key: str, origin: str) -> str:
    first, *rest = key.split(".")
    if first != "exchange" or not rest:
        raise ScenarioError(f"only settings of the exchange can be given here; {HOW}", key=key, source=origin)
    if not all(rest):
        raise ScenarioError(f"a part of this key is empty; {HOW}", key=key, source=origin)
    return key


def _assigned(data: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """A copy of the data with the value at the path; what is beside the path is shared."""
    first, *rest = path
    if rest:
        inside = data.get(first)
        if not isinstance(inside, (Mapping, type(None))):
            raise ScenarioError(f"{first} has no keys inside it; give it whole")
        value = _assigned(inside or {}, rest, value)
    return {**data, first: value}


def _origin(key: str, assignments: Iterable[str], environment: Mapping[str, str]) -> str | None:
    """Which override a problem at this key comes from: the last one at, above or below it."""
    last = None
    for origin, given, _ in _given(assignments, environment):
        if f"{key}.".startswith(f"{given}.") or f"{given}.".startswith(f"{key}."):
            last = origin
    return last
