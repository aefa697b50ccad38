"""From writers of a site to messages: samples are read as bytes and published as they are, while somebody wants them.

Of QoS 1 only so many messages are under way; beyond that samples stay with the reader, whose writers then have to wait
as DDS has it. So nothing reliable is lost here, and memory is bounded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from firelane.dds import ALIVE, DdsError, Kind, Participant, Peer, Policies, RawReader, RawSample, Roster
from firelane.mqtt.packets import Publish
from firelane.overlay.bridge.catalogue import Catalogue
from firelane.overlay.bridge.lan import BRIDGE, Lan, Tap, tap_of
from firelane.overlay.bridge.names import Names
from firelane.overlay.bridge.said import GONE, Said

WINDOW = 500  # messages of QoS 1 under way
AT_ONCE = 64
OTHERS_BYTES = 1000  # what a packet has beside its payload, at most, but for the topic and partitions
MOST_TOPICS = 10_000  # remembered
LONGEST_EXPIRY_S = 2**32 - 1

Group = tuple[Tap, Policies, tuple[str, ...]]  # writers that nobody elsewhere can tell apart


class Outgoing:
    """`publish` is called with messages; those of QoS 1 are to be `settled` once they are safe."""

    def __init__(
        self,
        participant: Participant,
        roster: Roster,
        catalogue: Catalogue,
        names: Names,
        site: str,
        *,
        publish: Callable[[list[Publish]], None],
        most_bytes: int,
        tell: Callable[[str, str], None],
        follow: Callable[[list[RawReader]], None],
    ) -> None:
        self._participant, self._roster, self._catalogue = participant, roster, catalogue
        self._names, self._site, self._publish, self._most_bytes = names, site, publish, most_bytes
        self._tell, self._follow = tell, follow
        self._taps: dict[Tap, RawReader] = {}
        self._kept: dict[Tap, set[str]] = {}  # topics on which a message is retained
        self._groups: set[Group] = set()
        self._topics: set[str] = set()
        self._heard: set[Tap] = set()  # whose writers were known to be alive once
        self._lost: set[Tap] = set()
        self._free = list(range(WINDOW, 0, -1))
        self.counts: Counter[str] = Counter()

    @property
    def readers(self) -> list[RawReader]:
        """Those that are there."""
        return list(self._taps.values())

    @property
    def lost(self) -> set[str]:
        """Topics whose writers are all known not to be alive, though they are still there."""
        alive = {tap.topic for tap in self._taps if tap not in self._lost}
        return {tap.topic for tap in self._lost} - alive

    def statistics(self) -> dict[str, int]:
        """What became of samples."""
        rejected = self.counts["rejected"] + sum(one.rejected for one in self._taps.values())
        return dict(self.counts) | {"rejected": rejected}

    def settled(self, packet_id: int, reason: int) -> None:
        """A message is safe, or was refused."""
        self._free.append(packet_id)
        if reason >= 0x80:
            self.counts[f"refused {reason:#x}"] += 1

    def have(self, lan: Lan, wanted: Callable[[str], bool]) -> None:
        """Have the readers that are needed now, and no others."""
        needed = lan.taps(wanted)
        for tap in [one for one in self._taps if one not in needed]:
            self._close(tap)
        for tap in needed - self._taps.keys():
            self._open(tap, lan.writers[tap.topic])
        self._follow(self.readers)
        self._told_gone(lan)

    def drain(self) -> bool:
        """Pass on what has come; False if some has to wait."""
        done = True
        for tap, reader in list(self._taps.items()):
            done &= self._drain(tap, reader)
        return done

    def look(self) -> bool:
        """See whether writers that must show that they are alive still do; whether that has changed."""
        before = self._lost
        self._lost = {tap for tap, reader in self._taps.items() if tap in self._heard and not reader.alive}
        self._heard = {tap for tap, reader in self._taps.items() if tap in self._heard or reader.alive}
        return self._lost != before

    def take_back(self, topics: Iterable[str]) -> None:
        """Have nothing retained on these any more, here and at other sites."""
        self._say([Publish(topic=one, payload=b"", qos=1, retain=True) for one in topics])

    def begin_anew(self) -> None:
        """What was under way is not answered any more."""
        self.counts["not answered"] += WINDOW - len(self._free)
        self._free = list(range(WINDOW, 0, -1))

    def close(self) -> None:
        """Read no more."""
        readers = self.readers
        self._taps.clear()
        self._follow([])
        for reader in readers:
            reader.close()

    def _open(self, tap: Tap, writers: Iterable[Peer]) -> None:
        kind = self._catalogue.get(tap.kind)
        if kind is None:
            self._catalogue.ask(next(one for one in writers if one.type_identity == tap.kind))
            return
        try:
            self._taps[tap] = RawReader(self._participant, tap.topic, kind.made, tap.policies)
        except DdsError as problem:
            self._tell("failed", str(problem))
            return
        self._kept[tap] = set()
        self._begun(tap)
        self._say([Publish(topic=self._names.kind(tap.topic, tap.kind), payload=kind.document(), qos=1, retain=True)])

    def _begun(self, tap: Tap) -> None:
        """The first of a topic since this bridge was started: nothing counts that an earlier run has said."""
        if tap.topic in self._topics:
            return
        if len(self._topics) >= MOST_TOPICS:
            self._topics.clear()
        self._topics.add(tap.topic)
        said = Said(site=self._site, state=GONE)
        self._say([_message(self._names.topic(tap.topic), b"", int(tap.reliable), False, said)])

    def _close(self, tap: Tap) -> None:
        """What was retained is no longer kept up to date, so it is taken back; who wants it again is told all."""
        self._drain(tap, self._taps[tap])
        self.counts["rejected"] += self._taps[tap].rejected
        reader = self._taps.pop(tap)
        self._follow(self.readers)
        reader.close()
        self._lost.discard(tap)
        self._heard.discard(tap)
        self.take_back(self._kept.pop(tap))

    def _told_gone(self, lan: Lan) -> None:
        """Say which groups of writers have nobody left in them."""
        here = {
            (tap_of(one), one.policies.carried, one.partitions)
            for tap in self._taps
            for one in lan.writers.get(tap.topic, ())
            if one.type_identity == tap.kind and tap not in self._lost
        }
        ended, self._groups = self._groups - here, here
        for tap, policies, partitions in ended:
            said = Said(site=self._site, state=GONE, kind=tap.kind, policies=policies, partitions=partitions)
            self._say([_message(self._names.topic(tap.topic), b"", int(tap.reliable), False, said)])

    def _drain(self, tap: Tap, reader: RawReader) -> bool:
        kind = self._catalogue.get(tap.kind)
        assert kind is not None
        while True:
            most = min(AT_ONCE, len(self._free) // 2) if tap.reliable else AT_ONCE  # each may end its instance too
            try:
                samples = reader.take(most) if most else []
            except DdsError as problem:
                self._tell("failed", str(problem))
                return True
            if not samples:
                return bool(most)
            found = (self._made(tap, kind, sample) for sample in samples)
            self._say([one for one in found if one is not None])

    def _say(self, messages: list[Publish]) -> None:
        for one in messages:
            if one.qos and self._free:
                one.packet_id = self._free.pop()
            else:
                one.qos = 0
        if messages:
            self._publish(messages)

    def _made(self, tap: Tap, kind: Kind, sample: RawSample) -> Publish | None:
        """The message of a sample; None for what is not to be carried, which is counted."""
        writer = self._roster.find(sample.writer)
        if writer is None:
            self.counts["of unknown writers"] += 1
            return None
        if self._roster.marks.get(writer.participant, b"").startswith(BRIDGE):
            self.counts["of other bridges"] += 1
            return None
        if writer.type_identity != tap.kind or tap_of(writer) != tap:
            return None  # another tap has it
        try:
            return self._publication(tap, kind, sample, writer)
        except DdsError:
            self.counts["without a key that can be read"] += 1
            return None

    def _publication(self, tap: Tap, kind: Kind, sample: RawSample, writer: Peer) -> Publish | None:
        said = Said(
            site=self._site,
            state=sample.state,
            kind=tap.kind,
            when_ns=sample.when_ns,
            policies=writer.policies.carried,
            partitions=writer.partitions,
            key=sample.key,
        )
        topic = self._names.topic(tap.topic)
        if tap.kept:
            key = (sample.key or self._taps[tap].key(sample.data)) if kind.keyed else b""
            topic = self._names.instance(tap.topic, self._site, key, writer.partitions)
        if len(sample.data) + len(topic) + sum(map(len, writer.partitions)) + OTHERS_BYTES > self._most_bytes:
            self.counts["too large"] += 1
            return None
        if tap.kept:
            (self._kept[tap].add if sample.state == ALIVE else self._kept[tap].discard)(topic)
        self.counts["carried"] += 1
        return _message(topic, sample.data, int(tap.reliable), tap.kept, said, writer.policies.lifespan_s)


def _message(topic: str, payload: bytes, qos: int, retain: bool, said: Said, lifespan_s: float = math.inf) -> Publish:
    properties: dict[str, Any] = {"user_property": said.properties()}
    if lifespan_s < math.inf:
        properties["message_expiry_interval"] = min(max(1, math.ceil(lifespan_s)), LONGEST_EXPIRY_S)
    return Publish(topic=topic, payload=payload, qos=qos, retain=retain, properties=properties)
