"""`firelane serve`: an exchange with its web side, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import uvloop

from firelane.control import Archive, Control, controlling, following
from firelane.errors import FirelaneError, first_of
from firelane.exchange.run import Exchange, running
from firelane.garbage import searched_rarely
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan

if TYPE_CHECKING:
    from firelane.overlay.joining import Joining

# What a running exchange cannot change.
FIXED = ("durability", "tls", "websocket", "mqtt_sn", "upstream", "overlay", "system_interval_s")

# How long the event loop may keep the log's thread from running: Python's 5 ms would be most of a commit's time.
SWITCH_S = 0.0002

WEB = "firelane.web.app"


def _do_without_pandas() -> None:
    """Have pyarrow find no pandas, which it would load to look at the first list: 46 MB that nobody here needs."""
    sys.meta_path.insert(0, _NoPandas)
    pa.array([0])
    sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """What Python asks first for a module."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Nothing known of others; this one is not there."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def serve(
    load: Callable[[], Scenario],
    *,
    host: str,
    mqtt_port: int,
    http_port: int | None,
    data_dir: Path,
    plan: Plan | None = None,
    join: Joining | None = None,
    ready: Callable[[str], None],
    complain: Callable[[str], None],
) -> None:
    """Run an exchange until SIGTERM or Ctrl-C; SIGHUP calls `load` again. With a `plan` it makes none of its own, and
    with `join` it joins others."""
    _do_without_pandas()
    sys.setswitchinterval(SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(load, host, mqtt_port, http_port, data_dir, plan, join, ready, complain))
    except ExceptionGroup as problems:  # not `except*`, which before Python 3.11.4 wraps what is raised in it
        raise first_of(problems) from None


async def _serve(
    load: Callable[[], Scenario],
    host: str,
    mqtt_port: int,
    http_port: int | None,
    data_dir: Path,
    plan: Plan | None,
    join: Joining | None,
    ready: Callable[[str], None],
    complain: Callable[[str], None],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # until there is something to reload
    scenario = load()
    async with AsyncExitStack() as stack:
        exchange = await stack.enter_async_context(
            running(scenario, host=host, mqtt_port=mqtt_port, data_dir=data_dir, tell=complain)
        )
        archive = stack.enter_context(Archive(data_dir / "decisions", tell=_from_thread(loop, complain)))
        if plan is not None:
            exchange.apply(plan)
            control = Control(exchange, scenario, tell=complain, keep=archive.put)
        else:
            control = await stack.enter_async_context(controlling(exchange, scenario, tell=complain, keep=archive.put))
        await stack.enter_async_context(following(exchange, control.look_soon, tell=complain))
        loop.add_signal_handler(signal.SIGHUP, _reload, exchange, control, load, complain)
        joined = None
        if join is not None:
            from firelane.overlay.joining import joining

            joined = await stack.enter_async_context(joining(exchange, join, scenario.exchange.overlay, complain))
        if http_port is not None:
            await asyncio.to_thread(import_module, WEB)  # it takes a while, in which other sites are found already
            from firelane.web.app import make_app
            from firelane.web.server import serving

            web = serving(make_app(exchange, control, joined), host, http_port)
            exchange.addresses["http"] = await stack.enter_async_context(web)
        await stack.enter_async_context(searched_rarely())
        ready(ready_line(exchange, data_dir))
        await stop.wait()


def _from_thread(loop: asyncio.AbstractEventLoop, complain: Callable[[str], None]) -> Callable[[str], None]:
    """The same for other threads."""

    def tell(line: str) -> None:
        loop.call_soon_threadsafe(complain, line)

    return tell


def _reload(
    exchange: Exchange, control: Control, load: Callable[[], Scenario], complain: Callable[[str], None]
) -> None:
    """Take on settings that can change while clients are connected; say which have to wait for a restart."""
    before = exchange.broker.settings
    try:
        scenario = load()
    except FirelaneError as problem:
        complain(f"settings not reloaded: {problem}")
        return
    after = scenario.exchange
    waiting = [name for name in FIXED if getattr(before, name) != getattr(after, name)]
    settings = replace(after, **{name: getattr(before, name) for name in waiting})
    scenario = replace(scenario, exchange=settings)
    exchange.reload(scenario)
    control.reload(scenario)
    later = f"; a restart is needed for {', '.join(waiting)}" if waiting else ""
    complain(f"settings reloaded{later}")


def ready_line(exchange: Exchange, data_dir: Path) -> str:
    """Where it can be reached and what it promises, in one line."""
    where = ", ".join(exchange.addresses.values())
    if exchange.broker.settings.durability == "fsync":
        kept = f"QoS 1 and 2 are kept in {data_dir}"
    else:
        kept = "durability: memory, nothing survives a restart"
    return f"firelane is ready on {where}; {kept}"
