"""An edge that was away gets what it is owed, soon and in order: both sides without a network."""

import pytest

from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages.actions import Copy, Deliver, Forward, Tell
from firelane.overlay.messages.keeping import FIRST_RETRY_S
from firelane.overlay.messages.notes import AGAIN_AT_ONCE
from firelane.overlay.messages.receiving import ASK_AFTER_S, Receiving
from firelane.overlay.messages.sending import LONGEST_WAIT_S, SETTLED_S, Sending
from firelane.overlay.registry import Wish

TOPIC = "room/1"
STEP_S = 0.05  # a question and its answer on the way


class Origin:
    """An edge that publishes what the edge b wants, through two routers."""

    def __init__(self):
        interest = Interest()
        interest.change("b", Edge(here=True, filters={TOPIC: Wish(qos=1)}))
        self.sending = Sending("a", 1, interest)
        self.sending.routers_listener(["r1", "r2"], 0.0)
        for router in ("r1", "r2"):
            self.sending.path_up(router, 0.0)
        self.publish(1, 0.0)
        self.sending.tick(max(LONGEST_WAIT_S, SETTLED_S))
        self.sending.came("b", [1])

    def publish(self, number, now):
        copy = Copy(topic=TOPIC, payload=b"%d" % number, qos=1, number=number, packet_id=number)
        return self.sending.published(copy, now)

    def answers(self, notes, now, through="r1"):
        asked = [gap for one in notes for gap in one.note.missing]
        return [action for gap in asked for action in self.sending.missing("b", gap, now, through)]


class Receiver:
    """The edge b, started again: of QoS 1 it does not know what it had."""

    def __init__(self):
        self.receiving, self.got = Receiving("b", 2), []

    def take(self, actions, now):
        for action in actions:
            if isinstance(action, Forward):
                given = (TOPIC, action.copy.payload, {}, action.stamp, action.router, now)
                self._deliver(self.receiving.arrived(*given))
            elif isinstance(action, Tell):
                for answer in action.note.nothing:
                    self._deliver(self.receiving.nothing("a", action.note.boot, answer))

    def _deliver(self, actions):
        self.got += [one.stamp.number for one in actions if isinstance(one, Deliver)]

    def questions(self, now):
        return [one for one in self.receiving.tick(now) if one.note.missing]


@pytest.mark.parametrize("turned", [False, True])
def test_one_question_is_enough_for_an_edge_that_does_not_know_what_it_had(turned):
    """Whichever comes first, the messages or the word that there is nothing before them."""
    origin, receiver = Origin(), Receiver()
    for number in range(2, 21):
        origin.publish(number, 10.0)
    origin.sending.came("b", range(2, 11))
    receiver.take(origin.publish(21, 10.0), 10.0)
    answer = origin.answers(receiver.questions(10.0), 10.0)
    receiver.take([*answer[-1:], *answer[:-1]] if turned else answer, 10.1)
    assert receiver.got == list(range(11, 22))


def test_the_answer_takes_the_way_of_the_question():
    """An edge that has just come back may have found only one of the routers."""
    for through in ("r1", "r2"):
        origin, receiver = Origin(), Receiver()
        origin.publish(2, 10.0)
        receiver.take(origin.publish(3, 10.0), 10.0)
        assert {one.router for one in origin.answers(receiver.questions(10.0), 10.0, through)} == {through}


def test_a_thousand_messages_do_not_take_many_seconds():
    origin, receiver, now = Origin(), Receiver(), 10.0
    for number in range(2, 1002):
        origin.publish(number, now)
    receiver.take(origin.publish(1002, now), now)
    while len(receiver.got) < 1001:
        now += STEP_S
        receiver.take(origin.answers(receiver.questions(now), now), now)
        assert now < 12.0  # 16 questions of 64 messages, a step each
    assert receiver.got == list(range(2, 1003))


def test_what_has_only_been_overtaken_is_not_asked_for_at_once():
    origin, receiver = Origin(), Receiver()
    for number in range(2, 202):
        receiver.take(origin.publish(number, 10.0), 10.0)
    receiver.take(origin.answers(receiver.questions(10.0), 10.0), 10.0)
    assert receiver.got == list(range(2, 202))
    late, early = origin.publish(202, 11.0), origin.publish(203, 11.0)
    receiver.take(early, 11.0)
    assert receiver.questions(11.0 + ASK_AFTER_S / 2) == []
    receiver.take(late, 11.0 + ASK_AFTER_S / 2)
    assert receiver.got == list(range(2, 204))


def test_what_an_edge_is_about_to_ask_for_is_not_sent_again_besides():
    origin, receiver, now = Origin(), Receiver(), 10.0
    for number in range(2, 502):
        origin.publish(number, now)
    now += FIRST_RETRY_S  # all of it is due
    receiver.take(origin.publish(502, now), now)
    sent, under_way = [], []
    while len(receiver.got) < 501:
        new = origin.answers(receiver.questions(now), now) + origin.sending.tick(now)
        sent += [one.copy.number for one in new if isinstance(one, Forward)]
        under_way += new
        receiver.take(under_way[:AGAIN_AT_ONCE], now)  # as much as a thin link carries in a step
        del under_way[:AGAIN_AT_ONCE]
        now += STEP_S
    assert sent == list(range(2, 502))


def test_of_a_topic_that_says_nothing_more_an_edge_that_is_reached_again_gets_the_rest_at_once():
    origin, receiver, now = Origin(), Receiver(), 10.0
    receiver.take(origin.publish(2, now), now)
    receiver.take(origin.answers(receiver.questions(now), now), now)
    origin.sending.came("b", receiver.got)
    for number in (3, 4, 5):
        origin.publish(number, now)
    while now < 18.0:  # cut off: what is sent again is lost as well, and ever more seldom
        now += STEP_S
        origin.sending.tick(now)
    receiver.receiving.path_up()
    again = origin.sending.back("b", now, "r2")
    assert [(one.copy.number, one.router, one.edge) for one in again] == [(5, "r2", "b")]
    receiver.take(again, now)
    receiver.take(origin.answers(receiver.questions(now), now, "r2"), now)
    assert receiver.got == [2, 3, 4, 5]


def test_an_edge_that_is_reached_again_is_sent_the_last_of_every_topic_a_few_at_once():
    interest = Interest()
    interest.change("b", Edge(here=True, filters={"#": Wish(qos=1)}))
    sending = Sending("a", 1, interest)
    sending.routers_listener(["r"], 0.0)
    sending.path_up("r", 0.0)
    topics = 3 * AGAIN_AT_ONCE
    for number in range(1, 2 * topics + 1):
        topic = f"room/{number % topics}"
        sending.published(Copy(topic=topic, payload=b"", qos=1, number=number, packet_id=number), 0.0)
    sending.tick(LONGEST_WAIT_S)
    sent = [one.copy.number for one in sending.back("b", 20.0, "r")]
    for step in range(1, 6):
        sent += [one.copy.number for one in sending.tick(20.0 + 0.21 * step) if isinstance(one, Forward)]
    assert set(range(topics + 1, 2 * topics + 1)) <= set(sent)
