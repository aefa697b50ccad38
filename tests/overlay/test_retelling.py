"""For whom what is retained is told again, and when."""

from __future__ import annotations

import asyncio

import pytest
from sites import sites, stock, until

from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages.actions import Acknowledge, Copy, Forward
from firelane.overlay.messages.sending import Sending
from firelane.overlay.registry import Wish
from firelane.overlay.retelling import MOST_APART, REST, Retelling

ALL = ["b", "c", "d", "e", "f"]


class Exchange:
    """Tells of what it was asked for until it is said to have done so."""

    def __init__(self):
        self.telling = set()
        self.retelling = Retelling(lambda one: one not in self.telling)

    def begin(self, now=0.0):
        begun = self.retelling.begin(now)
        self.telling |= begun
        return begun


def test_what_is_told_to_edges_that_are_back_is_for_them():
    here = Exchange()
    here.retelling.ask(["s/#", "t"], frozenset("b"))
    here.retelling.ask(["s/#"], frozenset("c"))
    assert here.begin() == {"s/#", "t"}
    assert here.retelling.edges("s/1", ALL) == ("b", "c")
    assert here.retelling.edges("t", ALL) == ("b",)
    assert here.retelling.edges("t", ["c"]) == ()  # nobody wants it any more
    assert here.retelling.edges("u", ALL) is None  # as left in the log from before


def test_what_somebody_wants_anew_is_for_all_whoever_else_is_back():
    here = Exchange()
    here.retelling.ask(["s/#"], frozenset("b"))
    here.retelling.ask(["s/1"])
    here.begin()
    assert here.retelling.edges("s/1", ALL) is None
    assert here.retelling.edges("s/2", ALL) == ("b",)


def test_many_that_are_back_are_told_together():
    here = Exchange()
    here.retelling.ask(["s/#"], frozenset(ALL[: MOST_APART + 1]))
    here.begin()
    assert here.retelling.edges("s/1", ALL) is None


def test_what_is_being_told_is_not_begun_anew_but_told_once_more_after_that():
    here, now, begun = Exchange(), 0.0, []
    here.retelling.ask(["s/#"], frozenset("b"))
    here.begin()
    for _ in range(100):  # it takes 10 s, and b says all the time that it is back
        now += 0.1
        here.retelling.ask(["s/#"], frozenset("bc"))
        begun += here.begin(now)
        here.retelling.look(now)
    assert begun == []
    here.telling.clear()
    over = now
    while not begun:
        now += 0.1
        begun += here.begin(now)
        here.retelling.look(now)
    assert now - over == pytest.approx(REST * over, rel=0.1)
    assert here.retelling.edges("s/1", ALL) == ("b", "c")
    assert not here.retelling.asked


def test_whoever_wants_it_anew_does_not_wait_for_those_that_are_back():
    here = Exchange()
    here.retelling.ask(["s/#"], frozenset("b"))
    here.begin()
    here.retelling.ask(["s/#"])
    assert here.begin() == {"s/#"}
    assert here.retelling.edges("s/1", ALL) is None
    here.retelling.ask(["s/#"])
    assert here.begin() == set()  # but for others that want it anew: for these it would never end
    here.telling.clear()
    assert here.begin() == {"s/#"}


def test_what_is_over_is_forgotten_once_all_of_it_has_come():
    here = Exchange()
    here.retelling.ask([f"s/{n}" for n in range(10)])
    here.begin()
    here.telling.clear()
    here.retelling.look(1.0)
    assert len(here.retelling._tellings) == 10
    here.retelling.look(1.1)
    assert here.retelling._tellings == {}
    assert here.retelling._tree.matching("s/1") == []


def sending():
    interest = Interest()
    for name in "bc":
        interest.change(name, Edge(here=True, filters={"t/#": Wish(qos=2)}))
    one = Sending("a", 1, interest)
    one.routers_listener(["r"], 0.0)
    one.path_up("r", 0.0)
    return one


def copy(number, first=0, only=None, qos=1):
    return Copy(topic="t/1", payload=b"", qos=qos, number=number, packet_id=number, retain=True, first=first, only=only)


def forwarded(actions):
    return [(one.edge, one.stamp.number, one.stamp.qos, one.stamp.after) for one in actions if isinstance(one, Forward)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_edge_that_is_back_is_told_by_itself_with_qos_0_and_others_miss_nothing_then(qos):
    one = sending()
    one.published(copy(1), 0.0)
    one.topic_node_listener("t/1", None, 0.0)
    for edge in "bc":
        one.came(edge, [1])
    told = one.published(copy(2, first=1, only=("b",), qos=qos), 1.0)
    assert forwarded(told) == [("b", 2, 0, 0)]
    assert [action for action in told if isinstance(action, Acknowledge)] == ([Acknowledge(2, qos)] if qos else [])
    assert one.kept == 0
    assert forwarded(one.published(copy(3), 1.0)) == [(None, 3, 1, 1)]  # nothing that c would have to ask for


@pytest.mark.parametrize("told_before", [False, True])
def test_what_an_edge_is_owed_anyway_it_is_not_told_besides_or_it_would_come_twice(told_before):
    one = sending()
    one.published(copy(1), 0.0)
    one.topic_node_listener("t/1", None, 0.0)
    number = 1
    if told_before:
        one.came("b", [1])
        one.came("c", [1])
        number = 2
        one.published(copy(2, first=1), 0.5)
    one.came("c", [number])
    assert forwarded(one.published(copy(3, first=1, only=("b", "c")), 1.0)) == [("c", 3, 0, 0)]


def test_what_is_told_again_waits_for_the_route_of_its_topic():
    one = sending()
    assert forwarded(one.published(copy(2, first=1, only=("b",)), 1.0)) == []
    assert forwarded(one.topic_node_listener("t/1", None, 1.1)) == [("b", 2, 0, 0)]


def test_what_is_told_to_an_edge_whose_line_comes_and_goes_costs_others_nothing(tmp_path):
    async def main():
        topics = [f"s/{n}" for n in range(100)]
        async with asyncio.timeout(60), sites(tmp_path, edges=("a", "b", "c"), routers=("r1",)) as here:
            with (
                stock(here, "b", "ben", wants="s/#", qos=1),
                stock(here, "c", "cid", wants="s/#", qos=1),
                stock(here, "a", "ann") as ann,
            ):
                await until(lambda: len(here.brokers["a"]._interest.of("s/1")) == 2)
                for at, topic in enumerate(topics):
                    ann.publish(topic, b"old", qos=at % 2, retain=True)

                def kept(edge, payload):
                    found = [here.exchanges[edge].broker.retained.get(topic.encode()) for topic in topics]
                    return all(one is not None and one.payload == payload for one in found)

                await until(lambda: kept("b", b"old") and kept("c", b"old"))
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
                here.brokers["c"]._say_back = lambda router: None  # it may have been slow when it began
                arrived = {"b": 0, "c": 0}
                for name in arrived:
                    receiving = here.brokers[name]._receiving

                    def counting(*given, name=name, plainly=receiving.arrived):
                        arrived[name] += 1
                        return plainly(*given)

                    receiving.arrived = counting
                for _ in range(3):
                    before = dict(arrived)
                    here.brokers["b"]._paths["r1"][0]._line.abort()
                    await until(lambda before=before: arrived["b"] >= before["b"] + len(topics))
                assert arrived["c"] == 0

                path = here.brokers["b"]._paths["r1"][0]  # and what it misses meanwhile it is told
                path._line.abort()
                for topic in topics:
                    ann.publish(topic, b"new", qos=0, retain=True)
                await until(lambda: kept("b", b"new") and kept("c", b"new"))
                assert arrived["c"] == len(topics)

    asyncio.run(main())
