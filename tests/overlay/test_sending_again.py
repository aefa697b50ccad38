"""What nobody answers for is sent again: when, by which router, and how much work it is to find."""

import time
from itertools import pairwise

import pytest

from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages.actions import Copy, Forward, Tell
from firelane.overlay.messages.keeping import LONGEST_RETRY_S
from firelane.overlay.messages.notes import AGAIN_AT_ONCE, Missing
from firelane.overlay.messages.sending import LOOK_EVERY_S, Sending
from firelane.overlay.registry import Wish

ROUTERS = ("r1", "r2", "r3")
TICK_S = LOOK_EVERY_S / 2
SOME, KEPT = 2_500, 50_000


def sending(*edges, routers=ROUTERS):
    interest = Interest()
    for name in edges:
        interest.change(name, Edge(here=True, filters={"#": Wish(qos=1)}))
    one = Sending("a", 1, interest)
    one.routers_listener(routers, 0.0)
    for router in routers:
        one.path_up(router, 0.0)
    publish(one, 1, 0.0, qos=0)
    one.tick(10.0)  # by now the route is known, and all routers are used
    return one


def publish(one, number, now, topic="t", qos=1):
    return one.published(Copy(topic=topic, payload=b"", qos=qos, number=number, packet_id=number), now)


def tries(one, since, until):
    """When each edge is sent something again, and through which router."""
    found, now = {}, since
    while now < until:
        now += TICK_S
        for action in one.tick(now):
            if isinstance(action, Forward):
                found.setdefault(action.edge, []).append((now, action.router))
    return found


def test_what_nobody_answers_for_is_sent_ever_more_seldom_and_by_another_router_each_time():
    one = sending("b")
    (first,) = publish(one, 2, 20.0)
    again = tries(one, 20.0, 100.0)["b"]
    pauses = [after - before for before, after in pairwise([20.0, *(when for when, _ in again)])]
    expected = [1.0, 2.0, 4.0, 8.0, *[LONGEST_RETRY_S] * 6]
    assert pauses == pytest.approx(expected, abs=2 * LOOK_EVERY_S)
    ways = [first.router, *(router for _, router in again)]
    assert all(set(ways[at : at + 3]) == set(ROUTERS) for at in range(len(ways) - 2))


def test_every_edge_is_tried_by_every_router_however_many_lack_a_message():
    edges = [f"e{n}" for n in range(5)]
    one = sending(*edges)
    publish(one, 2, 20.0)
    again = tries(one, 20.0, 80.0)
    assert sorted(again) == edges
    for each in again.values():
        ways = [router for _, router in each]
        assert len(ways) >= 6
        assert all(set(ways[at : at + 3]) == set(ROUTERS) for at in range(len(ways) - 2))


def test_an_edge_that_lacks_much_does_not_keep_another_from_being_tried():
    one = sending("b", "c")
    for number in range(2, 1002):
        publish(one, number, 20.0)
    one.came("c", range(2, 1001))
    assert {edge for action in one.tick(21.1) if (edge := action.edge)} == {"b", "c"}


def test_questions_of_one_edge_change_neither_when_nor_by_which_router_another_is_tried():
    one = sending("b", "c", routers=("r1", "r2"))
    publish(one, 2, 20.0)
    publish(one, 3, 20.0)
    again, now = [], 20.0
    while now < 100.0:
        one.missing("b", Missing(topic="t", last=1, before=3), now, "r1")
        again += tries(one, now, now + 0.9).get("c", ())[::2]  # the other is of the last message, which b has
        now += 1.0
    assert len(again) >= 8
    assert all(before != after for (_, before), (_, after) in pairwise(again))


def test_catching_up_with_very_much_is_as_little_work_for_a_message_as_with_some():
    """All is kept for another edge as well, so nothing gets less; a look at all of it at each question took 6 s."""
    assert catching_up_s(KEPT) < 2 * (KEPT / SOME) * catching_up_s(SOME)


def catching_up_s(number_of):
    """The processor's time at the origin; the best of three."""
    return min(caught_up_s(number_of) for _ in range(3))


def caught_up_s(number_of):
    one, last, now = sending("b", "c"), 1, 21.0
    for number in range(2, number_of + 2):
        publish(one, number, 20.0)
    began_s = time.process_time()
    while last < number_of:
        answer = one.missing("b", Missing(topic="t", last=last, before=number_of + 1), now, "r1")
        came = [action.copy.number for action in answer if isinstance(action, Forward)]
        assert came == list(range(last + 1, min(last + AGAIN_AT_ONCE, number_of) + 1))
        assert not any(isinstance(action, Tell) for action in answer)
        one.came("b", came)
        last, now = came[-1], now + 0.02
    return time.process_time() - began_s


def test_news_of_edges_that_lack_nothing_are_no_work_and_of_others_one_question_a_topic(monkeypatch):
    one, asked = sending("b", "c"), []
    for number in range(2, 102):
        publish(one, number, 20.0, topic=f"t/{number % 2}")
    one.came("b", range(2, 102))
    of = one._interest.of
    monkeypatch.setattr(one._interest, "of", lambda topic: asked.append(topic) or of(topic))
    assert one.edges_changed({"b", "nobody"}, 21.0) == []
    assert asked == []
    assert one.edges_changed({"c"}, 21.0) == []
    assert sorted(asked) == ["t/0", "t/1"]
