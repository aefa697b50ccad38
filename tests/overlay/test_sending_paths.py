"""Which router an edge sends through while routers come and go."""

import random

import pytest

from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages.actions import Copy, Forward
from firelane.overlay.messages.notes import Outdated
from firelane.overlay.messages.sending import LONGEST_WAIT_S, SETTLED_S, Sending
from firelane.overlay.owner import Assignment, hashed_owner, owner
from firelane.overlay.registry import Wish

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


@pytest.mark.parametrize("seed", range(20))
def test_the_route_is_what_follows_from_what_was_told_last(seed):
    """The owner that lives, else the hashed one, if it is connected; else one of those that are."""
    chance, names, now = random.Random(seed), ["r1", "r2", "r3"], 0.0
    told, newest, living, paths, fresh = Told(), {}, set(names), set(), {}
    told.sending.routers_listener(living, now)
    for epoch in range(200):
        router, now = chance.choice(names), now + chance.choice([0.1, 2.0])
        match chance.choice(["up", "down", "living", "given", "tick"]):
            case "up" if router not in paths | fresh.keys():
                told.sending.path_up(router, now)
                if paths:
                    fresh[router] = now + SETTLED_S
                else:
                    paths.add(router)
            case "down":
                told.sending.path_down(router, now)
                fresh.pop(router, None)
                paths.discard(router)
                if not paths:
                    paths, fresh = set(fresh), {}
            case "living":
                living = set(chance.sample(names, 2))
                told.sending.routers_listener(living, now)
            case "given":
                newest[TOPIC] = Assignment(router=router, epoch=epoch)
                told.sending.topic_node_listener(TOPIC, newest[TOPIC], now)
            case "tick":
                told.sending.tick(now)
                paths |= {one for one, at in fresh.items() if at <= now}
                fresh = {one: at for one, at in fresh.items() if at > now}
        for topic in (TOPIC, "another"):
            given = newest.get(topic)
            first = owner(topic, given, living)
            expected = first if first in paths else owner(topic, given, paths)
            assert told.sending.route(topic)[:2] == (expected, given.epoch if given else 0)


@pytest.mark.parametrize("qos", [0, 1])
def test_what_waits_for_a_route_goes_out_when_another_edge_tells_it(qos):
    """A direct copy went out under epoch 0 at once and was refused; the other waits for the registry."""
    interest = Interest()
    interest.change("b", Edge(here=True, filters={TOPIC: Wish(qos=qos, deadline_s=0.1)}, locator="h:1"))
    one = Sending("a", 1, interest)
    one.routers_listener(["r1", "r2"], 0.0)
    one.path_up("r1", 0.0)
    actions = one.published(Copy(topic=TOPIC, payload=b"x", qos=qos, number=1, packet_id=1), 0.0)
    assert through(actions) == []
    assert through(one.outdated("b", Outdated(topic=TOPIC, number=1, epoch=5, router="r1"), 0.01, "r1"))
    assert one.route(TOPIC)[:2] == ("r1", 5)


def test_topics_that_this_edge_has_not_sent_are_not_remembered_for_others():
    one = started()
    assert one.sending.outdated("b", Outdated(topic="any", number=1, epoch=5, router=OTHER), 1.0, OTHER) == []
    assert one.sending.route("any")[1] == 0
