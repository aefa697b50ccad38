"""When another plan is worth applying."""

from dataclasses import replace

from firelane.control.compare import Comparison
from firelane.control.effect import Effect, ModelError

FINE = Effect(utility_rate=0.9, missed=0, delay_mean_s=0.01, loss=0.1)
BETTER = Comparison(predicted=FINE, before=replace(FINE, utility_rate=0.5), changed=3, settles=False, sooner=0.0)


def test_a_plan_that_gains_much_is_worth_it_for_what_is_but_not_for_what_may_come():
    assert BETTER.worthwhile(ModelError())
    assert not BETTER.worthwhile(ModelError(), beforehand=True)


def test_what_saves_bounds_or_a_link_from_overload_is_worth_it_beforehand():
    saves = replace(BETTER, before=replace(FINE, missed=2))
    assert saves.worthwhile(ModelError(), beforehand=True)
    assert replace(BETTER, settles=True).worthwhile(ModelError(), beforehand=True)


def test_a_plan_that_changes_nothing_is_never_worth_it():
    assert not replace(BETTER, changed=0, settles=True).worthwhile(ModelError(), beforehand=True)
