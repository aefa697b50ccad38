from __future__ import annotations

import io
import re
import time
from types import SimpleNamespace

from rich.console import Console

from firelane.pipeline import progress as shown
from firelane.pipeline.progress import progress


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_a_terminal_sees_the_tasks_of_every_stage(spark, monkeypatch):
    monkeypatch.setattr(shown, "LOOKS_S", 0.02)
    console = terminal()
    with progress(spark, "counting", console):
        spark.range(0, 400_000, 1, 8).selectExpr("id % 1000 AS k").groupBy("k").count().collect()
        time.sleep(0.2)
    said = console.file.getvalue()
    assert "counting" in said
    assert re.search("of [89] tasks", said)  # the second stage has one, and the bar is painted ten times a second


def test_stages_that_are_over_count_as_done(monkeypatch):
    monkeypatch.setattr(shown, "LOOKS_S", 0.02)
    stages = {1: SimpleNamespace(numCompletedTasks=3, numTasks=10)}
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    monkeypatch.setattr(shown, "_tracker", lambda _: tracker)
    console = terminal()
    with progress(None, "job", console):
        time.sleep(0.2)
        stages.clear()
        stages[2] = SimpleNamespace(numCompletedTasks=1, numTasks=4)
        time.sleep(0.2)
    said = console.file.getvalue()
    assert "stage 1, 3 of 10 tasks" in said
    assert "stage 2, 11 of 14 tasks" in said


def test_where_there_is_no_terminal_nothing_is_shown(spark):
    console = Console(file=io.StringIO())
    with progress(spark, "counting", console):
        spark.range(3).count()
    assert console.file.getvalue() == ""
