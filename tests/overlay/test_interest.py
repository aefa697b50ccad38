"""What other edges want, kept up to date change by change, is what a look at all of them would find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.overlay.interest import Edge, Interest
from firelane.overlay.registry import Wish

EDGES = st.sampled_from(["a", "b", "c"])
FILTERS = st.sampled_from(["t", "t/1", "t/+", "#", "u"])
NEEDS = st.sampled_from([None, {"weight": "5"}, {"weight": "2", "max-loss": "10 %"}, {"keep": "latest"}])
WISHES = st.builds(Wish, qos=st.integers(0, 2), keeps=st.booleans(), need=NEEDS)
CHANGES = st.lists(
    st.tuples(EDGES, st.none() | st.builds(Edge, here=st.booleans(), filters=st.dictionaries(FILTERS, WISHES)))
)


@given(CHANGES)
def test_changes_one_by_one_end_where_a_look_at_everything_does(changes):
    interest, last = Interest(), {}
    for name, edge in changes:
        interest.change(name, edge)
        interest.filters()
        interest.of("t/1")
        last[name] = edge
    afresh = Interest()
    for name, edge in last.items():
        afresh.change(name, edge)
    for topic in ("t", "t/1", "u", "v"):
        assert interest.of(topic) == afresh.of(topic)
    ours, theirs = interest.filters(), afresh.filters()
    assert ours.keys() == theirs.keys()
    assert {one: wish.qos for one, wish in ours.items()} == {one: wish.qos for one, wish in theirs.items()}


@given(EDGES, st.none() | st.builds(Edge, here=st.booleans(), filters=st.dictionaries(FILTERS, WISHES)))
def test_the_same_once_more_is_no_change(name, edge):
    interest = Interest()
    interest.change(name, edge)
    again = interest.change(name, edge)
    assert not again.new
    assert not again.gone
    assert not again.debts or edge is None


def test_what_is_wanted_anew_is_new_though_nobody_saw_that_it_was_not_wanted():
    interest = Interest()
    assert interest.change("a", Edge(here=True, filters={"t": Wish(qos=1, anew=1)})).new == {"t"}
    assert interest.change("a", Edge(here=True, filters={"t": Wish(qos=1, anew=2)})).new == {"t"}
    assert interest.change("a", Edge(here=True, filters={"t": Wish(qos=2, anew=2)})).new == set()
    assert interest.of("t") == {"a": 2}
    assert interest.change("a", None).gone == {"t"}
    assert interest.of("t") == {}


def test_filters_that_come_and_go_leave_nothing_behind():
    """Also with routers, which never ask for all filters."""
    interest = Interest()
    for number in range(100):
        interest.change("a", Edge(here=True, filters={f"reply/{number}": Wish(qos=0)}))
    interest.change("a", None)
    assert not any((interest._wishes, interest._joined, interest._altered))


def test_who_wants_less_goes_or_comes_may_be_owed_something_else():
    interest = Interest()
    more = {"t": Wish(qos=1), "u": Wish(qos=1, keeps=True)}
    assert interest.change("a", Edge(here=True, filters=more)).debts  # it has come
    assert not interest.change("a", Edge(here=True, filters={**more, "v": Wish(qos=1)})).debts
    assert interest.change("a", Edge(here=True, filters=more)).debts  # it wants less
    away = interest.change("a", Edge(here=False, filters=more))
    assert away.gone == {"t"}
    assert away.debts
    assert interest.change("a", None).debts


@pytest.mark.parametrize(
    ("needs", "together"),
    [
        ([None, None], None),
        ([{"weight": "5"}, {"weight": "5"}], {"weight": "5"}),
        ([{"weight": "5", "keep": "latest"}, {"max-loss": "0 %"}], {"weight": "5", "max-loss": "0"}),
        ([{"weight": "5", "keep": "latest"}, {"weight": "2", "keep": "latest"}], {"weight": "5", "keep": "latest"}),
        ([{"max-delay": "2 s"}, {"max-delay": "0.5 s"}, None], {"max-delay": "500 ms"}),
        ([{"min-share": "20 %"}, {"weight": "3", "min-share": "10 %"}], {"weight": "3", "min-share": "0.2"}),
        ([{"weight": "much"}, {"weight": "3"}], {"weight": "3"}),
    ],
)
def test_one_copy_for_several_is_treated_as_the_tightest_bound_of_any_asks(needs, together):
    interest = Interest()
    for number, need in enumerate(needs):
        interest.change(f"{number}", Edge(here=True, filters={"t": Wish(qos=0, need=need)}))
    assert interest.filters() == {"t": Wish(qos=0, need=together)}
