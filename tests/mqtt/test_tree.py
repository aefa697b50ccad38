"""The two trees agree with matching one by one, whatever is put in and taken out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from test_topics import filters, naive_match, names

from firelane.mqtt import FilterTree, TopicTree

changes = st.lists(st.tuples(st.booleans(), filters, st.integers(0, 3)), max_size=40)


@given(changes, names)
def test_filters_that_match_are_found_after_any_changes(changes, topic):
    tree, held = FilterTree(), set()
    for adding, topic_filter, value in changes:
        if adding:
            tree.add(topic_filter, value)
            held.add((topic_filter, value))
        elif (topic_filter, value) in held:
            tree.remove(topic_filter, value)
            held.discard((topic_filter, value))
    expected = sorted(value for topic_filter, value in held if naive_match(topic_filter, topic))
    assert sorted(tree.matching(topic)) == expected


@given(st.lists(filters, unique=True, max_size=30))
def test_a_tree_of_filters_emptied_again_holds_nothing(several):
    tree = FilterTree()
    for number, topic_filter in enumerate(several):
        tree.add(topic_filter, number)
    for number, topic_filter in enumerate(several):
        tree.remove(topic_filter, number)
    assert tree._root.empty
    assert not tree._exact


@given(st.lists(st.tuples(st.booleans(), names), max_size=40), filters)
def test_topics_that_a_filter_matches_are_found_after_any_changes(changes, topic_filter):
    tree, held = TopicTree(), set()
    for adding, name in changes:
        if adding:
            tree.add(name, name)
            held.add(name)
        elif name in held:
            tree.remove(name)
            held.discard(name)
    assert sorted(tree.matching(topic_filter)) == sorted(name for name in held if naive_match(topic_filter, name))
    assert len(tree) == len(held)
    for name in list(held):
        tree.remove(name)
    assert not tree._root.children


def test_many_levels_cost_no_stack():
    deep = "/".join(["a"] * 30_000)
    topics, filters_ = TopicTree(), FilterTree()
    topics.add(deep, 1)
    filters_.add(deep + "/#", 1)
    assert topics.matching("#") == [1]
    assert filters_.matching(deep) == [1]
