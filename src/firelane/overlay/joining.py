"""A running exchange that joins others, as an edge or as a router, until the block ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from firelane.errors import ServeError, plainly
from firelane.exchange.run import Exchange
from firelane.overlay.edge import EdgeBroker
from firelane.overlay.paths.locator import host_and_port
from firelane.overlay.paths.path import Credentials
from firelane.overlay.registry import Registry, Wish, parse_registry
from firelane.overlay.registry.known import LEADER
from firelane.overlay.registry.names import broker_segment, is_broker_name
from firelane.overlay.registry.tree import Disconnected, RegistryError, TreeState
from firelane.scenario.dds_settings import DdsSettings
from firelane.scenario.overlay_settings import OverlaySettings

if TYPE_CHECKING:
    from firelane.overlay.router import RoutingBroker

Role = Literal["edge", "router"]
EVERYWHERE = ("0.0.0.0", "[::]")
ANSWER_S = 2.0  # within which a registry answers that can be told that a broker leaves
PATIENCE_S = 3.0  # with a registry that does not answer, and without routers, before somebody is told
LOOK_EVERY_S = 0.5  # whether there are routers
TAKEN_EVERY_S = 3.0  # whether another broker has this one's name
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
        check_name(self.name)
        if self.locator is not None:
            check_locator(self.locator)


def check_name(name: str) -> None:
    """Whether an edge or router may have that name; ServeError if not, RegistryError if it is too long."""
    if not is_broker_name(name):
        raise ServeError(f"{name!r} is no name for a broker; use letters, digits and signs, but no spaces, /, + and #")
    broker_segment(name)


def check_locator(locator: str) -> None:
    """Whether others could reach a broker there; ServeError if not."""
    if host_and_port(locator) is None:
        raise ServeError(f"{locator!r} is no HOST:PORT; say where others reach this broker, e.g. 10.0.0.5:1883")


class _Absence:
    """Tells when a registry has not answered for a while, and when it does again."""

    def __init__(self, registry: Registry, tell: Callable[[str], None]) -> None:
        self._name, self._tell = registry.tree.name, tell
        self._timer: asyncio.TimerHandle | None = None
        self._told = self._answered = False
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
        self._answered = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._told:
            self._told = False
            self._tell(f"{self._name} answers")

    def _away(self) -> None:
        self._timer, self._told = None, True
        if self._answered:
            self._tell(f"{self._name} does not answer; clients here are served, other sites by what was known last")
        else:
            todo = "check --registry and whether ZooKeeper runs; trying on"
            self._tell(f"{self._name} does not answer since the start; {todo}")


async def _tell_when_alone(edge: EdgeBroker, tell: Callable[[str], None]) -> None:
    """An edge is of no use to other sites while nobody passes on what it sends."""
    alone_s = 0.0
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        known = edge.registry.state is not TreeState.CONNECTED or edge.statistics()["routers"]
        alone_s = 0.0 if known else alone_s + LOOK_EVERY_S
        if PATIENCE_S <= alone_s < PATIENCE_S + LOOK_EVERY_S:  # once
            tell('no router is known; what other sites want waits here; start one with "firelane router"')


async def _tell_when_taken(registry: Registry, how: Joining, tell: Callable[[str], None]) -> None:
    """Of two brokers with one name the later stays; the earlier serves its own clients, and must say why only these."""
    told = False
    while True:
        await asyncio.sleep(TAKEN_EVERY_S)
        with suppress(RegistryError):
            taken = await registry.taken()
            if taken and not told:
                tell(f"another {how.role} with the name {how.name} has joined; rename one of them, or stop this one")
            told = taken


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
            looking = [group.create_task(_tell_when_taken(registry, how, tell))]
            if isinstance(broker, EdgeBroker):
                looking.append(group.create_task(_tell_when_alone(broker, tell)))
            try:
                async with _bridged(exchange, broker, settings, how, tell):
                    yield broker
            finally:
                task.cancel()
                for one in looking:
                    one.cancel()
                await asyncio.wait([task])
                absence.end()
                lasting = broker.lasting() if isinstance(broker, EdgeBroker) else {}
                try:
                    await _leave(registry, lasting)
                except RegistryError as problem:
                    tell(str(problem))


async def _leave(registry: Registry, lasting: Mapping[str, Wish]) -> None:
    """Tell the registry that this broker leaves, for which one that answers has its time; Disconnected if it does not
    answer soon."""
    with plainly():
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(_answers(registry))
            leaving = group.create_task(registry.leave(lasting=lasting))
            await asyncio.wait([leaving], timeout=ANSWER_S)
            if leaving.done():
                asked.cancel()
            elif not await asked:
                leaving.cancel()
                raise Disconnected("the registry does not answer; leaving without telling it")


async def _answers(registry: Registry) -> bool:
    """Whether it answers in time, asked before anything else."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await registry.tree.read([LEADER])
    except (RegistryError, TimeoutError):
        return False
    return True


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
    from firelane.overlay.leader.leading import Leading  # with machine code that edges do not need
    from firelane.overlay.router import RoutingBroker

    leading = Leading(strategy=settings.strategy, max_moves=settings.moves, step_s=settings.step_s)
    return RoutingBroker(
        exchange, registry, how.name, locator=locator, capacity=settings.capacity, leading=leading, tell=tell
    )


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
