"""Topic names and filters against the words of MQTT 5, section 4.7."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.mqtt import filter_problem, numbered, topic_problem
from firelane.mqtt.topics import covers, intersection, matches, overlaps, plain_filter

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
    assert sorted(numbered(topics).matching(topic_filter)) == expected


@pytest.mark.parametrize(
    ("topic_filter", "name", "matching"),
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
def test_the_examples_of_the_standard_hold(topic_filter, name, matching):
    assert numbered([name]).matching(topic_filter) == ([0] if matching else [])
    assert matches(topic_filter, name) == matching


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


@given(filters.filter(bool), names)
def test_a_filter_matches_what_the_naive_matcher_says(topic_filter, name):
    assert matches(topic_filter, name) == naive_match(topic_filter, name)


# ------------------------------------------------------------------------ filters compared with each other

# Every topic of up to four levels, with a level that no filter names, and one level deeper than the filters.
TOPICS = ["/".join(some) for depth in (1, 2, 3, 4) for some in product(["", "a", "$a", "z", "$z"], repeat=depth)][1:]
FILTERS = ["/".join(some) for depth in (1, 2, 3) for some in product(["", "a", "$a", "+"], repeat=depth)][1:]
FILTERS += ["#", *(f"{some}/#" for some in FILTERS), "/#"]


@pytest.fixture(scope="module")
def matched():
    """The topics that each filter matches, as the bits of a number."""
    return {one: sum(1 << n for n, topic in enumerate(TOPICS) if naive_match(one, topic)) for one in FILTERS}


def test_a_filter_covers_another_when_it_matches_all_of_its_topics(matched):
    wrong = [(a, b) for a, b in product(FILTERS, FILTERS) if covers(a, b) != (matched[b] & ~matched[a] == 0)]
    assert wrong == []


def test_filters_overlap_when_some_topic_matches_both(matched):
    wrong = [(a, b) for a, b in product(FILTERS, FILTERS) if overlaps(a, b) != (matched[a] & matched[b] != 0)]
    assert wrong == []


def test_the_intersection_matches_what_both_match(matched):
    for a, b in product(FILTERS, FILTERS):
        both = intersection(a, b)
        assert (matched[both] if both is not None else 0) == matched[a] & matched[b], (a, b, both)


wide_filters = st.tuples(
    st.lists(st.sampled_from(["", "a", "b", "é", "+", "$a"]), min_size=1, max_size=12), st.sampled_from([[], ["#"]])
).map(lambda parts: "/".join(parts[0] + parts[1])).filter(bool)  # fmt: skip


@given(wide_filters, wide_filters, wide_filters)
def test_filters_obey_the_laws_of_sets(a, b, c):
    assert covers(a, a)
    assert overlaps(a, b) == overlaps(b, a)
    assert not (covers(a, b) and covers(b, c)) or covers(a, c)
    both = intersection(a, b)
    if both is not None:
        assert covers(a, both)
        assert covers(b, both)
        assert not (covers(a, c) and covers(b, c)) or covers(both, c)
    if covers(a, b):
        assert both is not None


def test_a_topic_of_very_many_levels_is_no_trouble():
    deep = "/".join("a" * 30_000)
    assert matches("a/#", deep)
    assert covers("+/#", deep)
    assert not matches(deep + "/a/+", deep)


@pytest.mark.parametrize(
    ("topic_filter", "plain"),
    [
        ("$share/g/a/#", "a/#"),
        ("$share/g//a", "/a"),
        ("a/b", "a/b"),
        ("$SYS/#", "$SYS/#"),
        ("$shared/g/a", "$shared/g/a"),
    ],
)
def test_a_shared_subscription_is_about_its_filter(topic_filter, plain):
    assert plain_filter(topic_filter) == plain
