"""Who else is there: endpoints of any topic, as the built-in topics of DDS tell them, and the types they use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription
from cyclonedds.core import InstanceState, Policy, ReadCondition, SampleState, ViewState

from firelane.dds.kinds import kind_of
from firelane.dds.network import DdsError
from firelane.dds.participant import Participant, end, told

MOST_ENDPOINTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A writer or a reader that a participant knows of."""

    identity: str
    participant: str
    topic: str
    type_name: str
    writes: bool
    reliable: bool
    partitions: tuple[str, ...]
    type_id: Any = field(repr=False, compare=False)  # the library's


class Discovery:
    """The endpoints that other participants have, seen from one participant."""

    def __init__(self, participant: Participant) -> None:
        if participant.entity is None:
            raise DdsError("the participant is closed; use it as a context manager")
        self._participant = participant
        with told("others cannot be discovered"):
            self._self = participant.entity.guid
            self._writers = BuiltinDataReader(participant.entity, BuiltinTopicDcpsPublication)
            self._readers = BuiltinDataReader(participant.entity, BuiltinTopicDcpsSubscription)

    def endpoints(self) -> list[Endpoint]:
        """Those that are there now, without this participant's own."""
        with told("others cannot be discovered"):
            found = [(one, True) for one in _alive(self._writers)] + [(one, False) for one in _alive(self._readers)]
        return [_endpoint(one, writes) for one, writes in found if one.participant_key != self._self]

    def type_of(self, endpoint: Endpoint, *, within_s: float = 5.0) -> type:
        """The type of an endpoint's samples as a class, asked of its participant; Writer and Reader take it."""
        if endpoint.type_id is None:
            raise DdsError(f'the type of topic "{endpoint.topic}" is not told by who uses it')
        return kind_of(self._participant, endpoint.type_id, endpoint.type_name, within_s=within_s).made  # type: ignore[no-any-return]

    def close(self) -> None:
        """Look no more."""
        end(self._writers)
        end(self._readers)


def _alive(reader: Any) -> list[Any]:
    """What a built-in topic knows to be there; what has gone is forgotten."""
    some = SampleState.Any | ViewState.Any
    gone = ReadCondition(reader, some | InstanceState.NotAliveDisposed | InstanceState.NotAliveNoWriters)
    there = ReadCondition(reader, some | InstanceState.Alive)
    reader.take(MOST_ENDPOINTS, gone)
    found = [one for one in reader.read(MOST_ENDPOINTS, there) if one.sample_info.valid_data]
    end(gone)
    end(there)
    return found


def _endpoint(one: Any, writes: bool) -> Endpoint:
    partition = one.qos[Policy.Partition]
    return Endpoint(
        identity=str(one.key),
        participant=str(one.participant_key),
        topic=one.topic_name,
        type_name=one.type_name,
        writes=writes,
        reliable=isinstance(one.qos[Policy.Reliability], Policy.Reliability.Reliable),
        partitions=tuple(partition.partitions) if partition else (),
        type_id=one.type_id,
    )
