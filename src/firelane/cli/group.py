"""The command `firelane`: finds the module of a verb, and shows what goes wrong in one line."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Any

import click

from firelane import __version__
from firelane.cli.output import tell
from firelane.errors import FirelaneError

VERBS = {
    "scenarios": ("check", "generate", "import"),
    "metrics": ("predict", "simulate"),
    "plans": ("tune", "plan", "balance"),
    "exchange": ("serve", "password"),
    "sites": ("edge", "router", "overlay"),
    "sensors": ("sense",),
    "pipeline": ("pipeline",),
    "comparisons": ("demo", "reproduce", "bench"),
}  # by the module that adds them to the group when it is loaded


class _Firelane(click.Group):
    """Shows a FirelaneError in one line and exits 1, Ctrl-C 130; bugs keep their traceback only with --debug.

    Only the module of the verb that is asked for is loaded; all of them to see which verb may have been meant.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(verb for verbs in VERBS.values() for verb in verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for module in [one for one, verbs in VERBS.items() if cmd_name in verbs] or VERBS:
            import_module(f"firelane.cli.{module}")
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            over_the_caret = "\r" if sys.stderr.isatty() else ""
            click.echo(f"{over_the_caret}firelane: interrupted", err=True)
            ctx.exit(130)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal that cannot show µ gets a question mark
        try:
            return super().main(*args, **kwargs)
        except FirelaneError as problem:
            if "--debug" in sys.argv:
                raise
            tell(" ".join(str(problem).split()))
        except BrokenPipeError:
            sys.stderr.close()
        except Exception as bug:
            if "--debug" in sys.argv:
                raise
            what = f"a bug, sorry: {type(bug).__name__}: {' '.join(str(bug).split())}; see it whole with --debug"
            if isinstance(bug, OSError) and bug.strerror:  # a time that is over has none
                what = f"{bug.strerror}; is there room for the output?"
            tell(what)
        sys.exit(1)


@click.group(cls=_Firelane, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="firelane %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def main(debug: bool) -> None:
    """Get the data that matters through first.

    SCENARIO is a YAML file, or the name of one that ships with Firelane: office-fire, firedex, firedex-shared, city,
    planemqx.

    \b
    A first tour:
      firelane demo                                  a building on fire, live
      firelane predict office-fire                   what will happen, in closed form
      firelane tune office-fire -o plan.json         decide priorities and drop rates
      firelane predict office-fire --plan plan.json  what the plan changes
      firelane simulate office-fire --plan plan.json and check it by simulation
    """
