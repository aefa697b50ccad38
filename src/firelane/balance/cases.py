"""Loads from a seed: a city's day of topics with Pareto sizes, commuters' waves, and topics that come and go.

Implements: broker-cluster, section V: Pareto sizes that change frequently and unpredictably, a step a minute.
Differs:    drawn, not taken from vehicles: the traces behind the paper cannot be had.
Symbols:    K -> topics, N -> brokers, p_i^t -> load.
Checked by: tests/balance/test_cases.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from firelane.arrays import Flags, Floats
from firelane.balance.loads import Loads

TAILS = {"light": 2.5, "heavy": 1.1}  # the Pareto index: at 1.1 a few elephants carry most of the load
SIZES = ((100, 3), (300, 5), (1000, 10))  # topics and brokers
SEEDS = range(1, 11)
STEP_S = 60
STEPS = 1380  # the paper's 23 hours of minutes
SMALLEST = 100  # subscribers of the smallest topic, on average over its day
WALK_S, WALK_SIZE = 7200.0, 0.3  # each topic's own random walk: how long it remembers, how far it goes
RESTLESS = 0.2  # the share of topics that come and go
THERE_S, AWAY_S = 10_800.0, 3600.0  # for how long, on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One seeded case: what it is called, its loads, and how many brokers share them."""

    name: str
    tail: str
    brokers: int
    loads: Loads


def sixty(*, steps: int = STEPS) -> Iterator[Case]:
    """Three sizes, light and heavy tails, ten seeds each."""
    for (topics, brokers), tail, seed in product(SIZES, TAILS, SEEDS):
        yield one_case(topics=topics, brokers=brokers, tail=tail, seed=seed, steps=steps)


def one_case(*, topics: int, brokers: int, tail: str, seed: int, steps: int = STEPS) -> Case:
    """The case of this seed."""
    name = f"{topics} topics, {brokers} brokers, {tail} tail, seed {seed}"
    return Case(name=name, tail=tail, brokers=brokers, loads=day(topics=topics, tail=tail, seed=seed, steps=steps))


def day(*, topics: int, tail: str, seed: int, steps: int = STEPS) -> Loads:
    """The subscribers of so many topics, minute by minute."""
    random = np.random.default_rng(seed)
    size = SMALLEST * (1.0 + random.pareto(TAILS[tail], topics))
    subscribers = size * _waves(random, topics, steps) * _walks(random, topics, steps)
    return Loads(
        topics=tuple(f"zone/{number}" for number in range(1, topics + 1)),
        times_s=np.arange(steps) * STEP_S,
        load=np.round(subscribers) * _presence(random, topics, steps),
        unit="subscribers",
    )


def _waves(random: np.random.Generator, topics: int, steps: int) -> Floats:
    """Steps x topics, a mean of about 1 over the day: a morning and an evening peak, more of one in each topic."""
    hour = np.arange(steps)[:, None] * STEP_S / 3600 - random.normal(0.0, 1.0, topics)
    morning = random.uniform(0.0, 1.0, topics)
    peak = morning * np.exp(-(((hour - 8.0) / 2.0) ** 2)) + (1.0 - morning) * np.exp(-(((hour - 17.5) / 2.5) ** 2))
    return np.asarray(0.3 + 4.0 * peak)


def _walks(random: np.random.Generator, topics: int, steps: int) -> Floats:
    """Steps x topics: factors around 1 that wander, each topic's for itself."""
    kept = np.exp(-STEP_S / WALK_S)
    shocks = random.normal(0.0, WALK_SIZE, (steps, topics))
    shocks[1:] *= np.sqrt(1.0 - kept**2)
    walk = np.empty((steps, topics))
    here = np.zeros(topics)
    for t in range(steps):
        here = kept * here + shocks[t]
        walk[t] = here
    return np.asarray(np.exp(walk - WALK_SIZE**2 / 2))


def _presence(random: np.random.Generator, topics: int, steps: int) -> Flags:
    """Steps x topics: is the topic there?"""
    restless = random.random(topics) < RESTLESS
    chance = random.random((steps, topics))
    present = np.empty((steps, topics), np.bool_)
    here = ~restless | (random.random(topics) < THERE_S / (THERE_S + AWAY_S))
    for t in range(steps):
        changes = restless & (chance[t] < STEP_S / np.where(here, THERE_S, AWAY_S))
        here = here ^ changes
        present[t] = here
    return present
