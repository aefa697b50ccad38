"""Where a broker can be reached: `HOST:PORT`, with brackets around an IPv6 address."""

from __future__ import annotations

LAST_PORT = 65_535
NO_PART_OF_A_HOST = frozenset("/:@[]?# ")


def host_and_port(locator: str) -> tuple[str, int] | None:
    """The two, without brackets; None if it is nothing that one can connect to."""
    host, _, port = locator.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    wrong = NO_PART_OF_A_HOST - {":"} if bracketed else NO_PART_OF_A_HOST
    if not bare or not bare.isprintable() or wrong & set(bare):
        return None
    if not (port.isascii() and port.isdecimal() and len(port) <= len(str(LAST_PORT)) and 0 < int(port) <= LAST_PORT):
        return None
    return bare, int(port)
