"""Samples as the bytes that travel (CDR with its header), of types that were never seen before: read and written as
they are. What is written is checked by the library against the type, so bytes that are no sample harm nobody."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cyclonedds._clayer import ddspy_dispose_ts, ddspy_take, ddspy_unregister_instance_ts, ddspy_write_ts
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState
from cyclonedds.internal import DDS, c_call, dds_c_t
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.sub import DataReader, Subscriber

from firelane.dds.network import DdsError
from firelane.dds.participant import Participant, end, told
from firelane.dds.policies import Policies, asking, offering
from firelane.dds.quality import group_quality

ANY = SampleState.Any | ViewState.Any | InstanceState.Any
MOST_SAMPLES = 1024  # that are received and not yet taken
HEADER_BYTES = 4
VERSION_1, VERSION_2 = range(4), range(6, 12)  # what the second byte of a header is
ALIVE, DISPOSED, UNREGISTERED = "alive", "disposed", "unregistered"
_STATES = {InstanceState.NotAliveDisposed: DISPOSED, InstanceState.NotAliveNoWriters: UNREGISTERED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSample:
    """What was taken: a sample, or (with no `data`) what has become of an instance whose key it was."""

    writer: int  # the `handle` of the endpoint that wrote it
    when_ns: int
    state: str = ALIVE
    data: bytes = b""
    key: bytes = b""


class _Lively(DDS):  # type: ignore[misc]
    """A call that the library's Python does not have."""

    @c_call("dds_assert_liveliness")  # type: ignore[untyped-decorator]
    def tell(self, entity: dds_c_t.entity) -> dds_c_t.returnv:
        """A writer is alive."""


_lively = _Lively(0)


class RawReader:
    """Hears writers of a topic in all partitions that offer what is asked for, but for those of its own participant."""

    def __init__(
        self, participant: Participant, topic: str, kind: Any, asked: Policies, *, most_samples: int = MOST_SAMPLES
    ) -> None:
        made = participant.topic(topic, kind)
        with told(f'no reader of topic "{topic}"'):
            self._subscriber = Subscriber(participant.entity, group_quality(["*"]))
            self._reader = DataReader(self._subscriber, made, asking(asked, most_samples=most_samples))
            self.condition = ReadCondition(self._reader, ANY)
        self.topic, self._topic_entity = topic, made
        self._kind = kind

    def take(self, most: int) -> list[RawSample]:
        """The next samples, and what has become of instances."""
        found = ddspy_take(self._reader._ref, ANY, most)
        if isinstance(found, int):
            with told(f'topic "{self.topic}" cannot be read'):
                raise DDSException(found)
        samples: list[RawSample] = []
        for data, info in found:
            writer, when = info.publication_handle, max(0, info.source_timestamp)
            if info.valid_data:
                samples.append(RawSample(writer=writer, when_ns=when, data=data))
            state = _STATES.get(info.instance_state)
            if state is not None and not info.sample_rank:  # after the last sample of its instance
                with suppress(DdsError):  # who has no key that can be read has no instance either
                    key = self.key(data) if info.valid_data else data  # when it ended is not told with a sample
                    ended_ns = when + 1 if info.valid_data else when
                    samples.append(RawSample(writer=writer, when_ns=ended_ns, state=state, key=key))
        return samples

    def key(self, data: bytes) -> bytes:
        """The key of a sample, as bytes."""
        return key_of(self._kind, data)

    @property
    def alive(self) -> int:
        """How many writers it hears that are known to be alive."""
        with told(f'nothing is known of topic "{self.topic}"'):
            return int(self._reader.get_liveliness_changed_status().alive_count)

    @property
    def rejected(self) -> int:
        """Samples that found no room; a reliable writer that tries again is counted every time."""
        with told(f'nothing is known of topic "{self.topic}"'):
            return int(self._reader.get_sample_rejected_status().total_count)

    def close(self) -> None:
        """Read no more."""
        for entity in (self.condition, self._reader, self._subscriber, self._topic_entity):
            end(entity)


class RawWriter:
    """Writes bytes to a topic; it never waits."""

    def __init__(
        self,
        participant: Participant,
        topic: str,
        kind: Any,
        offered: Policies,
        *,
        partitions: Sequence[str] = (),
        version_2: bool = False,
    ) -> None:
        made = participant.topic(topic, kind)
        with told(f'no writer of topic "{topic}"'):
            self._publisher = Publisher(participant.entity, group_quality(partitions))
            self._writer = DataWriter(self._publisher, made, offering(offered, version_2=version_2))
        self.topic, self._topic_entity = topic, made
        self._kind, self._version_2 = kind, version_2

    def write(self, data: bytes, when_ns: int) -> bool:
        """Write a sample; False if there is no room, DdsError if it is none of the type."""
        if not _headed(data, self._version_2):
            self._done(DDSException.DDS_RETCODE_BAD_PARAMETER)
        return self._done(ddspy_write_ts(self._writer._ref, _padded(data), when_ns))

    def end_instance(self, key: bytes, state: str, when_ns: int) -> bool:
        """An instance is disposed of, or this writer writes it no more."""
        act = ddspy_dispose_ts if state == DISPOSED else ddspy_unregister_instance_ts
        return self._done(act(self._writer._ref, self._key(key), when_ns))

    def live(self) -> None:
        """Say that what it writes for is alive."""
        _lively.tell(self._writer._ref)

    @property
    def matched(self) -> int:
        """How many readers hear it."""
        with told(f'nothing is known of topic "{self.topic}"'):
            return int(self._writer.get_publication_matched_status().current_count)

    def close(self) -> None:
        """Write no more; readers are told."""
        for entity in (self._writer, self._publisher, self._topic_entity):
            end(entity)

    def _key(self, key: bytes) -> bytes:
        """Coded anew: the library does not look at keys, and readers would ask for a bad one again and again."""
        if not _headed(key, self._version_2):
            self._done(DDSException.DDS_RETCODE_BAD_PARAMETER)
        if self._kind.__idl__.keyless:
            return key[:HEADER_BYTES]
        try:
            sample = self._kind.deserialize_key(key)
            return _padded(bytes(sample.serialize_key(use_version_2=self._version_2)))
        except Exception:  # of the library's decoder, which raises what it likes
            self._done(DDSException.DDS_RETCODE_BAD_PARAMETER)
            raise

    def _done(self, code: int) -> bool:
        if code == DDSException.DDS_RETCODE_TIMEOUT:
            return False
        if code:
            with told(f'topic "{self.topic}" cannot be written'):
                raise DDSException(code)
        return True


def key_of(kind: Any, data: bytes) -> bytes:
    """The key of a sample as bytes, with the header that the sample has; DdsError if it cannot be read."""
    try:
        return bytes(kind.deserialize(data).serialize_key(use_version_2=is_version_2(data)))
    except Exception:  # of the library's decoder, which raises what it likes
        raise DdsError("a sample whose key cannot be read") from None


def is_version_2(data: bytes) -> bool:
    """Whether a sample is in the newer coding (XCDR2)."""
    return len(data) >= HEADER_BYTES and data[1] in VERSION_2


def _headed(data: bytes, version_2: bool) -> bool:
    """Whether the header is one of that version; its last byte says how many bytes of padding there are."""
    known = VERSION_2 if version_2 else VERSION_1
    return len(data) >= HEADER_BYTES and not data[0] and data[1] in known and not data[2] and data[3] < HEADER_BYTES


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
