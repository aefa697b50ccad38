"""Streams, claims and who carries them, against a naive implementation."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.scenario import Link, Topic, from_data, wire_bytes
from firelane.scenario.overhead import auto_overhead_bytes
from firelane.scenario.routes import routes, topic_overheads_bytes

TOPICS = ["a", "a/b", "a/b/c", "a/d", "e/b", "$x/b"]
FILTERS = {
    # Each filter with what it matches, by hand.
    "#": {"a", "a/b", "a/b/c", "a/d", "e/b"},
    "a/#": {"a", "a/b", "a/b/c", "a/d"},
    "a/+": {"a/b", "a/d"},
    "+/b": {"a/b", "e/b"},
    "+": {"a"},
    "a/b": {"a/b"},
    "a/b/c": {"a/b/c"},
    "$x/#": {"$x/b"},
}

subscribers = st.lists(st.lists(st.sampled_from(sorted(FILTERS)), unique=True, max_size=5), max_size=4)


def scenario_of(wanted, link=None):
    return from_data(
        {
            "name": "test",
            "links": {"post": link or {"bandwidth": "8 Mbps"}},
            "topics": {name: {"size": 100 + n} for n, name in enumerate(TOPICS)},
            "publishers": {"p": {"publishes": {"a/b": 2, "e/b": 3}}, "q": {"publishes": {"a/b": 5}}},
            "subscribers": {
                f"s{n}": {"link": "post", "subscribes": dict.fromkeys(filters)} for n, filters in enumerate(wanted)
            },
        }
    )


@given(subscribers)
def test_there_is_one_stream_per_topic_and_subscriber_that_any_filter_matches(wanted):
    way = routes(scenario_of(wanted))
    found = {(TOPICS[t], int(s)) for t, s in zip(way.stream_topic, way.stream_subscriber, strict=True)}
    expected = {(topic, n) for n, filters in enumerate(wanted) for one in filters for topic in FILTERS[one]}
    assert found == expected
    assert len(way.stream_topic) == len(expected)
    assert (np.diff(way.stream_topic) >= 0).all()


@given(subscribers)
def test_every_match_of_a_filter_is_one_claim(wanted):
    way = routes(scenario_of(wanted))
    found = sorted(
        (int(way.subscription_subscriber[sub]), way.filters[sub], TOPICS[way.stream_topic[stream]])
        for stream, sub in zip(way.claim_stream, way.claim_subscription, strict=True)
    )
    assert found == sorted(
        (n, one, topic) for n, filters in enumerate(wanted) for one in filters for topic in FILTERS[one]
    )
    assert (np.diff(way.claim_stream) >= 0).all()
    claimant = way.subscription_subscriber[way.claim_subscription]
    np.testing.assert_array_equal(claimant, way.stream_subscriber[way.claim_stream])


@given(subscribers, st.integers(min_value=0))
def test_a_stream_goes_to_the_best_class_then_the_lowest_drop_rate(wanted, seed):
    way = routes(scenario_of(wanted))
    rng = np.random.default_rng(seed)
    priority = rng.integers(0, 3, len(way.filters))
    drop_rate = rng.integers(0, 3, len(way.filters)) / 4
    owner, owner_class, drop = way.owners(priority, drop_rate)
    for stream in range(len(way.stream_topic)):
        claims = [int(s) for c, s in zip(way.claim_stream, way.claim_subscription, strict=True) if c == stream]
        best = min((int(priority[s]), float(drop_rate[s])) for s in claims)
        assert owner[stream] in claims
        assert (priority[owner[stream]], drop_rate[owner[stream]]) == best
        assert owner_class[stream] == best[0]
        assert drop[stream] == min(drop_rate[s] for s in claims)


def test_the_lowest_drop_rate_may_come_from_a_claim_that_does_not_own_the_stream():
    way = routes(scenario_of([["a/#", "a/b"]]))
    owner, priority, drop = way.owners(np.array([0, 1]), np.array([0.5, 0.25]))
    shared = TOPICS.index("a/b")
    stream = way.stream_topic.tolist().index(shared)
    assert (owner[stream], priority[stream], drop[stream]) == (0, 0, 0.25)
    others = np.flatnonzero(way.stream_topic != shared)
    assert (drop[others] == 0.5).all()


def test_a_topics_rate_is_the_sum_over_its_publishers():
    way = routes(scenario_of([["#"]]))
    assert dict(zip(TOPICS, way.topic_rate_hz, strict=True)) == {
        "a": 0, "a/b": 7, "a/b/c": 0, "a/d": 0, "e/b": 3, "$x/b": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("each", "lanes"), [(False, ["post"]), (True, ["post:s0", "post:s1"])])
def test_a_link_is_shared_unless_each_subscriber_has_its_own(each, lanes):
    way = routes(scenario_of([["a"], ["a"]], {"bandwidth": "8 Mbps", "each": each}))
    assert [lane.name for lane in way.lanes] == lanes
    assert way.stream_lane.tolist() == list(range(2)) if each else [0, 0]


def test_wire_bytes_are_payload_and_what_mqtt_and_the_layers_below_add():
    # MQTT 5 PUBLISH at QoS 0: type 1, length 1 or more, topic length 2, topic, empty property list 1;
    # then TCP 20 + 12 (time stamps), IP 20, Ethernet 14.
    auto = Link()
    assert wire_bytes(100, "smoke/3", auto) == 100 + (1 + 1 + 2 + 7 + 1) + 66
    assert wire_bytes(0, "é", auto) == (1 + 1 + 2 + 2 + 1) + 66
    assert wire_bytes(100, "smoke/3", Link(overhead_bytes=0.0)) == 100
    assert wire_bytes(100, "smoke/3", Link(overhead_bytes=40.0)) == 140


@pytest.mark.parametrize(("remaining", "length_bytes"), [(127, 1), (128, 2), (16_383, 2), (16_384, 3), (2_097_152, 4)])
def test_the_length_field_grows_with_the_packet(remaining, length_bytes):
    payload = remaining - 2 - 1 - 1  # topic length, the topic "a", an empty property list
    packet_bytes = 1 + length_bytes + remaining
    assert wire_bytes(payload, "a", Link()) == packet_bytes + 66 * math.ceil(packet_bytes / 1448)


@pytest.mark.parametrize(("payload", "segments"), [(1439, 1), (1440, 2), (10_000, 7)])
def test_a_large_message_has_headers_for_every_segment(payload, segments):
    assert wire_bytes(payload, "a/b", Link()) == payload + 1 + 2 + 2 + 3 + 1 + 66 * segments


@pytest.mark.parametrize("mean", [5, 90, 700, 1500, 40_000])
def test_the_mean_overhead_of_exponential_sizes_is_that_of_many_of_them(mean):
    sizes = np.random.default_rng(1).exponential(mean, 200_000)
    each = np.array([auto_overhead_bytes(size, 8) for size in sizes])
    topic = Topic(size_bytes=float(mean))
    assert topic_overheads_bytes({"smoke/12": topic}) == pytest.approx(
        each.mean(), abs=5 * each.std() / 200_000**0.5 + 0.01
    )


def test_the_mean_overhead_of_a_list_of_sizes_is_its_own():
    topic = Topic(sizes=(100.0, 2000.0))
    assert topic_overheads_bytes({"a": topic}) == (auto_overhead_bytes(100, 1) + auto_overhead_bytes(2000, 1)) / 2


@pytest.mark.parametrize("overhead", ["auto", 0, "40 B"])
def test_service_times_are_wire_bytes_over_the_paced_bandwidth(overhead):
    link = {"bandwidth": "8 Mbps", "overhead": overhead, "pace": 0.5}
    scenario = scenario_of([["#"], ["a/+"]], link)
    fixed = {name: replace(one, sizes="fixed") for name, one in scenario.topics.items()}
    way = routes(replace(scenario, topics=fixed))
    per_byte, per_message = way.service_s()
    for stream, topic in enumerate(way.stream_topic):
        payload = way.topic_mean_bytes[topic]
        expected = wire_bytes(payload, TOPICS[topic], scenario.links["post"]) * 8 / 4e6
        assert payload * per_byte[stream] + per_message[stream] == pytest.approx(expected, rel=1e-12)


def test_a_publishers_link_serves_its_sources_and_the_default_link_takes_no_time():
    scenario = from_data(
        {
            "name": "test",
            "links": {"up": {"bandwidth": "1 Mbps", "overhead": 0, "pace": 1}},
            "topics": {"t": {"size": 125}},
            "publishers": {"p": {"publishes": {"t": 1}, "link": "up"}, "q": {"publishes": {"t": 1}}},
            "subscribers": {"s": {"subscribes": {"t": None}}},
        }
    )
    way = routes(scenario)
    assert way.source_lane.tolist() == [0, -1]
    per_byte, per_message = way.source_service_s()
    np.testing.assert_allclose(125 * per_byte + per_message, [0.001, 0.0])
    assert [float(part[0]) for part in way.service_s()] == [0.0, 0.0]
    assert way.lanes[0].name == "default:s"


@pytest.mark.parametrize(("topics", "wanted"), list(product([{}, {"a": {"size": 1}}], [{}, {"s": {"subscribes": {}}}])))
def test_scenarios_with_nothing_to_carry_have_no_streams(topics, wanted):
    way = routes(from_data({"name": "empty", "topics": topics, "subscribers": wanted}))
    assert len(way.stream_topic) == len(way.claim_stream) == len(way.filters) == 0
    assert [len(part) for part in way.owners(np.empty(0, np.int64), np.empty(0))] == [0, 0, 0]


def test_links_whose_names_look_alike_stay_apart():
    """`x` gives every subscriber a link of its own, called x:a for a; another link is called x:a, too."""
    data = {
        "name": "alike",
        "links": {"x": {"bandwidth": "1 Mbps", "each": True}, "x:a": {"bandwidth": "1 kbps"}},
        "topics": {"t": {"size": 10}},
        "publishers": {"p": {"publishes": {"t": 1}}},
        "subscribers": {"a": {"link": "x", "subscribes": {"t": None}}, "b": {"link": "x:a", "subscribes": {"t": None}}},
    }
    lanes = routes(from_data(data)).lanes
    assert [lane.link.bandwidth_bps for lane in lanes] == [1e6, 1e3]
    assert len({lane.name for lane in lanes}) == 2
