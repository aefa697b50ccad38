"""Where a script plays: one broker, one kind of client, one version of MQTT, names that no other script uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from live.clients.client import MQTT_5, MQTT_311, Certificates, Client, RefusalError, Setup

Seen = tuple[dict[str, Any], dict[str, Any]]  # what was observed, what the specification says


@dataclass(frozen=True, slots=True, kw_only=True)
class Venue:
    """A running broker and its listeners."""

    broker: str
    host: str
    port: int
    tls_port: int
    websocket_port: int
    trusting: Certificates  # trusts the broker's certificate
    known: Certificates  # and has a certificate that the broker trusts
    stranger: Certificates  # has one from somebody else
    deceived: Certificates  # trusts somebody else


class Stage:
    """Makes the clients of one run of a script and ends them all."""

    def __init__(self, venue: Venue, kind: type[Client], version: int, name: str) -> None:
        self.venue = venue
        self.version = version
        self._kind = kind
        self._name = name
        self._clients: list[Client] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.disconnect()

    @property
    def five(self) -> bool:
        return self.version == MQTT_5

    def topic(self, path: str) -> str:
        return f"{self._name}/{path}"

    def durable(self, expiry_s: int = 3600) -> dict[str, Any]:
        """Setup of a client whose session outlives its connection."""
        properties = {"properties": {"session_expiry_interval": expiry_s}} if self.five else {}
        return {"clean": False, **properties}

    def client(self, name: str, *, client_id: str | None = None, **setup: Any) -> Client:
        """A connected client."""
        identity = f"{self._name}-{name}" if client_id is None else client_id
        address = {"host": self.venue.host, "port": self.venue.port}
        client = self._kind(Setup(**{**address, **setup}, version=self.version, client_id=identity))
        client.connect()
        self._clients.append(client)
        return client

    def attempt(self, name: str, **setup: Any) -> int | str | None:
        """Connect and use the connection: "accepted", or the reason code of the refusal if there was one."""
        try:
            self.client(name, **setup).subscribe(self.topic("attempt"))
        except RefusalError as refusal:
            return refusal.reason
        return "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is played: a function of a stage, for which versions, with what a client must be able to do."""

    play: Callable[[Stage], Seen]
    versions: tuple[int, ...]
    needs: tuple[str, ...]
    venue: str

    @property
    def name(self) -> str:
        return self.play.__name__


SCRIPTS: list[Script] = []


def script(
    *, versions: tuple[int, ...] = (MQTT_311, MQTT_5), needs: tuple[str, ...] = (), venue: str = "open"
) -> Callable[[Callable[[Stage], Seen]], Callable[[Stage], Seen]]:
    """Put a function on the programme."""

    def register(play: Callable[[Stage], Seen]) -> Callable[[Stage], Seen]:
        SCRIPTS.append(Script(play=play, versions=versions, needs=needs, venue=venue))
        return play

    return register
