"""The folder that a watch writes to, which is its own and goes with the settings that it was begun with.

OUTPUT/metrics, loads, rejects, alerts   the tables
OUTPUT/.watch                            what is needed to go on
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from firelane.errors import FirelaneError, StoreError
from firelane.scenario.save import write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("metrics", "loads", "rejects", "alerts")
PATIENCE_S, LOOK_S = 60.0, 0.02  # for another watch to end

Settings = Mapping[str, Any]


def kept_in(output: Path) -> Path:
    """The folder of what is needed to go on."""
    return output / ".watch"


def refuse_others(output: Path, settings: Settings) -> None:
    """An error, if the folder is of another job, or of a watch with other settings."""
    try:
        ours = kept_in(output).exists()
        there = [name for name in TABLES if (output / name).exists()]
    except OSError as problem:
        raise StoreError(f"cannot be used: {problem.strerror}", path=str(output)) from None
    if there and not ours:
        raise StoreError(
            f"the table {there[0]} is here, but no .watch: it is of another job; name another folder", path=str(output)
        )
    before = _read(output) or settings
    for name, now in settings.items():  # windows that are half done cannot be finished with other ones
        if before.get(name) != now:
            raise FirelaneError(
                f"{output}: was begun with {name} {before.get(name)}, not {now}; "
                "go on with that, or name another folder"
            )


@contextmanager
def claimed(spark: SparkSession, output: Path, settings: Settings) -> Iterator[None]:
    """Have the folder for oneself.

    Spark's Java process holds the lock: when its driver is killed it goes on for a moment, and so may its queries.
    """
    refuse_others(output, settings)
    try:
        kept_in(output).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FirelaneError(f"{output}: cannot be written: {problem.strerror or problem}") from None
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect: the queries do not depend on this process
        _begin(output, settings)
        yield
        return
    file = jvm.java.io.RandomAccessFile(str(kept_in(output) / "lock"), "rw")
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not _locked(file):
            if time.monotonic() > deadline_s:
                raise StoreError("another watch is using this folder; end it, or name another", path=str(output))
            time.sleep(LOOK_S)
        _begin(output, settings)
        yield
    finally:
        file.close()


def _begin(output: Path, settings: Settings) -> None:
    """Settle the settings; another watch may have done so while this one waited."""
    refuse_others(output, settings)
    try:
        write_whole(_file(output), json.dumps(dict(settings)))
    except OSError as problem:
        raise FirelaneError(f"{output}: cannot be written: {problem.strerror or problem}") from None


def _locked(file: Any) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError:  # it is this very process that has locked it
        return False


def _file(output: Path) -> Path:
    return kept_in(output) / "settings.json"


def _read(output: Path) -> dict[str, Any] | None:
    """The settings that it was begun with; None if it was not."""
    path = _file(output)
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise StoreError(f"cannot be read: {problem.strerror}", path=str(path)) from None
    except (ValueError, TypeError):
        raise StoreError(
            "is not whole; name another folder, or remove this file if --window and --late are as before",
            path=str(path),
        ) from None
