"""Where messages lie that wait in the log: first in, first out, and some come back to the front."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from firelane.exchange.lanes.lane import Backlog

places = st.tuples(st.integers(1, 2**63), st.integers(0, 2**32 - 1))
steps = st.lists(st.one_of(places, st.just("pop"), st.lists(places, min_size=1, max_size=4)), max_size=200)


@given(steps)
def test_a_backlog_is_a_queue_to_whose_front_some_come_back(steps):
    backlog, model = Backlog(), deque()
    for step in steps:
        if step == "pop":
            if model:
                assert backlog.popleft() == model.popleft()
        elif isinstance(step, list):
            backlog.prepend(step)
            model.extendleft(reversed(step))
        else:
            backlog.append(*step)
            model.append(step)
        assert len(backlog) == len(model)
    assert list(zip(backlog.locations(), backlog.sizes(), strict=True)) == list(model)


def test_coming_back_one_by_one_does_not_move_all_others_each_time():
    backlog = Backlog()
    for location in range(1, 1001):
        backlog.append(location, 1)
    before = backlog._locations
    moved = 0
    for _ in range(500):
        backlog.prepend([(7, 7)])
        moved += backlog._locations is not before
        before = backlog._locations
    assert moved <= 2
