"""Which router a topic belongs to: the one it was assigned, else one that everybody finds alone, by hashing.

Highest random weight (rendezvous): of the living routers, the one whose weight for the topic is highest. The weight is
BLAKE2b of 64 bits (RFC 7693, no key) of the router's name, a zero byte and the topic, as UTF-8, read big-endian; equal
weights, which practice will not see, go to the last name. A router that dies moves its own topics only, one that joins
takes only what becomes its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

MOST_NAMES = 4096  # routers whose part of the hash is remembered
WEIGHT_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a leader has written: the router of a topic, None if it has none, and the epoch in which it was written."""

    router: str | None
    epoch: int


def owner(topic: str, assignment: Assignment | None, routers: Collection[str]) -> str | None:
    """The router that was assigned while it lives, else the hashed one; None if no router lives."""
    if assignment is not None and assignment.router is not None and assignment.router in routers:
        return assignment.router
    return hashed_owner(topic, routers)


def hashed_owner(topic: str, routers: Collection[str]) -> str | None:
    """Of these routers the one with the highest weight for the topic, whatever their order; None of none."""
    name = topic.encode("utf-8", "surrogatepass")
    best, heaviest = None, b""
    for router in routers:
        state = _begun(router).copy()
        state.update(name)
        weight = state.digest()
        if weight > heaviest or (weight == heaviest and best is not None and router > best):
            best, heaviest = router, weight
    return best


@lru_cache(maxsize=MOST_NAMES)
def _begun(router: str) -> blake2b:
    """The hash as it is after the router's name; topics have no zero bytes, so no two pairs look alike."""
    return blake2b(router.encode("utf-8", "surrogatepass") + b"\0", digest_size=WEIGHT_BYTES)
