"""What writes samples of one type to one topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.util import duration

from firelane.dds.participant import Participant, end, told
from firelane.dds.quality import endpoint_quality, group_quality
from firelane.dds.samples import SensorUpdates


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a writer's samples; how many readers match it now, did ever, and cannot for their settings."""

    sent: int
    refused: int
    matched: int
    matched_ever: int
    incompatible: int


class Writer:
    """Writes samples of a type (`SensorUpdates` by default) to a topic; it never waits for readers."""

    def __init__(
        self,
        participant: Participant,
        topic: str,
        kind: type = SensorUpdates,
        *,
        reliable: bool = False,
        history: int | None = None,
        partitions: Sequence[str] = (),
    ) -> None:
        quality = endpoint_quality(reliable=reliable, history=history)
        made = participant.topic(topic, kind)
        with told(f'no writer of topic "{topic}"'):
            self._publisher = Publisher(participant.entity, group_quality(partitions))
            self._writer = DataWriter(self._publisher, made, quality)
        self.topic = topic
        self._sent = self._refused = 0

    def send(self, sample: Any) -> bool:
        """Write a sample; False, and counted, if reliable readers have not confirmed so much that there is no room."""
        try:
            self._writer.write(sample)
        except DDSException as problem:
            if problem.code != DDSException.DDS_RETCODE_TIMEOUT:
                with told(f'topic "{self.topic}" cannot be written'):
                    raise
            self._refused += 1
            return False
        self._sent += 1
        return True

    def wait_confirmed(self, *, within_s: float) -> bool:
        """Wait until reliable readers have confirmed everything; False if they have not in that time."""
        with told(f'topic "{self.topic}" cannot be waited for'):
            try:
                return bool(self._writer.wait_for_acks(duration(seconds=within_s)))
            except AttributeError:  # a slip of cyclonedds 11.0.1, where it would say that the time is up
                return False

    def statistics(self) -> Sent:
        """The counts so far."""
        with told(f'nothing is known of topic "{self.topic}"'):
            readers = self._writer.get_publication_matched_status()
            incompatible = self._writer.get_offered_incompatible_qos_status()
        return Sent(
            sent=self._sent,
            refused=self._refused,
            matched=readers.current_count,
            matched_ever=readers.total_count,
            incompatible=incompatible.total_count,
        )

    def close(self) -> None:
        """Write no more; readers are told."""
        end(self._writer)
        end(self._publisher)
