"""Names of topics and brokers as single segments of a path, and back.

Letters, digits and a few signs stay as they are, other bytes are percent-encoded. What would be too long is a hash
behind `%=`, which no other name can begin with; the full name is then in the node's data.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote, unquote

from firelane.overlay.registry.tree import RegistryError

LONGEST_SEGMENT = 240
MOST_REMEMBERED = 1000  # names
HASHED = "%="
_PLAIN = "$:,@+!*()=~"
_RESERVED = {".": "%2E", "..": "%2E%2E", "zookeeper": "%7Aookeeper"}


def topic_segment(topic: str) -> str:
    """The segment of a topic, whatever its name."""
    segment = _segment(topic)
    return segment if len(segment) <= LONGEST_SEGMENT else HASHED + sha256(topic.encode()).hexdigest()


def broker_segment(name: str) -> str:
    """The segment of an edge or router; its name must be short enough."""
    segment = _segment(name)
    if len(segment) > LONGEST_SEGMENT:
        raise RegistryError(f"the name {name[:40]}... of a broker is too long; use at most {LONGEST_SEGMENT} letters")
    return segment


@lru_cache(MOST_REMEMBERED)
def is_broker_name(name: str) -> bool:
    """Whether an edge or router may have that name: it is a level of topics, and stands in lines for people."""
    return bool(name) and name.isprintable() and not any(letter in "/+# " for letter in name)


def broker_name_of(segment: str) -> str:
    """The name of an edge or router from its segment; RegistryError if none can have it."""
    name = name_of(segment)
    if not is_broker_name(name):
        raise RegistryError(f"{segment} in the registry is no name of a broker; delete that node")
    return name


def is_hashed(segment: str) -> bool:
    """Whether the name must be looked for in the data."""
    return segment.startswith(HASHED)


def name_of(segment: str) -> str:
    """The name that was made into this segment; RegistryError if none was."""
    try:
        name = unquote(segment, errors="strict")
        if name and _segment(name) == segment:
            return name
    except (UnicodeError, RegistryError):
        pass
    raise RegistryError(f"{segment} in the registry is no name that Firelane wrote; delete that node")


def _segment(name: str) -> str:
    if not name:
        raise RegistryError("an empty name cannot be registered; give it at least one character")
    if name in _RESERVED:
        return _RESERVED[name]
    try:
        return quote(name, safe=_PLAIN)
    except UnicodeEncodeError:
        raise RegistryError(f"the name {name[:40]!a} is not UTF-8; use another one") from None
