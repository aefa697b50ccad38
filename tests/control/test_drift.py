"""When traffic has moved too far from what the plan was made for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_exchange import seen, topic, want
from firelane.control import decide
from firelane.control.drift import Expectation
from firelane.scenario.model import Link, Need, Scenario

LIVE = Scenario(name="live")
MANY = 200


def expectation(scene, scenario=LIVE):
    return Expectation(decide(scene, scenario), scenario)


def outdated(before, after, scenario=LIVE):
    return expectation(before, scenario).outdated(replace(before, topics=tuple(after)), 60.0)


def at_load(load, share=0.5):
    """Two topics of that load together."""
    return [topic("a", 10 * load * share), topic("b", 10 * load * (1 - share))]


WANTS = [want("s", "a", need=Need(weight=9.0)), want("s", "b")]


def test_the_same_traffic_is_no_change():
    for load in (0.1, 0.89, 0.91, 3.0):
        assert not outdated(seen(at_load(load), WANTS), at_load(load))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0.3, 0.35, False),
        (0.3, 0.55, True),
        (0.5, 0.2, True),
        (0.89, 0.905, False),  # across 1 - headroom = 0.9, but within the noise
        (0.86, 0.93, True),
        (0.93, 0.88, True),  # nothing need be dropped any more
        (1.7, 1.72, False),
        (1.7, 2.1, True),
        (1.7, 1.3, True),
    ],
)
def test_a_load_that_moves_enough_is_a_change(before, after, expected):
    assert outdated(seen(at_load(before), WANTS), at_load(after)) is expected


@pytest.mark.parametrize(
    ("mean", "latest", "expected"),
    [
        (1.2, 0.7, True),  # the mean is on its way down
        (1.2, 1.15, False),  # it has arrived
        (1.2, 1.4, False),
        (1.7, 0.7, False),  # more than was planned for
    ],
)
def test_it_falls_while_the_latest_look_saw_much_less_than_the_mean_says(mean, latest, expected):
    before = seen(at_load(1.5), WANTS)
    share = latest / mean
    topics = tuple(one._replace(latest_hz=share * one.rate_hz) for one in at_load(mean))
    assert expectation(before).falls(replace(before, topics=topics), 60.0) is expected


def test_half_of_the_headroom_may_be_eaten_and_no_more():
    scenario = Scenario(name="live", headroom=0.06)
    scene = seen(at_load(1.5), WANTS)
    assert not outdated(scene, at_load(1.53), scenario)
    assert outdated(scene, at_load(1.61), scenario)  # times 0.94/1.5 is more than 0.97


@pytest.mark.parametrize(("after", "expected"), [(20.5, False), (23.0, True)])
def test_a_link_that_no_plan_can_relieve_is_not_planned_for_again_at_every_look(after, expected):
    """Nothing of QoS 1 is dropped, so a load of 20 stays one."""
    wants = [want("s", "a", qos=1), want("s", "b", qos=1)]
    assert outdated(seen(at_load(20.0), wants), at_load(after)) is expected


def test_sizes_count_as_rates_do():
    scene = seen([topic("a", 5.0, 100.0)], [want("s", "a")])
    assert outdated(scene, [topic("a", 5.0, 200.0)])
    assert not outdated(scene, [topic("a", 5.0, 105.0)])


def test_a_shift_from_one_class_to_another_is_a_change_at_the_same_load():
    scene = seen(at_load(0.8), WANTS)
    assert outdated(scene, at_load(0.8, share=0.8))


@given(st.integers(0, 10_000))
def test_the_noise_of_many_topics_is_no_change(seed):
    rng = np.random.default_rng(seed)
    names = [f"t/{n}" for n in range(MANY)]
    wants = [want("s", name, need=Need(weight=float(n % 9 + 1))) for n, name in enumerate(names)]
    scene = seen([topic(name, 1.0) for name in names], wants, kbps=8 * MANY / 10 / 0.8)
    counted = rng.poisson(30, MANY) / 30  # half a minute of a message a second
    assert not outdated(scene, [topic(n, float(rate)) for n, rate in zip(names, counted, strict=True)])


def test_the_first_message_for_a_subscription_without_traffic_is_a_change():
    scene = seen(at_load(0.5), [*WANTS, want("s", "alarms/#")])
    watch = expectation(scene)
    assert not watch.outdated(scene, 60.0)
    alarmed = replace(scene, topics=(*scene.topics, topic("alarms/hall", 0.001)))
    assert watch.outdated(alarmed, 60.0)


def test_topics_that_nobody_wants_are_no_change():
    scene = seen(at_load(0.5), WANTS)
    others = tuple(topic(f"other/{n}", 100.0) for n in range(9))
    watch = expectation(scene)
    assert not watch.outdated(replace(scene, topics=scene.topics + others), 60.0)
    assert not watch.outdated(replace(scene, topics=(*others, *scene.topics)), 60.0)
    assert not watch.outdated(scene, 60.0)
    assert watch.outdated(replace(scene, topics=(topic("a", 9.0), *others)), 60.0)


def test_a_topic_that_falls_silent_is_a_change_if_it_was_much():
    scene = seen([topic("a", 5.0), topic("b", 0.1)], WANTS)
    assert not outdated(scene, [topic("a", 5.0)])
    assert outdated(scene, [topic("b", 0.1)])


def test_a_link_without_a_bandwidth_never_changes():
    scene = seen(at_load(0.5), [want("s", "a", link="default")], kbps=None)
    assert not outdated(scene, at_load(500.0))


def test_what_shared_groups_get_is_watched_too():
    scene = seen([topic("a", 5.0)], [want("s", "$share/g/a"), want("t", "$share/g/a")])
    assert not outdated(scene, [topic("a", 5.5)])
    assert outdated(scene, [topic("a", 9.0)])


def test_every_link_is_watched():
    wide = Link(bandwidth_bps=80_000.0, overhead_bytes=0.0, pace=1.0)
    scene = seen([topic("a", 1.0), topic("b", 50.0)], [want("s", "a"), want("t", "b", link="wide")], wide=wide)
    assert outdated(scene, [topic("a", 3.0), topic("b", 50.0)])
    assert outdated(scene, [topic("a", 1.0), topic("b", 70.0)])
    assert not outdated(scene, [topic("a", 1.0), topic("b", 52.0)])
