"""What the scripts ask of an MQTT client, whichever library or tool does it, and what they see of it."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

PATIENCE_S = 20.0  # for what must come
INFLIGHT = 10  # unacknowledged messages, on both sides: paho and aiomqtt do not heed what the broker announces
QUIET_S = 0.05  # after what must come, for what must not
MQTT_311, MQTT_5 = 4, 5

Properties = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One PUBLISH as the subscriber saw it; properties only where there are any."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)
    dup: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """What the broker publishes for a client that is lost."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connack:
    """The broker's answer to CONNECT; None where the client does not tell."""

    reason: int
    session_present: bool | None = None
    properties: Properties | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files for TLS: whom the client trusts and, optionally, who it is."""

    ca: Path
    certificate: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything a client is told before it connects."""

    host: str
    port: int
    version: int
    client_id: str
    clean: bool = True
    keep_alive_s: int = 60
    user: str | None = None
    password: str | None = None
    will: Will | None = None
    inflight: int = INFLIGHT
    manual_ack: bool = False
    websocket: bool = False
    tls: Certificates | None = None
    properties: Properties = field(default_factory=dict)


class RefusalError(Exception):
    """The connection did not come about; the reason code, or None if the broker gave none."""

    def __init__(self, reason: int | None) -> None:
        self.reason = reason
        super().__init__(reason)


class Client(Protocol):
    """One client; names and meanings are MQTT's, all calls wait until the broker has answered."""

    CANNOT: ClassVar[dict[str, str]]  # features of scripts that this client does not have, and why

    connack: Connack
    reason_strings: list[str]  # that came with acknowledgements, where the client shows them

    def __init__(self, setup: Setup) -> None: ...
    def connect(self) -> None: ...
    def subscribe(
        self,
        *filters: str,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        identifier: int | None = None,
    ) -> list[int]: ...
    def unsubscribe(self, *filters: str) -> list[int]: ...
    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, **properties: Any) -> int: ...
    def publish_all(self, topic: str, payloads: Sequence[bytes], *, qos: int, **properties: Any) -> None: ...
    def receive(self, count: int, *, quiet_s: float = QUIET_S) -> list[Message]: ...
    def acknowledge(self, count: int) -> None: ...
    def lost(self) -> int | None: ...
    def disconnect(self, *, reason: int = 0, **properties: Any) -> None: ...
    def drop(self) -> None: ...


class Inbox:
    """Messages from the client's own thread or process, in the order of their arrival."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def put(self, message: Message) -> None:
        self._messages.put(message)

    def take(self, count: int, quiet_s: float) -> list[Message]:
        """The next `count` messages, fewer if patience ends, and whatever more comes within the quiet time."""
        taken: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while True:
            wait_s = quiet_s if len(taken) >= count else deadline - time.monotonic()
            try:
                taken.append(self._messages.get(timeout=max(wait_s, 0.001)))
            except queue.Empty:
                return taken
