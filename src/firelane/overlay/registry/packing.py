"""An edge's filters packed into few nodes, so that one that changes rewrites one of them and none grows too large."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from firelane.overlay.registry.documents import FiltersDocument, Wish, written
from firelane.overlay.registry.tree import RegistryError

PART_BYTES = 16_000  # of filters in a part, about: all who listen read a part anew when one of its filters changes
LARGEST_PART_BYTES = 900_000  # whatever happens
MOST_PARTS = 1024
ENTRY_BYTES = 50  # of a filter besides its name and its need


def parts_for(filters: Mapping[str, Wish], before: int) -> int:
    """Into how many parts, a power of two; not fewer than before unless a quarter would do."""
    size = sum(ENTRY_BYTES + len(name) + len(str(one.need or "")) for name, one in filters.items())
    needed = 1
    while needed * PART_BYTES < size and needed < MOST_PARTS:
        needed *= 2
    return before if needed <= before <= 2 * needed else needed


def part_of(topic_filter: str, parts: int) -> int:
    """The part a filter is in; it is the same or that plus `parts` when there are twice as many."""
    return int.from_bytes(blake2b(topic_filter.encode(), digest_size=4).digest(), "little") % parts


def sorted_out(filters: Mapping[str, Wish], parts: int) -> list[dict[str, Wish]]:
    """The filters of each part."""
    found: list[dict[str, Wish]] = [{} for _ in range(parts)]
    for name, wanted in filters.items():
        found[part_of(name, parts)][name] = wanted
    return found


def packed(part: Mapping[str, Wish]) -> bytes:
    """The data of a part."""
    data = written(FiltersDocument(filters={name: part[name] for name in sorted(part)}))
    if len(data) > LARGEST_PART_BYTES:
        raise RegistryError(
            f"the filters of this edge need {len(data)} bytes in one node, more than {LARGEST_PART_BYTES}; "
            "subscribe to fewer or shorter ones"
        )
    return data
