"""Topic names and filters against the words of MQTT 5, section 4.7."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.mqtt import TopicTree, filter_problem, topic_problem

levels = st.sampled_from(["", "a", "b", "c", "$a", "$SYS", "é"])
names = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.tuples(
    st.lists(st.sampled_from(["", "a", "b", "+", "+", "$a", "$SYS"]), max_size=4), st.sampled_from([[], ["#"]])
).map(lambda parts: "/".join(parts[0] + parts[1]))


def naive_match(topic_filter: str, name: str) -> bool:
    """The standard's rules, level by level, by recursion."""
    if name.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False

    def match(wanted: list[str], given: list[str]) -> bool:
        if wanted == ["#"]:
            return True
        if not wanted or not given:
            return not wanted and not given
        return wanted[0] in ("+", given[0]) and match(wanted[1:], given[1:])

    wanted, given = topic_filter.split("/"), name.split("/")
    return match(wanted, given) or (wanted[-1] == "#" and match(wanted[:-1], given))


@given(st.lists(names, unique=True, max_size=30), filters)
def test_the_tree_finds_what_the_naive_matcher_finds(topics, topic_filter):
    expected = [number for number, name in enumerate(topics) if naive_match(topic_filter, name)]
    assert TopicTree(topics).matching(topic_filter) == expected


@pytest.mark.parametrize(
    ("topic_filter", "name", "matches"),
    [
        # The examples of the standard.
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "sport", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/uptime", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("+/#", "$SYS", False),
        ("a/#", "ab", False),
        ("a", "A", False),
        ("a/+/#", "a/$b", True),
    ],
)
def test_the_examples_of_the_standard_hold(topic_filter, name, matches):
    assert TopicTree([name]).matching(topic_filter) == ([0] if matches else [])


@pytest.mark.parametrize("good", ["a", "/", "a//b", " ", "$SYS/x", "a b", "é/1", "x" * 65_535])
def test_good_topic_names_have_no_problem(good):
    assert topic_problem(good) is None


@pytest.mark.parametrize("bad", ["", "a/+", "#", "a#", "a\0b", "\ud800", "x" * 65_536, "é" * 32_768])
def test_bad_topic_names_have_one(bad):
    assert topic_problem(bad)


@pytest.mark.parametrize("good", ["#", "+", "+/+", "/+", "a/#", "+/a/#", "$share/g/a", "a//+"])
def test_good_filters_have_no_problem(good):
    assert filter_problem(good) is None


@pytest.mark.parametrize("bad", ["", "a#", "#/a", "a/#/b", "a+", "+a/b", "a/b+/c", "##", "a\0", "\ud800", "x" * 65_536])
def test_bad_filters_have_one(bad):
    assert filter_problem(bad)
