"""Whose deadlines count, and what they mean for messages that are waited for."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace

import pytest

from firelane.exchange.clients.access import Identity
from firelane.overlay.deadlines import Admission, Deadlines
from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages.actions import Copy, Deliver, Direct, Tell
from firelane.overlay.messages.races import Races
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.sending import Sending
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.registry import Wish
from firelane.scenario.load import from_data
from firelane.scenario.need import Need


def admission(**direct):
    settings = {"from": ["*"], **direct}
    return Admission(from_data({"name": "x", "exchange": {"overlay": {"direct": settings}}}).exchange)


def client(client_id, *subscriptions, roles=()):
    """A session; subscriptions are (filter, QoS, max_delay, weight)."""
    wants = {
        topics: SimpleNamespace(
            topics=topics, qos=qos, lane=SimpleNamespace(need=Need(max_delay_s=max_delay_s, weight=weight))
        )
        for topics, qos, max_delay_s, weight in subscriptions
    }
    identity = Identity(client_id=client_id, roles=roles)
    return SimpleNamespace(client_id=client_id, identity=identity, subscriptions=wants)


def deadlines(*sessions, **direct):
    found = Deadlines(admission(**direct))
    found.update(sessions)
    return found


def of(found, *filters):
    wishes = found.joined({one: Wish(qos=0) for one in filters})
    return [wishes[one].deadline_s for one in filters]


def test_the_shortest_deadline_of_a_filter_counts_and_one_too_short_is_raised():
    some = (
        client("x", ("a", 0, 0.5, 1), ("b", 0, 0.001, 1), ("c", 0, None, 1)),
        client("y", ("a", 0, 0.2, 1), ("$overlay/x", 0, None, 1)),
        client("$overlay", ("c", 2, 0.1, 1)),
    )
    found = deadlines(*some, least="50 ms")
    assert of(found, "a", "b", "c") == [0.2, 0.05, None]
    assert len(found) == 2


def test_endpoints_of_dds_have_deadlines_like_clients_but_reliable_ones_miss_nothing():
    session = client("$dds", ("plain", 0, 0.5, 1), ("reliable", 1, 0.5, 1))
    session.identity = replace(session.identity, inside=True)
    found = deadlines(session)
    assert of(found, "plain", "reliable") == [0.5, 0.5]
    assert (found.patience_s("plain"), found.patience_s("reliable")) == (0.5, inf)
    assert of(deadlines(session, **{"for": ["$dds"]}), "plain") == [0.5]
    others = deadlines(session, **{"for": ["command"]})
    assert of(others, "plain") == [None]
    assert others.refused == 2


def test_only_those_who_may_ask_have_a_deadline():
    some = client("x", ("a", 0, 0.5, 1), roles=("command",)), client("y", ("b", 0, 0.5, 1))
    found = deadlines(*some, **{"for": ["command"]})
    assert of(found, "a", "b") == [0.5, None]
    assert found.refused == 1
    closed = deadlines(*some, **{"from": []})
    assert of(closed, "a", "b") == [None, None]
    assert len(closed) == 0


def test_of_too_many_filters_those_that_weigh_most_have_a_deadline():
    found = deadlines(client("x", ("a", 1, 0.5, 1), ("b", 1, 0.5, 9), ("c", 1, 0.5, 5)), filters=2)
    assert of(found, "a", "b", "c") == [None, 0.5, 0.5]
    assert found.refused == 1
    assert [found.patience_s(topic) for topic in "abc"] == [None, 0.5, 0.5]


def test_a_gap_is_waited_for_as_long_as_the_most_patient_of_those_who_want_every_message():
    x = client("x", ("a/+", 1, 0.2, 1), ("b", 1, 0.2, 1), ("c", 0, 0.2, 1), ("d", 1, None, 1))
    y = client("y", ("a/#", 1, 0.7, 1), ("b", 2, None, 1), ("c", 0, None, 1))
    found = deadlines(x, y)
    assert [found.patience_s(topic) for topic in ("a/1", "a/1/2", "b", "c", "d")] == [0.7, 0.7, inf, 0.2, None]


def test_what_is_remembered_of_topics_is_bounded(monkeypatch):
    monkeypatch.setattr("firelane.overlay.deadlines.MOST_REMEMBERED", 10)
    found = deadlines(client("x", ("#", 1, 0.2, 1)))
    assert {found.patience_s(str(n)) for n in range(100)} == {0.2}
    assert len(found._remembered) <= 10


# ---- the receiver


class Receiver:
    """Topic t from origin a, at an edge whose patience is given."""

    def __init__(self, patience_s=0.3):
        self.machine = Receiving("b", 1, patience_s=lambda topic: patience_s)
        self.delivered, self.came = [], []

    def gets(self, number, after=0, *, qos=1, now=0.0, router=None, epoch=0):
        self._do(self.machine.arrived("t", b"", {}, Stamp("a", 1, number, after, epoch, qos), router, now))

    def tick(self, now):
        self._do(self.machine.tick(now))

    def _do(self, actions):
        for one in actions:
            match one:
                case Deliver(stamp=stamp):
                    self.delivered.append(stamp.number)
                    if stamp.qos:
                        self.machine.committed(stamp)
                case Tell(note=note):
                    self.came += note.came

    @property
    def counts(self):
        return self.machine.counts


def test_a_gap_is_waited_for_until_the_deadline_and_what_comes_later_is_counted_and_acknowledged():
    here = Receiver()
    here.gets(1)
    here.gets(5, after=3)
    here.tick(0.29)
    assert here.delivered == [1]
    here.tick(0.3)
    assert here.delivered == [1, 5]
    assert here.counts["given up"] == 1
    here.gets(3, after=1, now=0.4, router="r")
    here.tick(0.5)
    assert here.delivered == [1, 5]
    assert (here.counts["superseded"], here.counts["again"]) == (1, 0)
    assert sorted(here.came) == [1, 3, 5]
    here.gets(3, after=1, now=0.6)
    assert (here.counts["superseded"], here.counts["again"]) == (1, 1)


def test_what_comes_before_the_deadline_fills_the_gap():
    here = Receiver()
    here.gets(1)
    here.gets(5, after=3)
    here.gets(3, after=1, now=0.2, router="r")
    here.tick(0.4)
    assert here.delivered == [1, 3, 5]
    assert not here.counts


@pytest.mark.parametrize("patience_s", [None, inf])
def test_without_a_deadline_or_where_somebody_has_none_a_gap_is_waited_for_without_end(patience_s):
    here = Receiver(patience_s)
    here.gets(1)
    here.gets(5, after=3)
    here.tick(1000.0)
    assert here.delivered == [1]
    here.gets(3, after=1, now=1001.0)
    assert here.delivered == [1, 3, 5]


def test_each_message_waits_since_it_came_and_all_before_it_go_with_it():
    here = Receiver()
    here.gets(1)
    here.gets(9, after=7, now=0.0)
    here.gets(5, after=3, now=0.2)
    here.gets(13, after=11, now=0.2)
    here.tick(0.35)
    assert here.delivered == [1, 5, 9]
    here.tick(0.5)
    assert here.delivered == [1, 5, 9, 13]
    assert here.counts["given up"] == 3
    assert here.machine.held == 0


def test_an_edge_that_has_started_waits_for_what_was_kept_for_it_however_long_that_takes():
    here = Receiver()
    here.gets(9, after=7)
    here.tick(100.0)
    here.gets(5, after=0, now=100.0)  # the first of three
    here.gets(11, after=9, now=100.0)
    here.tick(200.0)
    assert here.delivered == [5]
    here.gets(7, after=5, now=200.0)
    assert here.delivered == [5, 7, 9, 11]
    here.gets(15, after=13, now=200.0)
    here.tick(200.3)
    assert here.delivered == [5, 7, 9, 11, 15]


def test_a_copy_that_says_that_nothing_is_owed_before_it_sets_free_the_one_that_waits():
    here = Receiver()
    here.gets(9, after=7, router="r")
    assert here.delivered == []
    here.gets(9, after=0)
    assert here.delivered == [9]
    assert here.machine.held == 0


# ---- the origin


def origin(*edges):
    interest = Interest()
    for name in edges:
        interest.change(name, Edge(here=True, filters={"t": Wish(qos=1, deadline_s=0.2)}, locator="h:1"))
    sending = Sending("a", 1, interest)
    sending.routers_listener(["r"], 0.0)
    return sending, interest


def published(sending, number, qos=1):
    copy = Copy(topic="t", payload=b"", qos=qos, number=number, packet_id=number)
    found = sending.published(copy, 0.0)
    return {one.edge: (one.stamp.number, one.stamp.after) for one in found if isinstance(one, Direct)}


def test_a_direct_copy_goes_at_once_to_all_who_have_a_deadline_though_no_router_is_known():
    sending, interest = origin("b", "c")
    interest.change("d", Edge(here=True, filters={"#": Wish(qos=1)}, locator="h:1"))
    interest.change("e", Edge(here=False, filters={"t": Wish(qos=1, keeps=True, deadline_s=0.2)}, locator="h:1"))
    interest.change("f", Edge(here=True, filters={"t": Wish(qos=1, deadline_s=0.2)}))  # nobody knows where
    assert published(sending, 5, qos=0) == {"b": (5, 0), "c": (5, 0)}
    assert published(sending, 7) == {"b": (7, 0), "c": (7, 0)}


def test_a_direct_copy_names_the_last_that_its_edge_has_not_got_and_nothing_that_it_has_or_is_not_owed():
    sending, interest = origin("b")
    for number in (1, 2, 3):
        published(sending, number)
    sending.came("b", [1, 3])
    assert published(sending, 4) == {"b": (4, 2)}
    interest.change("c", Edge(here=True, filters={"t": Wish(qos=1, deadline_s=0.2)}, locator="h:1"))
    assert published(sending, 5) == {"b": (5, 4), "c": (5, 0)}
    sending.came("b", [2, 4, 5])
    assert published(sending, 6) == {"b": (6, 0), "c": (6, 5)}


def test_deadlines_do_not_change_what_is_asked_of_the_edges_own_exchange():
    _, interest = origin("b", "c")
    assert interest.filters() == {"t": Wish(qos=1)}


def test_for_whom_topics_are_is_remembered_of_so_many_and_no_more(monkeypatch):
    monkeypatch.setattr("firelane.overlay.interest.MOST_REMEMBERED", 10)
    _, interest = origin("b")
    interest.change("c", Edge(here=True, filters={"#": Wish(qos=0, deadline_s=0.1)}, locator="h:1"))
    assert {interest.direct(f"x/{n}") for n in range(100)} == {("c",)}
    assert interest.direct("t") == ("b", "c")
    assert len(interest._hurried) <= 10
    interest.change("c", None)
    assert interest.direct("t") == ("b",)


def test_among_very_many_that_others_have_not_got_the_one_before_is_named():
    sending, _ = origin("b", "c")
    for number in range(1, 300):
        published(sending, number)
    sending.came("b", range(1, 300))
    assert published(sending, 300) == {"b": (300, 299), "c": (300, 299)}


def test_what_is_not_acknowledged_is_sent_again_directly_too_at_growing_distances():
    sending, _ = origin("b")
    published(sending, 1)
    times = [n / 10 for n in range(200) if any(isinstance(one, Direct) for one in sending.tick(n / 10))]
    assert times == pytest.approx([1.0, 3.0, 7.0, 15.0], abs=0.35)


# ---- what both know


def test_of_qos_0_a_second_copy_is_told_from_one_that_newer_ones_have_overtaken():
    here = Receiver()
    for number in (1, 2, 4):
        here.gets(number, qos=0)
    for number in (1, 2, 3, 4):
        here.gets(number, qos=0, router="r")
    assert here.delivered == [1, 2, 4]
    assert here.counts == {"again": 3, "superseded": 1}
    assert here.machine.races.first == {"direct": 3, "router": 1}
    assert here.machine.races.second == {"router": 3}


def test_a_direct_copy_under_an_older_epoch_is_refused_as_any_other_is():
    here = Receiver()
    here.gets(1, epoch=5)
    here.gets(2, after=1, epoch=4, router="r")
    here.gets(2, after=1, epoch=4)
    assert here.delivered == [1]
    assert here.counts["outdated"] == 2
    here.gets(2, after=1, epoch=5)
    assert here.delivered == [1, 2]


def test_so_many_races_and_gaps_are_remembered_and_no_more():
    races = Races(most=10)
    for n in range(100):
        races.came(("a", 1, n), "direct")
    assert len(races) == 10
    assert races.seen(("a", 1, 99))
    assert not races.seen(("a", 1, 89))
    here = Receiver(0.0)
    here.gets(1)
    for n in range(10, 1000, 10):
        here.gets(n, after=n - 5)
        here.tick(0.0)
    assert here.delivered == [1, *range(10, 1000, 10)]
    assert len(here.machine._chains["a", "t"].skipped) == 16
    assert not here.machine._due
