"""What the FireDeX paper says in numbers, what comes out here, and whether it holds.

Implements: firedex, section 5.2 to 5.4 (the numbers in its text).
Differs:    a number that does not come out again is given with ours and the reason. Fig. 5 and 6 compare the
            paper's Eq. 5 with our simulation, as the paper compares it with its own; our formula stands beside.
Symbols:    class is the paper's priority level, 0 the highest.
Checked by: tests/reproduce/test_firedex.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from firelane.reproduce.wording import entry, percent, seconds

Results = dict[str, Any]

# The paper's own numbers, each with the place that has it. Delays in seconds, the rest are shares.
PAPER: dict[str, float] = {
    "load, medium": 0.6,  # 5.2.1
    "load, high": 0.95,  # 5.2.1
    "load, overload": 1.7,  # 5.2.1
    "5a difference, class 8": 0.35e-3,  # 5.2.1, Fig. 5a
    "5b difference, class 8": 13.98e-3,  # 5.2.1, Fig. 5b
    "5c difference, class 8": 8.24e-3,  # 5.2.1, Fig. 5c
    "6 largest difference": 10e-3,  # 5.2.2, Fig. 6: at most
    "7 plain, mean success": 0.58,  # 5.3, Fig. 7
    "8 plain, mean delay": 0.9,  # 5.3, Fig. 8
    "7 priorities, classes 0-4": 1.0,  # 5.3, Fig. 7
    "8 priorities, classes 0-4": 4e-3,  # 5.3, Fig. 8: under
    "7 priorities, class 6": 0.45,  # 5.3, Fig. 7
    "8 priorities, class 6": 11.0,  # 5.3, Fig. 8
    "7 priorities, classes 7-8": 0.0,  # 5.3, Fig. 7: "almost all packets dropped"
    "8 priorities, classes 7-8": 20.0,  # 5.3, Fig. 8
    "7 with drop rates, class 0": 1.0,  # 5.3, Fig. 7
    "8 with drop rates, classes 0-6": 6e-3,  # 5.3, Fig. 8: under
    "8 with drop rates, class 8": 0.647,  # 5.3, Fig. 8
    "9 bandwidth-adjusted over information": 0.12,  # 5.4, Fig. 9
    "9 bandwidth-adjusted over none": 0.36,  # 5.4, Fig. 9
    "9 with drop rates over bandwidth-adjusted": 0.42,  # 5.4, text
    "9 with drop rates over none": 0.94,  # 5.4, text
    "10 lead of optimised": 0.0,  # 5.4, Fig. 10: above
}
POINTS = 0.05  # gains and success hold within five points
RELATIVE = 0.15  # delays and differences of delays within 15 %
ERRORS = 2  # or so many standard errors, where the paper gives a limit or a difference


def headlines(results: Results) -> list[Results]:
    """Every number of the paper's text beside ours."""
    found = results["figures_7_and_8"]
    return [
        *_figure_5(results["figure_5"]["own"]),
        _figure_6(results["figure_6"]["own"]),
        *_plain(found["plain"]),
        *_priorities(found["priorities"]),
        *_dropping(found["priorities and drop rates"], results),
        *_gains(results["figure_9"]),
        _policies(results["figure_10"]),
    ]


def _delay(key: str, what: str, ours: Results, *, limit: str = "", why: str) -> Results:
    """A delay: near the paper's, or below it (or two standard errors above) where the paper gives a limit."""
    paper, mean = PAPER[key], ours["mean"]
    beyond = math.inf if mean is None else abs(mean) - paper if limit else abs(mean - paper) - RELATIVE * paper
    holds = beyond <= (_error(ours) if limit else 0.0)
    return _marked(_headline(key, what, f"{limit} {seconds(paper)}".strip(), ours, seconds(ours), holds, why), beyond)


def _difference(key: str, ours: Results, *, why: str) -> Results:
    """Eq. 5 minus simulation: as large as in the paper, no smaller and no larger."""
    paper, mean = PAPER[key], ours["mean"]
    off = math.inf if mean is None else abs(abs(mean) - paper)
    what, shown = "Eq. 5 minus simulation, class 8", f"{seconds(paper)} apart"
    holds, noisy = off <= max(RELATIVE * paper, _error(ours)), _error(ours) > paper / 2
    row = _headline(key, what, shown, ours, seconds(ours), holds and not noisy, why)
    if noisy:
        return row | {"verdict": "cannot tell", "why": f"its standard error is too large to tell; besides, {why}"}
    return _marked(row, off - RELATIVE * paper)


def _error(ours: Results) -> float:
    return ERRORS * (ours["standard_error"] or 0.0)


def _marked(row: Results, beyond: float) -> Results:
    """What holds only thanks to its standard error says so."""
    return row | {"verdict": "within error"} if row["holds"] and beyond > 0 else row


def _success(key: str, what: str, ours: Results, *, limit: str = "", why: str) -> Results:
    holds = ours["mean"] is not None and abs(ours["mean"] - PAPER[key]) <= POINTS
    return _headline(key, what, f"{limit} {percent(PAPER[key])}".strip(), ours, percent(ours), holds, why)


def _headline(key: str, what: str, paper: str, ours: Results, shown: str, holds: bool, why: str) -> Results:
    return {
        "figure": key.split(maxsplit=1)[0],
        "what": what,
        "paper": PAPER[key],
        "paper_text": paper,
        "here": ours["mean"],
        "standard_error": ours["standard_error"],
        "here_text": "nothing delivered" if ours["mean"] is None else shown,
        "beside": "",
        "holds": bool(holds),
        "verdict": "yes" if holds else "**no**",
        "why": "" if holds else why,
    }


def _figure_5(cases: Results) -> list[Results]:
    rows = []
    for letter, case in zip("abc", cases.values(), strict=True):
        row = _difference(
            f"5{letter} difference, class 8", case["difference_s"]["equation_5"][8], why=_near_saturation(case)
        )
        rows.append(row | _our_formula(case["difference_s"]["ours"][8]))
    return rows


def _our_formula(difference: Results) -> Results:
    return {"beside": f"our formula: {seconds(difference)}"}


def _near_saturation(case: Results) -> str:
    known = {load: one for load, one in case["equation_5_minus_cobham_s"].items() if one["mean"] is not None}
    shown = ", ".join(f"{seconds(one)} with links below load {load}" for load, one in known.items())
    return (
        "the error of Eq. 5 grows without limit as a link nears saturation, so it depends on which links are left "
        f"out, which the paper does not say; against Cobham's formula, exact on own links, it is {shown}."
    )


def _figure_6(cases: Results) -> Results:
    """The paper's limit for Eq. 5, on own links as in Fig. 5; ours is the most over the same cases."""
    worst, ours = (_furthest(case["largest_difference_s"][name] for case in cases.values()) for name in _COMPARED)
    what = "Eq. 5 minus simulation, the most of any class and number of subscribers"
    why = "the error of Eq. 5 is largest at class 8, whose load the draw of Table 2 decides."
    return _delay("6 largest difference", what, worst, limit="up to", why=why) | _our_formula(ours)


_COMPARED = ("equation_5", "ours")


def _furthest(rows: Iterable[Results]) -> Results:
    return max(rows, key=lambda one: abs(one["mean"] or 0.0))


def _plain(plain: Results) -> list[Results]:
    return [
        _success(
            "7 plain, mean success",
            "no priorities, mean success",
            plain["mean_success"],
            why="what a plain link delivers is 1 / load, and our load differs.",
        ),
        _delay(
            "8 plain, mean delay",
            "no priorities, mean delay",
            plain["mean_delay_s"],
            why="a full buffer takes 2000 mean service times, so our messages have another mean size.",
        ),
    ]


def _priorities(found: Results) -> list[Results]:
    success, delay = found["success"], found["delay_s"]
    meets = _meets_the_end(found)
    full = (
        "how long class 4 waits depends on how much of the link classes 0 to 4 fill, which the draw of Table 2 decides."
    )
    little = (
        "by Little's law the class that fills the buffer waits 2000 / (messages of it delivered a second), so the "
        "less is delivered the longer it waits."
    )
    start = (
        "once class 6 fills the buffer nothing of classes 7 and 8 gets through; what the paper saw of them may "
        "stem from the start, before the buffer is full, which we do not count."
    )
    name = "priorities only"
    return [
        _success("7 priorities, classes 0-4", f"{name}, classes 0-4, least success", _least(success[:5]), why=meets),
        _delay(
            "8 priorities, classes 0-4",
            f"{name}, classes 0-4, longest mean delay",
            _most(delay[:5]),
            limit="under",
            why=full,
        ),
        _success("7 priorities, class 6", f"{name}, class 6, success", success[6], why=meets)
        | _fluid_limit(found["fluid_success"][6]),
        _delay("8 priorities, class 6", f"{name}, class 6, mean delay", delay[6], why=little),
        _success(
            "7 priorities, classes 7-8", f"{name}, classes 7-8, success", _most(success[7:]), limit="almost", why=meets
        ),
        _delay("8 priorities, classes 7-8", f"{name}, classes 7-8, mean delay", _most(delay[7:]), why=start),
    ]


def _meets_the_end(found: Results) -> str:
    """Why class 6 gets what it gets: no fault of the simulation only if the fluid limit says the same."""
    seen, fluid, queued = (found[name][6] for name in ("success", "fluid_success", "class_still_queued"))
    text = (
        "classes hold equal numbers of subscriptions, so the draw of Table 2 decides which class meets the end of "
        f"the link; our classes' loads leave {percent(fluid)} for class 6 in the fluid limit"
    )
    if None not in (seen["mean"], fluid["mean"]) and abs(seen["mean"] - fluid["mean"]) <= _error(seen):
        return f"{text} too, so it is not the simulation."
    return f"{text}; the simulated value is off by more than its error, with {percent(queued)} still queued at the end."


def _fluid_limit(value: Results, *, signed: bool = False) -> Results:
    return {"beside": f"fluid limit: {percent(value, signed=signed)}"}


def _dropping(found: Results, results: Results) -> list[Results]:
    formula = results["figure_5"]["own"]["overload"]["predicted_s"]["ours"][8]
    saturated = (
        f"at load 0.9, which Eq. 12 asks for, our formula gives {seconds(formula, error=False)}, without a limit to "
        f"the buffer; by the same formula {seconds(PAPER['8 with drop rates, class 8'])} need load "
        f"{results['load_for_paper_delay']:.3f}, which section 5.2.1 excludes."
    )
    name, slow = "drop rates too", "how long class 6 waits depends on the draw of Table 2."
    return [
        _success(
            "7 with drop rates, class 0", f"{name}, class 0, success", found["success"][0], why="class 0 is dropped."
        ),
        _delay(
            "8 with drop rates, classes 0-6",
            f"{name}, classes 0-6, longest mean delay",
            _most(found["delay_s"][:7]),
            limit="under",
            why=slow,
        ),
        _delay("8 with drop rates, class 8", f"{name}, class 8, mean delay", found["delay_s"][8], why=saturated),
    ]


def _most(rows: list[Results]) -> Results:
    known = [row for row in rows if row["mean"] is not None]
    return max(known, key=lambda row: row["mean"], default=entry(None))


def _least(rows: list[Results]) -> Results:
    known = [row for row in rows if row["mean"] is not None]
    return min(known, key=lambda row: row["mean"], default=entry(None))


def _gains(found: Results) -> list[Results]:
    rows = []
    for name, gain in found["gains"].items():
        key, rate = f"9 {name}", gain["rate"]
        holds = rate["mean"] is not None and abs(rate["mean"] - PAPER[key]) <= POINTS
        paper, ours = percent(PAPER[key], signed=True), percent(rate, signed=True)
        row = _headline(key, f"utility rate, {name}", paper, rate, ours, holds, _why_less(found, name))
        rows.append(row | _fluid_limit(found["fluid_gains"][name]["rate"], signed=True))
    return rows


def _why_less(found: Results, name: str) -> str:
    over = "over none" if name.endswith("none") else "over bandwidth-adjusted"
    everything, bound = found["ceilings"][over]["everything"]["rate"], found["ceilings"][over]["bound"]
    if name.endswith("information") or PAPER[f"9 {name}"] <= (everything["mean"] or 0.0):
        return "how much there is to gain depends on the draw of sizes, rates and weights."
    return (
        "it cannot follow from Eq. 8: if every message arrived the gain would be "
        f"{percent(everything, signed=True)}, and what the link can carry allows {percent(bound, signed=True)}."
    )


def _policies(found: Results) -> Results:
    others = ("flat", "linear", "exponential")
    leads = [
        case["optimised"]["rate"]["mean"] - max(case[policy]["rate"]["mean"] for policy in others)
        for case in found.values()
    ]
    ours = entry(min(leads))
    what, why = (
        "utility rate, optimised drop rates over the next best, least lead",
        "another policy is better somewhere.",
    )
    return _headline("10 lead of optimised", what, "above 0 %", ours, percent(ours, signed=True), min(leads) >= 0, why)
