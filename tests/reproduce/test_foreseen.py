"""What is foreseen of a city: what edges will have told of what is published, and `firelane balance` by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firelane.balance import Loads, balance
from firelane.exchange.measuring.traffic import SELDOM_S
from firelane.overlay.edge import NOTABLE
from firelane.reproduce.pubsubcoord.city import rates
from firelane.reproduce.pubsubcoord.foreseen import PERIOD_STEPS, THRESHOLD, Played, as_told, foreseen

BOUNDED = {"method": "bounded-moves", "threshold": THRESHOLD, "max_moves": 10}
START = np.arange(20) % 3


def played(load, *, hold_s=40.0, step_s=10.0, settings=BOUNDED):
    """The first row for as long as the others."""
    topics = tuple(f"zone/{number:04}" for number in range(load.shape[1]))
    return Played(
        loads=Loads(topics=topics, times_s=np.arange(len(load)), load=load),
        warm_s=hold_s,
        led_s=0.0,
        hold_s=hold_s,
        step_s=step_s,
        routers=3,
        start=START,
        settings=settings,
    )


def city(steps):
    return rates(topics=20, steps=1 + steps, minutes=10, rate_hz=100.0, tail="light", seed=2).load


def test_every_topic_is_published_evenly_at_its_rates():
    load = city(3)
    one = played(load)
    assert one.sent(-40.0).tolist() == [0] * 20
    for at_s, whole in ((-10.0, 30 * load[0]), (0.0, 40 * load[0]), (100.0, 40 * load[:3].sum(axis=0) + 20 * load[3])):
        assert np.all(np.abs(one.sent(at_s) - whole) <= 1)
    assert one.row(np.array([-0.1, 0.0, 39.9, 40.0, 119.0])).tolist() == [0, 1, 1, 2, 3]


@pytest.mark.parametrize("look_s", [0.2, 2.6, 4.9])
def test_an_edge_tells_a_change_late_and_then_to_a_twentieth(look_s):
    before, now = np.full(20, 10.0), np.full(20, 10.0)
    now[:5] = 11.5  # too little to be taken for a change, so it comes in slowly
    at_s, told = as_told(played(np.array([before, now, now])), look_s)
    counted_hz = 1 / SELDOM_S  # a message more or less at a look
    late = told[(at_s > 0) & (at_s < SELDOM_S)][0]
    assert np.all(np.abs(late - before) <= NOTABLE * 10 + counted_hz)
    # Forgotten with e to the -1 in ten seconds: after 60 s less than a hundredth of the change is left.
    end = told[at_s > 60]
    assert np.all(np.abs(end - now) <= NOTABLE * 11.5 + counted_hz + 0.015)


def test_what_is_known_exactly_is_balanced_as_balance_does_by_itself():
    load = city(12)
    one = played(load, hold_s=10.0)  # a step of the leader for each of the city
    current = {topic: f"broker-{place + 1}" for topic, place in zip(one.loads.topics, START, strict=True)}
    whole = replace(one.loads, times_s=one.loads.times_s[1:], load=load[1:])
    alone = balance(whole, brokers=3, current=current, **BOUNDED)
    found = foreseen(one)
    assert found["exact_difference_hz"] == pytest.approx(alone.score.difference.tolist())
    assert found["exact_moves"] == alone.score.switches.sum() > 0


def test_a_period_counts_from_when_topics_were_assigned():
    load = city(2 * PERIOD_STEPS)
    settings = {"method": "long-term-causal"}
    one = replace(played(load, hold_s=10.0, settings=settings), warm_s=100.0, led_s=100.0)
    current = {topic: f"broker-{place + 1}" for topic, place in zip(one.loads.topics, START, strict=True)}
    rows = np.vstack((np.repeat(load[:1], 10, axis=0), load[1:], np.repeat(load[-1:], PERIOD_STEPS - 10, axis=0)))
    whole = Loads(topics=one.loads.topics, times_s=np.arange(len(rows)), load=rows)
    alone = balance(whole, brokers=3, current=current, reconfigurations=2, **settings)
    found = foreseen(one)
    assert found["exact_difference_hz"] == pytest.approx(alone.score.difference[10 : 10 + len(load) - 1].tolist())
    assert found["exact_moves"] == alone.score.switches.sum() > 0
    still = [np.bincount(START, row).max() - np.bincount(START, row).min() for row in load[1:]]
    assert found["exact_difference_hz"][: PERIOD_STEPS - 10] == pytest.approx(still[: PERIOD_STEPS - 10])


def test_the_slower_a_city_the_less_measuring_costs():
    def cost(hold_s):
        found = foreseen(played(city(8), hold_s=hold_s))
        low, high = np.array(found["predicted_range_hz"])
        assert np.all(low <= found["predicted_difference_hz"])
        assert np.all(high >= found["predicted_difference_hz"])
        assert len(found["predicted_moves"]) == len(found["predicted_means_hz"])
        return np.mean(found["predicted_difference_hz"]) - np.mean(found["exact_difference_hz"])

    assert cost(20.0) > 2 * cost(120.0)


def test_topics_that_nobody_has_told_of_yet_count_as_average_ones_and_stay():
    one = replace(played(np.full((3, 20), 5.0), hold_s=10.0, step_s=1.0), warm_s=0.1)
    at_s, told = as_told(one, 0.1)
    assert not told[np.searchsorted(at_s, 1.0)].any()
    assert max(foreseen(one)["predicted_moves"]) < 20
