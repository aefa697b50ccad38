"""What verbs say: JSON for machines, files, and lines on stderr that are no result."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from firelane.errors import FirelaneError


def print_json(data: Any) -> None:
    """One document on stdout."""
    json.dump(data, sys.stdout, allow_nan=False)
    sys.stdout.write("\n")


def tell(line: str) -> None:
    """A line about the work, which is no part of the result."""
    click.echo(f"firelane: {line}", err=True)


def write(path: str, text: str) -> None:
    """Write a file, whole or not at all."""
    from firelane.scenario.save import write_whole

    try:
        write_whole(path, text)
    except OSError as problem:
        raise FirelaneError(f"{path}: this file cannot be written: {problem.strerror}") from None
