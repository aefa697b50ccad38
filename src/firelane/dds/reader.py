"""What reads samples of one type from one topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState
from cyclonedds.internal import InvalidSample
from cyclonedds.sub import DataReader, Subscriber

from firelane.dds.participant import Participant, end, told
from firelane.dds.quality import endpoint_quality, group_quality
from firelane.dds.samples import SensorUpdates

MOST_SAMPLES = 4096  # that are received and not yet taken
BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Nobody writes a key any more: its writers have ended or have not been heard of for their lease."""

    key: Any  # a sample in which only the fields that are its key count


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What became of a reader's samples; how many writers match it now, did ever, and cannot for their settings.

    `rejected` found no room; a writer that tries again, as a reliable one does, is counted every time.
    """

    taken: int
    malformed: int
    rejected: int
    matched: int
    matched_ever: int
    incompatible: int


class Reader:
    """Reads samples of a type (`SensorUpdates` by default) from a topic, when asked."""

    def __init__(
        self,
        participant: Participant,
        topic: str,
        kind: type = SensorUpdates,
        *,
        reliable: bool = False,
        history: int | None = None,
        partitions: Sequence[str] = (),
        most_samples: int = MOST_SAMPLES,
    ) -> None:
        quality = endpoint_quality(reliable=reliable, history=history, most_samples=most_samples)
        made = participant.topic(topic, kind)
        with told(f'no reader of topic "{topic}"'):
            self._subscriber = Subscriber(participant.entity, group_quality(partitions))
            self._reader = DataReader(self._subscriber, made, quality)
            self.condition = ReadCondition(self._reader, SampleState.Any | ViewState.Any | InstanceState.Any)
        self.topic = topic
        # A sample of another type that cannot be decoded takes with it what was taken in the same call.
        self._batch = BATCH if issubclass(kind, SensorUpdates) else 1
        self._taken = self._malformed = 0

    def take(self) -> list[Any]:
        """The next samples, and `Gone` for keys that nobody writes any more; empty if there are none."""
        with told(f'topic "{self.topic}" cannot be read'):
            while True:
                try:
                    found = self._reader.take(self._batch, condition=self.condition)
                except DDSException:
                    raise
                except Exception:  # of the library's decoder, which raises what it likes; the sample has been taken
                    self._malformed += 1
                    continue
                break
        self._taken += sum(not isinstance(one, InvalidSample) for one in found)
        return [Gone(key=one.key_sample) if isinstance(one, InvalidSample) else one for one in found]

    def statistics(self) -> Received:
        """The counts so far."""
        with told(f'nothing is known of topic "{self.topic}"'):
            writers = self._reader.get_subscription_matched_status()
            rejected = self._reader.get_sample_rejected_status()
            incompatible = self._reader.get_requested_incompatible_qos_status()
        return Received(
            taken=self._taken,
            malformed=self._malformed,
            rejected=rejected.total_count,
            matched=writers.current_count,
            matched_ever=writers.total_count,
            incompatible=incompatible.total_count,
        )

    def close(self) -> None:
        """Read no more."""
        for entity in (self.condition, self._reader, self._subscriber):
            end(entity)
