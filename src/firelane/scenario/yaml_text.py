"""YAML text to plain data, quickly and safely: duplicates, bombs and odd tags are refused.

PyYAML's own constructor needs 9 s for 100 000 subscriptions and takes the last of two equal keys in
silence; its event parser (libyaml) needs 1 s, so the data are built from the events here.
"""

from __future__ import annotations

import gc
import re
from typing import Any

import yaml

from firelane.errors import ScenarioError

MOST_BYTES = 64_000_000
MOST_VALUES = 20_000_000  # after aliases are expanded: a YAML bomb stops here
MOST_DEPTH = 32
MOST_DIGITS = 40  # of a whole number; a longer one is read as a float
SECRETS = ("password", "token")  # keys whose values are never repeated

_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".nan": float("nan"), ".NaN": float("nan"), ".NAN": float("nan"),
    ".inf": float("inf"), "-.inf": float("-inf"), ".Inf": float("inf"), "-.Inf": float("-inf"),
}  # fmt: skip


def parse_yaml(text: str, source: str) -> Any:
    """The one document in `text` as dicts, lists and scalars; ScenarioError says what is wrong."""
    collecting = gc.isenabled()
    gc.disable()  # millions of live small objects make the collector quadratic here
    try:
        return _Builder(text, source).build()
    except yaml.YAMLError as problem:
        raise ScenarioError(_one_line(problem), source=source) from None
    except UnicodeEncodeError as problem:
        raise ScenarioError(f"character {problem.start} is not valid Unicode; remove it", source=source) from None
    finally:
        if collecting:
            gc.enable()


def _one_line(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or str(problem).splitlines()[0]
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}this is not YAML: {what}; check quotes, indentation and brackets"


class _Builder:
    """A stack machine from YAML events to data."""

    def __init__(self, text: str, source: str) -> None:
        loader = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader
        self._events = yaml.parse(text, Loader=loader)
        self._source = source
        self._scalars: dict[str, Any] = dict(_WORDS)
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._depth = 0

    def build(self) -> Any:
        documents: list[Any] = []
        for event in self._events:
            kind = type(event)
            if kind in (yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent, yaml.AliasEvent):
                if documents:
                    raise self._error(event, "a second YAML document starts; keep one per file")
                documents.append(self._value(event))
        return documents[0] if documents else None

    def _value(self, event: Any) -> Any:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._count(event, 1)
            value = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = (value, 1)
            return value
        if kind is yaml.AliasEvent:
            if event.anchor not in self._anchors:
                raise self._error(event, f"alias *{event.anchor} refers to nothing complete before it")
            value, values = self._anchors[event.anchor]
            self._count(event, values)
            return value
        return self._collection(event)

    def _collection(self, event: Any) -> Any:
        if event.tag is not None and not event.implicit:
            raise self._error(event, f"the tag {event.tag} is not used here; remove it")
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._error(event, f"more than {MOST_DEPTH} levels deep; flatten the file")
        before = self._values
        self._count(event, 1)
        value = self._mapping() if type(event) is yaml.MappingStartEvent else self._sequence()
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._values - before)
        self._depth -= 1
        return value

    def _mapping(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        for event in self._events:
            if type(event) is yaml.MappingEndEvent:
                break
            if type(event) is not yaml.ScalarEvent:
                raise self._error(event, "a key must be a plain name")
            key = event.value
            if key == "<<" and event.implicit[0]:
                merged.append(self._merge(event))
                continue
            if key in result:
                raise self._error(event, f'"{key}" is given twice; names must be unique')
            try:
                result[key] = self._value(next(self._events))
            except ScenarioError:
                if key in SECRETS:  # the complaint would repeat it
                    raise self._error(event, f"this {key} is not plain text; put it in quotes") from None
                raise
        for defaults in merged:
            result = {**defaults, **result}
        return result

    def _merge(self, event: Any) -> dict[str, Any]:
        value = self._value(next(self._events))
        if not isinstance(value, dict):
            raise self._error(event, "<< merges a mapping, e.g. <<: *defaults")
        return value

    def _sequence(self) -> list[Any]:
        result: list[Any] = []
        for event in self._events:
            if type(event) is yaml.SequenceEndEvent:
                break
            result.append(self._value(event))
        return result

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None and event.tag != "!":
            raise self._error(event, f"the tag {event.tag} is not used here; remove it")
        text = event.value
        if not event.implicit[0]:
            return text
        try:
            return self._scalars[text]
        except KeyError:
            return self._scalars.setdefault(text, _plain(text))

    def _count(self, event: Any, values: int) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise self._error(event, f"more than {MOST_VALUES:,} values with aliases expanded; split the file")

    def _error(self, event: Any, problem: str) -> ScenarioError:
        return ScenarioError(f"line {event.start_mark.line + 1}: {problem}", source=self._source)


def _plain(text: str) -> Any:
    if len(text) <= MOST_DIGITS and _INT.match(text):
        return int(text.replace("_", ""))
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    return text
