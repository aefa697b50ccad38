"""A scenario that differs a little from what is live, for questions such as: what if this link were half as fast?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from firelane.control.learn import single
from firelane.errors import ScenarioError
from firelane.mqtt import filter_problem, topic_problem
from firelane.scenario.load import from_data
from firelane.scenario.model import DEFAULT_LINK, Link, Publisher, Scenario, Subscriber, scenario_type

NUMBERS = ("priorities", "headroom", "flows")
PARTS: dict[str, TypeAdapter[Any]] = {
    "links": TypeAdapter(Link),
    "publishers": TypeAdapter(Publisher),
    "subscribers": TypeAdapter(Subscriber),
}


def merged(live: Scenario, partial: dict[str, Any]) -> Scenario:
    """What is live with some of it otherwise; only what is named is read and checked.

    Links, publishers and subscribers are merged key by key, topics replaced; null takes one of them away. What is said
    of a subscriber holds for all clients that are this one.
    """
    unknown = [key for key in partial if key not in (*NUMBERS, *PARTS, "topics")]
    if unknown:
        known = ", ".join((*NUMBERS, *PARTS, "topics"))
        raise ScenarioError(f"this cannot differ; give any of {known}", key=unknown[0])
    data: dict[str, Any] = {"name": live.name, **{key: partial[key] for key in NUMBERS if key in partial}}
    gone: dict[str, set[str]] = {}
    for section in (*PARTS, "topics"):
        asked = _mapping(partial.get(section, {}), section)
        if section == "subscribers":
            asked = {twin: asked[single(twin)] for twin in live.subscribers if single(twin) in asked} | asked
        gone[section] = {name for name, value in asked.items() if value is None}
        data[section] = {
            name: _over(getattr(live, section).get(name), value, section)
            for name, value in asked.items()
            if value is not None
        }
    try:
        part = scenario_type().validate_python(data)
    except ValidationError:
        from_data(data)  # says it in one line
        raise
    whole = _joined(live, part, gone, {key: getattr(part, key) for key in NUMBERS if key in partial})
    _check(whole, part)
    return whole


def _mapping(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ScenarioError("this must be a mapping of names, {...}", key=key)
    return value


def _over(before: Any, value: Any, section: str) -> Any:
    """The plain data of one thing, with the values given laid over those it has."""
    if before is None or section == "topics" or not isinstance(value, dict):
        return value
    data: dict[str, Any] = PARTS[section].dump_python(before, by_alias=True, exclude_defaults=True)
    return {
        **data,
        **{
            key: {**data[key], **one} if isinstance(one, dict) and isinstance(data.get(key), dict) else one
            for key, one in value.items()
        },
    }


def _joined(live: Scenario, part: Scenario, gone: dict[str, set[str]], numbers: dict[str, Any]) -> Scenario:
    sections = {
        section: {name: one for name, one in getattr(live, section).items() if name not in names}
        | getattr(part, section)
        for section, names in gone.items()
    }
    publishers = {
        name: replace(one, publishes={topic: hz for topic, hz in one.publishes.items() if topic not in gone["topics"]})
        for name, one in sections["publishers"].items()
    }
    return replace(live, **numbers, **(sections | {"publishers": publishers}))


def _check(whole: Scenario, part: Scenario) -> None:
    """Names in what was given must refer to something, and nobody may be left on a link that is gone."""
    for name in part.topics:
        if problem := topic_problem(name):
            raise ScenarioError(problem, key=f"topics.{name}")
    for name, publisher in part.publishers.items():
        for topic in publisher.publishes:
            if topic not in whole.topics:
                raise ScenarioError("there is no such topic; add it to topics", key=f"publishers.{name}.{topic}")
    for name, subscriber in part.subscribers.items():
        for topic_filter in subscriber.subscribes:
            if problem := filter_problem(topic_filter):
                raise ScenarioError(problem, key=f"subscribers.{name}.{topic_filter}")
    for section in ("publishers", "subscribers"):
        for name, one in getattr(whole, section).items():
            if one.link not in (None, DEFAULT_LINK) and one.link not in whole.links:
                raise ScenarioError(f'there is no link "{one.link}"; add it to links', key=f"{section}.{name}.link")
