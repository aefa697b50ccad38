"""How far Spark is: a bar of tasks on stderr, for a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

LOOKS_S = 0.3  # between two looks at Spark


@contextmanager
def progress(spark: SparkSession, label: str, console: Console | None = None) -> Iterator[None]:
    """A bar of the tasks of the stages that Spark has come to so far; stages that are still ahead are not known.

    Nothing is shown where there is no terminal, nor over Spark Connect, which does not tell.
    """
    console = console or Console(stderr=True)
    tracker = _tracker(spark) if console.is_terminal else None
    if tracker is None:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[tasks]}"), TimeElapsedColumn())
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task(label, total=None, tasks="")
        follower = threading.Thread(target=_follow, args=(tracker, bar, shown, ended), daemon=True)
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()


def _follow(tracker: StatusTracker, bar: Progress, shown: TaskID, ended: threading.Event) -> None:
    stages: dict[int, tuple[int, int]] = {}
    while not ended.wait(LOOKS_S):
        for number in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(number)
            if stage is not None:
                stages[number] = (stage.numCompletedTasks, stage.numTasks)
        for number in stages.keys() - set(tracker.getActiveStageIds()):
            stages[number] = (stages[number][1], stages[number][1])
        done, known = (sum(column) for column in zip(*stages.values(), strict=True)) if stages else (0, 0)
        if known:
            bar.update(shown, completed=done, total=known, tasks=f"stage {len(stages)}, {done} of {known} tasks")


def _tracker(spark: SparkSession) -> StatusTracker | None:
    from pyspark.sql.utils import is_remote

    return None if is_remote() else spark.sparkContext.statusTracker()
