"""How often messages may be sent directly; rates are those of the clock that is given."""

from __future__ import annotations

import pytest

from firelane.overlay.paths.allowance import MOST_TOPICS, Allowance


def sent(allowance, seconds, **rates_hz):
    """How many of each topic may be sent, where each sends evenly at its rate."""
    times = sorted((n / rate_hz, name) for name, rate_hz in rates_hz.items() for n in range(int(seconds * rate_hz)))
    allowed = [(at, name) for at, name in times if allowance.allows(name, at)]
    return {name: [at for at, one in allowed if one == name] for name in rates_hz}


def test_below_the_rate_all_may_be_sent():
    found = sent(Allowance(100.0), 10, a=50, b=30)
    assert {name: len(times) for name, times in found.items()} == {"a": 500, "b": 300}


def test_above_it_the_topic_that_sends_most_is_left_out_and_not_message_by_message():
    allowance = Allowance(100.0)
    found = sent(allowance, 20, noisy=500, alarm=10)
    assert len(found["alarm"]) == 200
    times = found["noisy"]
    assert times == pytest.approx([n / 500 for n in range(len(times))])  # the first ones, without a gap
    assert max(times) < 1.0
    assert allowance.left_out == ["noisy"]


def test_a_topic_that_sends_less_again_is_let_in_again():
    allowance = Allowance(100.0)
    assert len(sent(allowance, 5, noisy=500)["noisy"]) < 200
    later = [allowance.allows("noisy", 5 + n / 50) for n in range(500)]
    assert not later[0]
    assert all(later[250:])
    assert later == sorted(later)  # once
    assert allowance.left_out == []


def test_a_topic_that_would_use_nearly_all_is_not_let_in_again():
    allowance = Allowance(100.0)
    sent(allowance, 5, noisy=500)
    assert not any(allowance.allows("noisy", 5 + n / 90) for n in range(900))


def test_only_as_many_topics_are_left_out_as_need_be():
    allowance = Allowance(100.0)
    for n in range(10):
        assert allowance.allows("alarm", 0.0)
        assert allowance.allows(f"other/{n}", 0.0)
    assert [allowance.allows("noisy", 0.0) for _ in range(100)] == [n < 80 for n in range(100)]
    assert allowance.left_out == ["noisy"]


def test_no_rate_means_nothing_and_a_very_low_one_a_message_now_and_then():
    assert sent(Allowance(0.0), 100, a=1) == {"a": []}
    seldom = Allowance(0.001)
    assert [seldom.allows("a", at) for at in (0.0, 0.1, 0.2, 60.0)] == [True, False, False, True]


def test_so_many_topics_are_remembered_and_no_more():
    allowance = Allowance(1e9)
    assert all(allowance.allows(str(n), 0.0) for n in range(MOST_TOPICS))
    assert not allowance.allows("one more", 0.0)
    assert len(allowance) == MOST_TOPICS
    assert allowance.allows("one more", 60.0)  # the others have been silent
    assert len(allowance) == 1
