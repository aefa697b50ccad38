"""The least load that subscribers ask for, and what one of them can do to the others."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.errors import FirelaneError
from firelane.sense.agreement import LoadSignals

PERIOD_S = 120.0


def signals(**changed) -> LoadSignals:
    return LoadSignals(**({"most": 0.7, "floor": 0.1, "period_s": PERIOD_S} | changed))


def test_the_least_counts_and_nobody_is_no_target():
    ask = signals()
    assert ask.target(0.0) is None
    assert ask.heard("a", None, 0.6, 0.0)
    assert ask.heard("b", None, 0.5, 1.0)
    assert ask.target(2.0) == 0.5
    ask.gone("b")
    assert ask.target(2.0) == 0.6


def test_a_signal_lives_two_and_a_half_periods_unless_it_is_renewed():
    ask = signals()
    ask.heard("a", None, 0.5, 0.0)
    ask.heard("b", None, 0.6, 0.0)
    ask.heard("b", None, 0.6, PERIOD_S)
    assert ask.target(2.5 * PERIOD_S) == 0.5
    assert ask.target(2.51 * PERIOD_S) == 0.6
    assert ask.target(3.6 * PERIOD_S) is None
    assert len(ask) == 0


def test_an_honest_subscriber_that_needs_half_is_heard_at_once():
    """The paper's Fig. 13: from 0.7 to 0.4."""
    ask = signals()
    ask.heard("tablet", None, 0.7, 0.0)
    ask.heard("tablet", None, 0.4, PERIOD_S)
    assert ask.target(PERIOD_S) == 0.4


def test_more_than_is_offered_counts_as_what_is_offered():
    ask = signals()
    assert ask.heard("a", None, 1.0, 0.0)
    assert ask.target(0.0) == 0.7


def test_attack_the_lowest_signal_halves_the_target_in_a_period_and_ends_at_the_floor():
    ask, seen = signals(), []
    for tick in range(1200):
        ask.heard("mallory", "mallory", 0.0, float(tick))
        seen.append(ask.target(float(tick)))
    assert seen[0] == pytest.approx(0.35)
    for tick in range(120, 1200):
        assert seen[tick] >= max(0.5 * seen[tick - 120], 0.1) - 1e-12
    assert seen[-1] == 0.1
    assert min(seen) == 0.1


def test_attack_a_flood_is_heard_four_times_a_period_and_the_rest_is_counted():
    ask = signals()
    taken = sum(ask.heard("mallory", None, 0.3, second / 100) for second in range(int(100 * PERIOD_S)))
    assert taken == 4
    assert ask.refused["soon"] == 100 * PERIOD_S - 4


def test_attack_coming_anew_does_not_lower_the_target_faster():
    ask, lowest = signals(), 1.0
    for second in range(600):
        ask.gone("mallory")
        ask.heard("mallory", None, 0.0, float(second))
        lowest = min(lowest, ask.target(float(second)))
    assert lowest == pytest.approx(0.35)


@pytest.mark.parametrize("load", [math.nan, math.inf, -math.inf, -0.1, 1.01, 1e300, True, "0.5", None])
def test_attack_garbage_is_refused_and_counted_and_keeps_nothing_alive(load):
    ask = signals()
    ask.heard("a", None, 0.5, 0.0)
    assert not ask.heard("a", None, load, PERIOD_S)
    assert ask.refused["garbage"] == 1
    assert ask.target(2.6 * PERIOD_S) is None


def test_attack_many_clients_of_one_user_take_no_room_from_others_and_lower_nothing_further():
    ask = signals(most_clients=100)
    assert ask.heard("honest-0", "honest", 0.6, 0.0)
    for number in range(10_000):
        ask.heard(f"sybil-{number}", "mallory", 0.0, number / 1000)
    assert len(ask) == 100
    assert ask.refused["full"] >= 9_900
    for number in range(1, 20):
        assert ask.heard(f"honest-{number}", "honest", 0.6, 11.0)
    assert ask.heard("other", "other", 0.65, 11.0)
    assert len(ask) == 100
    assert ask.target(11.0) == pytest.approx(0.35)
    for number in range(10_000):
        ask.gone(f"sybil-{number}")
    assert len(ask) == 21
    assert ask.target(11.0) == 0.6


def test_two_users_cannot_push_each_other_out_for_ever():
    ask = signals(most_clients=10)
    for number in range(5):
        assert ask.heard(f"a{number}", "a", 0.5, 0.0)
        assert ask.heard(f"b{number}", "b", 0.5, 0.0)
    assert not ask.heard("a5", "a", 0.5, 0.0)
    assert not ask.heard("b5", "b", 0.5, 0.0)


def test_memory_is_bounded_and_freed():
    ask = signals(most_clients=50)
    for number in range(5_000):
        ask.heard(f"client-{number}", f"user-{number}", 0.5, number * 1.0)
        ask.gone(f"client-{number - 20}")
    assert len(ask) <= 50
    assert len(ask._users) == len(ask)
    for number in range(5_000):
        ask.gone(f"client-{number}")
    assert (len(ask), len(ask._users)) == (0, 0)
    assert sys.getsizeof(ask._signals) < 50_000


def kept(ask: LoadSignals, others: dict[str, float], periods: int) -> list[float]:
    """Targets while others renew their signals and mallory, with many clients, sends the lowest allowed."""
    seen = []
    for period in range(periods):
        now_s = period * PERIOD_S
        for name, load in others.items():
            ask.heard(name, name, load, now_s)
        for number in range(20):
            ask.heard(f"mallory-{number}", "mallory", 0.0, now_s)
        seen.append(ask.target(now_s))
    return seen


def test_attack_if_asked_to_a_user_who_stays_far_below_the_others_stops_to_count():
    others = {"a": 0.7, "b": 0.6, "c": 0.65}
    plain, wary = kept(signals(), others, 12), kept(signals(outlying=0.5), others, 12)
    assert plain[-1] == 0.1
    assert min(wary) == 0.1  # it has its time, as an honest one would
    assert wary[-3:] == [0.6] * 3


def test_an_outlier_that_comes_back_counts_again_and_two_users_have_no_median():
    ask = signals(outlying=0.5)
    kept(ask, {"a": 0.7, "b": 0.6, "c": 0.65}, 12)
    for number in range(20):
        ask.heard(f"mallory-{number}", "mallory", 0.5, 12 * PERIOD_S)
    assert ask.target(12 * PERIOD_S) == 0.5
    assert kept(signals(outlying=0.5), {"a": 0.7}, 12)[-1] == 0.1


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(), st.floats(0, 500)), max_size=60))
def test_whatever_is_sent_the_target_is_within_its_limits(sent):
    ask, now_s = signals(most_clients=4), 0.0
    for client, load, later_s in sent:
        now_s += later_s
        ask.heard(client, client.upper(), load, now_s)
        target = ask.target(now_s)
        assert target is None or 0.1 <= target <= 0.7
        assert len(ask) <= 4


def test_a_clock_that_was_set_back_lets_signals_in():
    ask = signals()
    ask.heard("a", None, 0.6, 1e6)
    assert ask.heard("a", None, 0.5, 0.0)
    assert ask.heard("a", None, 0.5, PERIOD_S)
    assert ask.target(PERIOD_S) == 0.5


def test_the_least_is_the_least_of_many():
    draw, ask = np.random.default_rng(3), signals()
    loads = draw.uniform(0.35, 0.7, 300)
    for number, load in enumerate(loads):
        assert ask.heard(str(number), None, float(load), 0.0)
    assert ask.target(0.0) == loads.min()


@pytest.mark.parametrize(
    "wrong", [{"floor": 0.0}, {"floor": 0.8}, {"most": 1.1}, {"period_s": 0.0}, {"most_clients": 0}, {"outlying": 1.0}]
)
def test_limits_that_are_none_are_refused(wrong):
    with pytest.raises(FirelaneError):
        signals(**wrong)
