"""A planner of others: ENHSP, asked for an optimal plan through unified-planning, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from firelane.errors import FirelaneError
from firelane.java import java_home
from firelane.plan.pddl import Pddl, check_names

NAME = "enhsp"


def solve(written: Pddl, *, seconds: float) -> int:
    """The row of the plan that ENHSP finds, among those that were written."""
    steps = planned_steps(written.domain, written.problem, seconds=seconds)
    last = steps[-1] if steps else ["nothing"]
    if last == ["leave-alone"]:
        return 0
    row = written.settles.get(tuple(last[1:])) if last[0] == "settle" else None  # type: ignore[arg-type]
    if row is None:
        raise FirelaneError(f"the planner {NAME} answered with something else than a plan: {' '.join(last)}")
    return row


def planned_steps(domain: str, problem: str, *, seconds: float) -> list[list[str]]:
    """The steps of an optimal plan, each its action and what it is about; FirelaneError if there is none in time."""
    check_names(domain, problem)
    reader, engine = _tools()
    try:
        task = reader.parse_problem_string(domain, problem)
    except Exception as wrong:  # a parser of others, which raises what it likes
        raise FirelaneError(f"the planner {NAME} cannot read this PDDL: {_first_line(wrong)}") from None
    try:
        result = engine.solve(task, timeout=seconds)
    except Exception as wrong:
        raise FirelaneError(f"the planner {NAME} failed: {_first_line(wrong)}; use --planner search") from None
    finally:
        engine.end()
    status = result.status.name
    if status == "TIMEOUT":
        raise FirelaneError(f"the planner {NAME} had no plan after {seconds:g} s; use --planner search")
    if result.plan is None or status != "SOLVED_OPTIMALLY":
        said = " ".join(message.message for message in result.log_messages or [])
        raise FirelaneError(
            f"the planner {NAME} failed ({status.lower().replace('_', ' ')}): {_first_line(said)}; use --planner search"
        )
    return [[step.action.name, *map(str, step.actual_parameters)] for step in result.plan.actions]


def _tools() -> tuple[Any, Any]:
    """What reads PDDL, and ENHSP in its optimal configuration with a Java that is there."""
    try:
        from unified_planning.io import PDDLReader
        from up_enhsp.enhsp_planner import ENHSPOptEngine
    except ImportError:
        raise FirelaneError(
            f"--planner {NAME} needs unified-planning and ENHSP; run `pip install 'firelane[planners]'`, "
            "or use --planner search"
        ) from None
    java = Path(java_home("ENHSP")) / "bin" / "java"

    class Engine(ENHSPOptEngine):  # type: ignore[misc]
        """ENHSP with this Java, instead of any that is in the path; it forgets no process that it has started."""

        started: subprocess.Popen[bytes] | None = None

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "_process" and value is not None:
                self.started = value
            super().__setattr__(name, value)

        def end(self) -> None:
            """Leave nothing open; unified-planning does, of what takes too long."""
            if self.started is not None:
                if self.started.poll() is None:
                    os.killpg(self.started.pid, signal.SIGKILL)  # it leads a session of its own
                self.started.communicate()

        def _get_cmd(self, domain_filename: str, problem_filename: str, plan_filename: str) -> list[str]:
            _, *words = super()._get_cmd(domain_filename, problem_filename, plan_filename)
            return [str(java), *words]

    engine = Engine()
    engine.skip_checks = True
    return PDDLReader(), engine


def _first_line(problem: object) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0][:200] if lines else type(problem).__name__
