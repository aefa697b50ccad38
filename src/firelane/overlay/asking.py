"""What is subscribed to and what no longer, in as few packets as may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from firelane.mqtt.packets import Subscribe, Subscription, Unsubscribe

FILTERS_A_PACKET, FILTER_BYTES_A_PACKET = 500, 30_000

Item = TypeVar("Item")


def asking(
    new: Iterable[tuple[Subscription, Mapping[str, str] | None]], gone: Iterable[str]
) -> list[Subscribe | Unsubscribe]:
    """SUBSCRIBE and UNSUBSCRIBE; what is needed holds for all filters of a packet."""
    by_need: dict[tuple[tuple[str, str], ...], list[tuple[str, Subscription]]] = {}
    for one, need in new:
        by_need.setdefault(tuple((need or {}).items()), []).append((one.filter, one))
    packets: list[Subscribe | Unsubscribe] = [
        Subscribe(packet_id=1, subscriptions=part, properties={"user_property": list(need)} if need else {})
        for need, some in by_need.items()
        for part in _parts(some)
    ]
    return packets + [Unsubscribe(packet_id=1, filters=part) for part in _parts((one, one) for one in gone)]


def _parts(some: Iterable[tuple[str, Item]]) -> Iterator[list[Item]]:
    """As many as fit into a packet, in their order."""
    part: list[Item] = []
    size_bytes = 0
    for name, one in some:
        one_bytes = len(name.encode()) + 3
        if part and (len(part) >= FILTERS_A_PACKET or size_bytes + one_bytes > FILTER_BYTES_A_PACKET):
            yield part
            part, size_bytes = [], 0
        part.append(one)
        size_bytes += one_bytes
    if part:
        yield part
