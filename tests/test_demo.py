from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from firelane.demo.arrivals import Arrivals, Row
from firelane.demo.fire import ALARMS, KINDS, LOAD, RECORDS, VIDEO, draw_fire, without_needs
from firelane.demo.outcome import Demo, outcome
from firelane.demo.picture import draw
from firelane.demo.screen import Screen, Snapshot, show_outcome, summary
from firelane.scenario.model import wire_bytes
from firelane.scenario.plan import plain_plan
from firelane.scenario.utility import utilities
from firelane.served import Counts

SECONDS = 10.0
PROPAGATION_S = 0.002


@pytest.fixture(scope="module")
def fire():
    return draw_fire(seconds=SECONDS, seed=1)


def served(fire, *, after_s=0.01, keeps=lambda number: True):
    """What comes of a fire when every publication that is kept arrives everywhere after the same time."""
    arrivals = Arrivals(fire)
    wanted = fire.subscription[fire.topic] >= 0
    for number, moment_s in enumerate(fire.at_s.tolist()):
        arrivals.sent(number, moment_s)
    for number, moment_s in enumerate(fire.at_s.tolist()):
        if keeps(number):
            for subscriber in np.flatnonzero(wanted[number]).tolist():
                arrivals.received(number, subscriber, moment_s + after_s)
    return arrivals


def counted(arrivals):
    """The counts of an exchange that has nothing queued any more."""
    due, delivered = int(arrivals.due.sum()), int(arrivals.arrived.sum())
    return Counts(due=due, delivered=delivered, dropped={"policy": due - delivered}, queued=0)


@pytest.fixture(scope="module")
def shown(fire, tmp_path_factory):
    slow, fast = served(fire, after_s=1.7, keeps=lambda number: number % 5 < 3), served(fire)
    return Demo(
        fire=fire,
        plain=outcome(slow, counted(slow), 0),
        firelane=outcome(fast, counted(fast), 7),
        picture=tmp_path_factory.mktemp("demo") / "demo.png",
    )


# ------------------------------------------------------------------------------------------------ the fire


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_everything_sent_needs_so_many_times_what_the_link_carries(seed, seconds):
    fire = draw_fire(seconds=seconds, seed=seed)
    link, topics = fire.routes.scenario.links["post"], fire.routes.topics
    names = [topics[number] for number in fire.topic.tolist()]
    carried = zip(fire.size_bytes.tolist(), names, fire.copies.tolist(), strict=True)
    wire = sum(wire_bytes(size, name, link) * copies for size, name, copies in carried)
    assert 8 * wire / (link.pace * link.bandwidth_bps * seconds) == pytest.approx(LOAD, rel=0.005)


def test_a_seed_is_a_fire(fire):
    again, other = draw_fire(seconds=SECONDS, seed=1), draw_fire(seconds=SECONDS, seed=2)
    assert np.array_equal(fire.at_s, again.at_s)
    assert np.array_equal(fire.size_bytes, again.size_bytes)
    assert len(fire.at_s) != len(other.at_s)


def test_publications_are_in_the_order_of_time(fire):
    assert (np.diff(fire.at_s) >= 0).all()
    assert fire.at_s[0] >= 0
    assert fire.at_s[-1] < SECONDS


def test_burning_floors_send_more_and_more_and_others_do_not():
    fire = draw_fire(seconds=200, seed=3)

    def count(topic, start, end):
        inside = (fire.at_s >= start * 200) & (fire.at_s < end * 200)
        return int((fire.topic[inside] == fire.routes.topics.index(topic)).sum())

    quiet = next(floor for floor in range(1, 5) if floor not in (fire.burning, fire.second))
    assert count(f"smoke/{fire.burning}", 0.5, 0.6) > 1.5 * count(f"smoke/{fire.burning}", 0, 0.1)
    assert count(f"smoke/{fire.second}", 0.9, 1) > 1.5 * count(f"smoke/{fire.second}", 0.5, 0.6)
    assert 0.7 < count(f"smoke/{quiet}", 0.5, 1) / count(f"smoke/{quiet}", 0, 0.5) < 1.4
    assert count("crew/1/vitals", 0.6, 1) > 1.5 * count("crew/1/vitals", 0, 0.3) * 4 / 3


def test_the_needs_that_change_are_those_of_the_phase(fire):
    before, after = fire.phases
    assert (before.name, after.name) == ("size-up", "suppression")
    assert before.end_s == after.start_s
    weight = {name: [] for name in KINDS}
    for kind, earlier, later in zip(fire.kind.tolist(), before.needs, after.needs, strict=True):
        weight[KINDS[kind]].append(later.weight / earlier.weight)
        assert replace(later, weight=earlier.weight) == earlier
    assert min(weight["vitals"]) > 1
    assert max(weight[VIDEO]) < 1
    assert set(weight[ALARMS]) == set(weight[RECORDS]) == {1.0}


def test_nobody_gets_a_message_by_two_filters(fire):
    assert len(fire.routes.claim_stream) == len(set(fire.routes.claim_stream.tolist()))


def test_a_plain_broker_knows_who_wants_what_but_not_what_it_is_worth(fire):
    told, plain = fire.routes.scenario, without_needs(fire.routes.scenario)
    for name, one in plain.subscribers.items():
        assert list(one.subscribes) == list(told.subscribers[name].subscribes)
        assert len(set(one.subscribes.values())) == 1


# ------------------------------------------------------------------------------------------- what arrived


def test_all_of_it_at_once_is_all_the_value(fire):
    result = outcome(served(fire), Counts(due=0, delivered=0, dropped={}, queued=0), 0)
    assert result.utility_rate == pytest.approx(1, abs=0.01)  # what was sent in the last moment came after the end
    assert result.in_time_rate == result.utility_rate


def test_value_is_that_of_the_share_that_arrived_in_each_phase(fire):
    arrivals = served(fire, keeps=lambda number: number % 2 == 0)
    achieved = most = 0.0
    for phase in fire.phases:
        inside = (fire.at_s >= phase.start_s) & (fire.at_s < phase.end_s)
        due, got = np.zeros(len(fire.kind)), np.zeros(len(fire.kind))
        for number in np.flatnonzero(inside).tolist():
            for row in fire.subscription[fire.topic[number]]:
                if row >= 0:
                    due[row] += 1
                    got[row] += number % 2 == 0 and fire.at_s[number] + 0.01 <= SECONDS
        some, curve = due > 0, utilities(phase.needs)
        achieved += (phase.end_s - phase.start_s) * curve.value(got / np.maximum(due, 1))[some].sum()
        most += (phase.end_s - phase.start_s) * curve.most[some].sum()
    assert outcome(arrivals, counted(arrivals), 0).utility_rate == pytest.approx(achieved / most)


def test_what_comes_too_late_is_worth_bound_by_delay(fire):
    arrivals = served(fire, after_s=2.0)
    phase = fire.phases[0]
    achieved, in_time, _ = arrivals.utilities(arrivals.arrived, phase.start_s, phase.end_s, phase)
    for row, need in enumerate(phase.needs):
        if need.max_delay_s is None:
            assert in_time[row] == achieved[row]
        elif achieved[row]:
            assert need.max_delay_s / 2.2 < in_time[row] / achieved[row] < need.max_delay_s / (2.0 + PROPAGATION_S)


def test_a_delay_includes_the_time_that_the_link_takes(fire):
    arrivals = served(fire, after_s=0.5)
    link, topics = fire.routes.scenario.links["post"], fire.routes.topics
    for number in range(100):
        wire = wire_bytes(fire.size_bytes[number], topics[fire.topic[number]], link)
        expected_s = 0.5 + 8 * wire / (link.pace * link.bandwidth_bps) + PROPAGATION_S
        delays = arrivals.delay_s[number][arrivals.arrived[number]]
        assert delays == pytest.approx(expected_s, rel=1e-6)


def test_what_comes_after_the_end_was_queued_and_not_delivered(fire):
    arrivals = served(fire, after_s=3.0)
    result = outcome(arrivals, counted(arrivals), 0)
    early = fire.at_s + 3.0 <= SECONDS
    assert result.delivered == int(fire.copies[early].sum())
    assert result.queued == int(fire.copies[~early].sum())
    assert result.due == result.delivered + result.queued


def test_kinds_add_up_to_the_whole(fire):
    arrivals = served(fire, after_s=1.0, keeps=lambda number: number % 3)
    result = outcome(arrivals, counted(arrivals), 0)
    for name in ("due", "delivered", "queued"):
        assert sum(getattr(one, name) for one in result.kinds) == getattr(result, name)
    assert sum(one.dropped for one in result.kinds) == sum(result.dropped.values())


def test_drops_are_seen_when_a_later_message_of_the_topic_arrives(fire):
    arrivals = Arrivals(fire)
    smoke = np.flatnonzero(fire.topic == fire.routes.topics.index("smoke/1"))[:4].tolist()
    commander = fire.routes.subscribers.index("commander")
    place = KINDS.index("smoke, CO")
    for number in smoke:
        arrivals.sent(number, fire.at_s[number])
    assert arrivals.lately(1.0, 1.0, fire.phases[0])[place].dropped == 0
    arrivals.received(smoke[0], commander, 2.0)
    arrivals.received(smoke[3], commander, 2.0)
    row = arrivals.lately(2.0, 1.0, fire.phases[0])
    assert row[place].dropped == row[-1].dropped == 2


def test_a_second_copy_does_not_count(fire):
    arrivals = served(fire)
    before = arrivals.received_s.copy()
    subscriber = int(np.flatnonzero(arrivals.arrived[0])[0])
    arrivals.received(0, subscriber, 9.0)
    assert arrivals.doubled == 1
    assert np.array_equal(arrivals.received_s, before, equal_nan=True)


def test_the_age_is_that_of_the_newest_reading_and_not_of_the_last_delivery(fire):
    arrivals = Arrivals(fire)
    place = KINDS.index(ALARMS)
    (rows, people), topics = np.nonzero(fire.subscription >= 0), fire.routes.topics
    for topic, subscriber in zip(rows.tolist(), people.tolist(), strict=True):
        if topics[topic].startswith("alarm/"):
            first = int(np.flatnonzero(fire.topic == topic)[0])
            arrivals.sent(first, 1.0)
            arrivals.received(first, subscriber, 3.0)
    assert arrivals.lately(4.0, 3.0, fire.phases[0])[place].age_s == pytest.approx(3.0)
    for now in (4.0, 6.0):
        arrivals.sample_ages(now)
    assert arrivals.ages_s()[place] == pytest.approx(4.0)


# --------------------------------------------------------------------------------------------- what is shown


def snapshot(fire, moment_s):
    row = Row(value=0.876, delay_s=1.234, age_s=0.123, dropped=12_345)
    rows = [row] * (len(KINDS) + 1)
    return Snapshot(fire=fire, moment_s=moment_s, plain=rows, firelane=rows, plan=plain_plan(fire.routes).to_data())


def terminal(**options):
    return Console(file=io.StringIO(), width=80, markup=False, highlight=False, emoji=False, **options)


def test_the_live_table_is_whole_at_80_columns(fire, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    console = terminal(force_terminal=True, color_system=None)
    screen = Screen(console)
    with screen.live():
        assert screen.wants(0.0)
        screen.show(snapshot(fire, 9.0))
    text = console.file.getvalue()
    for words in (*KINDS, "suppression", "9 of 10 s", f"floor {fire.second} too", "88 %", "1.2 s", "120 ms", "12345"):
        assert words in text
    assert "…" not in text


def test_without_a_terminal_there_is_a_line_now_and_then(fire):
    console = terminal()
    screen = Screen(console)
    moments = [tick / 2 for tick in range(1, 21)]
    with screen.live():
        for moment_s in moments:
            if screen.wants(moment_s):
                screen.show(snapshot(fire, moment_s))
    lines = console.file.getvalue().splitlines()
    assert 4 <= len(lines) <= 10
    assert "size-up" in lines[0]
    assert "suppression" in lines[-1]
    assert "alarms 1.2 s late" in lines[0]


def test_a_quiet_screen_without_a_terminal_shows_nothing(fire):
    assert not Screen(terminal(), quiet=True).wants(5.0)


def test_the_summary_says_what_a_commander_would_notice(shown):
    text = "\n".join(summary(shown))
    assert "after 1.7 s with the plain broker" in text
    assert f"{shown.plain.utility_rate:.0%}".replace("%", " %") in text
    assert "planned anew 7 times" in text
    assert "ideal" in text


def test_the_closing_table_is_whole_at_80_columns(shown):
    console = terminal()
    show_outcome(shown, console)
    text = console.file.getvalue()
    assert all(name in text for name in KINDS)
    assert "…" not in text


def test_a_picture_is_drawn_even_where_nothing_arrived(shown, fire):
    nothing = Arrivals(fire)
    for number, moment_s in enumerate(fire.at_s.tolist()):
        nothing.sent(number, moment_s)
    silent = replace(shown, plain=outcome(nothing, counted(nothing), 0))
    assert draw(silent, shown.picture).read_bytes().startswith(b"\x89PNG")
    assert math.isnan(silent.plain.steps.delay_s[0])
    assert isinstance(shown.picture, Path)
