"""What is to be done for the endpoints of a site: which topics are wanted here and with what need, which are written
here, and which of those are to be read. No clock, no I/O.

A bridge bears a mark. Endpoints of bridges are nobody's; of several bridges with one prefix in one domain, the one with
the first name carries everything and the others stand by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from firelane.dds import Peer, Policies, mismatches, unsupported
from firelane.overlay.registry import Wish

BRIDGE = b"firelane-bridge\0"
WILD = "*?["
HIDDEN = "DCPS"  # what DDS itself has topics of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """A reader that is to be there: writers with these policies and this type are heard."""

    topic: str
    kind: str
    reliable: bool
    kept: bool
    exclusive: bool

    @property
    def policies(self) -> Policies:
        """What the reader asks for."""
        return Policies(reliable=self.reliable, durability=int(self.kept), exclusive=self.exclusive)


@dataclass(frozen=True, slots=True)
class Lan:
    """The endpoints of a site by topic, without those of bridges and of topics that are not to be carried."""

    readers: Mapping[str, list[Peer]] = field(default_factory=dict)
    writers: Mapping[str, list[Peer]] = field(default_factory=dict)
    stands_by: bool = False

    def wishes(self) -> dict[str, Wish]:
        """What to subscribe to, by DDS topic: reliable as QoS 1; the shortest deadline as the longest delay."""
        found = {}
        for topic, peers in self.readers.items():
            deadline_s = min(one.policies.deadline_s for one in peers)
            need = {"max-delay": f"{deadline_s:g} s"} if deadline_s < math.inf else None
            found[topic] = Wish(qos=int(any(one.policies.reliable for one in peers)), need=need)
        return found

    def taps(self, wanted: Callable[[str], bool]) -> set[Tap]:
        """The readers that are to be there, for topics that somebody wants."""
        return {tap_of(one) for topic, peers in self.writers.items() if wanted(topic) for one in peers if typed(one)}


def mark_of(prefix: str, site: str, boot: int) -> bytes:
    """The mark of a bridge."""
    return BRIDGE + f"{prefix}\0{site}\0{boot:x}".encode()


def sorted_out(peers: Iterable[Peer], marks: Mapping[str, bytes], own: bytes, selected: Callable[[str], bool]) -> Lan:
    """The endpoints that are a bridge's to care for."""
    bridges = {participant: mark for participant, mark in marks.items() if mark.startswith(BRIDGE)}
    _, prefix, site, _ = own.split(b"\0")
    marked = [mark.split(b"\0") for mark in bridges.values()]  # the same site is this one, before it was started again
    if any(parts[1:2] == [prefix] and b"" < b"".join(parts[2:3]) < site for parts in marked):
        return Lan(stands_by=True)
    readers: dict[str, list[Peer]] = {}
    writers: dict[str, list[Peer]] = {}
    for one in peers:
        if one.participant not in bridges and not one.topic.startswith(HIDDEN) and selected(one.topic):
            (writers if one.writes else readers).setdefault(one.topic, []).append(one)
    return Lan(readers, writers)


def selecting(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether a topic is to be carried: one of the patterns (*, ?) matches."""
    some = tuple(patterns)
    return lambda topic: any(fnmatchcase(topic, one) for one in some)


def tap_of(peer: Peer) -> Tap:
    """By which reader a writer is heard."""
    own = peer.policies
    assert peer.type_identity is not None
    return Tap(topic=peer.topic, kind=peer.type_identity, reliable=own.reliable, kept=own.kept, exclusive=own.exclusive)


def typed(peer: Peer) -> bool:
    """Whether an endpoint tells its type."""
    return peer.type_identity is not None


def share_partition(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two endpoints have a partition in common; one of the two may have wildcards."""
    return any(_same(first, second) for first in tuple(one) or ("",) for second in tuple(other) or ("",))


def is_wild(partition: str) -> bool:
    """Whether a partition is a pattern."""
    return any(letter in partition for letter in WILD)


def complaints(lan: Lan) -> dict[str, str]:
    """What cannot be carried as asked, a line for each and the kind of it."""
    found: dict[str, str] = {}
    for peers in (*lan.readers.values(), *lan.writers.values()):
        for one in peers:
            where = f'DDS topic "{one.topic}": a {"writer" if one.writes else "reader"} of {one.participant}'
            found |= {f"{where}: {what}": "unsupported" for what in unsupported(one.policies)}
            if not typed(one) and one.writes:
                found[f"{where} does not tell its type ({one.type_name}), so it is not carried"] = "untyped"
    return found


def mismatched(reader: Peer, offered: Policies, site: str) -> str | None:
    """Why a reader gets nothing from a site's writers that offer this, as a line."""
    why = mismatches(offered, reader.policies)
    if not why:
        return None
    where = f'DDS topic "{reader.topic}": a reader of {reader.participant} gets nothing from {site or "MQTT clients"}'
    return f"{where}: it asks for {'; for '.join(why)}"


def _same(one: str, other: str) -> bool:
    wild = is_wild(one), is_wild(other)
    if all(wild):
        return False
    return fnmatchcase(other, one) if wild[0] else fnmatchcase(one, other) if wild[1] else one == other
