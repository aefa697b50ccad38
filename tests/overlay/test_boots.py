"""An edge that numbers its messages anew, as its log was lost: nothing of it is taken for what came before."""

import asyncio
import json
import time

import pytest
from sites import sites, stock, until

from firelane.exchange import run as running
from firelane.exchange.journal.numbering import STEP, Numbering, reserved
from firelane.exchange.journal.retained import OVERLAY_NUMBERS
from firelane.overlay.messages.actions import Deliver
from firelane.overlay.messages.notes import Missing, Note, Nothing
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.sender import SILENT_S
from firelane.overlay.messages.stamp import Stamp

OLD, NEW = 0xBEEF, 0xAB  # which is the later cannot be seen from the numbers


class Receiver:
    """Topics of the origin a at the edge b."""

    def __init__(self, had=None):
        self.machine = Receiving("b", 1, had)
        self.delivered, self.unsafe = [], []

    def gets(self, boot, number, after=0, *, qos=1, now=0.0, topic="t", router="r"):
        stamp = Stamp("a", boot, number, after, 0, qos)
        return self._do(self.machine.arrived(topic, b"", {}, stamp, router, now))

    def nothing(self, boot, before):
        return self._do(self.machine.nothing("a", boot, Nothing(topic="t", before=before)))

    def _do(self, actions):
        some = [one.stamp for one in actions if isinstance(one, Deliver)]
        self.unsafe += [one for one in some if one.qos]
        self.delivered += [(one.boot, one.number) for one in some]
        return [(one.boot, one.number) for one in some]

    def commit(self):
        while self.unsafe:
            self.machine.committed(self.unsafe.pop(0))

    def told(self, now=0.0):
        return [one.note for one in self.machine.tick(now)]

    def acknowledged(self, now=0.0):
        return [(one.of, *one.came) for one in self.told(now) if one.came]


def test_lower_numbers_of_another_boot_are_new_messages():
    here = Receiver()
    for qos in (0, 1, 2):
        topic = f"t/{qos}"
        assert here.gets(OLD, 1000 + qos, qos=qos, topic=topic) == [(OLD, 1000 + qos)]
    for qos in (0, 1, 2):
        topic = f"t/{qos}"
        assert here.gets(NEW, 10 + qos, qos=qos, topic=topic) == [(NEW, 10 + qos)]
        assert here.gets(NEW, 10 + qos, qos=qos, topic=topic) == []
    assert here.machine.counts == {"again": 3}


def test_what_is_new_under_another_boot_is_acknowledged_only_once_it_is_safe():
    here = Receiver()
    here.gets(OLD, 1000)
    here.commit()
    here.told()
    here.gets(NEW, 10)
    assert here.acknowledged() == []
    here.commit()
    assert here.acknowledged() == [(NEW, 10)]


def test_what_comes_again_under_the_same_boot_came_before():
    """An edge that is started again with its log goes on under its boot, and sends again what waits there."""
    here = Receiver()
    for number in (10, 20):
        here.gets(OLD, number, after=number - 10, qos=2)
    here.commit()
    here.told()
    assert here.gets(OLD, 10, qos=2) == here.gets(OLD, 20, after=10, qos=2) == []
    assert here.gets(OLD, 5000, after=20, qos=2) == [(OLD, 5000)]
    assert here.acknowledged() == [(OLD, 10, 20)]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_late_copy_of_a_former_boot_is_not_delivered_after_newer_ones_nor_acknowledged(qos):
    here = Receiver()
    here.gets(OLD, 1000, qos=qos)
    here.gets(NEW, 10, qos=qos)
    here.commit()
    assert here.acknowledged() == ([(NEW, 10)] if qos else [])
    assert here.gets(OLD, 1001, after=1000, qos=qos, router="other") == []
    assert here.machine.counts["superseded"] == 1
    assert here.acknowledged() == []


def test_a_late_copy_of_a_former_boot_is_delivered_where_nothing_newer_came_without_what_is_lost_before_it():
    here = Receiver()
    here.gets(OLD, 1000)
    here.gets(NEW, 10, topic="other")
    assert here.gets(OLD, 1005, after=1003) == [(OLD, 1005)]
    assert here.machine.held == 0
    here.commit()
    assert here.acknowledged() == [(NEW, 10)]


def test_what_waits_for_messages_that_were_lost_is_delivered_before_the_first_of_the_new_boot():
    here = Receiver()
    here.gets(OLD, 1000)
    here.gets(OLD, 1004, after=1002)
    here.gets(OLD, 1006, after=1005)
    here.gets(OLD, 1008, after=1007, topic="u")
    assert here.delivered == [(OLD, 1000)]
    assert here.gets(NEW, 10) == [(OLD, 1004), (OLD, 1006), (OLD, 1008), (NEW, 10)]
    assert here.machine.held == 0
    here.commit()
    assert here.told(100.0)[0].came == (10,)
    assert here.told(200.0) == []  # nothing is asked for


def test_what_was_not_yet_safe_of_a_former_boot_acknowledges_nothing_of_the_new():
    """The numbers may be the same: a clock that always begins with the same moment."""
    here = Receiver()
    here.gets(OLD, 10)
    here.gets(NEW, 10)
    assert here.delivered == [(OLD, 10), (NEW, 10)]
    here.machine.committed(here.unsafe.pop(0))
    assert here.gets(NEW, 10) == []
    assert here.acknowledged() == []
    here.commit()
    assert here.acknowledged() == [(NEW, 10)]


def test_after_a_start_only_a_number_of_the_same_boot_counts_as_the_last_of_qos_2():
    marks = {("a", "t"): (1000, OLD)}
    assert Receiver(marks).gets(OLD, 1000, qos=2) == []
    assert Receiver(marks).gets(NEW, 10, qos=2) == [(NEW, 10)]


def test_questions_say_which_boot_they_mean_and_only_its_answer_counts():
    here = Receiver()
    here.gets(OLD, 1000)
    here.gets(NEW, 10)
    here.gets(NEW, 30, after=20)
    here.commit()
    asked = [(one.of, one.missing) for one in here.told(1.0) if one.missing]
    assert asked == [(NEW, (Missing(topic="t", last=10, before=30),))]
    assert here.nothing(OLD, 30) == []
    assert here.nothing(NEW, 30) == [(NEW, 30)]


def test_a_late_copy_that_was_taken_for_a_new_beginning_stops_nothing_for_long():
    """An edge that was itself started just now cannot know which of two boots is the later."""
    here = Receiver()
    here.gets(NEW, 10)
    here.gets(OLD, 1000, now=1.0)
    assert here.gets(NEW, 11, after=10, now=2.0) == []
    here.commit()
    assert (OLD, 11) not in here.acknowledged()  # so it is sent again
    assert here.gets(NEW, 11, after=10, now=1.0 + SILENT_S) == []  # as after a start: it asks what was before
    assert here.nothing(NEW, 11) == [(NEW, 11)]
    assert here.gets(OLD, 1001, now=1.0 + SILENT_S) == []


# ---- the origin


class Retained:
    """What a log has kept."""

    def __init__(self):
        self.kept = {}

    def get(self, topic):
        return self.kept.get(topic)

    def publish(self, packets):
        self.kept |= {one.topic.encode(): one for one in packets}
        return len(packets)


def test_numbers_are_reserved_ahead_and_seldom():
    log = Retained()
    numbering = Numbering(log, NEW)
    assert log.publish(numbering.marks(100)) == 1
    written = 0
    for last in range(100, 5 * STEP, 2000):
        written += log.publish(numbering.marks(last))
        assert reserved(log) > last + STEP // 3
    assert written <= 10


def test_a_boot_lasts_as_long_as_the_log_and_numbers_begin_behind_what_was_reserved():
    log = Retained()
    first = Numbering(log, NEW)
    assert reserved(log) == 0
    log.publish(first.marks(100))
    assert (Numbering(log, OLD).boot, reserved(log)) == (NEW, 100 + STEP)
    assert Numbering(Retained(), OLD).boot == OLD
    assert json.loads(log.get(OVERLAY_NUMBERS.encode()).payload) == [NEW, 100 + STEP]


def clock(monkeypatch, at_s):
    monkeypatch.setattr(running.time, "time_ns", lambda: int(at_s * 1e9))


@pytest.mark.parametrize("durability", ["memory", "fsync"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_an_edge_whose_clock_was_set_back_arrive_once(tmp_path, monkeypatch, qos, durability):
    async def main():
        heard, now_s = [], time.time()
        async with asyncio.timeout(30), sites(tmp_path, edges=("b",), routers=("r",)) as here:
            with stock(here, "b", "ben", got=heard, wants="t", qos=qos):
                for turn, at_s in enumerate((now_s, now_s - 1e6, 30.0, now_s - 1e6)):
                    clock(monkeypatch, at_s)
                    await here.start("edge", "a", durability=durability)
                    await here.joined()
                    await until(lambda: here.brokers["a"]._interest.of("t"))
                    expected = [("t", b"%d" % n) for n in range(5 * turn + 5)]
                    with stock(here, "a", "ann") as ann:
                        for topic, payload in expected[-5:]:
                            ann.publish(topic, payload, qos=qos)
                        await until(lambda expected=expected: len(heard) >= len(expected))
                    await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
                    assert heard == expected
                    await here.stop("a")

    asyncio.run(main())


def test_what_waited_in_the_log_of_an_edge_whose_clock_was_set_back_is_delivered_once(tmp_path, monkeypatch):
    async def main():
        heard, now_s = [], time.time()
        async with asyncio.timeout(30), sites(tmp_path, routers=("r",)) as here:
            with stock(here, "b", "ben", got=heard, wants="t", qos=2):
                await until(lambda: here.brokers["a"]._interest.of("t"))
                boot = here.brokers["a"]._boot
                here.brokers["a"]._sending.came = lambda edge, numbers: []  # acknowledgements are lost
                with stock(here, "a", "ann") as ann:
                    for n in range(10):
                        ann.publish("t", b"%d" % n, qos=2)
                    await until(lambda: len(heard) == 10)
                await here.stop("a")
                clock(monkeypatch, now_s - 1e6)
                await here.start("edge", "a")
                await here.joined()
                with stock(here, "a", "ann") as ann:
                    ann.publish("t", b"10", qos=2)
                    await until(lambda: len(heard) > 10)
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
                assert here.brokers["a"]._boot == boot
            assert heard == [("t", b"%d" % n) for n in range(11)]

    asyncio.run(main())


def test_an_acknowledgement_of_a_number_of_another_boot_counts_for_nothing(tmp_path):
    async def main():
        async with asyncio.timeout(30), sites(tmp_path, routers=()) as here:
            with stock(here, "b", "ben", wants="t", qos=1), stock(here, "a", "ann") as ann:
                edge = here.brokers["a"]
                await until(lambda: edge._interest.of("t"))
                ann.publish("t", b"x", qos=1)
                await until(lambda: edge.statistics()["kept"] == 1)
                (number,) = edge._sending._keeping.messages
                for of, kept in ((edge._boot ^ 1, 1), (edge._boot, 0)):
                    edge._noted(Note(edge="b", boot=1, of=of, came=(number,)).encode(), "r", time.monotonic())
                    assert edge.statistics()["kept"] == kept

    asyncio.run(main())


@pytest.mark.parametrize("then", ["begins without its log", "is forgotten"])
def test_what_waits_for_what_was_lost_is_delivered_without_a_next_message(tmp_path, then):
    async def main():
        heard = []
        async with asyncio.timeout(60), sites(tmp_path, edges=("b",), routers=("r1",)) as here:
            await here.start("edge", "a", durability="memory")
            await here.joined()
            with stock(here, "b", "ben", got=heard, wants="t", qos=1):
                await until(lambda: bool(here.brokers["a"]._interest.of("t")))
                edge = here.brokers["a"]
                with stock(here, "a", "ann") as ann:
                    ann.publish("t", b"0", qos=1)
                    await until(lambda: len(heard) == 1 and not edge.statistics()["kept"])
                    forward = edge._forward
                    edge._forward = lambda action: None if action.copy.payload == b"1" else forward(action)  # lost
                    ann.publish("t", b"1", qos=1)
                    ann.publish("t", b"2", qos=1)
                    await until(lambda: here.brokers["b"].statistics()["held"] == 1)
                await here.stop("a")
                if then == "is forgotten":
                    await here.brokers["b"].registry.forget_edge("a")
                else:
                    await here.start("edge", "a", durability="memory")
                    await here.joined()
                await until(lambda: len(heard) == 2)
                assert here.brokers["b"].statistics()["received"]["given up"] == 1
        assert [payload for _, payload in heard] == [b"0", b"2"]

    asyncio.run(main())
