"""When changes are acted on."""

from __future__ import annotations

import math

import pytest

from firelane.control.patience import LATEST_S, QUIET_S, Patience


def test_a_change_is_acted_on_after_some_quiet():
    patience = Patience(0.0)
    assert patience.due_at == math.inf
    assert not patience.waiting
    patience.changed(5.0)
    assert patience.waiting
    assert patience.due_at == pytest.approx(5.0 + QUIET_S)
    patience.changed(5.15)
    assert patience.due_at == pytest.approx(5.15 + QUIET_S)


def test_changes_that_do_not_end_are_acted_on_all_the_same():
    patience = Patience(0.0)
    for tenths in range(30):
        patience.changed(5.0 + tenths / 10)
        assert patience.due_at <= 5.0 + LATEST_S
    assert patience.due_at == 5.0 + LATEST_S


def test_what_was_acted_on_is_done_with():
    patience = Patience(0.0)
    patience.changed(5.0)
    patience.acted(5.2)
    assert not patience.waiting
    assert patience.due_at == math.inf
    patience.changed(5.3)
    assert patience.due_at == pytest.approx(5.3 + QUIET_S)


def test_it_is_not_acted_on_too_often():
    patience = Patience(3.0)
    patience.changed(5.0)
    assert patience.due_at == pytest.approx(5.0 + QUIET_S)
    patience.acted(5.2)
    patience.changed(5.3)
    assert patience.due_at == pytest.approx(8.2)
    patience.changed(8.19)
    assert patience.due_at == pytest.approx(8.2)


def test_what_takes_long_is_not_done_again_soon():
    patience = Patience(3.0)
    patience.changed(5.0)
    patience.acted(5.2)
    patience.done(5.4)
    patience.changed(5.5)
    assert patience.due_at == pytest.approx(8.2)
    patience.acted(8.2)
    patience.done(9.2)
    patience.changed(9.3)
    assert patience.due_at == pytest.approx(18.2)


def test_the_budget_is_for_so_many_a_minute():
    patience, acted = Patience(0.0, 6), []
    now = 100.0
    while now < 220.0:
        patience.changed(now)
        if patience.due_at <= now + QUIET_S:
            now = patience.due_at
            patience.acted(now)
            acted.append(now)
        now += 0.5
    assert sum(at < 160.0 for at in acted) <= 6 + 6
    assert sum(160.0 <= at < 220.0 for at in acted) == pytest.approx(6, abs=1)
    assert acted[5] < 105.0  # the first come as they are wanted


def test_a_budget_that_was_not_used_is_not_saved_up():
    patience, acted = Patience(0.0, 3), 0
    patience.changed(10_000.0)
    while patience.due_at <= 10_001.0:
        patience.acted(patience.due_at)
        acted += 1
        patience.changed(10_000.5)
    assert acted == 3


def test_another_budget_holds_at_once():
    patience = Patience(0.0, 60)
    patience.allow(1)
    patience.changed(100.0)
    patience.acted(100.2)
    patience.changed(100.3)
    assert patience.due_at == pytest.approx(160.2)
