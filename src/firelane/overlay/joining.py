"""A running exchange that joins others, as an edge or as a router, until the block ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from firelane.errors import ServeError
from firelane.exchange.run import Exchange
from firelane.overlay.edge import EdgeBroker
from firelane.overlay.leading import Leading
from firelane.overlay.path import Credentials
from firelane.overlay.registry import Registry, parse_registry
from firelane.overlay.registry.tree import RegistryError, TreeState
from firelane.overlay.router import RoutingBroker
from firelane.scenario.dds_settings import DdsSettings
from firelane.scenario.overlay_settings import OverlaySettings

Role = Literal["edge", "router"]
EVERYWHERE = ("0.0.0.0", "[::]")
PATIENCE_S = 3.0  # with a registry that does not answer, before somebody is told
ROUTER = {  # what suits a router, where nothing else is set
    "exchange.durability": "memory",
    "exchange.limits.subscriptions": 100_000,
    "exchange.limits.packet": 16_000_000,
    "exchange.limits.inflight": 10_000,
    "exchange.limits.queue": 10_000,
    "exchange.limits.queue_size": 64_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """As what an exchange joins, where the registry is, its own name, where others reach it, and which DDS domain."""

    role: Role
    registry: str
    name: str
    locator: str | None = None
    dds: int | None = None  # the domain that an edge is to have a bridge to, whatever the settings say

    def __post_init__(self) -> None:
        if not self.name or any(letter in self.name for letter in "/+# \0") or not self.name.isprintable():
            raise ServeError(f"{self.name!r} is no name for a broker; use letters, digits, dots and hyphens")


class _Absence:
    """Tells when a registry has not answered for a while, and when it does again."""

    def __init__(self, registry: Registry, tell: Callable[[str], None]) -> None:
        self._name, self._tell = registry.tree.name, tell
        self._timer: asyncio.TimerHandle | None = None
        self._told = False
        registry.on_state(self._changed)
        self._changed(registry.state)

    def end(self) -> None:
        """What happens from now on is meant to."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell = lambda line: None

    def _changed(self, state: TreeState) -> None:
        if state is not TreeState.CONNECTED:
            if self._timer is None and not self._told:
                self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._away)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._told:
            self._told = False
            self._tell(f"{self._name} answers")

    def _away(self) -> None:
        self._timer, self._told = None, True
        self._tell(f"{self._name} does not answer; clients here are served, other sites by what was known last")


@asynccontextmanager
async def joining(
    exchange: Exchange, how: Joining, settings: OverlaySettings, tell: Callable[[str], None]
) -> AsyncIterator[EdgeBroker | RoutingBroker]:
    """Join; the exchange serves its own clients whatever happens to the registry, and if it is not there yet."""
    async with Registry(parse_registry(how.registry), patient=True) as registry:
        absence = _Absence(registry, tell)
        broker = _broker(exchange, how, settings, registry, tell)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(broker.run())
            try:
                async with _bridged(exchange, broker, settings, how, tell):
                    yield broker
            finally:
                task.cancel()
                await asyncio.wait([task])
                absence.end()
                try:
                    await registry.leave(keep=how.role == "edge" and broker.keeps)
                except RegistryError as problem:
                    tell(str(problem))


@asynccontextmanager
async def _bridged(
    exchange: Exchange,
    broker: EdgeBroker | RoutingBroker,
    settings: OverlaySettings,
    how: Joining,
    tell: Callable[[str], None],
) -> AsyncIterator[None]:
    """With a bridge to DDS, if an edge is to have one."""
    wanted = settings.dds if how.dds is None else replace(settings.dds or DdsSettings(), domain=how.dds)
    if wanted is None or not isinstance(broker, EdgeBroker):
        yield
        return
    from firelane.overlay.bridge.bridge import Bridge

    async with asyncio.TaskGroup() as group:
        with Bridge(exchange, broker, wanted, tell=tell) as bridge:
            task = group.create_task(bridge.run())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])


def _broker(
    exchange: Exchange, how: Joining, settings: OverlaySettings, registry: Registry, tell: Callable[[str], None]
) -> EdgeBroker | RoutingBroker:
    locator = how.locator or _locator(exchange, how.role)
    if how.role == "edge":
        shown = Credentials(
            user=settings.user,
            password=None if settings.password is None else settings.password.encode(),
            tls=_tls(settings),
        )
        return EdgeBroker(exchange, registry, how.name, locator=locator, credentials=shown, tell=tell)
    leading = Leading(strategy=settings.strategy, max_moves=settings.moves, step_s=settings.step_s)
    return RoutingBroker(exchange, registry, how.name, locator=locator, leading=leading, tell=tell)


def _locator(exchange: Exchange, role: Role) -> str:
    """Where it listens; who listens everywhere must say by which address others reach it."""
    address = exchange.addresses.get("mqtts") or exchange.addresses["mqtt"]
    locator = address.partition("://")[2]
    if locator.rpartition(":")[0] in EVERYWHERE:
        raise ServeError(f"others cannot reach this {role} at {locator}; say where, e.g. --locator 10.0.0.5:1883")
    return locator


def _tls(settings: OverlaySettings) -> ssl.SSLContext | None:
    if not settings.tls:
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca)
    except (OSError, ssl.SSLError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise ServeError(f"exchange.overlay.ca: {settings.ca} cannot be used ({why}); give a PEM file") from None
