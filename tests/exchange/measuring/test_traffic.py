"""Rates and sizes learnt from what is published."""

import numpy as np
import pytest

from firelane.exchange.delivering.routes import Routes
from firelane.exchange.measuring import traffic
from firelane.exchange.measuring.traffic import Traffic


def played(seen, rate_hz, seconds, sizes, traffic, start, chance):
    """Poisson traffic, looked at once a second; returns what is known after each second."""
    known = []
    for second in range(seconds):
        for _ in range(chance.poisson(rate_hz)):
            seen.count(int(sizes(chance)))
        known.append(traffic.topics(start + second + 1.0))
    return known


def test_a_topic_that_begins_late_is_known_at_its_rate_after_a_few_seconds():
    one, chance = Traffic(), np.random.default_rng(1)
    for second in range(60):
        assert one.topics(float(second)) == ()
    known = played(one.of(b"a", "a"), 400, 8, lambda _: 100, one, 59.0, chance)
    for count, (topic,) in enumerate(known, 1):
        assert abs(topic.rate_hz - 400) < 5 * (400 / max(1, count - 1)) ** 0.5
    assert (topic.mean_bytes, topic.variance_bytes2) == (100, 0)


def test_what_was_long_ago_fades():
    one, chance = Traffic(), np.random.default_rng(2)
    seen = one.of(b"a", "a")
    one.topics(0.0)
    played(seen, 400, 60, lambda _: 100, one, 0.0, chance)
    (topic,) = played(seen, 100, 40, lambda _: 300, one, 60.0, chance)[-1]
    assert topic.rate_hz == pytest.approx(100, abs=25)  # 300 e^-4 is left, and chance
    assert topic.mean_bytes == pytest.approx(300, abs=5)


def test_sizes_that_vary_are_known_to():
    """Exponential sizes: the variance is the square of the mean."""
    one, chance = Traffic(), np.random.default_rng(3)
    one.topics(0.0)
    known = played(one.of(b"a", "a"), 400, 30, lambda c: c.exponential(500), one, 0.0, chance)
    (topic,) = known[-1]
    assert topic.mean_bytes == pytest.approx(500, rel=0.05)
    assert topic.variance_bytes2 == pytest.approx(500**2, rel=0.15)


def test_looks_that_come_too_often_see_what_was_seen_before():
    one = Traffic()
    one.topics(0.0)
    seen = one.of(b"a", "a")
    for _ in range(100):
        seen.count(10)
    assert [topic.rate_hz for topic in one.topics(1.0)] == [100]
    seen.count(10)
    assert [topic.rate_hz for topic in one.topics(1.001)] == [100]


def test_only_so_many_topics_are_seen_and_the_first_are_not_lost_for_later_ones(monkeypatch):
    monkeypatch.setattr(traffic, "MOST_TOPICS", 10)
    one = Traffic()
    one.topics(0.0)
    for number in range(100):
        one.of(b"%d" % number, str(number)).count(1)
    assert {topic.name for topic in one.topics(1.0)} == {str(number) for number in range(10)}
    assert one.take_silent() == []
    for second in range(2, 200):
        one.of(b"0", "0").count(1)
        one.topics(float(second))
    assert set(one.take_silent()) == {b"%d" % number for number in range(1, 100)}  # also those never seen: now they can
    one.of(b"99", "99").count(1)
    assert {topic.name for topic in one.topics(200.0)} == {"0", "99"}


def test_what_found_no_room_is_seen_once_there_is_though_its_route_was_known(monkeypatch):
    monkeypatch.setattr(traffic, "MOST_TOPICS", 10)
    routes = Routes(lambda session, topic: True)
    routes.seen_topics(0.0)
    for number in range(10):
        routes.find(b"junk/%d" % number).seen.count(1)
    for second in range(1, 200):
        routes.find(b"alarm").seen.count(1)
        topics = routes.seen_topics(float(second))
    assert "alarm" in {one.name for one in topics}


@pytest.mark.parametrize(("before_hz", "after_hz"), [(100, 400), (400, 100), (10, 60), (0, 50), (300, 0)])
def test_a_change_of_rate_is_known_after_two_looks(before_hz, after_hz):
    one, chance = Traffic(), np.random.default_rng(4)
    seen = one.of(b"a", "a")
    one.topics(0.0)
    played(seen, before_hz, 30, lambda _: 100, one, 0.0, chance)
    topics = played(seen, after_hz, 2, lambda _: 100, one, 30.0, chance)[-1]
    assert abs(sum(topic.rate_hz for topic in topics) - after_hz) <= 5 * (max(after_hz, 1) / 2) ** 0.5


def test_a_change_of_size_is_known_after_two_looks():
    one, chance = Traffic(), np.random.default_rng(5)
    seen = one.of(b"a", "a")
    one.topics(0.0)
    played(seen, 50, 30, lambda c: c.exponential(200), one, 0.0, chance)
    (topic,) = played(seen, 50, 2, lambda c: c.exponential(600), one, 30.0, chance)[-1]
    assert topic.mean_bytes == pytest.approx(600, abs=5 * 600 / 100**0.5)


@pytest.mark.parametrize("phase", [0.05, 0.3, 0.5, 0.8])
def test_a_change_of_size_between_two_looks_is_known_after_three_and_unsettled_until_then(phase):
    """Random sizes of several topics, so that some are seen to change a look later than others."""
    one, chance = Traffic(), np.random.default_rng(7)
    seen = [one.of(name.encode(), name) for name in "abcdef"]
    one.topics(0.0)
    for second in range(34):
        for topic in seen:
            for moment in chance.uniform(0, 1, chance.poisson(30)):
                topic.count(int(chance.exponential(750 if second + moment >= 31 - phase else 250)))
        known = one.topics(second + 1.0)
        if second < 30:
            assert second < 20 or not one.unsettled
        elif second == 30:
            first = np.mean([topic.mean_bytes for topic in known])
            assert first < 400
    assert not one.unsettled
    sizes = [topic.mean_bytes for topic in known]
    assert np.mean(sizes) == pytest.approx(750, abs=4 * 750 / (6 * 60) ** 0.5)  # two looks at least, exponential


@pytest.mark.parametrize("rate_hz", [0.3, 1, 10, 400])
def test_chance_alone_is_no_change(rate_hz):
    """An exponential memory of 10 s leaves a standard deviation of about sqrt(rate / 20)."""
    one, chance = Traffic(), np.random.default_rng(6)
    seen = one.of(b"a", "a")
    one.topics(0.0)
    known = played(seen, rate_hz, 2000, lambda _: 9, one, 0.0, chance)
    rates = [topics[0].rate_hz if topics else 0.0 for topics in known]
    assert np.std(rates[100:]) < 1.5 * (rate_hz / 20) ** 0.5


def test_bursts_are_no_changes():
    one = Traffic()
    seen = one.of(b"a", "a")
    one.topics(0.0)
    known = []
    for second in range(600):
        for _ in range(100 if second % 10 == 0 else 0):
            seen.count(10)
        known.append(sum(topic.rate_hz for topic in one.topics(second + 1.0)))
    assert min(known[60:]) > 3
    assert max(known[60:]) < 25


def test_the_latest_rate_is_that_between_two_looks():
    one = Traffic()
    seen = one.of(b"a", "a")
    one.topics(0.0)
    latest = []
    for second, count in enumerate([100, 100, 10, 300], 1):
        for _ in range(count):
            seen.count(100)
        (topic,) = one.topics(second * 1.0)
        latest.append(topic.latest_hz)
    assert latest == [100, 100, 10, 300]
