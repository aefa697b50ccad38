"""Other edges that send messages to this one directly (`firelane.overlay`): who they are, and what becomes of it.

At an edge nobody else may publish below `$overlay/`, nor use a client id that begins as an edge's does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from firelane.exchange.clients.access import Identity

TOPICS = "$overlay/"
TO = f"{TOPICS}to/"
EDGE = "edge:"  # how the client id of an edge begins
NAME = "firelane-edge"  # the user property of CONNACK by which an edge says which one it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Of the edge `name`; `got` is called with the sender's name, the payload and the properties of what comes."""

    name: str
    admits: Callable[[Identity], bool]
    got: Callable[[str, bytes, dict[str, Any]], None]

    def lets_in(self, identity: Identity) -> bool:
        """Whether a client may have its client id: that of an edge is not for others."""
        return not identity.client_id.startswith(EDGE) or self.admits(identity)

    def takes(self, identity: Identity, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> bool:
        """Take a message for this edge; False if it is not for it, or not from another edge."""
        if qos > 1 or topic != f"{TO}{self.name}" or not identity.client_id.startswith(EDGE):
            return False
        if not self.admits(identity):
            return False
        self.got(identity.client_id.removeprefix(EDGE), payload, properties)
        return True


def announced(neighbours: Neighbours | None, client_id: str) -> list[tuple[str, str]]:
    """What an edge is told of the one it has reached."""
    return [(NAME, neighbours.name)] if neighbours is not None and client_id.startswith(EDGE) else []
