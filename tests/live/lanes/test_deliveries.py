"""What is found in deliveries that were tampered with, and what their summaries say."""

from dataclasses import replace

import numpy as np
import pytest

from firelane.scenario import from_data
from firelane.scenario.routes import routes
from live.lanes.deliveries import Deliveries, table
from live.lanes.ideal import ideal
from live.lanes.scenarios import lanes, nine_classes
from live.lanes.schedule import schedule


@pytest.fixture(scope="module")
def honest():
    network, plan = nine_classes(0.6)
    return ideal(schedule(network, seconds=10, seed=1), plan)


def only_these(one: Deliveries, index) -> Deliveries:
    columns = ("publication", "subscriber", "received_ns")
    return replace(one, **{name: getattr(one, name)[index] for name in columns})


def found(one: Deliveries) -> tuple[int, int, int, int]:
    return one.missing, one.doubled, one.stray, int(one.reordered().sum())


def test_nothing_is_found_when_nothing_is_wrong(honest):
    assert honest.due == len(honest.publication) > 5000
    assert found(honest) == (0, 0, 0, 0)
    honest.check()


def test_what_is_lost_is_missing_from_its_stream(honest):
    lost = [3, 77, 1234]
    thinned = only_these(honest, np.setdiff1d(np.arange(honest.due), lost))
    assert found(thinned) == (3, 0, 0, 0)
    expected = np.bincount(honest.stream[lost], minlength=len(honest.schedule.routes.stream_topic))
    assert np.array_equal(thinned.missing_by_stream(), expected)
    with pytest.raises(AssertionError, match="'missing': 3"):
        thinned.check()
    thinned.check(lossless=False)


def test_what_comes_twice_is_doubled_and_does_not_make_up_for_what_is_lost(honest):
    index = np.append(np.arange(honest.due - 10), [5, 5, 6])
    more = only_these(honest, index)
    missing, doubled, stray, _ = found(more)
    assert (missing, doubled, stray) == (10, 3, 0)


def test_two_messages_in_the_wrong_order_are_found_within_a_publisher_topic_and_subscriber(honest):
    group = honest.subscriber * 1000 + honest.source
    one, other = np.flatnonzero(group == group[0])[:2]
    index = np.arange(honest.due)
    index[[one, other]] = other, one
    assert found(only_these(honest, index)) == (0, 0, 0, 1)


def test_order_between_topics_or_subscribers_is_nobodys_concern(honest):
    group = honest.subscriber * 1000 + honest.source
    apart = np.flatnonzero(group[:-1] != group[1:])[::2]
    apart = apart[np.diff(apart, append=honest.due) > 1]
    index = np.arange(honest.due)
    index[apart], index[apart + 1] = apart + 1, apart
    assert len(apart) > 100
    assert found(only_these(honest, index)) == (0, 0, 0, 0)


def test_a_message_for_somebody_else_is_stray(honest):
    wanted = set(zip(honest.topic.tolist(), honest.subscriber.tolist(), strict=True))
    wrong = next(s for s in range(10) if (int(honest.topic[0]), s) not in wanted)
    subscriber = honest.subscriber.copy()
    subscriber[0] = wrong
    assert found(replace(honest, subscriber=subscriber))[:3] == (1, 0, 1)


def test_rows_add_up_and_their_delays_are_those_of_the_deliveries(honest):
    _, plan = nine_classes(0.6)
    rows = honest.by_class(plan)
    assert sum(row.due for row in rows) == honest.due
    assert all(row.success == 1 for row in rows)
    everything = honest.grouped(np.zeros(len(honest.schedule.routes.stream_topic), np.int64), ["all"])[0]
    assert everything.mean_s == pytest.approx(honest.end_to_end_s.mean())
    assert everything.most_s == honest.end_to_end_s.max()
    assert len(table(rows).splitlines()) == 10


def test_a_window_counts_only_what_was_published_in_it(honest):
    _, plan = nine_classes(0.6)
    parts = [honest.by_class(plan, start_s=start, end_s=start + 5) for start in (0, 5)]
    assert sum(row.due for part in parts for row in part) == honest.due
    assert sum(row.delivered for part in parts for row in part) == honest.due


def test_overlapping_filters_are_one_delivery_of_the_better_class():
    scenario = from_data(
        {
            "name": "both",
            "links": {"post": {"bandwidth": "1 Mbps"}},
            "topics": {"a/1": {"size": "100 B"}},
            "publishers": {"p": {"publishes": {"a/1": 50}}},
            "subscribers": {"s": {"link": "post", "subscribes": {"a/#": None, "a/1": None}}},
        }
    )
    network = routes(scenario)
    plan = lanes(network, [4, 2], made_by="test")
    one = ideal(schedule(network, seconds=5, seed=1), plan)
    assert one.due == len(one.schedule.at_s)
    assert set(one.subscription(plan).tolist()) == {1}
    assert [row.due for row in one.by_class(plan)] == [0, 0, one.due]
