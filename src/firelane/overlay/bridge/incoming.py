"""From messages to readers of a site: samples of other sites are written as they are, by writers that offer what the
writers there do. What cannot be written yet (its type is not known, no reader has been met, there is no room) waits a
little, within bounds; a message is acknowledged when it was written or given up, which is counted."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from firelane.dds import ALIVE, DdsError, Kind, Participant, Peer, RawWriter, is_version_2
from firelane.mqtt.packets import Publish
from firelane.overlay.bridge.catalogue import Catalogue
from firelane.overlay.bridge.lan import Lan, is_wild, mismatched, share_partition
from firelane.overlay.bridge.names import TYPE, Names
from firelane.overlay.bridge.said import GONE, Said, SaidError, read_said

PATIENCE_S = 3.0  # for a type, for a reader to be met, or for room
MOST_WAITING = 512  # messages of one outlet: all of QoS 1 that can be under way
MOST_WAITING_BYTES = 16_000_000  # of all
MOST_OUTLETS = 1000
ASSERTED = 3  # times in a lease
LINGER_S = 1.0
UNHEARD = "no reader takes it"

Key = tuple[str, str, str, tuple[object, ...]]


@dataclass(slots=True)
class Outlet:
    """A writer for what one site's writers of one kind write, and what waits for it."""

    topic: str
    said: Said
    version_2: bool
    since: float
    writer: RawWriter | None = None
    ended_at: float | None = None  # its writers have gone; what was written may still be on its way to readers
    lively_at: float = 0.0
    waiting: deque[tuple[Publish, Said, float]] = field(default_factory=deque)


class Incoming:
    """`done` is called with messages of QoS 1 that need not be kept any longer."""

    def __init__(
        self,
        participant: Participant,
        catalogue: Catalogue,
        names: Names,
        site: str,
        *,
        done: Callable[[Publish], None],
        tell: Callable[[str, str], None],
    ) -> None:
        self._participant, self._catalogue, self._names, self._site = participant, catalogue, names, site
        self._done, self._tell = done, tell
        self._lan = Lan()
        self._outlets: dict[Key, Outlet] = {}
        self._bytes = 0
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._outlets)

    def sites(self) -> set[str]:
        """Those that something is written for."""
        return {outlet.said.site for outlet in self._outlets.values()}

    def have(self, lan: Lan) -> None:
        """Who is here now."""
        self._lan = lan
        for key in [key for key, outlet in self._outlets.items() if outlet.topic not in lan.readers]:
            self._close(key, "nobody reads it any more")
        for outlet in self._outlets.values():
            self._compare(outlet)

    def gone(self, site: str) -> None:
        """A site is not there any more, and so nobody writes what its writers did."""
        for key in [key for key, outlet in self._outlets.items() if outlet.said.site == site]:
            self._close(key, "its site is away")

    def came(self, packet: Publish, now: float) -> None:
        """A message."""
        topic, rest = self._names.read(packet.topic)
        if rest.startswith(TYPE):
            if packet.payload and self._catalogue.get(rest.removeprefix(TYPE)) is None:
                self._catalogue.learn(packet.payload)
            self._done(packet)
            return
        try:
            said = self._said(packet, topic)
        except SaidError as problem:
            self._give_up(packet, str(problem))
            return
        if said is None:  # of this site, or a topic that nobody here reads
            self._done(packet)
        elif said.state == GONE:
            self._ended(topic, said, now)
            self._done(packet)
        else:
            self._put(packet, topic, said, now)

    def tick(self, now: float) -> None:
        """Try again what waits, and give up what has waited too long."""
        for key, outlet in list(self._outlets.items()):
            if outlet.ended_at is not None and not outlet.waiting and now > outlet.ended_at + LINGER_S:
                self._close(key, "its writers have gone")
                continue
            if outlet.waiting:
                self._serve(outlet, now)
            lease_s = outlet.said.policies.lease_s
            if outlet.said.policies.liveliness and outlet.writer is not None and now >= outlet.lively_at:
                outlet.lively_at = now + lease_s / ASSERTED
                outlet.writer.live()

    def close(self) -> None:
        """Write no more."""
        for key in list(self._outlets):
            self._close(key, "the bridge ends")

    def _said(self, packet: Publish, topic: str) -> Said | None:
        said = read_said(packet.properties.get("user_property", ()))
        readers = self._lan.readers.get(topic)
        if readers is None or (said is not None and said.site == self._site):
            return None
        if said is None:  # of an MQTT client: as a reader here would have it
            first = next((one.type_identity for one in readers if one.type_identity), None)
            policies = readers[0].policies.carried
            plain = tuple(one for one in readers[0].partitions if not is_wild(one))
            said = Said(site="", kind=first, when_ns=time.time_ns(), policies=policies, partitions=plain)
        if said.state not in (ALIVE, GONE) and not said.key:
            raise SaidError("an instance that ended without its key")
        return said

    def _put(self, packet: Publish, topic: str, said: Said, now: float) -> None:
        if said.state == ALIVE and not packet.payload:  # a retained message was taken back
            self._done(packet)
            return
        version_2 = is_version_2(packet.payload or said.key)
        key = _key(topic, said, version_2)
        outlet = self._outlets.get(key)
        if outlet is None:
            if said.state != ALIVE:  # of what nobody here has heard of
                self._done(packet)
                return
            if len(self._outlets) >= MOST_OUTLETS:
                self._give_up(packet, "too many kinds of writers elsewhere")
                return
            outlet = self._outlets[key] = Outlet(topic, said, version_2, now)
        outlet.ended_at = None
        outlet.waiting.append((packet, said, now))
        self._bytes += len(packet.payload)
        while outlet.waiting and (len(outlet.waiting) > MOST_WAITING or self._bytes > MOST_WAITING_BYTES):
            self._drop(outlet, "too much waits")
        self._serve(outlet, now)

    def _serve(self, outlet: Outlet, now: float) -> None:
        """Write what waits, as far as that can be."""
        reason = self._ready(outlet, now)
        while outlet.waiting and not reason:
            packet, said, _ = outlet.waiting[0]
            try:
                if not self._write(outlet, packet, said):
                    reason = "no room"
                    break
                self.counts["written"] += 1
                self._done(packet)
            except DdsError as problem:
                self._give_up(packet, "not of its type")
                self._tell("failed", f"a sample of {said.site or 'an MQTT client'} was not written: {problem}")
            outlet.waiting.popleft()
            self._bytes -= len(packet.payload)
        while outlet.waiting and now > outlet.waiting[0][2] + PATIENCE_S:
            self._drop(outlet, reason)
            if reason == UNHEARD:
                self._compare(outlet, unmatched=True)

    def _ready(self, outlet: Outlet, now: float) -> str:
        """Nothing, if it can be written; else why not."""
        if outlet.writer is None:
            kind = self._kind(outlet)
            if kind is None:
                return "its type is not known"
            try:
                outlet.writer = RawWriter(
                    self._participant,
                    outlet.topic,
                    kind.made,
                    outlet.said.policies,
                    partitions=outlet.said.partitions,
                    version_2=outlet.version_2,
                )
            except DdsError as problem:
                self._tell("failed", str(problem))
                return "no writer"
            self._compare(outlet)
        if not outlet.said.policies.kept and not outlet.writer.matched:
            return UNHEARD
        return ""

    def _kind(self, outlet: Outlet) -> Kind | None:
        identity = outlet.said.kind
        if identity is None:
            return None
        kind = self._catalogue.get(identity)
        if kind is None:
            for one in self._lan.readers.get(outlet.topic, ()):
                if one.type_identity == identity:
                    self._catalogue.ask(one)
        return kind

    def _write(self, outlet: Outlet, packet: Publish, said: Said) -> bool:
        assert outlet.writer is not None
        if said.state == ALIVE:
            return outlet.writer.write(packet.payload, said.when_ns)
        return outlet.writer.end_instance(said.key, said.state, said.when_ns)

    def _compare(self, outlet: Outlet, *, unmatched: bool = False) -> None:
        """Tell which readers here cannot have it."""
        for reader in self._lan.readers.get(outlet.topic, ()):
            if share_partition(outlet.said.partitions, reader.partitions):
                line = mismatched(reader, outlet.said.policies, outlet.said.site)
                if line is not None:
                    self._tell("mismatches", line)
                elif unmatched and _other_type(outlet, reader):
                    where = f'DDS topic "{outlet.topic}": {outlet.said.site} writes a type that does not fit'
                    self._tell("mismatches", f"{where} the one of a reader of {reader.participant}, {reader.type_name}")

    def _ended(self, topic: str, said: Said, now: float) -> None:
        for key, outlet in self._outlets.items():
            all_of_site = said.kind is None and (outlet.topic, outlet.said.site) == (topic, said.site)
            if all_of_site or key == _key(topic, said, outlet.version_2):
                outlet.ended_at = now

    def _drop(self, outlet: Outlet, why: str) -> None:
        packet, _, _ = outlet.waiting.popleft()
        self._bytes -= len(packet.payload)
        self._give_up(packet, why)

    def _give_up(self, packet: Publish, why: str) -> None:
        self.counts[f"dropped: {why}"] += 1
        self._done(packet)

    def _close(self, key: Key, why: str) -> None:
        outlet = self._outlets.pop(key)
        while outlet.waiting:
            self._drop(outlet, why)
        if outlet.writer is not None:
            outlet.writer.close()


def _key(topic: str, said: Said, version_2: bool) -> Key:
    return topic, said.site, said.kind or "", (said.policies, said.partitions, version_2)


def _other_type(outlet: Outlet, reader: Peer) -> bool:
    return None not in (outlet.said.kind, reader.type_identity) and outlet.said.kind != reader.type_identity
