"""Who sits on which link: the scenario's links, and which live client is which of its subscribers."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from firelane.exchange.clients.access import Identity
from firelane.exchange.lanes.link import Link
from firelane.scenario.model import DEFAULT_LINK, Match, Scenario
from firelane.scenario.settings import Limits

BUFFER = 10_000  # messages, of a shared link that says nothing else
BUFFER_BYTES = 64_000_000
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(slots=True)
class _Names:
    """Ways to tell a subscriber by one property of its client, in the order of the scenario."""

    exact: dict[str, str] = field(default_factory=dict)
    patterns: list[tuple[Callable[[str], bool], str]] = field(default_factory=list)

    def find(self, value: str | None) -> str | None:
        if value is None:
            return None
        found = self.exact.get(value)
        return found if found is not None else next((name for fits, name in self.patterns if fits(value)), None)


class Links:
    """The links of a scenario; clients that it does not know have one of their own, unpaced."""

    def __init__(self, scenario: Scenario, limits: Limits, before: Links | None = None) -> None:
        self._before = {} if before is None else before._shared
        self.scenario = scenario
        self._limits = limits
        self._shared: dict[str, Link] = {}
        self._client_ids, self._users, self._addresses = _Names(), _Names(), _Names()
        for name, subscriber in scenario.subscribers.items():
            self._know(name, subscriber.match or Match(client_id=name))

    def _know(self, name: str, match: Match) -> None:
        if match.client_id is not None and any(mark in match.client_id for mark in "*?["):
            self._client_ids.patterns.append((_pattern(match.client_id), name))
        elif match.client_id is not None:
            self._client_ids.exact[match.client_id] = name
        if match.user is not None:
            self._users.exact[match.user] = name
        if match.address is not None:
            self._addresses.patterns.append((_network(match.address), name))

    def subscriber(self, identity: Identity, address: str) -> str | None:
        """The scenario's name for a client: by client id, else by user, else by address."""
        return (
            self._client_ids.find(identity.client_id)
            or self._users.find(identity.user)
            or self._addresses.find(address)
        )

    def shared(self) -> list[Link]:
        """The links that several clients may sit on, as far as somebody has."""
        return list(self._shared.values())

    def link(self, subscriber: str | None, before: Link | None) -> Link:
        """The link of a subscriber; one of its own is kept from before."""
        name = DEFAULT_LINK
        if subscriber is not None:
            name = self.scenario.subscribers[subscriber].link
        described = self.scenario.link(name)
        if not described.each:
            if name not in self._shared:
                link = self._shared[name] = Link(name, described, most=BUFFER, most_bytes=BUFFER_BYTES)
                if name in self._before:
                    link.like(self._before[name])
            return self._shared[name]
        if before is not None and before.own and before.name == name and before.described == described:
            return before
        return Link(name, described, most=self._limits.queue, most_bytes=self._limits.queue_bytes)


def _pattern(pattern: str) -> Callable[[str], bool]:
    return lambda value: fnmatchcase(value, pattern)


def _network(text: str) -> Callable[[str], bool]:
    network: _Network = ipaddress.ip_network(text, strict=False)

    def fits(address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return (mapped or parsed) in network

    return fits
