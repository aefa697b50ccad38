"""Which bounds are missed, and what plans do for everybody together."""

from __future__ import annotations

import numpy as np
import pytest

from fake_exchange import reading, seen, topic, want
from firelane.control import decide
from firelane.control.bounds import Bounds, Outcome, foretold, measured
from firelane.control.effect import Effect, ModelError, effect
from firelane.control.watch import Watch
from firelane.control.what_if import foreseen
from firelane.metrics import delays_compared
from firelane.scenario.model import Category, Need, Scenario
from firelane.scenario.utility import NeedTable

FAST, SURE, ANY = Need(max_delay_s=0.1), Need(max_loss=0.1), Need()


def outcome(*rows, samples=np.inf):
    """Rows of due, success and delay."""
    due, success, delay_s = (np.array(column, float) for column in zip(*rows, strict=True))
    return Outcome(
        due=due, success=success, delay_s=delay_s, samples=np.full(len(rows), samples), known=np.ones(len(rows), bool)
    )


def test_who_is_late_or_loses_too_much_is_known_with_words():
    bounds = Bounds(NeedTable([FAST, SURE, ANY]), {})
    found = outcome((10, 1.0, 0.3), (10, 0.8, 9.0), (10, 0.0, np.nan))
    assert bounds.missed(found) == 2
    assert bounds.words(found, ["one", "two", "three"]) == [
        "one: delay 0.3 s, 0.1 s asked for",
        "two: 80.0% arrives, 90.0% asked for",
    ]
    assert bounds.missed(outcome((10, 1.0, 0.1), (10, 0.9, 9.0), (10, 0.0, np.inf))) == 0
    assert bounds.missed(outcome((10, 1.0, np.inf), (10, 1.0, 0.0), (10, 1.0, 0.0))) == 1


def test_a_loss_that_chance_may_have_made_is_none():
    bounds = Bounds(NeedTable([SURE]), {})
    assert bounds.missed(outcome((100, 0.82, 0.0), samples=100)) == 0  # 3 x sqrt(0.1 x 0.9 / 100) = 0.09
    assert bounds.missed(outcome((100, 0.80, 0.0), samples=100)) == 1
    assert Bounds(NeedTable([Need(max_loss=0.0)]), {}).missed(outcome((100, 0.99, 0.0), samples=100)) == 1


def test_a_category_is_judged_as_a_whole():
    bounds = Bounds(
        NeedTable([Need(category="x"), Need(category="x"), ANY]), {"x": Category(max_delay_s=0.2, max_loss=0.25)}
    )
    assert bounds.any
    assert bounds.missed(outcome((10, 1.0, 0.3), (10, 0.5, 0.0), (1, 0.0, 9.0))) == 0  # 0.2 s, and a quarter is lost
    assert bounds.missed(outcome((10, 1.0, 0.31), (10, 0.5, 0.0), (1, 0.0, 9.0))) == 1
    assert bounds.missed(outcome((10, 1.0, 0.3), (11, 0.5, 0.0), (1, 0.0, 9.0))) == 1
    assert not Bounds(NeedTable([ANY]), {"x": Category(max_delay_s=0.2)}).any
    assert not Bounds(NeedTable([ANY]), {}).any


def test_what_is_measured_of_clients_that_are_one_subscriber_is_added():
    rows = [("s", "a", ANY, 30, 10, 0.1), ("s", "a", ANY, 10, 30, 0.5), ("t", "gone", ANY, 50, 0, 0.0)]
    found = measured(reading(rows), [0, 0, -1], 2)
    assert found.success.tolist() == [0.5, 0.0]
    assert found.delay_s[0] == pytest.approx(0.2)
    assert found.known.tolist() == [True, False]


def test_too_few_messages_say_nothing():
    assert not measured(reading([("s", "a", ANY, 10, 9, 0.1)]), [0], 1).known[0]


def test_the_effect_of_a_prediction_is_that_of_its_metrics():
    scene = seen([topic("a", 20.0), topic("b", 5.0)], [want("s", "a"), want("t", "b", need=Need(weight=3.0))])
    decision = decide(scene)
    metrics = foreseen(decision.routes, decision.plan)
    needs = decision.network.needs
    found = effect(foretold(metrics), needs, Bounds(needs, {}))
    assert found.utility_rate == pytest.approx(metrics.utility()["rate"])
    mean = delays_compared(np.ones(2), [metrics])[0]["message_weighted_s"]
    assert found.delay_mean_s == pytest.approx(mean)
    offered, delivered = metrics.column("offered_hz").sum(), metrics.column("delivered_hz").sum()
    assert found.loss == pytest.approx(1 - delivered / offered)


def test_the_error_of_the_model_follows_what_is_measured_and_has_an_end():
    error = ModelError()
    right = Effect(utility_rate=0.8, missed=0, delay_mean_s=0.1, loss=0.0)
    for _ in range(30):
        error.learn(right, right)
    assert error.utility < 1e-3
    for _ in range(30):
        error.learn(Effect(utility_rate=0.72, missed=0, delay_mean_s=0.11, loss=0.0), right)
    assert (error.utility, error.delay) == (pytest.approx(0.1, abs=1e-3), pytest.approx(0.1, abs=1e-3))
    for _ in range(30):
        error.learn(Effect(utility_rate=0.1, missed=0, delay_mean_s=None, loss=0.0), right)
    assert (error.utility, error.delay) == (0.2, pytest.approx(0.1, abs=1e-3))


def test_a_bound_is_missed_when_two_looks_in_a_row_say_so():
    watch, scenario, found = Watch(), Scenario(name="x"), []
    for second in range(12):
        delivered = 20 * second
        late = 20 * max(0, second - 4)  # of a second each, from the fifth on
        delay_s = late / delivered if delivered else 0.0
        found.append(watch.look(reading([("s", "a", FAST, delivered, 0, delay_s)]), scenario, float(second)))
    first = next(second for second, words in enumerate(found) if words)
    assert first == 6  # missed at 5 and at 6
    assert found[6].startswith("s a: delay")


def test_another_plan_is_looked_at_anew():
    watch, scenario = Watch(), Scenario(name="x")
    for second in range(1, 10):
        row = ("s", "a", FAST, 100 * second, 0, 1.0)
        assert watch.look(reading([row], version=second, began_wall_s=float(second)), scenario, float(second)) is None
