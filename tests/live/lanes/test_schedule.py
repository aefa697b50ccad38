"""The load that is planned against what a scenario says: rates, Poisson moments, sizes, packets."""

import numpy as np
import pytest

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.packets import V5
from firelane.scenario import Topic, from_data, wire_bytes
from live.lanes.schedule import STAMP, Packets, schedule, sizes

SIGMAS = 4.5  # one test in 150 000 fails by chance


@pytest.fixture(scope="module")
def scenario():
    return from_data(
        {
            "name": "three",
            "links": {"post": {"bandwidth": "8 Mbps"}},
            "topics": {
                "a": {"size": "500 B"},
                "b/c": {"size": "300 B", "sizes": "fixed"},
                "d": {"sizes": [100, 200, 900]},
            },
            "publishers": {"p": {"publishes": {"a": 40, "b/c": 7}}, "q": {"publishes": {"d": 20, "a": 3}}},
            "subscribers": {"s": {"link": "post", "subscribes": {"a": None, "b/#": None}}},
        }
    )


@pytest.fixture(scope="module")
def long(scenario):
    return schedule(scenario, seconds=500, seed=1)


def gaps(plan, source):
    return np.diff(plan.at_s[plan.source == source], prepend=0)


def test_every_source_has_its_rate(long):
    for source, rate_hz in enumerate([40, 7, 20, 3]):
        expected = 500 * rate_hz
        assert abs((long.source == source).sum() - expected) < SIGMAS * np.sqrt(expected)


def test_moments_are_those_of_a_poisson_stream(long):
    for source, rate_hz in enumerate([40, 7, 20, 3]):
        one = gaps(long, source)
        # The gaps are exponential: mean and deviation 1 / rate, shares beyond the mean and its double e^-1 and e^-2.
        assert one.mean() == pytest.approx(1 / rate_hz, rel=SIGMAS / np.sqrt(len(one)))
        for beyond in (1, 2):
            share = np.exp(-beyond)
            error = SIGMAS * np.sqrt(share * (1 - share) / len(one))
            assert (one > beyond / rate_hz).mean() == pytest.approx(share, abs=error)
        together = np.corrcoef(one[:-1], one[1:])[0, 1]
        assert abs(together) < SIGMAS / np.sqrt(len(one))


def test_it_is_in_the_order_of_time_and_ends_in_time(long):
    assert (np.diff(long.at_s) >= 0).all()
    assert 0 <= long.at_s[0] < long.at_s[-1] < 500


def test_sizes_have_the_distribution_of_their_topic(scenario):
    random = np.random.default_rng(2)
    exponential, fixed, sampled = (sizes(topic, random, 50_000) for topic in scenario.topics.values())
    assert exponential.mean() == pytest.approx(500, rel=SIGMAS / np.sqrt(50_000))
    assert (exponential > 1000).mean() == pytest.approx(np.exp(-2), rel=0.05)
    assert set(fixed.tolist()) == {300}
    values, counts = np.unique(sampled, return_counts=True)
    assert values.tolist() == [100, 200, 900]
    assert np.abs(counts - 50_000 / 3).max() < SIGMAS * np.sqrt(50_000 * 2 / 9)


def test_small_sizes_are_raised_to_the_stamp_and_the_mean_by_as_little_as_said():
    drawn = sizes(Topic(size_bytes=100.0), np.random.default_rng(3), 2_000_000)
    assert drawn.min() == STAMP.size
    assert drawn.mean() - 100 == pytest.approx(STAMP.size**2 / (2 * 100), abs=SIGMAS * 100 / np.sqrt(2_000_000))


def test_sequences_count_up_within_each_publisher_and_topic(long):
    for source in range(4):
        inside = long.source == source
        assert long.sequence[inside].tolist() == list(range(inside.sum()))


def test_publishers_and_topics_belong_to_their_sources(long):
    pairs = set(zip(long.publisher.tolist(), long.topic.tolist(), strict=True))
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 2)}


def test_a_seed_says_it_all(scenario):
    one, same, other = (schedule(scenario, seconds=5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.at_s, same.at_s)
    assert np.array_equal(one.size_bytes, same.size_bytes)
    assert not np.array_equal(one.at_s[:5], other.at_s[:5])


def test_packets_are_publications_of_that_topic_and_size_with_their_number(scenario):
    plan = schedule(scenario, seconds=3, seed=4)
    packets = Packets(plan, run=77)
    for number in range(len(plan.at_s)):
        raw = packets[number]
        start, end = frame(raw, 0, 10**6)
        assert end == len(raw)
        message = decode(raw[0], raw[start:], V5)
        assert message.topic == plan.routes.topics[plan.topic[number]]
        assert len(message.payload) == plan.size_bytes[number]
        assert STAMP.unpack(message.payload[-STAMP.size :]) == (77, number)
        assert packets.fits(bytearray(raw), start, end, number)
        assert not packets.fits(bytearray(raw), start, end, len(plan.at_s) + number)


def test_what_it_offers_is_counted_in_wire_bytes_of_what_is_wanted(scenario, long):
    link = scenario.links["post"]
    wanted = [(n, t) for n, t in enumerate(long.routes.topics) if t != "d"]
    total = sum(
        wire_bytes(500 if name == "a" else 300, name, link) * (long.topic == number).sum()
        + (long.size_bytes[long.topic == number] - (500 if name == "a" else 300)).sum()
        for number, name in wanted
    )
    # Overhead is reckoned at its mean over the sizes, which is a little more than that of the mean size.
    assert long.offered_bps()[0] == pytest.approx(8 * total / 500, rel=0.01)
