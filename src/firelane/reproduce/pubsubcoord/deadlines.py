"""Figure 8 and Table 1: one path through a router, or a direct one beside it, over good and bad links.

Implements: pubsubcoord, section 3.4, Figure 8 and Table 1.
Differs:    links are relays that delay; a lost segment comes a retransmission time-out later, as TCP has it.
Symbols:    L1 -> between the two edges, L2 and L3 -> from the one to the router and on to the other. The drawing is not
            in the paper's text, but only so are cases 1 to 5 those with a path that has no bad link, as it says.
Checked by: tests/reproduce/test_pubsubcoord.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from firelane.reproduce.pubsubcoord.members import Planned
from firelane.reproduce.pubsubcoord.traffic import Stream, Traffic
from firelane.reproduce.pubsubcoord.wan import Busy, Network, network
from firelane.reproduce.relay import Passed, Wan

Results = dict[str, Any]
GOOD, BAD = Wan(delay_s=0.030), Wan(delay_s=0.250, loss=0.01)  # A and B of Table 1
TABLE_1 = tuple(product("AB", repeat=3))  # L1, L2, L3 of cases 1 to 8
LINKS = {"A": GOOD, "B": BAD}
DELAYS_S, LOSSES = (0.030, 0.060, 0.090, 0.125), (0.0, 0.01)  # Figure 8a
SINGLE, MULTI = "single", "multi"
DEADLINE_S = 0.2
DIRECT = 'overlay.direct={from: ["*"], for: ["*"]}'  # everybody may ask for a direct path


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEffort:
    """How many pairs of edges are measured at once, for how long, and which delays of Figure 8a."""

    pairs: int
    warm_s: float
    run_s: float
    cases: Sequence[int] = tuple(range(1, 9))
    delays_s: Sequence[float] = DELAYS_S
    ways: Sequence[str] = (SINGLE, MULTI)

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.cases) * len(self.ways) + len(self.delays_s) * len(LOSSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One setting of the three links."""

    name: str
    way: str
    direct: Wan
    first: Wan
    second: Wan

    @property
    def expected_s(self) -> float:
        """What the links alone take, if nothing is lost."""
        through_s = self.first.delay_s + self.second.delay_s
        return through_s if self.way == SINGLE else min(self.direct.delay_s, through_s)


def table_1(numbers: Sequence[int], way: str) -> list[Case]:
    """The cases of the table with these numbers."""
    found = []
    for number in numbers:
        direct, first, second = (LINKS[one] for one in TABLE_1[number - 1])
        found.append(Case(name=f"case {number}", way=way, direct=direct, first=first, second=second))
    return found


def figure_8a_cases(delays_s: Sequence[float]) -> list[Case]:
    """A single path over two equal links."""
    links = [Wan(delay_s=delay_s, loss=loss) for loss, delay_s in product(LOSSES, delays_s)]
    return [Case(name="8a", way=SINGLE, direct=BAD, first=one, second=one) for one in links]


async def figure_8(effort: PathEffort, *, seed: int, progress: Callable[[int], None]) -> list[Results]:
    """Everything, some cases at a time."""
    cases = [one for way in effort.ways for one in table_1(effort.cases, way)] + figure_8a_cases(effort.delays_s)
    planned = [Planned(role="router", name="router-1")]
    for number in range(effort.pairs):
        planned += [Planned(role="edge", name=f"{side}-{number}", settings=(DIRECT,)) for side in ("left", "right")]
    found: list[Results] = []
    async with network(planned, wan=GOOD, direct=True, seed=seed) as net:
        for first in range(0, len(cases), effort.pairs):
            some = cases[first : first + effort.pairs]
            found += await _together(net, some, effort, first, seed)
            progress(len(some))
    return found


async def _together(net: Network, cases: Sequence[Case], effort: PathEffort, batch: int, seed: int) -> list[Results]:
    for number, case in enumerate(cases):
        _set(net, number, case)
    streams = [
        Stream(
            topic=f"f8/{batch}/{number}",
            source=net.url(f"left-{number}"),
            targets=[net.url(f"right-{number}")],
            properties=(("max-delay", f"{DEADLINE_S:g}s"),) if case.way == MULTI else (),
        )
        for number, case in enumerate(cases)
    ]
    async with Traffic(streams, seed=seed + batch) as traffic:
        during = _Passing(net, len(cases))
        measured = await traffic.run(warm_s=effort.warm_s, run_s=effort.run_s, during=during)
    results = []
    for number, (case, seen) in enumerate(zip(cases, measured.seen, strict=True)):
        one = type(measured)(seen=[seen], published=measured.published, seconds=measured.seconds)
        results.append(
            {**asdict(case), "expected_s": case.expected_s, "passed": during.passed[number], **one.summary()}
        )
    return results


def _set(net: Network, number: int, case: Case) -> None:
    """The links of a pair of edges are as in this case from now on."""
    left, right = f"edge:left-{number}", f"edge:right-{number}"
    router = net.between["router-1"]
    router.links |= {left: case.first, right: case.second}
    net.between[f"right-{number}"].links[left] = case.direct
    net.between[f"left-{number}"].links[right] = case.direct


class _Passing(Busy):
    """While the block lasts: what passes the links of each pair, in bytes, both ways together."""

    def __init__(self, net: Network, pairs: int) -> None:
        super().__init__(net)
        self._links, self._pairs = net, pairs
        self.passed: list[dict[str, int]] = []

    async def __aenter__(self) -> _Passing:
        await super().__aenter__()
        self._then = [self._bytes(number) for number in range(self._pairs)]
        return self

    async def __aexit__(self, *problem: object) -> None:
        await super().__aexit__(*problem)
        now = [self._bytes(number) for number in range(self._pairs)]
        self.passed = [
            {link: after[link] - before[link] for link in after} for before, after in zip(self._then, now, strict=True)
        ]

    def _bytes(self, number: int) -> dict[str, int]:
        between, left, right = self._links.between, f"edge:left-{number}", f"edge:right-{number}"
        nothing = Passed()
        direct = between[f"right-{number}"].passed.get(left, nothing).bytes
        direct += between[f"left-{number}"].passed.get(right, nothing).bytes
        router = between["router-1"].passed
        return {"L1": direct, "L2": router.get(left, nothing).bytes, "L3": router.get(right, nothing).bytes}
