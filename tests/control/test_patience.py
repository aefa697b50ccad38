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
