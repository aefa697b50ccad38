"""A planning problem in PDDL: categories are placed and dropped one after the other, which in the end has a cost.

Implements: planemqx, section IV-A (domain and problem files from performance data) and Listing 2 (its steps).
Differs:    the paper adds up separate effects of priorities and of drops; here every complete order with every complete
            choice of drops has its own, joint cost. A planner has one number to minimise, and ENHSP adds it up in
            single precision, so it is the place of the plan's cost among all costs that occur: small whole numbers.
Symbols:    DROPPING_AN_5 -> (drop analytics level-1 ...), PRIORITIZE_RT_ST -> (place real-time ...) and so on.
Checked by: tests/plan/test_pddl.py, tests/plan/test_enhsp.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from firelane.errors import FirelaneError
from firelane.plan.cost import Cost
from firelane.plan.problem import Table
from firelane.plan.requirements import Requirements
from firelane.scenario.save import write_whole

MOST_PLANS = 4000  # of which a planner reads the cost in a few seconds

DOMAIN = """\
; Who goes first on the links, and how much of it is dropped.
(define (domain firelane)
  (:requirements :strips :typing :numeric-fluents :action-costs)
  (:types category level order drops)
  (:constants nothing-placed - order nothing-chosen - drops)
  (:predicates
    (order-is ?o - order)                                     ; the categories placed so far, the highest first
    (places ?o - order ?c - category ?p - order)              ; placing ?c next makes ?p of ?o
    (whole-order ?o - order)
    (drops-are ?d - drops)                                    ; the levels chosen so far
    (chooses ?d - drops ?c - category ?l - level ?e - drops)  ; dropping ?c at ?l makes ?e of ?d
    (whole-drops ?d - drops)
    (settled))
  (:functions
    (total-cost)
    (joint-cost ?o - order ?d - drops)                        ; of this order with these drops
    (cost-of-nothing))
  (:action place
    :parameters (?c - category ?o ?p - order)
    :precondition (and (order-is ?o) (places ?o ?c ?p))
    :effect (and (not (order-is ?o)) (order-is ?p)))
  (:action drop
    :parameters (?c - category ?l - level ?d ?e - drops)
    :precondition (and (drops-are ?d) (chooses ?d ?c ?l ?e))
    :effect (and (not (drops-are ?d)) (drops-are ?e)))
  (:action settle
    :parameters (?o - order ?d - drops)
    :precondition (and (order-is ?o) (whole-order ?o) (drops-are ?d) (whole-drops ?d))
    :effect (and (settled) (increase (total-cost) (joint-cost ?o ?d))))
  (:action leave-alone
    :parameters ()
    :precondition (and (order-is nothing-placed) (drops-are nothing-chosen))
    :effect (and (settled) (increase (total-cost) (cost-of-nothing)))))
"""
PROBLEM = """\
{about}
; A cost is the place of a plan among all: bounds missed, then weight x delay/bound, then weight x drop rate.
(define (problem requirements)
  (:domain firelane)
  (:objects
    {categories} - category
    {levels} - level
    {orders} - order
    {drops} - drops)
  (:init
    {facts}
  )
  (:goal (settled))
  (:metric minimize (total-cost)))
"""
START_ORDER, START_DROPS = "nothing-placed", "nothing-chosen"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pddl:
    """The two files, and which plan a `settle` of an order and drops is."""

    domain: str
    problem: str
    settles: dict[tuple[str, str], int]

    def save(self, folder: Path) -> None:
        """Write domain.pddl and problem.pddl."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / "domain.pddl", self.domain)
            write_whole(folder / "problem.pddl", self.problem)
        except OSError as problem:
            raise FirelaneError(f"{folder}: cannot write PDDL here: {problem.strerror}") from None


def pddl(wanted: Requirements, table: Table) -> Pddl:
    """Domain and problem for a choice among these plans, of which the first is to do nothing."""
    check_size(len(table.costs))
    names = _names(wanted.categories)
    places = {cost: place for place, cost in enumerate(sorted({tuple(row) for row in table.costs.tolist()}))}
    levels = [sorted(set(column)) for column in table.drop_rate.T.tolist()]
    orders = [tuple(np.argsort(row).tolist()) for row in table.rank]
    choices = [tuple(levels[one].index(rate) for one, rate in enumerate(row)) for row in table.drop_rate.tolist()]
    unknown = len(places)
    lines = [f"(= (cost-of-nothing) {places[tuple(table.costs[0].tolist())]})  ; {Cost.of(table.costs[0])}"]
    known = {pair: row for row, pair in enumerate(zip(orders, choices, strict=True)) if row}
    settles = {}
    for order, choice in product(dict.fromkeys(orders[1:]), dict.fromkeys(choices[1:])):
        pair, row = (_order(order, names), _drops(choice, names)), known.get((order, choice))
        place = unknown if row is None else places[tuple(table.costs[row].tolist())]
        told = "not known" if row is None else Cost.of(table.costs[row])
        lines.append(f"(= (joint-cost {pair[0]} {pair[1]}) {place})  ; {told}")
        if row is not None:
            settles[pair] = row
    every_order, every_choice = _prefixes(orders[1:]), _prefixes(choices[1:])
    facts = _facts(names, levels, every_order, every_choice)
    about = [
        f"; {name} is the category {category}: {', '.join(f'level-{i} {rate:.2%}' for i, rate in enumerate(rates))}"
        for name, category, rates in zip(names, wanted.categories, levels, strict=True)
    ]
    about += [f"; required: {wanted.name(one)}, weight {one.weight:g}" for one in wanted.bounds]
    text = PROBLEM.format(
        about=_plain("\n".join(about)),
        categories=" ".join(names),
        levels=" ".join(f"level-{i}" for i in range(max(map(len, levels)))),
        orders=" ".join(_order(one, names) for one in every_order),
        drops=" ".join(_drops(one, names) for one in every_choice),
        facts="\n    ".join([*facts, *lines]),
    )
    return Pddl(domain=DOMAIN, problem=text, settles=settles)


def check_size(plans: int) -> None:
    """An error if there are more plans than a planner can read."""
    if plans > MOST_PLANS:
        raise FirelaneError(
            f"{plans:,} plans are more than the {MOST_PLANS:,} whose costs can be written in PDDL; "
            "use --planner search without --pddl, or have fewer categories that may be dropped"
        )


def _prefixes(whole: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The beginnings of them all, the shortest first."""
    size = len(whole[0]) if whole else 0
    return list(dict.fromkeys(one[:length] for length in range(1, size + 1) for one in whole))


def _facts(
    names: list[str],
    levels: list[list[float]],
    every_order: list[tuple[int, ...]],
    every_choice: list[tuple[int, ...]],
) -> list[str]:
    facts = ["(= (total-cost) 0)", f"(order-is {START_ORDER})", f"(drops-are {START_DROPS})"]
    facts += [f"(places {_order(one[:-1], names)} {names[one[-1]]} {_order(one, names)})" for one in every_order]
    facts += [f"(whole-order {_order(one, names)})" for one in every_order if len(one) == len(names)]
    for one in every_choice:
        category = len(one) - 1
        step = f"{_drops(one[:-1], names)} {names[category]} level-{one[-1]} {_drops(one, names)}"
        facts.append(f"(chooses {step})  ; {levels[category][one[-1]]:.2%}")
    facts += [f"(whole-drops {_drops(one, names)})" for one in every_choice if len(one) == len(names)]
    return facts


def _order(order: tuple[int, ...], names: list[str]) -> str:
    return "--".join(["order", *(names[one] for one in order)]) if order else START_ORDER


def _drops(levels: tuple[int, ...], names: list[str]) -> str:
    chosen = zip(names, levels, strict=False)
    return "--".join(["drops", *(f"{name}-{level}" for name, level in chosen)]) if levels else START_DROPS


def _names(categories: tuple[str, ...]) -> list[str]:
    """Names that PDDL can have, one for each category."""
    names: list[str] = []
    for number, category in enumerate(categories, start=1):
        plain = re.sub(r"[^a-z0-9]+", "-", category.lower()).strip("-")
        taken = plain in names or plain in _RESERVED or re.fullmatch(r"level-\d+|category-\d+|order.*|drops.*", plain)
        names.append(f"category-{number}" if taken or not plain[:1].isalpha() else plain)
    return names


_RESERVED = {
    "and", "or", "not", "define", "domain", "problem", "category", "level", "order", "drops", "object", "number",
    "place", "drop", "settle", "leave-alone", "settled", "places", "chooses", "minimize", "maximize", "increase",
    "decrease", "assign", "forall", "exists", "when", "imply", "either", START_ORDER, START_DROPS,
}  # fmt: skip


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)


def check_names(domain: str, problem: str) -> None:
    """An error if the goal or the metric names what the domain does not define: some planners pass over it."""
    defined = set(re.findall(r"\(\s*([a-z][\w-]*)", _section(domain, ":predicates") + _section(domain, ":functions")))
    words = {"and", "or", "not", "imply", "forall", "exists", "minimize", "maximize"}
    for section in (":goal", ":metric"):
        text = _section(problem, section)
        bare = set(re.findall(r"(?:minimize|maximize)\s+([a-z][\w-]*)", text))
        named = set(re.findall(r"\(\s*([a-z][\w-]*)", text)) | bare
        unknown = sorted(named - defined - words)
        if unknown:
            raise FirelaneError(f"the {section[1:]} names {unknown[0]}, which the domain does not define")


def _section(text: str, keyword: str) -> str:
    """From a keyword to the end of its list, in lower case, without comments; nothing if it is not there."""
    plain = re.sub(r";[^\n]*", "", text).lower()
    start = re.search(rf"\(\s*{keyword}\b", plain)
    if start is None:
        return ""
    depth = 0
    for place in range(start.start(), len(plain)):
        depth += {"(": 1, ")": -1}.get(plain[place], 0)
        if depth == 0:
            return plain[start.end() : place]
    return plain[start.end() :]
