"""How the messages of streams travel: through a broker, and for updates perhaps past it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Got = Callable[[str, bytes], None]


class Messenger(Protocol):
    """How messages get to a broker and back: an MQTT client, or one for datagrams."""

    reliable: bool  # or messages may get lost
    on_connected: list[Callable[[], None]]

    @property
    def most_bytes(self) -> int:
        """How large a message may be."""

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, content_type: str = ""
    ) -> None:
        """Send a message."""

    async def subscribe(
        self, topic_filter: str, got: Got, *, qos: int = 0, properties: Any = (), retained: bool = True
    ) -> Any:
        """Have somebody called with what comes."""

    async def unsubscribe(self, topic_filter: str, got: Got) -> None:
        """Have somebody called no longer."""


class Carrier(Protocol):
    """What takes the updates of streams past the broker, which then only negotiates: DDS."""

    transport: dict[str, dict[str, Any]]  # what an offer says of it
    most_bytes: int  # of a message
    reliable: bool

    def send(self, stream: str, payload: bytes) -> bool:
        """Send a message; False if there is no room for it."""

    def subscribe(self, pattern: str, got: Got) -> Any:
        """Have somebody called with what comes."""

    def unsubscribe(self, subscription: Any) -> None:
        """Until this is called with what `subscribe` returned."""
