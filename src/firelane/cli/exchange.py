"""An exchange on this machine: `serve`, and `password` for its users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from firelane.cli.group import main
from firelane.cli.output import tell
from firelane.errors import FirelaneError


def exchange_options(command: Any) -> Any:
    """What every running exchange can be told."""
    for option in (
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="As exchange.keep_alive=60s."),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            default="firelane-data",
            show_default=True,
            help="Where sessions and messages are kept.",
        ),
        click.option(
            "--http-port", type=click.IntRange(0, 65_535), default=8080, show_default=True, help="0: any free port."
        ),
        click.option(
            "--mqtt-port", type=click.IntRange(0, 65_535), default=1883, show_default=True, help="0: any free port."
        ),
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all."),
        click.argument("scenario", required=False),
    ):
        command = option(command)
    return command


@main.command()
@exchange_options
@click.option("--plan", type=click.Path(dir_okay=False), help="Keep to this plan instead of planning by itself.")
def serve(
    scenario: str | None,
    host: str,
    mqtt_port: int,
    http_port: int,
    data_dir: Path,
    plan: str | None,
    assignments: tuple[str, ...],
) -> None:
    """Run an exchange: an MQTT 3.1.1 and 5 broker that any client can use, and its web side.

    Links in SCENARIO are paced, and a plan says who goes first on them: it is made anew whenever subscriptions or
    traffic change, unless --plan gives one.

    One line says when it is ready. SIGTERM and Ctrl-C end it in order, SIGHUP reads the settings again. Settings are
    under `exchange:` in SCENARIO; --set and variables such as FIRELANE_EXCHANGE__KEEP_ALIVE=60s override them.
    """
    from firelane.scenario.plan import load_plan

    run_exchange(
        scenario, host, mqtt_port, http_port, data_dir, assignments, plan=None if plan is None else load_plan(plan)
    )


def run_exchange(
    scenario: str | None,
    host: str,
    mqtt_port: int,
    http_port: int,
    data_dir: Path,
    assignments: tuple[str, ...],
    defaults: dict[str, Any] | None = None,
    **how: Any,
) -> None:
    """Serve until a signal ends it; settings that are given nowhere are the defaults."""
    import os

    from firelane.scenario.overrides import load_exchange
    from firelane.serve import serve as run

    run(
        lambda: load_exchange(scenario, assignments, os.environ, defaults),
        host=host,
        mqtt_port=mqtt_port,
        http_port=http_port,
        data_dir=data_dir,
        ready=click.echo,
        complain=tell,
        **how,
    )


@main.command()
def password() -> None:
    """Ask for a password, twice and unseen, and print the argon2id hash that `exchange.users` keeps.

    When something is piped into it, its first line is the password.
    """
    from firelane.exchange.clients.access import hashed

    if sys.stdin.isatty():
        typed = click.prompt("Password", hide_input=True, confirmation_prompt="Again", err=True)
        given = typed.encode(errors="surrogateescape")
    else:
        given = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not given:
        raise FirelaneError("there is no password in the input; type one, or pipe it in")
    click.echo(hashed(given))
