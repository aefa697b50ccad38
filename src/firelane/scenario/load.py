"""A scenario from a YAML file, from plain data, or by the name of one that ships with Firelane."""

from __future__ import annotations

import difflib
import gc
import ipaddress
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from firelane.errors import ScenarioError
from firelane.mqtt import TopicTree, filter_problem, numbered, topic_problem
from firelane.scenario.model import DEFAULT_LINK, Match, Scenario, scenario_type
from firelane.scenario.yaml_text import MOST_BYTES, parse_yaml


def load(source: str | Path) -> Scenario:
    """The scenario in a file, or the shipped one of that name (`office-fire`, `firedex`, ...)."""
    return from_data(read_data(source), source=str(source))


def from_text(text: str, *, source: str = "") -> Scenario:
    """The scenario in a YAML text."""
    return from_data(_as_mapping(parse_yaml(text, source), source), source=source)


def read_data(source: str | Path) -> dict[str, Any]:
    """The plain data in a scenario's file, not yet checked."""
    shipped = None if os.path.exists(source) else shipped_scenarios().get(str(source))
    return _as_mapping(parse_yaml(_read(shipped or Path(source)), str(source)), str(source))


def _as_mapping(data: Any, source: str) -> dict[str, Any]:
    if data is None:
        raise ScenarioError("the file is empty; see `firelane generate office-fire` for one to start from",
                            source=source)  # fmt: skip
    if not isinstance(data, dict):
        raise ScenarioError("this is not a scenario: it must be a mapping that starts with e.g. `name: mine`",
                            source=source)  # fmt: skip
    return data


def from_data(data: Mapping[str, Any], *, source: str = "") -> Scenario:
    """The scenario in plain data (from YAML, JSON or code), checked whole."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        scenario = scenario_type().validate_python(data)
    except ValidationError as problems:
        raise _first_problem(problems, source) from None
    finally:
        if collecting:
            gc.enable()
    check(scenario, source=source)
    return scenario


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with Firelane, by name: inside the wheel, or beside the sources."""
    package = Path(__file__).parents[1] / "scenarios"
    folder = package if package.is_dir() else Path(__file__).parents[3] / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def check(scenario: Scenario, *, source: str = "") -> None:
    """Refuse names that refer to nothing, filters that match nothing, and malformed topics."""
    for name in scenario.topics:
        if problem := topic_problem(name):
            raise ScenarioError(problem, key=f"topics.{name}", source=source)
    _check_names(scenario, source)
    links = dict.fromkeys([*scenario.links, DEFAULT_LINK])  # in their order, so that messages are always the same
    for name, publisher in scenario.publishers.items():
        if publisher.link is not None and publisher.link not in links:
            raise _unknown(publisher.link, "link", links, f"publishers.{name}.link", source)
        for topic in publisher.publishes:
            if topic not in scenario.topics:
                raise _unknown(topic, "topic", scenario.topics, f"publishers.{name}.publishes", source)
    _check_matches(scenario, source)
    tree = numbered(scenario.topics)
    good: set[str] = set()
    for name, subscriber in scenario.subscribers.items():
        if subscriber.link not in links:
            raise _unknown(subscriber.link, "link", links, f"subscribers.{name}.link", source)
        for topic_filter in subscriber.subscribes:
            if topic_filter not in good:
                _check_filter(topic_filter, tree, scenario, f"subscribers.{name}.subscribes", source)
                good.add(topic_filter)


def _check_matches(scenario: Scenario, source: str) -> None:
    """No live client may be two subscribers in the same way."""
    seen: dict[tuple[str, str], str] = {}
    for name, subscriber in scenario.subscribers.items():
        match = subscriber.match or Match(client_id=name)
        for what in ("client_id", "user", "address"):
            value = getattr(match, what)
            other = name if value is None else seen.setdefault((what, value), name)
            if other != name:
                raise ScenarioError(f'{what} "{value}" is {other} already; a client can be only one of them',
                                    key=f"subscribers.{name}.match", source=source)  # fmt: skip
            if what == "address" and value is not None:
                _check_address(value, f"subscribers.{name}.match.address", source)


def _check_address(value: str, key: str, source: str) -> None:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ScenarioError(
            f'"{value}" is not an address range; write e.g. 10.0.3.0/24', key=key, source=source
        ) from None


def _check_names(scenario: Scenario, source: str) -> None:
    sections = {one: getattr(scenario, one) for one in ("links", "publishers", "subscribers", "brokers", "categories")}
    sections |= {f"exchange.{one}": getattr(scenario.exchange, one) for one in ("users", "tokens")}
    for section, names in sections.items():
        for name in names:
            if not name or (not name.isascii() and not _is_unicode(name)):
                raise ScenarioError(f'"{name}" is not a name; write letters and digits', key=section, source=source)


def _is_unicode(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # half of a surrogate pair, as JSON may have
        return False


def _check_filter(topic_filter: str, tree: TopicTree[int], scenario: Scenario, key: str, source: str) -> None:
    if problem := filter_problem(topic_filter):
        raise ScenarioError(problem, key=f"{key}.{topic_filter}", source=source)
    if topic_filter.startswith("$share/"):
        raise ScenarioError("shared groups are formed by live clients; name the plain filter here",
                            key=f"{key}.{topic_filter}", source=source)  # fmt: skip
    if scenario.topics and not tree.matching(topic_filter):  # without topics they are learnt from live traffic
        hint = _close(topic_filter, scenario.topics)
        raise ScenarioError(f"this filter matches no topic{hint or '; add the topic or correct the filter'}",
                            key=f"{key}.{topic_filter}", source=source)  # fmt: skip


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise ScenarioError("this is a folder; name a scenario file", source=str(path))
        if (size := path.stat().st_size) > MOST_BYTES:
            raise ScenarioError(f"{size / 1e6:.0f} MB is more than the {MOST_BYTES / 1e6:.0f} MB a scenario "
                                "may have; use wildcards or split it", source=str(path))  # fmt: skip
        with path.open("rb") as file:  # a device or pipe has no size: read no more than allowed
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        hint = _close(str(path), shipped_scenarios())
        raise ScenarioError(f"there is no such file or shipped scenario{hint}", source=str(path)) from None
    except ValueError:
        raise ScenarioError("this is not the name of a file; give a path without odd characters",
                            source=str(path)) from None  # fmt: skip
    except OSError as problem:
        raise ScenarioError(f"this file cannot be read: {problem.strerror}", source=str(path)) from None
    if len(content) > MOST_BYTES:
        raise ScenarioError(f"more than {MOST_BYTES / 1e6:.0f} MB; use wildcards or split it", source=str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ScenarioError(f"byte {problem.start} is not UTF-8 text; is this a scenario file?",
                            source=str(path)) from None  # fmt: skip
    if "\0" in text:
        raise ScenarioError("this is a binary file, not a scenario", source=str(path))
    return text


def _first_problem(problems: ValidationError, source: str) -> ScenarioError:
    errors = problems.errors(include_url=False, include_input=True)
    # A misspelt key is also a missing one; naming the misspelling helps more.
    first = next((one for one in errors if one["type"] in _UNKNOWN_KEY), errors[0])
    key = ".".join(str(part) for part in first["loc"] if part not in ("[key]", "tuple[float, ...]"))
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ScenarioError(_plain_words(first) + more, key=key, source=source)


_UNKNOWN_KEY = ("unexpected_keyword_argument", "extra_forbidden")
_BY_KIND = {
    "string_too_short": "is empty; write a name",
    "string": "is not text; write a word, or put it in quotes",
    "int": "is not a whole number; write e.g. 9",
    "finite_number": "is not a whole number; write e.g. 9",
    "bool": "is neither true nor false; write one of them",
    "tuple": "is not a list; write e.g. [a, b]",
    "too_short": "is empty; write at least one, or leave the key out",
}


def _plain_words(error: Any) -> str:
    kind = error["type"]
    given = "this" if _may_be_secret(error["loc"]) else f'"{_short(error.get("input"))}"'
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind in _UNKNOWN_KEY:
        return f"there is no such key{_close(str(error['loc'][-1]), _keys_at(error['loc']))}"
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return "this key is missing; add it"
    if kind in ("dataclass_type", "dict_type", "mapping_type"):
        return f"{given} is not a mapping; write keys and values, e.g. {{key: value}}"
    if kind == "literal_error":
        return f"{given} is not one of {error['ctx']['expected']}"
    for start, words in _BY_KIND.items():
        if kind.startswith(start):
            return f"{given} {words}"
    return f"{given} is wrong here: {error['msg'].replace('Input should', 'it should')}"


def _may_be_secret(location: tuple[Any, ...]) -> bool:
    """Whether a password or token may stand here, in its place or by mistake: then it is not repeated."""
    if location[:1] != ("exchange",):
        return False
    section, *inside = location[1:] or ("",)
    return section in ("", "users", "tokens") or (section == "upstream" and inside in ([], ["password"]))


def _keys_at(location: tuple[Any, ...]) -> Iterable[str]:
    """The keys that would have been right where a wrong one stands."""
    schema: Any = scenario_type().json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    for part in location[:-1]:
        schema = definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
        schema = (
            schema.get("properties", {}).get(str(part))
            or schema.get("additionalProperties")
            or schema.get("items")
            or {}
        )
        for choice in schema.get("anyOf", ()):
            if "$ref" in choice:
                schema = choice
    schema = definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    return list(schema.get("properties", {}))


def _short(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _unknown(name: str, what: str, known: Iterable[str], key: str, source: str) -> ScenarioError:
    hint = _close(name, known) or f"; define it under {what}s"
    return ScenarioError(f'"{_short(name)}" is not a {what} of this scenario{hint}', key=key, source=source)


def _close(name: str, known: Iterable[str]) -> str:
    names = list(known)
    if len(names) <= 20_000 and (close := difflib.get_close_matches(name, names, n=1)):
        return f"; did you mean {close[0]}?"
    return f"; choose from: {', '.join(names)}" if 0 < len(names) <= 12 else ""
