"""An edge whose clients want a topic with QoS 0 waits for nothing on it, whatever others want."""

import asyncio
from collections import Counter

import pytest
from sites import sites, stock, until

from firelane.overlay.interest import Edge, Interest
from firelane.overlay.local.wanting import Wanting
from firelane.overlay.messages.actions import Copy, Deliver, Forward
from firelane.overlay.messages.keeping import LONGEST_RETRY_S
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.sending import Sending
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.registry import Wish


def wanting(**filters):
    found = Wanting()
    found.update({one: Wish(qos=qos) for one, qos in filters.items()})
    return found


def test_the_highest_qos_of_all_filters_that_match_counts():
    found = wanting(**{"a/+": 1, "a/#": 0, "a/2": 2, "b": 0})
    assert [found.qos(topic) for topic in ("a/1", "a/2", "a/1/x", "a", "b", "c")] == [1, 2, 0, 0, 0, 0]


def test_wishes_that_change_count_at_once():
    found = wanting(**{"a/+": 1, "b": 0})
    assert (found.qos("a/1"), found.qos("b")) == (1, 0)
    found.update({"a/+": Wish(qos=0), "b": Wish(qos=2)})
    assert (found.qos("a/1"), found.qos("b")) == (0, 2)
    found.update({"#": Wish(qos=1)})
    assert (found.qos("a/1"), found.qos("b")) == (1, 1)


def test_what_is_remembered_of_topics_is_bounded(monkeypatch):
    monkeypatch.setattr("firelane.overlay.local.wanting.MOST_REMEMBERED", 10)
    found = wanting(**{"#": 1})
    assert {found.qos(str(n)) for n in range(100)} == {1}
    assert len(found._remembered) <= 10


class Receiver:
    """Topic t from the origin a, at an edge that wants it with some QoS."""

    def __init__(self, qos=0):
        self.qos = qos
        self.machine = Receiving("c", 1, wanted_qos=lambda topic: self.qos)
        self.delivered = []

    def gets(self, number, after=0, *, qos=1, retain=False, now=0.0, router="r"):
        stamp = Stamp("a", 1, number, after, 0, qos, retain)
        self._do(self.machine.arrived("t", b"", {}, stamp, router, now))

    def tick(self, now=0.0):
        actions = self.machine.tick(now)
        self._do(one for one in actions if isinstance(one, Deliver))
        notes = [one.note for one in actions if not isinstance(one, Deliver)]
        assert not any(note.missing for note in notes)
        return [number for note in notes for number in note.came]

    def _do(self, actions):
        for one in actions:
            self.delivered.append((one.stamp.number, one.stamp.qos))
            if one.stamp.qos:
                self.machine.committed(one.stamp)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_dropped_on_purpose_is_not_waited_for_and_nothing_is_acknowledged(qos):
    here = Receiver()
    for number in (1, 2, 5, 9):
        here.gets(number, after=number - 1, qos=qos)
    assert here.delivered == [(1, 0), (2, 0), (5, 0), (9, 0)]
    assert here.machine.held == 0
    assert here.tick(10.0) == []


def test_of_all_qos_what_is_older_than_the_last_is_discarded():
    here = Receiver()
    for number, qos in ((5, 1), (4, 0), (4, 1), (8, 0), (7, 2), (9, 1), (9, 1)):
        here.gets(number, qos=qos)
    assert here.delivered == [(5, 0), (8, 0), (9, 0)]
    assert here.machine.counts == {"superseded": 3, "again": 1}


def test_a_second_copy_is_acknowledged_as_its_origin_may_believe_that_it_is_owed():
    here = Receiver()
    here.gets(1)
    here.gets(3, after=2)
    assert here.tick() == []
    here.gets(1)
    here.gets(2, after=1)
    assert here.tick() == [1, 2]


def test_a_retained_message_keeps_its_qos():
    here = Receiver()
    here.gets(1, qos=2, retain=True)
    here.gets(3, after=2, qos=1, retain=True)
    assert here.delivered == [(1, 2), (3, 1)]
    assert here.tick() == [1, 3]


def test_who_wants_more_later_sees_no_gap_where_there_is_none():
    here = Receiver()
    here.gets(1)
    here.gets(3, after=1)
    here.qos = 1
    here.gets(3, after=1)
    here.gets(5, after=3)
    assert here.delivered == [(1, 0), (3, 0), (5, 1)]
    here.gets(9, after=7)
    assert here.machine.held == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_who_wants_less_later_waits_no_longer(arrives):
    here = Receiver(1)
    here.gets(1)
    here.gets(5, after=3)
    here.gets(9, after=7)
    assert here.machine.held == 2
    here.qos = 0
    if arrives:
        here.gets(11, after=9)
    here.tick()
    assert here.delivered == [(1, 1), (5, 1), (9, 1)] + [(11, 0)] * arrives
    assert here.machine.held == 0
    assert 11 not in here.tick(100.0)


def test_nothing_is_kept_for_ever_for_who_wants_less_than_its_origin_has_heard():
    interest = Interest()
    interest.change("c", Edge(here=True, filters={"t": Wish(qos=1)}))
    sending = Sending("a", 1, interest)
    sending.routers_listener(["r"], 0.0)
    sending.path_up("r", 0.0)
    here, now = Receiver(), 5.0
    sending.tick(now)

    def arrive(actions):
        for one in actions:
            if isinstance(one, Forward):
                here._do(here.machine.arrived("t", b"", {}, one.stamp, "r", now))

    for number in range(1, 10):
        copy = Copy(topic="t", payload=b"", qos=1, number=number, packet_id=number)
        actions = sending.published(copy, now)
        if number % 3:  # the others are dropped
            arrive(actions)
    while sending.kept:
        now += 0.1
        arrive(sending.tick(now))
        sending.came("c", here.tick(now))
        assert now < 5.0 + 2 * LONGEST_RETRY_S
    assert [number for number, _ in here.delivered] == sorted({number for number, _ in here.delivered})
    assert {number for number, qos in here.delivered if qos} == set()


# ---- real edges


def test_at_an_edge_that_wants_qos_0_a_message_of_qos_1_is_written_and_acknowledged_for_nobody(tmp_path):
    async def main():
        got, much = [], []
        async with asyncio.timeout(30), sites(tmp_path, edges=("a", "b", "c"), routers=("r",)) as here:
            with (
                stock(here, "b", "ben", got=got, wants="room/+", qos=1),
                stock(here, "c", "cid", got=much, wants="#", qos=0) as cid,
                stock(here, "a", "ann") as ann,
            ):
                origin, acknowledged = here.brokers["a"], Counter()
                came = origin._sending.came

                def counted(edge, numbers):
                    acknowledged[edge] += len(numbers)
                    return came(edge, numbers)

                origin._sending.came = counted
                await until(lambda: dict(origin._interest.of("room/1")) == {"b": 1, "c": 0})
                for n in range(50):
                    ann.publish("room/1", b"%d" % n, qos=1)
                await until(lambda: len(got) == len(much) == 50)
                await until(lambda: origin.statistics()["kept"] == 0)
                await asyncio.sleep(0.1)
                assert acknowledged == {"b": 50}
                assert much == [("room/1", b"%d" % n) for n in range(50)]
                cid.subscribe("room/1", 1)
                await until(lambda: origin._interest.of("room/1")["c"] == 1)
                for n in range(50, 60):
                    ann.publish("room/1", b"%d" % n, qos=1)
                await until(lambda: origin.statistics()["kept"] == 0)
                await until(lambda: acknowledged == {"b": 60, "c": 10})
                assert here.brokers["c"].statistics()["received"].get("given up", 0) == 0

    asyncio.run(main())
