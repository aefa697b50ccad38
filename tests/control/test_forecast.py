"""Forecasts of rates: right where there is something to foresee, and harmless where there is not."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.control import forecast
from firelane.control.forecast import AS_NOW, CYCLE, LINE_LOOKS, TREND, Forecast, cycle, late_cycle, line, on_a_line

HORIZON = 8


def played(rates_hz, seed=1, horizon=HORIZON):
    """The forecast after Poisson traffic with these rates, and what it expected at every look."""
    chance, one, expected = np.random.default_rng(seed), Forecast(horizon), []
    for rate_hz in rates_hz:
        one.look({"a": float(chance.poisson(rate_hz))}, {"a": 1.0})
        expected.append(one.ahead({"a": rate_hz})["a"])
    return one, np.array(expected)


def test_a_line_goes_on():
    rates = np.arange(15.0)[:, None] * [10, 0] + [100, 50]
    assert line(rates, 5) == pytest.approx([100 + 10 * 19, 50])


@pytest.mark.parametrize("looks", LINE_LOOKS)
def test_chance_is_no_line_and_neither_is_a_step(looks):
    chance = np.random.default_rng(2)
    loads = chance.poisson(100, (10_000, looks)).astype(float)
    assert np.mean([on_a_line(load, load) for load in loads]) < 1e-3  # four standard errors: 6e-5
    for after in range(2, looks - 1):
        step = chance.poisson(np.where(np.arange(looks) < after, 100, 400)).astype(float)
        assert not on_a_line(step, step)
    ramp = chance.poisson(np.linspace(100, 160, looks)).astype(float)
    assert on_a_line(ramp, ramp)


def test_a_slow_ramp_is_believed_when_more_of_it_was_seen():
    rates = np.concatenate([np.full(60, 400.0), np.linspace(400, 700, 60)])
    one, expected = played(rates)
    assert one.way == TREND
    late = np.arange(90, 112)
    assert np.mean(np.abs(expected[late] - rates[late + HORIZON])) < 25  # as now would be 41 off


def test_a_ramp_is_believed_and_foreseen():
    rates = np.concatenate([np.full(60, 100.0), np.linspace(100, 400, 60), np.full(60, 400.0)])
    one, expected = played(rates)
    on_the_way = np.arange(75, 110)
    assert np.mean(np.abs(expected[on_the_way] - rates[on_the_way + HORIZON])) < 25  # as now would be 41 off
    assert one.record.helped > 2 * one.record.hurt


@pytest.mark.parametrize("period", [20, 60, 97])
def test_a_cycle_is_found_after_two_and_its_third_is_foreseen(period):
    time = np.arange(3 * period)
    rates = 200 + 150 * np.where(time % period < period // 3, 1, -1)
    one, expected = played(rates, horizon=min(HORIZON, period // 4))
    assert one.way == CYCLE
    third = 2 * period + np.arange(2, period // 3 - 2)  # its high part, without the edges
    assert np.all(expected[third - min(HORIZON, period // 4)] > 280)


def test_a_cycle_is_found_also_after_quite_other_things():
    before = np.concatenate([np.full(60, 200.0), np.linspace(200, 700, 60), np.full(30, 2000.0), np.full(60, 200.0)])
    time = np.arange(90)
    one, expected = played(np.concatenate([before, 200 + 150 * (1 - np.cos(2 * np.pi * time / 30))]))
    assert one.way == CYCLE
    top = len(before) + 75
    assert expected[top - HORIZON] == pytest.approx(500, rel=0.15)


def test_a_cycle_that_was_seen_only_once_is_none():
    time = np.arange(70)
    assert cycle(np.sin(2 * np.pi * time / 60)) is None
    assert cycle(np.sin(2 * np.pi * np.arange(115) / 60)) == pytest.approx(60, abs=1)


def test_noise_has_no_cycle():
    chance = np.random.default_rng(3)
    assert [cycle(chance.poisson(100, 300).astype(float)) for _ in range(50)] == [None] * 50
    assert cycle(np.full(100, 7.0)) is None
    variance = np.full(300, 100.0)
    ways = [late_cycle(chance.poisson(100, 300).astype(float), variance, HORIZON) for _ in range(200)]
    assert ways == [None] * 200


def test_a_few_topics_that_come_by_chance_have_no_cycle_at_any_look():
    rates_hz, costs = np.array([15.0, 30.0, 10.0, 30.0]), np.array([0.3, 1.0, 0.3, 1.0])
    for seed in range(20):
        chance, forecast = np.random.default_rng(seed), Forecast(HORIZON)
        ways = set()
        for _ in range(120):
            latest = chance.poisson(rates_hz).astype(float)
            forecast.look(dict(zip("abcd", latest, strict=True)), dict(zip("abcd", costs, strict=True)))
            ways.add(forecast.way)
        assert ways == {AS_NOW}


def test_where_nothing_can_be_foreseen_rates_are_as_now():
    one, expected = played(np.full(400, 100.0))
    assert one.way == AS_NOW
    assert np.mean(expected == 100.0) > 0.95
    jumps = np.random.default_rng(4).choice([50.0, 400.0], 40).repeat(10)
    two, _ = played(jumps)
    assert two.record.hurt <= 0.25 * len(jumps)


def test_topics_that_come_and_go_and_those_beyond_the_most_are_as_now(monkeypatch):
    monkeypatch.setattr(forecast, "MOST_TOPICS", 2)
    one = Forecast(HORIZON)
    for second in range(60):
        rates = {"a": 10.0 * second, "b": 5.0} if second > 20 else {"a": 10.0 * second}
        one.look(rates | {"c": 7.0}, {"a": 1.0, "b": 1.0, "c": 1.0})
    assert one.way == TREND
    found = one.ahead({"a": 590.0, "b": 5.0, "c": 7.0})
    assert found["a"] == pytest.approx(590 + 10 * HORIZON)
    assert found["c"] == 7.0


def test_topics_that_have_long_been_silent_make_room_for_others(monkeypatch):
    monkeypatch.setattr(forecast, "MOST_TOPICS", 2)
    monkeypatch.setattr(forecast, "MOST_LOOKS", 30)
    chance, one = np.random.default_rng(5), Forecast(HORIZON)
    for look in range(30):
        one.look({"once": float(look == 0), "a": 0.0 if look else 1.0}, {"once": 1.0, "a": 1.0})
    for rate_hz in np.linspace(100, 400, 31):
        one.look({"a": 0.0, "b": float(chance.poisson(rate_hz))}, {"a": 1.0, "b": 1.0})
    assert one.way == TREND
    assert one.ahead({"b": 400.0})["b"] > 420
