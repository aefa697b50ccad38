"""Which router an edge sends through while routers come and go."""

from firelane.overlay.actions import Copy, Forward
from firelane.overlay.interest import Edge, Interest, Wish
from firelane.overlay.owner import hashed_owner
from firelane.overlay.sending import LONGEST_WAIT_S, SETTLED_S, Sending

TOPIC = "room/1"
OWNER = hashed_owner(TOPIC, {"r1", "r2"})
(OTHER,) = {"r1", "r2"} - {OWNER}


class Told:
    """An edge that sends a topic that another wants."""

    def __init__(self):
        self.interest = Interest()
        self.interest.change("b", Edge(here=True, filters={TOPIC: Wish(qos=1)}))
        self.sending, self.number = Sending("a", 1, self.interest), 0
        self.sending.routers_listener(["r1", "r2"], 0.0)

    def sent(self, now, qos=0):
        """Through which routers the next message goes."""
        self.number += 1
        copy = Copy(topic=TOPIC, payload=b"x", qos=qos, number=self.number, packet_id=self.number)
        return through(self.sending.published(copy, now))


def through(actions):
    return [one.router for one in actions if isinstance(one, Forward)]


def started():
    """Connected to the router that is not the topic's, which is known to be the other one."""
    one = Told()
    one.sending.path_up(OTHER, 0.0)
    one.sent(0.0)
    one.sending.tick(LONGEST_WAIT_S)
    return one


def test_a_router_that_is_back_is_used_when_others_have_had_time_to_find_it():
    one = started()
    assert one.sent(10.0) == [OTHER]
    one.sending.path_up(OWNER, 10.0)
    one.sending.tick(10.0 + SETTLED_S - 0.1)
    assert one.sent(10.0 + SETTLED_S - 0.1) == [OTHER]
    one.sending.tick(10.0 + SETTLED_S)
    assert one.sent(10.0 + SETTLED_S) == [OWNER]


def test_it_is_used_at_once_where_there_is_no_other():
    one = started()
    one.sending.path_down(OTHER, 10.0)
    assert one.sent(10.0, qos=1) == []
    assert through(one.sending.path_up(OWNER, 10.0)) == [OWNER]
    assert one.sent(10.0) == [OWNER]


def test_it_is_used_at_once_when_the_other_is_gone_and_gets_what_that_may_have_lost():
    one = started()
    assert one.sent(10.0, qos=1) == [OTHER]
    one.sending.path_up(OWNER, 10.0)
    assert through(one.sending.path_down(OTHER, 10.1)) == [OWNER]
    assert one.sent(10.1) == [OWNER]


def test_one_that_is_gone_again_before_is_not_used():
    one = started()
    one.sending.path_up(OWNER, 10.0)
    one.sending.path_down(OWNER, 11.0)
    one.sending.tick(20.0)
    assert one.sent(20.0) == [OTHER]


def numbers(actions):
    return [one.copy.number for one in actions if isinstance(one, Forward)]


def test_what_waited_for_a_path_goes_out_as_it_was_published_so_that_no_topic_waits_for_another_s():
    one = Told()
    one.interest.change("b", Edge(here=True, filters={"#": Wish(qos=1)}))
    for number, topic in enumerate(("x", "x", "y", "x", "y"), 1):
        one.sending.published(Copy(topic=topic, payload=b"", qos=1, number=number, packet_id=number), 0.0)
    one.sending.tick(LONGEST_WAIT_S)
    assert numbers(one.sending.path_up("r1", 10.0)) == [1, 2, 3, 4, 5]
    one.sending.path_up("r2", 10.0)
    assert numbers(one.sending.path_down("r1", 10.1)) == [1, 2, 3, 4, 5]
