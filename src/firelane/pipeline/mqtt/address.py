"""Where a broker is: `mqtt://[USER[:PASSWORD]@]HOST[:PORT]`, or `mqtts://` for TLS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from firelane.errors import FirelaneError

PORT, TLS_PORT = 1883, 8883
SCHEMES = ("mqtt", "mqtts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A broker, and who one is there."""

    host: str
    port: int = PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> Self:
        """From a URL."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise FirelaneError(f'"{_without_password(url)}" is no broker; write e.g. mqtt://localhost:1883')
        tls = parts.scheme == "mqtts"
        return cls(
            host=parts.hostname,
            port=port or (TLS_PORT if tls else PORT),
            user=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
            tls=tls,
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"


def _without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
