"""Sites joined over a WAN: `edge` and `router`, and `overlay`, which looks at all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from firelane.cli import options
from firelane.cli.exchange import exchange_options, run_exchange
from firelane.cli.group import main
from firelane.cli.output import print_json, tell, write
from firelane.errors import FirelaneError

REGISTRY_WITHIN_S, TOLD_AFTER_S = 3.0, 0.5  # of one that is asked: when it must answer, and whoever waits is told so


def _registry_address(context: click.Context, option: click.Parameter, address: str) -> str:
    """What can be a registry of several processes; without kazoo nobody can tell."""
    from importlib.util import find_spec

    from firelane.overlay.registry import RegistryError, parse_registry

    if address.startswith("memory://"):
        problem = "nobody else is met in the memory of one process"
    else:
        try:
            parse_registry(address)
            return address
        except RegistryError as wrong:
            if find_spec("kazoo") is None:
                raise
            problem = str(wrong).rpartition("; ")[0]
    raise click.BadParameter(f"{problem}; write zookeeper://HOST:PORT,HOST:PORT/ROOT", param=option)


def _broker_name(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    from firelane.overlay.joining import check_name

    return _usable(name, check_name, option)


def _reachable_at(context: click.Context, option: click.Parameter, locator: str | None) -> str | None:
    from firelane.overlay.joining import check_locator

    return _usable(locator, check_locator, option)


def _usable(given: str | None, check: Callable[[str], None], option: click.Parameter) -> str | None:
    """What was given, if it passes the check that others make as well."""
    try:
        if given is not None:
            check(given)
    except FirelaneError as problem:
        raise click.BadParameter(str(problem), param=option) from None
    return given


_registry = click.option(
    "--registry",
    required=True,
    metavar="ADDRESS",
    callback=_registry_address,
    help="zookeeper://HOST:PORT,HOST:PORT, where brokers find others.",
)
_named = click.option(
    "--name", metavar="NAME", callback=_broker_name, help="Of this broker, unlike any other's; by default the host's."
)
_locator = click.option(
    "--locator", metavar="HOST:PORT", callback=_reachable_at, help="Where others reach it, if not where it listens."
)


@main.command()
@exchange_options
@_registry
@_named
@_locator
@click.option("--dds", type=click.IntRange(0, 230), metavar="DOMAIN", help="Join the DDS endpoints of this domain too.")
def edge(registry: str, name: str | None, locator: str | None, dds: int | None, **served: Any) -> None:
    """Run an exchange that joins those of other sites: what clients want elsewhere is passed on, the rest stays here.

    Other sites are found through the registry, messages go through routers (`firelane router`). What has QoS 1 or 2 is
    kept here until every site that wants it has it. All that `firelane serve` does, it does too.
    """
    run_exchange(join=_join("edge", registry, name, locator, dds), **served)


def _join(role: Any, registry: str, name: str | None, locator: str | None, dds: int | None = None) -> Any:
    import socket

    from firelane.overlay.joining import Joining

    name = socket.gethostname() if name is None else name
    return Joining(role=role, registry=registry, name=name, locator=locator, dds=dds)


@main.command()
@exchange_options
@_registry
@_named
@_locator
def router(registry: str, name: str | None, locator: str | None, **served: Any) -> None:
    """Run a router: passes messages on between edges (`firelane edge`), and keeps none.

    Any number of routers share the topics; one of them leads and gives topics to the others, and again when one dies or
    has too much to do (exchange.overlay.strategy). Nothing is written to disk, and limits are as wide as edges need
    them, unless settings say otherwise.
    """
    from firelane.overlay.joining import ROUTER

    run_exchange(defaults=ROUTER, join=_join("router", registry, name, locator), **served)


@main.group()
def overlay() -> None:
    """Sites that are joined: who is there, and what would be moved."""


@overlay.command("status")
@_registry
@options.as_json
def overlay_status(registry: str, as_json: bool) -> None:
    """Brokers, who leads, the topics that cross sites with their routers, and what was moved last and why."""
    import shutil
    import time

    from firelane.overlay.registry.status import read_status
    from firelane.overlay.screen import screen
    from firelane.overlay.showing import state_of

    status = _asked(registry, read_status)
    if as_json:
        print_json(state_of(status))
    else:
        for line in screen(status, now_s=time.time(), width=shutil.get_terminal_size((100, 24)).columns):
            click.echo(line)


@overlay.command("plan")
@_registry
@click.option(
    "--strategy",
    type=click.Choice(["fewest-topics", "least-load", "long-term", "bounded-moves"]),
    default="bounded-moves",
    show_default=True,
    help="Of the leader that is imagined, whatever that of routers is.",
)
@click.option("--moves", type=click.IntRange(0), default=10, show_default=True, help="At most so many.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan here.")
@options.as_json
def overlay_plan(registry: str, strategy: str, moves: int, output: str | None, as_json: bool) -> None:
    """What a leader with this strategy would do next, and why; nothing is moved.

    The registry does not say by which strategy routers lead (exchange.overlay.strategy): give theirs. Over REST a
    router is asked what it would do itself (GET /api/v1/overlay/plan).
    """
    from firelane.overlay.leader.leading import Leading
    from firelane.overlay.registry.status import read_status
    from firelane.overlay.showing import dry_run

    plan = dry_run(_asked(registry, read_status), Leading(strategy=strategy, max_moves=moves))
    if output is not None:
        write(output, json.dumps(plan.to_data(), indent=2))
    if as_json:
        print_json(plan.to_data())
    else:
        for line in plan.why:
            click.echo(line)


@overlay.command("forget")
@click.argument("edge")
@_registry
def overlay_forget(edge: str, registry: str) -> None:
    """Forget EDGE, which is away and will not come back: others keep nothing for it any more.

    What they have kept for it is dropped. If it does come back, it begins as a new one.
    """
    from firelane.overlay.registry.forgetting import forget_edge

    _asked(registry, lambda tree: forget_edge(tree, edge))
    click.echo(f"the edge {edge} is forgotten; others drop what they kept for it")


def _asked(address: str, ask: Callable[[Any], Any]) -> Any:
    """What a registry answers, in which nothing is made for that; who has to wait for it is told for whom."""
    import asyncio

    from firelane.overlay.registry import parse_registry

    async def answer() -> Any:
        tree = parse_registry(address)
        slow = asyncio.get_running_loop().call_later(TOLD_AFTER_S, tell, f"asking {tree.name}")
        try:
            await tree.open(REGISTRY_WITHIN_S)
            return await ask(tree)
        finally:
            slow.cancel()
            await tree.close()

    return asyncio.run(answer())
