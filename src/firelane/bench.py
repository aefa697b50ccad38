"""The benchmarks: Firelane measured side by side with its peers, in one run, by the scripts in `benchmarks/`."""

from __future__ import annotations

import importlib.util
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from firelane.errors import FirelaneError
from firelane.units import si

OURS = "ours"  # the key of our own target, beside the names of peers
ROUNDS = 3
SI = ("s", "B")  # units that take a prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a number was promised to be, in words, and whether it is."""

    words: str
    met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number of ours, the same of every peer, and what was promised of them."""

    name: str
    ours: float
    unit: str
    peers: Mapping[str, float] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)  # by peer, or OURS
    turns: Mapping[str, Sequence[float]] = field(default_factory=dict)  # ours / peer of each turn, where they count

    @property
    def ratios(self) -> dict[str, float]:
        """Ours in terms of every peer's; of those measured in turns the median."""
        return {peer: statistics.median(self.turns.get(peer, [self.ours / self.peers[peer]])) for peer in self.peers}

    def to_data(self) -> dict[str, Any]:
        """The measure as `--json` has it."""
        return {
            "name": self.name,
            "ours": self.ours,
            "peers": dict(self.peers),
            "ratios": self.ratios,
            "unit": self.unit,
        }


def benchmarks() -> dict[str, Path]:
    """The scripts by name, a file or a folder each: inside the wheel, or beside the sources."""
    package = Path(__file__).parent / "benchmarks"
    folder = package if package.is_dir() else Path(__file__).parents[2] / "benchmarks"
    found = {path.stem: path for path in folder.glob("*.py")} | {
        path.parent.name: path for path in folder.glob("*/__init__.py")
    }
    return {stem.replace("_", "-"): found[stem] for stem in sorted(found)}


def run(name: str | None = None, *, quick: bool = False) -> list[Measure]:
    """The measures of one benchmark, or of all; progress goes to stderr."""
    names = list(benchmarks()) if name is None else [name]
    scripts = {one: load_script(one) for one in names}  # a missing peer shows before the first minute is spent
    measures: list[Measure] = []
    for one, script in scripts.items():
        say(f"{one}: {(script.__doc__ or '').splitlines()[0]}")
        measures += script.measures(quick=quick)
    return measures


def load_script(name: str) -> Any:
    """A benchmark as a module, with the peers that it imports."""
    known = benchmarks()
    if name not in known:
        raise FirelaneError(f'there is no benchmark "{name}"; choose from: {", ".join(known)}')
    spec = importlib.util.spec_from_file_location(f"firelane_benchmark_{name.replace('-', '_')}", known[name])
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[script.__name__] = script  # dataclasses look their module up
    try:
        spec.loader.exec_module(script)
    except ModuleNotFoundError as problem:
        if (problem.name or "firelane").partition(".")[0] == "firelane":
            raise
        raise FirelaneError(f"benchmark {name} compares with {problem.name}, which is not installed; "
                            "install the peers with: pip install 'firelane[bench]'") from None  # fmt: skip
    return script


def interleaved(
    what: str, unit: str, contestants: Mapping[str, Callable[[], float]], *, rounds: int = ROUNDS
) -> dict[str, float]:
    """The median of each contestant's numbers; they take turns, so that a busy machine slows all alike."""
    numbers: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(1, rounds + 1):
        for name, measure in contestants.items():
            numbers[name].append(measure())
            say(f"  {what}, round {turn} of {rounds}, {name}: {shown(numbers[name][-1], unit)}")
    return {name: statistics.median(values) for name, values in numbers.items()}


def shown(value: float, unit: str) -> str:
    """A number as progress shows it: 43.8 M events/s, 789 ms."""
    return _number(value, unit) if unit in SI else f"{_number(value, unit)} {unit}"


def say(line: str) -> None:
    """One line of progress on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(measures: Callable[..., list[Measure]]) -> None:
    """What a benchmark does when it is run as a script: `python benchmarks/simulator.py [--quick]`."""
    show(measures(quick="--quick" in sys.argv))


def machine() -> str:
    """What the numbers were measured on."""
    import numba
    import numpy as np

    return (
        f"{_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"numba {numba.__version__}, numpy {np.__version__}"
    )


def show(measures: list[Measure]) -> None:
    """Each measure as a small table, a line for every peer; then the machine."""
    console = Console()
    for one in measures:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(min_width=27)
        table.add_column(min_width=12, justify="right")
        table.add_column(min_width=10, justify="right")
        table.add_column()
        table.add_row(OURS, _number(one.ours, one.unit), "", _target(one, OURS))
        for peer, value in one.peers.items():
            table.add_row(peer, _number(value, one.unit), _ratio(one, peer), _target(one, peer))
        console.print(f"[bold]{one.name}[/bold], {one.unit}", highlight=False)
        console.print(Padding(table, (0, 0, 1, 2)))
    console.print(f"×: ours / peer, medians; on {machine()}", highlight=False, soft_wrap=True)


REPORT = """# The last benchmark

Written by `firelane bench -o docs/benchmarks.md`: one run, ours and the peers interleaved in {rounds} rounds, medians;
brokers in five pairs, with the range of the pairs' ratios.
On {machine}. The machine is shared, so absolute numbers wander; the ratios are what counts.

{table}

An event is one arrival or departure of one copy at one queue, for all alike, with per-subscription counts and
histograms on. What the peers are given is in the opening lines of `benchmarks/simulator.py`,
`benchmarks/optimiser.py` and `benchmarks/brokers/__init__.py`.

Beyond one machine: replications are independent by seed and run in threads that do not hold the GIL, one per core.
Memory per replication is that of the waiting messages plus 2 kB per subscription for its histogram; above 50 000
subscriptions histograms are kept per class.
"""


def report(measures: list[Measure]) -> str:
    """The measures as a page of the documentation."""
    return REPORT.format(rounds=ROUNDS, machine=machine(), table=_table(measures))


def _table(measures: list[Measure]) -> str:
    """A row for ours and for each peer; a column for targets if anything has one."""
    rows = [["measure", "who", "value", "ours / peer", "target"], ["---"] * 5]
    for one in measures:
        rows.append([f"{one.name} ({one.unit})", OURS, _number(one.ours, one.unit), "", _target(one, OURS)])
        rows += [
            ["", peer, _number(value, one.unit), _ratio(one, peer), _target(one, peer)]
            for peer, value in one.peers.items()
        ]
    columns = 5 if any(one.targets for one in measures) else 4
    return "\n".join(f"| {' | '.join(cells[:columns])} |" for cells in rows)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _number(value: float, unit: str) -> str:
    """Times, sizes and rates with three digits; what is compared for equality with ten."""
    if unit in SI or unit.endswith("/s"):
        return si(value, unit if unit in SI else "").strip()
    return f"{value:.10g}"


def _ratio(measure: Measure, peer: str) -> str:
    """325 ×; numbers that are meant to be equal show how far they are from it, turns from where to where they went."""
    ratio, turns = measure.ratios[peer], measure.turns.get(peer, ())
    if len(turns) > 1:
        return f"{_times(ratio)} × ({_times(min(turns))} to {_times(max(turns))})"
    return f"1 {ratio - 1:+.1e}" if abs(ratio - 1) < 1e-3 else f"{_times(ratio)} ×"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _target(measure: Measure, key: str) -> str:
    target = measure.targets.get(key)
    return "" if target is None else f"{target.words}: {'met' if target.met else 'missed'}"
