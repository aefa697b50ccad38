"""Which class each flow gets: the most worth for the least bandwidth goes first.

Implements: firedex, section 4.2, Eq. 9 (`bandwidth-adjusted`) and the alternatives of section 5.4.
Differs:    `delay-adjusted` is ours: Eq. 9 is the c-mu index with rates before drops; here it is taken per
            flow, over the whole link, with rates after drops, so it orders by value per second of link
            actually used. Flows that are dropped entirely go to the last class.
Symbols:    Phi -> priority, Y -> classes, U^ -> curves.most, G lambda -> load.
Checked by: tests/tune/test_priorities.py
"""

from __future__ import annotations

import numpy as np

from firelane.arrays import Floats, Ints, sum_by
from firelane.scenario.routes import Routes
from firelane.tune.flows import Demand, Flows, places, split

PRIORITY_METHODS = ("none", "random", "information", "bandwidth-adjusted", "delay-adjusted")


def subscription_places(routes: Routes, wanted: Demand, method: str, seed: int) -> Ints:
    """Where each subscription stands in its subscriber's list, sorted as the method says (step 1)."""
    inside, worth = routes.subscription_subscriber, wanted.curves.most
    if method == "none":
        return places(inside)
    if method == "random":
        return places(inside, np.random.default_rng(seed).random(len(inside)))
    if method == "information":
        return places(inside, worth)
    return places(inside, _per_load(worth, wanted.load), worth)  # Eq. 9


def subscriber_classes(flows: Flows, method: str, classes: int) -> Ints:
    """Split every subscriber's flows, in their order, into the classes (steps 4 and 5)."""
    if method == "none":
        return np.zeros(len(flows.place), np.int64)
    return split(flows.place, np.bincount(flows.subscriber)[flows.subscriber], classes)


def link_classes(flows: Flows, weight: Floats, drop_rate: Floats, classes: int) -> Ints:
    """Split the flows of every link, by weight per load after drops, into the classes.

    What is dropped entirely or never published takes no room in the list.
    """
    value = sum_by(flows.subscription_flow, weight, len(flows.lane))
    load = flows.load * (1.0 - drop_rate)
    listed = np.flatnonzero(load > 0)
    lane = flows.lane[listed]
    place = places(lane, value[listed] / load[listed])
    priority = np.zeros(len(flows.lane), np.int64)
    priority[listed] = split(place, np.bincount(lane, minlength=flows.lanes)[lane], classes)
    return priority


def dropped_last(priority: Ints, drop_rate: Floats, classes: int) -> Ints:
    """The classes, with flows that are dropped entirely in the last one."""
    return np.where(drop_rate >= 1.0, classes - 1, priority)


def _per_load(worth: Floats, load: Floats) -> Floats:
    index: Floats = np.divide(worth, load, out=np.full(len(load), np.inf), where=load > 0)
    return index
