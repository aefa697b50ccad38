"""The command line: one function per verb, no logic."""

from firelane.cli.group import main

__all__ = ["main"]
