"""What has been seen: ranges of numbers against a plain set."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from firelane.pipeline.mqtt.seen import MOST_PRODUCERS, MOST_RANGES, Ranges, Seen


def record(producer, number):
    return f'{{"record_id": "{producer:x}-{number}"}}'.encode()


@given(st.lists(st.integers(0, 80), max_size=200))
def test_ranges_know_what_a_set_would_know_in_as_few_ranges_as_possible(numbers):
    ranges, plain = Ranges(), set()
    for number in numbers:
        assert ranges.add(number) == (number not in plain)
        plain.add(number)
    data = ranges.to_data()
    assert {n for first, last in data for n in range(first, last + 1)} == plain
    assert all(after[0] > before[1] + 1 for before, after in pairwise(data))


def test_of_too_many_ranges_the_lowest_become_one():
    ranges = Ranges()
    for number in range(0, 2 * (MOST_RANGES + 5), 2):
        assert ranges.add(number)
    assert len(ranges.to_data()) == MOST_RANGES
    assert ranges.to_data()[0] == [0, 10]
    assert not ranges.add(1)  # taken for one that was there
    assert ranges.add(2 * MOST_RANGES + 7)


def test_of_too_many_producers_the_one_silent_for_longest_is_forgotten():
    seen = Seen()
    for producer in range(MOST_PRODUCERS):
        assert not seen.again(record(producer, 1))
    assert seen.again(record(0, 1))  # and heard again just now
    assert not seen.again(record(MOST_PRODUCERS, 1))
    assert seen.again(record(0, 1))
    assert not seen.again(record(1, 1))
    assert len(seen.to_data()) == MOST_PRODUCERS


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=60))
def test_what_is_written_down_and_read_again_knows_the_same(records):
    seen = Seen()
    for one in records:
        seen.again(record(*one))
    again = Seen.from_data(seen.to_data())
    assert again.to_data() == seen.to_data()
    assert all(again.again(record(*one)) for one in records)


def test_an_identity_inside_a_text_is_none():
    seen = Seen()
    tricky = rb'{"topic":"\"record_id\":\"aa-1\""}'
    assert not seen.again(tricky)
    assert not seen.again(tricky)
