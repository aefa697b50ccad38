"""Jobs on Spark: what all of them are told, and how one is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from firelane.cli.output import print_json

tables = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder for the job's tables.",
)
master = click.option("--master", metavar="URL", help="A Spark master, instead of one embedded here (local[*]).")


def run_job(job: str, master: str | None, as_json: bool, **settings: Any) -> None:
    """Start Spark, do the job of this name in `firelane.pipeline.jobs`, say in one line what happened."""
    from firelane.pipeline import jobs
    from firelane.pipeline.progress import progress

    with started(master) as session, progress(session, job):
        result = getattr(jobs, job)(session, **settings)
    say(result, as_json)


@contextmanager
def started(master: str | None) -> Iterator[Any]:
    """A session, which takes some seconds to start; meanwhile a line says so."""
    from firelane.pipeline.session import session
    from firelane.show import working

    with ExitStack() as stack:
        with working("starting Spark"):
            spark = stack.enter_context(session(master))
        yield spark


def say(result: Any, as_json: bool) -> None:
    """What a job has done."""
    if as_json:
        print_json(result.to_data())
    else:
        click.echo(result.line())
