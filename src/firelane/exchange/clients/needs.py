"""The need that a live subscription is granted: who is heard before whom, and how far caps let a client go.

Heard are, from the top: the rules of the phase that an operator has declared, user properties of SUBSCRIBE, the profile
of a `$need/PROFILE/FILTER`, the first of `exchange.profiles` that is for the client, the scenario, and the default.
Each changes only what it names. The result is lowered to `exchange.caps`, never refused. What an operator sets for one
subscription stands above all of these, caps too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from firelane.errors import FirelaneError
from firelane.exchange.clients.access import EVERYBODY, Access, Identity, Verdict
from firelane.mqtt.topics import NEED, SHARED, plain_filter
from firelane.scenario.model import Scenario
from firelane.scenario.need import Need, NeedChange, changed
from firelane.scenario.save import value_text
from firelane.scenario.settings import AccessRule, Cap, ExchangeSettings
from firelane.sense.offer import SENSOR_TYPE
from firelane.units import WEIGHT

DEFAULT = Need()
HOW = f"write {NEED}PROFILE/FILTER or {SHARED}NAME/{NEED}PROFILE/FILTER"
NONE = "none"  # how a client writes that it wants no bound
LONGEST_VALUE = 4096
LONGEST_KEPT = LONGEST_VALUE + 1  # so that one too long is seen to be
MOST_OVERRIDES = 10_000
MOST_STANDINGS = 128  # few, as client ids may be long; one packet has many filters but one client

_KEYS = {one.name: one.name.removesuffix("_s") for one in fields(Need)}  # by attribute: max_delay_s -> max_delay
PROPERTIES = {name: key.replace("_", "-") for name, key in _KEYS.items()}  # by attribute: max_delay_s -> max-delay
_ATTRIBUTES = {written: name for names in (_KEYS, PROPERTIES) for name, written in names.items()}
_OPTIONAL = {one.name for one in fields(Need) if one.default is None}
_CHANGE = TypeAdapter(NeedChange)

N = TypeVar("N", int, float)
Given = Mapping[str, Any]  # values by the names of a Need's attributes


class NeedError(FirelaneError):
    """A need that cannot be granted as it was asked for: the client is told in one line, and may ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A subscription's need, the best class that it may have, and what to tell the client as it would write it."""

    need: Need
    best_class: int = 0
    told: tuple[tuple[str, str], ...] = ()


def stands_for(topic_filter: str) -> tuple[str, str | None]:
    """The plain filter behind `$need/PROFILE/FILTER`, shared or not, and the profile; else the filter itself."""
    inside = plain_filter(topic_filter)
    if not inside.startswith(NEED):
        return topic_filter, None
    profile, _, wanted = inside.removeprefix(NEED).partition("/")
    if not profile or not wanted or wanted.startswith((NEED, SHARED)):
        raise NeedError(f"this is not a filter with a profile; {HOW}")
    return topic_filter.removesuffix(inside) + wanted, profile


def ours(properties: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the user properties that are about a need, or the type of sensors that are wanted."""
    return [(name, text[:LONGEST_KEPT]) for name, text in properties if name in _ATTRIBUTES or name == SENSOR_TYPE]


def asked(properties: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """What the user properties of a SUBSCRIBE say of a need. Hyphens or underscores; other names are not for us."""
    texts: dict[str, str] = {}
    for name, text in properties:
        attribute = _ATTRIBUTES.get(name)
        if attribute is None:
            continue
        if attribute in texts:
            raise NeedError(f"{PROPERTIES[attribute]}: it is given twice; give it once")
        if len(text) > LONGEST_VALUE:
            raise NeedError(f"{PROPERTIES[attribute]}: this value has more than {LONGEST_VALUE} characters; shorten it")
        texts[attribute] = text
    return _parsed(texts) if texts else {}


def _parsed(texts: Mapping[str, str]) -> dict[str, Any]:
    unbound = {name for name, text in texts.items() if text == NONE and name in _OPTIONAL}
    values: dict[str, Any] = {_KEYS[name]: text for name, text in texts.items() if name not in unbound}
    if "points" in values:
        values["points"] = _json(values["points"])
    try:
        return _CHANGE.validate_python(values).given | dict.fromkeys(unbound)
    except ValidationError as problems:
        first = problems.errors(include_url=False)[0]
        name = str(first["loc"][0]).replace("_", "-")
        raise NeedError(f"{name}: {_words(first)}") from None


def _json(text: str) -> object:
    """A list of points, or what is refused as none."""
    try:
        return json.loads(text) or ()
    except (ValueError, RecursionError):
        return text


def _words(problem: Any) -> str:
    if problem["type"] == "literal_error":
        return f'"{problem["input"][:40]}" is not one of {problem["ctx"]["expected"]}'
    return str(problem["ctx"]["error"])


class Needs:
    """Grants needs to subscriptions by the profiles and caps of an exchange, its scenario, and overrides."""

    def __init__(self, settings: ExchangeSettings, scenario: Scenario | None, before: Needs | None = None) -> None:
        self._scenario = scenario or Scenario(name="exchange")
        self._profiles: dict[str, Given] = {name: one.need.given for name, one in settings.profiles.items()}
        self._meant = [(name, _only(settings, one.clients)) for name, one in settings.profiles.items() if one.clients]
        self._caps = settings.caps
        self._phases = {
            name: [(rule, _only(settings, rule.clients, rule.filter)) for rule in rules]
            for name, rules in settings.phases.items()
        }
        self.phase: str | None = None if before is None or before.phase not in self._phases else before.phase
        self._overrides: dict[tuple[str | None, str], Need] = {} if before is None else before._overrides
        self._standing = lru_cache(MOST_STANDINGS)(self._stand)

    def plain(self, topic_filter: str) -> tuple[str, str | None]:
        """The filter that one as a client wrote it stands for, and the profile that it names, which must exist."""
        plain, profile = stands_for(topic_filter)
        if profile is not None and profile not in self._profiles:
            raise NeedError(f'"{profile[:40]}" is not a profile; use one of exchange.profiles, or the plain filter')
        return plain, profile

    def granted(
        self, identity: Identity, subscriber: str | None, topic_filter: str, profile: str | None, wishes: Given
    ) -> Granted:
        """What a subscription to a plain filter is granted; `wishes` is what was `asked` for."""
        by_client, cap = self._standing(identity)
        by_filter = self._profiles[profile] if profile is not None else {}
        wanted = self._planned(subscriber, topic_filter)
        try:
            for given in (by_client, by_filter, wishes):
                wanted = changed(wanted, given)
            wanted, ordered = self._in_phase(identity, topic_filter, wanted)
        except ValueError as problem:
            raise NeedError(str(problem)) from None
        override = self._overrides.get((self._name(identity, subscriber), topic_filter))
        if override is not None:
            return Granted(need=override, told=_told(override, {*by_filter, *wishes, *ordered}))
        lowered = _lowered(wanted, cap)
        need = changed(wanted, lowered)
        best_class = min(cap.priority or 0, self._scenario.priorities - 1)
        return Granted(need=need, best_class=best_class, told=_told(need, {*by_filter, *wishes, *ordered, *lowered}))

    @property
    def phases(self) -> list[str]:
        """The phases that there are."""
        return list(self._phases)

    def enter(self, phase: str | None) -> None:
        """Let the rules of a phase hold, or of none; to be granted anew by the caller."""
        if phase is not None and phase not in self._phases:
            known = ", ".join(self._phases) or "none so far"
            raise NeedError(f'"{phase[:40]}" is not a phase; name one of exchange.phases: {known}')
        self.phase = phase

    def override(self, subscriber: str, topic_filter: str, need: Need | None) -> None:
        """Set a subscription's need from above, or take that back with None; to be granted anew by the caller.

        A client that is no subscriber of the scenario goes by its client id, a shared filter by its whole name.
        """
        key = (subscriber, topic_filter)
        if need is None:
            self._overrides.pop(key, None)
        elif key not in self._overrides and len(self._overrides) >= MOST_OVERRIDES:
            raise NeedError(f"there are {MOST_OVERRIDES} overrides of needs already; take one back first")
        else:
            self._overrides[key] = need

    def _in_phase(self, identity: Identity, topic_filter: str, need: Need) -> tuple[Need, set[str]]:
        """The need with all that the phase says of such a subscription, and the names of what that is."""
        ordered: set[str] = set()
        for rule, access in self._phases[self.phase] if self.phase is not None else ():
            if rule.category in (None, need.category) and access.may_subscribe(identity, topic_filter) is Verdict.ALL:
                need = changed(need, rule.need.given)
                ordered |= rule.need.given.keys()
        return need, ordered

    def _stand(self, identity: Identity) -> tuple[Given, Cap]:
        """What the client's own profile says, and its cap."""
        own = (name for name, access in self._meant if access.may_subscribe(identity, "#") is Verdict.ALL)
        name = next(own, None)
        return self._profiles[name] if name is not None else {}, _cap(self._caps, identity.roles)

    def _planned(self, subscriber: str | None, topic_filter: str) -> Need:
        known = self._scenario.subscribers.get(subscriber) if subscriber is not None else None
        return DEFAULT if known is None else known.subscribes.get(plain_filter(topic_filter), DEFAULT)

    def _name(self, identity: Identity, subscriber: str | None) -> str | None:
        """What overrides call this client: never by a subscriber's name that it merely has as its id."""
        if subscriber is not None or identity.client_id in self._scenario.subscribers:
            return subscriber
        return identity.client_id


def said(need: Need) -> tuple[tuple[str, str], ...]:
    """A need as another exchange is asked for it by user properties; a tolerance is between a client and its own."""
    return _told(need, {one.name for one in fields(Need) if getattr(need, one.name) != one.default} - {"tolerance"})


def _only(settings: ExchangeSettings, clients: Iterable[str], topic_filter: str = "#") -> Access:
    """Access rules that fit exactly these clients and what the filter covers, so that `for` means what `who` means."""
    rules = tuple(AccessRule(who=name, filter=topic_filter, allow=("subscribe",)) for name in clients)
    return Access(replace(settings, access=rules))


def _cap(caps: Mapping[str, Cap], roles: Iterable[str]) -> Cap:
    """The most generous of the roles' caps, value by value; what one does not set is as for everybody."""
    everybody = caps.get(EVERYBODY, Cap())
    own = [caps[role] for role in roles if role in caps] or [everybody]
    return Cap(
        weight=_loosest(max, [everybody.weight if one.weight is None else one.weight for one in own]),
        min_share=_loosest(max, [everybody.min_share if one.min_share is None else one.min_share for one in own]),
        priority=_loosest(min, [everybody.priority if one.priority is None else one.priority for one in own]),
    )


def _loosest(choose: Callable[[Iterable[N]], N], limits: list[N | None]) -> N | None:
    known = [limit for limit in limits if limit is not None]
    return choose(known) if len(known) == len(limits) else None  # no limit is looser than any


def _lowered(need: Need, cap: Cap) -> dict[str, Any]:
    """What of the need is above the cap, as it is then granted.

    Plans order by weight, count weight x points, and keep `least_share` at any cost to others.
    """
    lower: dict[str, Any] = {}
    if cap.weight is not None:
        highest = max(1.0, need.points[-1][1]) if need.points else 1.0
        most = cap.weight / highest
        if need.weight > most:
            lower["weight"] = most if most >= WEIGHT.least else 0.0
    if cap.min_share is not None and need.least_share > cap.min_share:
        least_loss = round(1.0 - cap.min_share, 9)  # 0.1, not 0.09999999999999998
        if need.min_share > cap.min_share:
            lower["min_share"] = cap.min_share
        if need.max_loss is not None and need.max_loss < least_loss:
            lower["max_loss"] = least_loss
        if need.tolerance is not None:
            lower["tolerance"] = None  # with one, nothing could be dropped
    return lower


def _told(need: Need, names: set[str]) -> tuple[tuple[str, str], ...]:
    """Names and values as properties; an operator's category or points may be such that no property can hold them."""
    if not names:
        return ()
    texts = ((written, _text(name, getattr(need, name))) for name, written in PROPERTIES.items() if name in names)
    return tuple((written, text) for written, text in texts if text.isprintable() and len(text) <= LONGEST_VALUE)


def _text(name: str, value: Any) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else value_text(_KEYS[name], value)
