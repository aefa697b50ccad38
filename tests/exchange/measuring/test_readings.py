"""Differences of readings, and reading a few lanes at a time."""

from __future__ import annotations

import numpy as np

from fake_exchange import reading
from firelane.scenario.model import Need

ANY = Need()


def test_what_came_after_an_earlier_reading():
    earlier = reading([("s", "a", ANY, 100, 10, 0.1), ("t", "a", ANY, 50, 0, 0.2)], window_s=10.0)
    later = reading([("s", "a", ANY, 160, 50, 0.2), ("t", "a", ANY, 50, 0, 0.2)], window_s=14.0)
    found = later.since(earlier)
    assert found.settled.tolist() == [100, 0]
    assert found.success[0] == 0.6
    assert np.isnan(found.success[1])
    assert found.timed.tolist() == [60, 0]
    assert round(found.delay_mean_s[0], 9) == round((160 * 0.2 - 100 * 0.1) / 60, 9)
    assert found.window_s == 4.0
    assert later.settled.tolist() == [210, 50]  # as it was


def test_subscriptions_that_came_count_whole_and_those_that_went_not_at_all():
    earlier = reading([("s", "a", ANY, 100, 0, 0.1), ("gone", "a", ANY, 70, 0, 0.1)])
    later = reading([("new", "b", ANY, 30, 0, 0.1), ("s", "a", ANY, 110, 0, 0.1)])
    assert later.since(earlier).settled.tolist() == [30, 10]


def test_clients_that_are_one_subscriber_are_told_apart():
    earlier = reading([("s", "a", ANY, 100, 0, 0.1), ("s", "a", ANY, 7, 0, 0.1)])
    later = reading([("s", "a", ANY, 110, 0, 0.1), ("s", "a", ANY, 10, 0, 0.1)])
    assert later.since(earlier).settled.tolist() == [10, 3]


def test_of_another_window_all_counts():
    earlier = reading([("s", "a", ANY, 100, 0, 0.1)])
    for later in (
        reading([("s", "a", ANY, 30, 0, 0.1)], version=2),
        reading([("s", "a", ANY, 30, 0, 0.1)], began_wall_s=9.0),
    ):
        assert later.since(earlier) is later
