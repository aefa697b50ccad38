"""What is said of a run is checked against what its clients saw, and a disturbed run is repeated, but not for ever."""

from dataclasses import replace

import numpy as np
import pytest

from firelane.metrics import DROP_REASONS
from live.lanes.ideal import ideal
from live.lanes.scenarios import nine_classes
from live.lanes.schedule import schedule
from live.lanes.served import REPEATS, Live, check_law, close, judged

WINDOW_S = 7.3


@pytest.fixture
def honest():
    """A run whose exchange says what is true."""
    network, plan = nine_classes(0.6)
    got = ideal(schedule(network, seconds=5, seed=1), plan)
    due = np.bincount(got.stream, minlength=len(network.stream_topic))
    rows = [
        {
            "subscriber": network.subscribers[network.subscription_subscriber[one]],
            "filter": network.filters[one],
            "window_s": WINDOW_S,
            "offered_hz": due[got.stream[got.subscription(plan) == one][0]] / WINDOW_S,
            "delivered_hz": due[got.stream[got.subscription(plan) == one][0]] / WINDOW_S,
            "queued": 0,
            **{f"dropped_{reason}": 0 for reason in DROP_REASONS},
        }
        for one in range(len(network.filters))
    ]
    return Live(got=got, plan=plan, metrics={"subscriptions": rows})


def test_the_truth_passes(honest):
    check_law(honest, lossless=True)


@pytest.mark.parametrize(
    "lie",
    [
        {"queued": 1},
        {"dropped_overflow": 1},
        {"delivered_hz": 1 / WINDOW_S, "offered_hz": 1 / WINDOW_S},
        {"filter": "elsewhere"},
    ],
    ids=str,
)
def test_every_lie_is_noticed(honest, lie):
    honest.metrics["subscriptions"][3] |= lie
    with pytest.raises((AssertionError, KeyError)):
        check_law(honest)


def test_a_subscription_that_nothing_is_said_of_is_noticed(honest):
    del honest.metrics["subscriptions"][5]
    with pytest.raises(AssertionError, match="says nothing"):
        check_law(honest)


def late_by(honest, seconds):
    sent_ns = honest.got.sent_ns.copy()
    sent_ns[-1] += round(seconds * 1e9)
    return replace(honest, got=replace(honest.got, sent_ns=sent_ns))


@pytest.mark.parametrize(("late_s", "runs"), [(0.0, 1), (0.05, REPEATS + 1)])
def test_only_a_disturbed_run_is_repeated(honest, late_s, runs):
    made = []

    def attempt(number):
        made.append(number)
        return (late_by(honest, late_s),)

    def never(_):
        raise AssertionError("no good")

    judgement = pytest.skip.Exception if late_s else AssertionError  # a machine that is too busy proves nothing
    with pytest.raises(judgement, match="no good"):
        judged(attempt, never)
    assert made == list(range(runs))


def test_close_is_within_a_tenth_or_a_millisecond():
    assert close(0.0018, 0.001)
    assert close(0.109, 0.1)
    assert not close(0.0022, 0.001)
    assert not close(0.111, 0.1)
    assert not close(0.089, 0.1)
