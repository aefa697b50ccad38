"""Names as segments of a path: every topic has one, no two share one, and it leads back."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from registry_rooms import Follower, run, until

from firelane.overlay.registry import RegistryError, TopicState
from firelane.overlay.registry.names import LONGEST_SEGMENT, broker_segment, is_hashed, name_of, topic_segment

UTF8 = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
LONG = "building/" + "floor/" * 500
NASTY = [
    ".",
    "..",
    "zookeeper",
    "a//b",
    "/",
    "//",
    "a/./b",
    "\x01\x7f",
    "\ufff0\uffff",
    "😀/ü",
    "%2F",
    "%=00",
    "a b",
    LONG,
]


@given(UTF8)
@example(".")
@example("..")
@example("zookeeper")
@example("/")
@example("%2E")
def test_a_name_leads_to_a_segment_that_zookeeper_takes_and_back(name):
    segment = topic_segment(name)
    assert re.fullmatch(r"[\x21-\x7e]+", segment), "plain ASCII"
    assert "/" not in segment
    assert segment not in (".", "..", "zookeeper")
    assert len(segment) <= LONGEST_SEGMENT
    assert is_hashed(segment) or name_of(segment) == name


@given(st.lists(UTF8, unique=True, max_size=20))
def test_different_names_have_different_segments(names):
    assert len({topic_segment(name) for name in names}) == len(names)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_what_nobody_wrote_is_refused_or_written_alike(segment):
    try:
        name = name_of(segment)
    except RegistryError:
        return
    assert broker_segment(name) == segment


def test_long_topics_are_hashed_and_long_brokers_refused():
    assert is_hashed(topic_segment(LONG))
    assert topic_segment(LONG) != topic_segment(LONG + "x")
    assert not is_hashed(topic_segment("x" * LONGEST_SEGMENT))
    assert is_hashed(topic_segment("x" * (LONGEST_SEGMENT + 1)))
    with pytest.raises(RegistryError, match="too long"):
        broker_segment("x" * (LONGEST_SEGMENT + 1))
    with pytest.raises(RegistryError, match="not UTF-8"):
        topic_segment("\ud800")


def test_nasty_names_go_through_the_registry(place):
    async def story():
        async with place.registry() as edge, place.registry() as leader:
            topics, elected, routed = Follower(), [], {}
            leader.on_topics(topics)
            edge.announce_edge("zookeeper", 1)
            edge.endpoints(dict.fromkeys(NASTY, 1), {})
            for topic in NASTY:
                edge.watch_topic(topic, routed.__setitem__)
            leader.announce_router("..", 1, "h:1")
            leader.campaign(lambda *one: elected.append(one))
            await edge.settled()
            await until(lambda: len(topics.known) == len(NASTY) and elected)
            assert topics.known == dict.fromkeys(NASTY, TopicState(pub={"zookeeper": 1}))
            done = await leader.assign(dict.fromkeys(NASTY, ".."), elected[-1][1])
            assert not done.missing
            await until(lambda: all(routed.get(topic) for topic in NASTY))
            await until(lambda: all(one.assignment for one in topics.known.values()))
            assert set(topics.known) == set(NASTY)
            edge.endpoints({}, {})
            await until(lambda: not any(one.pub for one in topics.known.values()))

    run(story())
