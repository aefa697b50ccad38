"""Where a registry is, as one writes it: `zookeeper://host:port,.../root` or `memory://NAME`."""

from __future__ import annotations

from urllib.parse import urlsplit

from firelane.overlay.registry.memory import MemoryTree
from firelane.overlay.registry.store import shared_store
from firelane.overlay.registry.tree import SESSION_S, RegistryError, Tree

ROOT = "/firelane"
PORT = 2181
_REMEDY = "write zookeeper://HOST:PORT,HOST:PORT/ROOT or memory://NAME"


def parse_registry(address: str, *, session_s: float = SESSION_S) -> Tree:
    """A session there, not yet opened; after `session_s` without a sign of life ZooKeeper takes a broker for dead."""
    scheme, mark, rest = address.partition("://")
    if not mark or scheme not in ("zookeeper", "memory"):
        raise RegistryError(f"{address!r} is no registry; {_REMEDY}")
    place, _, root = rest.partition("/")
    if scheme == "memory":
        if root or not place:
            raise RegistryError(f"{address!r} is no registry in memory; write memory://NAME")
        return MemoryTree(shared_store(place), name=address)
    hosts = ",".join(_host(host, address) for host in place.split(","))
    from firelane.overlay.registry.zookeeper import ZookeeperTree

    return ZookeeperTree(hosts, _root(root, address), session_s=session_s)


def _host(host: str, address: str) -> str:
    try:
        found = urlsplit(f"//{host}")
        port = found.port
    except ValueError:
        port, found = 0, urlsplit("//")
    if not found.hostname or port == 0 or found.username is not None or found.netloc != host:
        raise RegistryError(f"{host!r} in {address!r} is no host; {_REMEDY}")
    name = f"[{found.hostname}]" if ":" in found.hostname else found.hostname
    return f"{name}:{port or PORT}"


def _root(root: str, address: str) -> str:
    levels = root.rstrip("/").split("/")
    if levels == [""]:
        return ROOT
    if any(not one.isascii() or not one.isprintable() or one in ("", ".", "..") for one in levels):
        raise RegistryError(f"/{root} in {address!r} is no root; {_REMEDY}")
    return "/" + "/".join(levels)
