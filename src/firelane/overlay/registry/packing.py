"""An edge's filters packed into few nodes, so that one that changes rewrites one of them and none grows too large."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from firelane.overlay.registry.documents import FiltersDocument, Wanted, written
from firelane.overlay.registry.tree import RegistryError

PART_BYTES = 64_000  # of filters in a part, about
LARGEST_PART_BYTES = 900_000  # whatever happens
MOST_PARTS = 1024
ENTRY_BYTES = 50  # of a filter besides its name and its need


def parts_for(filters: Mapping[str, Wanted], before: int) -> int:
    """Into how many parts, a power of two; not fewer than before unless a quarter would do."""
    size = sum(ENTRY_BYTES + len(name) + len(str(one.need or "")) for name, one in filters.items())
    needed = 1
    while needed * PART_BYTES < size and needed < MOST_PARTS:
        needed *= 2
    return before if needed <= before <= 2 * needed else needed


def part_of(topic_filter: str, parts: int) -> int:
    """The part a filter is in; it is the same or that plus `parts` when there are twice as many."""
    return int.from_bytes(blake2b(topic_filter.encode(), digest_size=4).digest(), "little") % parts


def packed(filters: Mapping[str, Wanted], parts: int) -> list[bytes]:
    """The data of each part."""
    sorted_out: list[dict[str, Wanted]] = [{} for _ in range(parts)]
    for name in sorted(filters):
        sorted_out[part_of(name, parts)][name] = filters[name]
    data = [written(FiltersDocument(filters=part)) for part in sorted_out]
    largest = max(map(len, data))
    if largest > LARGEST_PART_BYTES:
        raise RegistryError(
            f"the filters of this edge need {largest} bytes in one node, more than {LARGEST_PART_BYTES}; "
            "subscribe to fewer or shorter ones"
        )
    return data
