"""The quality of service of writers and readers, in the library's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cyclonedds.core import Policy, Qos

from firelane.dds.network import DdsError

MOST_HISTORY = 1_000_000


def endpoint_quality(*, reliable: bool, history: int | None, most_samples: int | None = None) -> Any:
    """Reliable or best effort; the last `history` samples of each key are kept, or all; never more than `most_samples`.

    Nothing ever waits: what a reliable writer has no room for is refused at once.
    """
    if history is not None and not 1 <= history <= MOST_HISTORY:
        raise DdsError(f"a history must keep between 1 and {MOST_HISTORY} samples, not {history}")
    policies = [
        Policy.Reliability.Reliable(max_blocking_time=0) if reliable else Policy.Reliability.BestEffort,
        Policy.History.KeepAll if history is None else Policy.History.KeepLast(history),
    ]
    if most_samples is not None and history is None:
        policies.append(Policy.ResourceLimits(max_samples=most_samples, max_instances=-1, max_samples_per_instance=-1))
    return Qos(*policies)


def group_quality(partitions: Sequence[str]) -> Any:
    """Only endpoints with a partition in common hear each other; a reader's may have * in them."""
    return Qos(Policy.Partition(list(partitions))) if partitions else None
