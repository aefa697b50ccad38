"""Figures 7 to 9 live: promises are kept by real clients on a real exchange, and what they are compared with is right.

How long must a run be for two points? By simulation of 12 scenarios, six seconds with the most typical of 20 schedules
are off the promise by at most 0.5 points on average (utility is concave, and full links have hardly settled) and 0.5 by
chance, so two points are three standard deviations. With any schedule the chance of `none` is 0.7 points or more.
"""

from __future__ import annotations

import fcntl
import re
from contextlib import contextmanager

import numpy as np
import pytest

from child_processes import children
from firelane.errors import FirelaneError
from firelane.metrics import DROP_REASONS
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.packets import V5
from firelane.predict import predict
from firelane.reproduce.firedex import live as firedex_live
from firelane.reproduce.firedex.live import (
    CONFIGURATIONS,
    DRAWN,
    DROP_METHODS,
    POINTS,
    QUICK,
    SCALE,
    SHOWN_AS,
    LiveEffort,
    configuration,
    scaled,
)
from firelane.reproduce.firedex.live_figures import draw_live
from firelane.reproduce.firedex.live_report import live_section
from firelane.reproduce.firedex.runs import Case
from firelane.reproduce.live import WARM_UP, from_metrics, replay, run, schedule, typical
from firelane.reproduce.live.attempt import _check
from firelane.reproduce.live.clients import connected
from firelane.scenario import from_data
from firelane.scenario.plan import plain_plan
from firelane.scenario.routes import routes
from firelane.served import Counts, served
from firelane.tune import tune
from live.lanes.load import LOCK

pytestmark = pytest.mark.xdist_group("load")

SECONDS = 6
SMALL = {
    "name": "small",
    "priorities": 2,
    "links": {"own": {"bandwidth": "800 kbit/s", "overhead": 0, "pace": 1, "each": True}},
    "topics": {
        "room/a": {"size": "250 B"},
        "room/b": {"size": "100 B", "sizes": "fixed"},
        "room/c": {"sizes": ["50 B", "150 B"]},
    },
    "publishers": {
        "one": {"publishes": {"room/a": 100.0, "room/b": 50.0}},
        "two": {"publishes": {"room/b": 50.0, "room/c": 100.0}},
    },
    "subscribers": {
        "first": {"link": "own", "subscribes": {"room/a": {"weight": 2}, "room/b": {"weight": 1}}},
        "second": {"link": "own", "subscribes": {"room/+": {"weight": 1}}},
    },
}


@pytest.fixture(scope="module")
def small():
    return routes(from_data(SMALL))


@pytest.fixture(scope="module")
def paper():
    return routes(scaled(Case().routes(1).scenario))


@pytest.fixture(scope="module")
def drawn(paper):
    return [schedule(paper, seconds=SECONDS, seed=[1, number]) for number in range(DRAWN)]


@contextmanager
def alone():
    """One load at a time on this machine, whoever drives it."""
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --------------------------------------------------------------------------------------- what is sent


def test_publications_come_as_often_and_as_large_as_the_scenario_says(small):
    one = schedule(small, seconds=400, seed=1)
    counts = np.bincount(one.topic, minlength=3)
    assert np.all(np.abs(counts - small.topic_rate_hz * 400) < 4 * np.sqrt(small.topic_rate_hz * 400))
    means = np.bincount(one.topic, one.size_bytes) / counts
    assert means == pytest.approx([250, 100, 100], rel=0.02)
    assert set(one.size_bytes[one.topic == 1]) == {100}
    assert set(one.size_bytes[one.topic == 2]) == {50, 150}
    assert np.all(np.diff(one.at_s) >= 0)
    assert set(one.publisher[one.topic == 0]) == {0}
    assert set(one.publisher[one.topic == 1]) == {0, 1}


def test_a_poisson_stream_has_gaps_that_vary_as_much_as_their_mean(small):
    one = schedule(small, seconds=200, seed=1)
    gaps = np.diff(one.at_s[one.topic == 0])
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.03)


def test_a_seed_makes_the_same_schedule_again_and_its_packets_say_what_it_says(small):
    one, again, other = (schedule(small, seconds=2, seed=seed) for seed in (1, 1, 2))
    packets = one.packets()
    assert packets == again.packets() != other.packets()
    for packet, topic, size in zip(packets, one.topic, one.size_bytes, strict=True):
        start, end = frame(packet, 0, 10_000)
        assert end == len(packet)
        publication = decode(packet[0], packet[start:end], V5)
        assert (publication.topic, len(publication.payload), publication.qos) == (small.topics[topic], size, 0)


def test_the_load_of_a_schedule_is_what_its_publications_ask_of_each_link(small):
    one = schedule(small, seconds=10, seed=1)
    total = np.bincount(one.topic, one.size_bytes)
    per_second = total[:2].sum() * 8 / 800e3 / 10, total.sum() * 8 / 800e3 / 10
    assert one.load() == pytest.approx(per_second)


def test_the_typical_schedule_has_the_load_closest_to_the_scenarios(small):
    expected = np.array([link.load for link in predict(small).links.values()])
    many = [schedule(small, seconds=5, seed=seed) for seed in range(10)]
    off = [np.abs(one.load() / expected - 1).max() for one in many]
    assert typical(many) is many[int(np.argmin(off))]


# ------------------------------------------------------------------------------- what it is compared with


def test_a_long_schedule_does_on_simulated_links_what_theory_says(small):
    """Formula and loops are tested elsewhere; this is about the schedule and the window. Loads are 0.3 and 0.4."""
    plan = tune(small, priorities="delay-adjusted", drops="none")
    seen = replay(schedule(small, seconds=3000, seed=1), plan, warm_up=0.1, seed=1)
    expected = predict(small, plan)
    assert seen.delay_s == pytest.approx(expected.column("delay_mean_s"), rel=0.03)
    assert seen.success.tolist() == [1.0] * 3
    assert seen.delivered == pytest.approx(expected.column("delivered_hz") * 2700, rel=0.02)


def test_what_drop_rates_take_is_counted_and_only_after_the_warm_up(paper, drawn):
    plan = tune(paper, priorities="bandwidth-adjusted", drops="flat")
    seen = replay(drawn[0], plan, warm_up=0.5, seed=1)
    expected = 1 - plan.per_subscription(paper)[2]
    offered = paper.topic_rate_hz[[paper.topics.index(one) for one in paper.filters]] * SECONDS / 2
    assert (seen.delivered + seen.dropped).sum() == pytest.approx(offered.sum(), rel=0.02)
    assert seen.delivered.sum() == pytest.approx((expected * offered).sum(), rel=0.02)


def test_a_full_link_delivers_one_over_its_load(paper, drawn):
    one = typical(drawn)
    seen = replay(one, plain_plan(paper), warm_up=WARM_UP, seed=1)
    share = seen.delivered.sum() / (seen.delivered + seen.dropped).sum()
    assert share == pytest.approx(1 / one.load().mean(), abs=0.02)


@pytest.mark.slow
def test_six_seconds_are_long_enough_for_two_points():
    """On scenarios of other seeds, so that nothing here was chosen for its outcome; three standard deviations."""
    off = {drops: [] for drops in DROP_METHODS}
    for seed in range(2, 14):
        network = routes(scaled(Case().routes(seed).scenario))
        sent = typical(schedule(network, seconds=SECONDS, seed=[seed, number]) for number in range(DRAWN))
        for drops, found in off.items():
            plan = tune(network, priorities="bandwidth-adjusted", drops=drops)
            rate = replay(sent, plan, warm_up=WARM_UP, seed=seed).utility()["rate"]
            found.append(rate - plan.promised["utility_rate"])
    for drops, found in off.items():
        assert abs(np.mean(found)) + 3 * np.std(found, ddof=1) < POINTS, (drops, found)


def test_metrics_over_rest_are_taken_in_the_order_of_the_scenario(small):
    def row(subscriber, topic_filter, delivered, dropped, delay_s):
        nothing = dict.fromkeys((f"dropped_{why}" for why in DROP_REASONS), 0)
        names = {"subscriber": subscriber, "filter": topic_filter, "window_s": 2.0, "delivered_hz": delivered / 2}
        return names | nothing | {"dropped_overflow": dropped, "delay_mean_s": delay_s}

    document = [
        row("second", "room/+", 3, 1, 0.5),
        row("first", "room/b", 0, 0, None),
        row("first", "room/a", 4, 0, 0.1),
    ]
    seen = from_metrics(small, {"subscriptions": document})
    assert seen.delivered.tolist() == [4, 0, 3]
    assert seen.success.tolist() == [1, 0, 0.75]
    klass = np.array([0, 0, 1])
    assert seen.class_success(klass, 3)[:2].tolist() == [1, 0.75]
    assert seen.class_delay_s(klass, 3)[:2].tolist() == [0.1, 0.5]
    assert np.isnan(seen.class_delay_s(klass, 3)[2])
    worth = np.log2(1 + np.array([1, 0, 0.75])) @ [2, 1, 1] / 4
    assert seen.utility()["rate"] == pytest.approx(worth)


def test_the_live_scenario_has_the_papers_loads_and_promises(paper):
    original = Case().routes(1)
    assert predict(paper).links.keys() == predict(original).links.keys()
    for small_link, link in zip(predict(paper).links.values(), predict(original).links.values(), strict=True):
        assert small_link.load == pytest.approx(link.load)
    assert paper.source_rate_hz.sum() == pytest.approx(SCALE * original.source_rate_hz.sum())
    for drops in DROP_METHODS:
        ours, theirs = (tune(one, priorities="bandwidth-adjusted", drops=drops) for one in (paper, original))
        assert ours.promised["utility_rate"] == pytest.approx(theirs.promised["utility_rate"], abs=1e-6)


def test_every_drop_method_and_every_switch_is_run_even_in_a_hurry():
    assert set(DROP_METHODS) == {"none", "flat", "linear", "exponential", "optimised"}
    assert {CONFIGURATIONS[name].drops for name in DROP_METHODS.values()} == set(DROP_METHODS)
    assert {*DROP_METHODS.values(), *SHOWN_AS.values()} == set(QUICK.configurations)


# ------------------------------------------------------------------------------------- the real thing


@pytest.fixture(scope="module")
def found(paper, drawn):
    """The configurations that the tests below have run."""
    return {}


@pytest.mark.slow
@pytest.mark.parametrize("drops", DROP_METHODS)
def test_achieved_utility_is_within_two_points_of_the_promise(drops, drawn, found):
    before = children()
    with alone():
        one = configuration(CONFIGURATIONS[DROP_METHODS[drops]], typical(drawn), drawn, seed=1)
    found[DROP_METHODS[drops]] = one
    assert children() <= before
    rate, counts = one["utility"]["rate"], one["counts"]
    print(drops, rate, {name: one[name] for name in ("processor_share", "late_p99_s", "attempts")})
    assert counts["due"] == counts["delivered"] + sum(counts["dropped"].values()) + counts["queued"]
    assert counts["queued"] == 0
    assert one["received"] == counts["delivered"]
    assert counts["due"] == sum(due_of(typical(drawn)))
    if one["disturbed"]:
        pytest.skip("the machine was too busy to judge the utility")
    assert abs(rate["live"] - rate["promised"]) <= POINTS


def due_of(sent):
    """One delivery for every subscription that names a publication's topic, counted by hand."""
    wanted = [one for subscriber in sent.routes.scenario.subscribers.values() for one in subscriber.subscribes]
    many = np.array([wanted.count(topic) for topic in sent.routes.topics])
    return many[sent.topic]


@pytest.mark.slow
def test_the_law_holds_over_rest_while_messages_wait(small):
    """The link is overloaded for a second, so that some wait when the exchange is asked."""
    data = SMALL | {"links": {"own": SMALL["links"]["own"] | {"bandwidth": "100 kbit/s", "buffer": 20}}}
    network = routes(from_data(data))
    sent = schedule(network, seconds=1, seed=1)
    plan = plain_plan(network)
    with alone(), served(network.scenario, plan) as exchange:
        with connected(sent, sent.packets(), exchange.mqtt_port, lambda _: None) as clients:
            clients.start()
            clients.send(1.0)
            counts = exchange.counts()
            rows = exchange.metrics()["subscriptions"]
        assert counts.queued > 0
        assert counts.due == counts.delivered + counts.dropped_total + counts.queued
        assert counts.due == sum(due_of_small(sent))
        for row in rows:
            due, delivered = (round(row[name] * row["window_s"]) for name in ("offered_hz", "delivered_hz"))
            dropped = sum(row[f"dropped_{why}"] for why in DROP_REASONS)
            assert due == delivered + dropped + row["queued"], row


def due_of_small(sent):
    return np.array([2, 2, 1])[sent.topic]


def test_a_run_that_lost_count_is_an_error():
    dropped = {"policy": 2, "overflow": 1}
    _check(Counts(due=10, delivered=7, dropped=dropped, queued=0), 7)
    for delivered, received in ((6, 6), (7, 6), (8, 8)):
        with pytest.raises(FirelaneError, match="lost count"):
            _check(Counts(due=10, delivered=delivered, dropped=dropped, queued=0), received)


@pytest.mark.slow
def test_a_run_that_was_held_up_is_repeated_but_not_for_ever(small, monkeypatch):
    monkeypatch.setattr("firelane.reproduce.live.attempt.LATE_S", 1e-9)
    steps = []
    with alone():
        one = run(schedule(small, seconds=0.5, seed=1), plain_plan(small), progress=steps.append)
    assert one.attempts == 3
    assert 0 < sum(steps) <= 150 + 5 * np.sqrt(150)


@pytest.mark.slow
def test_the_report_and_the_pictures_show_what_was_run(tmp_path, monkeypatch, found, paper, drawn):
    """With the runs above; a configuration that they lack is made up from one of them."""
    if len(found) < len(DROP_METHODS):
        pytest.skip("needs the live runs of this module")
    runs = found | {"none": found["bandwidth-adjusted"]}
    names = {case: name for name, case in CONFIGURATIONS.items()}
    monkeypatch.setattr(firedex_live, "configuration", lambda case, *_, **__: runs[names[case]])
    result = firedex_live.live(LiveEffort(seconds=1, configurations=QUICK.configurations), 1)
    draw_live(result, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"live-7.png", "live-8.png", "live-9.png"}
    text = live_section(result)
    assert f"for {len(DROP_METHODS)} of {len(DROP_METHODS)} drop methods" in text
    for name, one in found.items():
        assert f"| {name} | {100 * one['utility']['rate']['promised']:.1f} % |" in text
    assert all(f"(live-{number}.png)" in text for number in (7, 8, 9))
    assert not re.search(r"\b(nan|None|inf)\b", text)
    result["drop_methods"]["flat"]["holds"] = False
    assert f"for {len(DROP_METHODS) - 1} of {len(DROP_METHODS)} drop methods" in live_section(result)
