"""Who is there, followed as it changes: endpoints of others with what they offer or ask for, and the marks that
participants bear. Looking costs nothing when nothing has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import InstanceState, Policy

from firelane.dds.kinds import identity_of
from firelane.dds.network import DdsError
from firelane.dds.participant import Participant, end, told
from firelane.dds.policies import Policies, policies_of

AT_ONCE = 256
MOST = 100_000  # endpoints
MOST_FORMER = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An endpoint of another participant; `handle` is how samples name their writer."""

    handle: int
    participant: str
    topic: str
    type_name: str
    type_identity: str | None
    writes: bool
    policies: Policies
    partitions: tuple[str, ...]
    type_id: Any = field(repr=False, compare=False)  # the library's


class Roster:
    """The endpoints of other participants; `look` takes in what has changed."""

    def __init__(self, participant: Participant) -> None:
        if participant.entity is None:
            raise DdsError("the participant is closed; use it as a context manager")
        self.peers: dict[int, Peer] = {}
        self.marks: dict[str, bytes] = {}  # by participant
        self.left_out = 0
        self.news = False  # what `find` saw
        self._former: dict[int, Peer] = {}  # lately gone: samples of theirs may still come
        with told("others cannot be discovered"):
            entity = participant.entity
            self._self = str(entity.guid)
            self._participants = BuiltinDataReader(entity, BuiltinTopicDcpsParticipant)
            self._writers = BuiltinDataReader(entity, BuiltinTopicDcpsPublication)
            self._readers = BuiltinDataReader(entity, BuiltinTopicDcpsSubscription)

    def look(self) -> bool:
        """Whether anything has changed since the last time."""
        changed, self.news = self.news, False
        with told("others cannot be discovered"):
            while marked := self._participants.take(AT_ONCE):
                changed |= self._marked(marked)
            for reader, writes in ((self._writers, True), (self._readers, False)):
                while found := reader.take(AT_ONCE):
                    changed |= self._told(found, writes)
        return changed

    def close(self) -> None:
        """Look no more."""
        for reader in (self._participants, self._writers, self._readers):
            end(reader)

    def find(self, handle: int) -> Peer | None:
        """An endpoint by its handle, also one that has just gone, or come since the last look."""
        found = self.peers.get(handle) or self._former.get(handle)
        if found is None:
            self.news |= self.look()
            found = self.peers.get(handle)
        return found

    def _marked(self, found: list[Any]) -> bool:
        changed = False
        for one in found:
            name = str(one.key)
            mark = one.qos[Policy.Userdata] if one.qos is not None and _alive(one) else None
            before = self.marks.pop(name, None)
            if mark is not None and mark.data and name != self._self:
                self.marks[name] = mark.data
            changed |= before != self.marks.get(name)
        return changed

    def _gone(self, handle: int) -> bool:
        peer = self.peers.pop(handle, None)
        if peer is None:
            return False
        if len(self._former) >= MOST_FORMER:
            del self._former[next(iter(self._former))]
        self._former[handle] = peer
        return True

    def _told(self, found: list[Any], writes: bool) -> bool:
        changed = False
        for one in found:
            handle = one.sample_info.instance_handle
            if not _alive(one) or one.qos is None:
                changed |= self._gone(handle)
            elif str(one.participant_key) != self._self:
                if len(self.peers) >= MOST and handle not in self.peers:
                    self.left_out += 1
                    continue
                self.peers[handle] = _peer(one, writes)
                changed = True
        return changed


def _alive(one: Any) -> bool:
    return bool(one.sample_info.instance_state == InstanceState.Alive)


def _peer(one: Any, writes: bool) -> Peer:
    partition = one.qos[Policy.Partition]
    return Peer(
        handle=one.sample_info.instance_handle,
        participant=str(one.participant_key),
        topic=one.topic_name,
        type_name=one.type_name,
        type_identity=None if one.type_id is None else identity_of(one.type_id),
        writes=writes,
        policies=policies_of(one.qos),
        partitions=tuple(partition.partitions) if partition else (),
        type_id=one.type_id,
    )
