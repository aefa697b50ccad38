"""Files: which of them a folder holds, which are of one kind, and what Spark calls them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from firelane.errors import FirelaneError

_PATTERN = re.compile(r"([][{}*?\\])")


def to_read(path: Path) -> str:
    """What Spark reads, taken for what it is though it may look like a pattern."""
    literal = _PATTERN.sub(r"\\\1", str(path.absolute()))
    if ":" in path.name or (":" in literal and "\\" in literal):
        raise FirelaneError(f"{path}: Spark cannot read names with a colon in them; rename it")
    return f"file://{literal}"


def to_write(path: Path) -> str:
    """What Spark writes, wherever its files are by default: no pattern, nor percent-encoded as other addresses are."""
    return f"file://{path.absolute()}"


def files_in(folder: Path) -> list[Path]:
    """All files under a folder; names that begin with a dot or underscore, also of folders, are not data."""
    found = []
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not _hidden(name)]
        found += [Path(place, name) for name in names if not _hidden(name)]
    return sorted(file for file in found if file.is_file())


def alike(files: Iterable[Path]) -> tuple[list[list[Path]], list[Path], int]:
    """Parquet files in groups of the same columns, those that cannot be read, and how many rows the others hold."""
    groups: dict[str, list[Path]] = {}
    unreadable = []
    count = 0
    for file in files:
        try:
            about = parquet.read_metadata(file)
            columns = str(about.schema.to_arrow_schema().remove_metadata())
        except (pa.ArrowException, OSError):
            unreadable.append(file)
            continue
        if not about.num_columns:
            continue  # as an empty table is written that has no columns yet; Spark fails on it
        groups.setdefault(columns, []).append(file)
        count += about.num_rows
    return list(groups.values()), unreadable, count


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _refuse(problem: OSError) -> None:
    raise FirelaneError(f"{problem.filename}: this folder cannot be read: {problem.strerror}; make it readable")
