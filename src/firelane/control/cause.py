"""Why a plan is made again, in a word and in a sentence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from firelane.exchange.measuring.observed import Observed, SeenSubscription
from firelane.scenario.model import Scenario

Kind = Literal[
    "start", "subscriptions", "needs", "links", "load", "bound", "alert", "phase", "forecast", "operator", "rollback"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What led to a decision."""

    kind: Kind
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a plan is made for: what was seen, what is configured, how long there has been traffic, and the phase."""

    observed: Observed
    scenario: Scenario
    listened_s: float
    phase: str | None


def difference(before: Scene | None, now: Scene) -> Cause:
    """What has changed since the last plan, when subscriptions, needs or links have."""
    if before is None:
        return Cause(kind="start", words="there was no plan yet")
    if now.phase != before.phase:
        return Cause(kind="phase", words=f"phase {now.phase} was declared" if now.phase else "the phase has ended")
    then, there = _by_name(before.observed), _by_name(now.observed)
    come, gone = list((Counter(there) - Counter(then)).elements()), list((Counter(then) - Counter(there)).elements())
    if come or gone:
        return Cause(kind="subscriptions", words=_both("new", come, "gone", gone, "subscription"))
    if before.observed.links != now.observed.links:
        return Cause(kind="links", words=_links(before.observed, now.observed))
    pairs = zip(_sorted(before.observed), _sorted(now.observed), strict=True)
    other = [_name(new) for old, new in pairs if old != new]
    if other:
        return Cause(kind="needs", words=f"other needs or classes of {_some(other, 'subscription')}")
    return Cause(kind="subscriptions", words="subscriptions were made anew")


def _name(one: SeenSubscription) -> tuple[str, str]:
    return one.subscriber, one.filter


def _by_name(observed: Observed) -> list[tuple[str, str]]:
    return [_name(one) for one in observed.subscriptions]


def _sorted(observed: Observed) -> list[SeenSubscription]:
    return sorted(observed.subscriptions, key=_name)


def _both(come_word: str, come: list[tuple[str, str]], gone_word: str, gone: list[tuple[str, str]], what: str) -> str:
    parts = [(come_word, come), (gone_word, gone)]
    return "; ".join(f"{word}: {_some(names, what)}" for word, names in parts if names)


def _some(names: list[tuple[str, str]], what: str) -> str:
    shown = ", ".join(f"{subscriber} {topic_filter}" for subscriber, topic_filter in names[:MOST_NAMED])
    more = ", ..." if len(names) > MOST_NAMED else ""
    return f"{len(names)} {what}{'s' * (len(names) > 1)} ({shown}{more})"


def _links(before: Observed, now: Observed) -> str:
    other = [name for name in {**before.links, **now.links} if before.links.get(name) != now.links.get(name)]
    return f"other links: {', '.join(f'{name}: {_speed(before, name)} -> {_speed(now, name)}' for name in other[:3])}"


def _speed(observed: Observed, name: str) -> str:
    link = observed.links.get(name)
    if link is None:
        return "none"
    return "unpaced" if link.bandwidth_bps is None else f"{link.bandwidth_bps / 1e3:.4g} kbit/s"
