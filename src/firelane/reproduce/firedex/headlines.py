"""What the FireDeX paper says in numbers, what comes out here, and whether it holds.

Implements: firedex, section 5.2 to 5.4 (the numbers in its text).
Differs:    a number that does not come out again is given with ours and the reason.
Symbols:    class is the paper's priority level, 0 the highest.
Checked by: tests/reproduce/test_firedex.py
"""

from __future__ import annotations

import math
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
RELATIVE = 0.15  # delays within 15 %


def headlines(results: Results) -> list[Results]:
    """Every number of the paper's text beside ours."""
    found = results["figures_7_and_8"]
    return [
        *_figure_5(results["figure_5"]["own"]),
        *_figure_6(results["figure_6"]),
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
    holds = beyond <= (2 * (ours["standard_error"] or 0.0) if limit else 0.0)
    row = _headline(key, what, f"{limit} {seconds(paper)}".strip(), ours, seconds(ours), holds, why)
    return row | {"verdict": "within error"} if holds and beyond > 0 else row


def _success(key: str, what: str, ours: Results, *, limit: str = "", why: str) -> Results:
    holds = ours["mean"] is not None and abs(ours["mean"] - PAPER[key]) <= POINTS
    return _headline(key, what, f"{limit} {percent(PAPER[key])}".strip(), ours, percent(ours), holds, why)


def _headline(key: str, what: str, paper: str, ours: Results, shown: str, holds: bool, why: str) -> Results:
    return {
        "figure": key.split(maxsplit=1)[0],
        "what": what,
        "paper": PAPER[key],
        "paper_text": paper,
        "ours": ours["mean"],
        "standard_error": ours["standard_error"],
        "ours_text": "nothing delivered" if ours["mean"] is None else shown,
        "holds": bool(holds),
        "verdict": "yes" if holds else "**no**",
        "why": "" if holds else why,
    }


def _figure_5(cases: Results) -> list[Results]:
    why = "links close to saturation settle slowly, so a short run measures less than the long-run mean."
    what = "formula minus simulation, class 8"
    return [
        _delay(f"5{letter} difference, class 8", what, case["difference_s"]["ours"][8], limit="up to", why=why)
        for letter, case in zip("abc", cases.values(), strict=True)
    ]


def _figure_6(found: Results) -> list[Results]:
    rows = []
    for links, name in (("own", "own links"), ("shared", "one shared link")):
        known = [case["largest_difference_s"]["ours"] for case in found[links].values()]
        worst = max(known, key=lambda one: abs(one["mean"] or 0.0))
        what = f"formula minus simulation, the most of any class, {name}"
        why = "the lowest class waits longest and its mean settles last."
        rows.append(_delay("6 largest difference", what, worst, limit="up to", why=why))
    return rows


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
    fluid = found["fluid_success"][6]
    meets = (
        "classes hold equal numbers of subscriptions, so the draw of Table 2 decides which class meets the end of "
        f"the link; our classes' loads leave {percent(fluid)} for class 6 in the fluid limit too, so it is not the "
        "simulation."
    )
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
        _success("7 priorities, class 6", f"{name}, class 6, success", success[6], why=meets),
        _delay("8 priorities, class 6", f"{name}, class 6, mean delay", delay[6], why=little),
        _success(
            "7 priorities, classes 7-8", f"{name}, classes 7-8, success", _most(success[7:]), limit="almost", why=meets
        ),
        _delay("8 priorities, classes 7-8", f"{name}, classes 7-8, mean delay", _most(delay[7:]), why=start),
    ]


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
        rows.append(_headline(key, f"utility rate, {name}", paper, rate, ours, holds, _why_less(found, name)))
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
