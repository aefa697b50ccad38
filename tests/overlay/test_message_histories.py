"""Edges and routers as plain data, driven through random histories: nothing is lost, doubled or out of order.

Routers forward what they get to whoever wants it, in order on each connection, and lose everything when they die or a
connection breaks. Registries tell edges late and in any order. Whatever happens, once it is over every message of
QoS 1 or 2 has been delivered once, in order, at every edge that wanted it, and only then was it acknowledged.

Routers drop some of what an edge wants with QoS 0. An edge may be started again with its log, or without: then what
others have not got is lost, and its numbers begin anew under another boot, by a clock that was set back.

With deadlines there are direct copies too, which race those through routers and get lost when a connection breaks. An
edge that waits for no gap longer than its deadline has each message once, or has counted it once as superseded.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firelane.mqtt.topics import matches
from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages.actions import Acknowledge, Copy, Deliver, Direct, Forward, Tell, Watch
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.sending import Sending
from firelane.overlay.owner import Assignment
from firelane.overlay.registry import Wish

EDGES, ROUTERS, TOPICS = ("a", "b", "c"), ("r1", "r2"), ("t/0", "t/1", "u")
WANTS = {"a": {"t/#": 1}, "b": {"t/0": 2, "u": 0}, "c": {"#": 2}}


class Node:
    """One edge: both machines, what was delivered, and what its exchange was told."""

    def __init__(self, name, patience_s):
        self.name, self.interest, self.wishes = name, Interest(), dict(WANTS[name])
        deadline_s = None if patience_s is None else 0.1
        for other in EDGES:
            if other != name:
                filters = {one: Wish(qos=qos, deadline_s=deadline_s) for one, qos in WANTS[other].items()}
                self.interest.change(other, Edge(here=True, filters=filters, locator=other))
        self.boots = [1]
        self.sending = Sending(name, 1, self.interest)
        self.receiving = Receiving(name, 1, patience_s=lambda topic: patience_s, wanted_qos=self.wants)
        self.superseded = Counter()  # (origin, boot, number) of QoS 1 and 2
        self.delivered = defaultdict(list)  # (origin, topic) -> boots and numbers of QoS 1 and 2
        self.plain = defaultdict(list)
        self.epochs = defaultdict(list)
        self.uncommitted = deque()
        self.acknowledged = []
        self.number = 0
        self.fickle = set()  # topics that were wanted with QoS 0 for a while: what was overtaken then is not delivered

    def wants(self, topic):
        """The QoS that its clients want a topic with."""
        return max((qos for one, qos in self.wishes.items() if matches(one, topic)), default=0)


class World:
    """All edges and routers, and what is under way between them."""

    def __init__(self, seed, patience_s=None):
        self.patience_s = patience_s
        self.random = random.Random(seed)
        self.now = 0.0
        self.nodes = {name: Node(name, patience_s) for name in EDGES}
        self.living = set(ROUTERS)
        self.up = defaultdict(deque)  # (edge, router) -> forwards and notes
        self.down = defaultdict(deque)  # (router, edge) -> the same
        self.beside = defaultdict(deque)  # (edge, edge) -> direct copies
        self.assigned, self.epoch = {}, 0
        self.news = []  # (edge, topic, assignment) that the registry has yet to tell
        self.minds = deque()  # (edge, other, wishes of the other) that the registry has yet to tell
        self.published = {}  # (origin, boot, number) -> topic, qos, edges that it was owed to
        self.dropped_plainly = 0
        for node in self.nodes.values():
            self.do(node, node.sending.routers_listener(ROUTERS, 0.0))
            for router in ROUTERS:
                self.do(node, node.sending.path_up(router, 0.0))

    def do(self, node, actions):
        for action in actions:
            match action:
                case Forward(router=router):
                    if router in self.living:
                        self.up[node.name, router].append(action)
                case Direct(edge=other):
                    self.beside[node.name, other].append(action)
                case Tell(router=router):
                    living = sorted(self.living)
                    chosen = router if router in self.living else living[0] if living else None
                    if chosen is not None:
                        self.up[node.name, chosen].append(action)
                case Deliver():
                    self.deliver(node, action)
                case Acknowledge():
                    self.acknowledge(node, action.packet_id)
                case Watch(topic=topic):
                    self.news.append((node.name, topic, self.assigned.get(topic)))

    def deliver(self, node, action):
        stamp = action.stamp
        key = stamp.origin, action.topic
        if stamp.qos:
            node.delivered[key].append((stamp.boot, stamp.number))
            node.uncommitted.append(stamp)
        else:
            node.plain[key].append((stamp.boot, stamp.number))

    def acknowledge(self, node, number):
        boot = node.boots[-1]
        topic, _, owed = self.published[node.name, boot, number]
        for other in map(self.nodes.get, owed):
            if not other.superseded[node.name, boot, number]:
                came = (boot, number) in other.delivered[node.name, topic]
                assert came or topic in other.fickle, "acknowledged, and not delivered"
                waiting = {(one.origin, one.boot, one.number) for one in other.uncommitted}
                assert (node.name, boot, number) not in waiting, "acknowledged before it was safe"
        assert number not in node.acknowledged
        node.acknowledged.append(number)

    # ---- what may happen

    def publish(self):
        node = self.nodes[self.random.choice(EDGES)]
        node.number += self.random.randint(1, 3)
        topic, qos = self.random.choice(TOPICS), self.random.choice((0, 1, 2))
        owed = [other for other, wanted in node.interest.of(topic).items() if qos and wanted]
        self.published[node.name, node.boots[-1], node.number] = topic, qos, owed
        copy = Copy(topic=topic, payload=b"", qos=qos, number=node.number, packet_id=node.number)
        self.do(node, node.sending.published(copy, self.now))

    def pass_on(self):
        """Something arrives at a router, which sends it on."""
        waiting = [key for key, queue in self.up.items() if queue]
        if not waiting:
            return
        edge, router = self.random.choice(sorted(waiting))
        action = self.up[edge, router].popleft()
        if isinstance(action, Tell):
            self.down[router, action.edge].append(action)
            return
        wanted = [action.edge] if action.edge else self.nodes[edge].interest.of(action.copy.topic)
        for other in wanted:
            if other == edge:
                continue
            if action.edge is None and not self.nodes[other].wants(action.copy.topic) and self.random.random() < 0.3:
                self.dropped_plainly += 1
                continue
            self.down[router, other].append(action)

    def arrive(self):
        waiting = [key for key, queue in self.down.items() if queue]
        if not waiting:
            return
        router, edge = self.random.choice(sorted(waiting))
        action, node = self.down[router, edge].popleft(), self.nodes[edge]
        if isinstance(action, Tell):
            note = action.note
            for one in note.nothing:
                self.do(node, node.receiving.nothing(note.edge, note.boot, one))
            if note.of not in (0, node.boots[-1]):
                return
            self.do(node, node.sending.came(note.edge, note.came))
            for one in note.missing:
                self.do(node, node.sending.missing(note.edge, one, self.now))
            for one in note.outdated:
                self.do(node, node.sending.outdated(note.edge, one, self.now))
        else:
            self.message(node, action, router)

    def message(self, node, action, router):
        copy, stamp, counts = action.copy, action.stamp, node.receiving.counts
        refused, superseded = counts["outdated"], counts["superseded"]
        self.do(node, node.receiving.arrived(copy.topic, copy.payload, {}, stamp, router, self.now))
        if counts["outdated"] == refused:
            assert stamp.epoch >= max(node.epochs[copy.topic], default=0), "accepted under a stale epoch"
            node.epochs[copy.topic].append(stamp.epoch)
        if stamp.qos:
            node.superseded[stamp.origin, stamp.boot, stamp.number] += counts["superseded"] - superseded

    def arrive_directly(self):
        waiting = sorted(key for key, queue in self.beside.items() if queue)
        if waiting:
            origin, edge = self.random.choice(waiting)
            self.message(self.nodes[edge], self.beside[origin, edge].popleft(), None)

    def lose_directly(self):
        """A direct connection breaks."""
        if self.beside:
            self.beside.pop(self.random.choice(sorted(self.beside)))

    def commit(self):
        node = self.nodes[self.random.choice(EDGES)]
        if node.uncommitted:
            node.receiving.committed(node.uncommitted.popleft())

    def tick(self):
        self.now += self.random.choice((0.05, 0.3, 1.5))
        for node in self.nodes.values():
            self.do(node, node.sending.tick(self.now))
            self.do(node, node.receiving.tick(self.now))
            plain = [one for (_, topic), one in node.receiving._chains.items() if not node.wants(topic)]
            assert not any(chain.held for chain in plain), "waits, and nobody wants it to"

    def kill(self):
        if len(self.living) < 2:
            return
        router = self.random.choice(sorted(self.living))
        self.living.discard(router)
        for key in list(self.up):
            if key[1] == router:
                del self.up[key]
        for key in list(self.down):
            if key[0] == router:
                del self.down[key]
        for node in self.nodes.values():
            self.do(node, node.sending.path_down(router, self.now))

    def restart(self):
        """An edge begins again, with its log."""
        node = self.nodes[self.random.choice(EDGES)]
        self.begin(node, [one.copy for one in node.sending._keeping.messages.values()])

    def lose_log(self):
        """The same without, and the others have heard of the boot before."""
        node = self.nodes[self.random.choice(EDGES)]
        known = [one.receiving._senders.get(node.name) for one in self.nodes.values() if one is not node]
        if all(one is not None and one.boot == node.boots[-1] for one in known):
            node.boots.append(self.random.getrandbits(62))
            node.number, node.acknowledged = 0, []
            self.begin(node, [])

    def begin(self, node, in_its_log):
        node.sending = Sending(node.name, node.boots[-1], node.interest)
        for router in sorted(self.living):
            self.up.pop((node.name, router), None)
        self.do(node, node.sending.routers_listener(ROUTERS, self.now))
        for router in sorted(self.living):
            self.do(node, node.sending.path_up(router, self.now))
        for copy in in_its_log:
            self.do(node, node.sending.published(copy, self.now))

    def revive(self):
        for router in set(ROUTERS) - self.living:
            self.living.add(router)
            for node in self.nodes.values():
                self.do(node, node.sending.path_up(router, self.now))

    def cut_off(self):
        """A router loses its connection to an edge, which connects anew: the origin knows nothing of it."""
        if self.living:
            self.down.pop((self.random.choice(sorted(self.living)), self.random.choice(EDGES)), None)

    def move(self):
        self.epoch += 1
        topic = self.random.choice(TOPICS)
        self.assigned[topic] = Assignment(router=self.random.choice(ROUTERS), epoch=self.epoch)
        self.news += [(edge, topic, self.assigned[topic]) for edge in EDGES]

    def tell(self):
        """The registry tells an edge, in any order."""
        if self.news:
            edge, topic, assignment = self.news.pop(self.random.randrange(len(self.news)))
            node = self.nodes[edge]
            node.receiving.topic_node_listener(topic, assignment)
            self.do(node, node.sending.topic_node_listener(topic, assignment, self.now))

    def change_mind(self):
        """The clients of b want one topic with another QoS, of which others hear later."""
        self.nodes["b"].fickle.add("u")
        wishes = self.nodes["b"].wishes
        wishes["u"] = 1 - wishes["u"]
        self.minds += [(edge, "b", dict(wishes)) for edge in EDGES if edge != "b"]

    def tell_mind(self):
        if self.minds:
            edge, other, wishes = self.minds.popleft()
            node = self.nodes[edge]
            filters = {one: Wish(qos=qos) for one, qos in wishes.items()}
            node.interest.change(other, Edge(here=True, filters=filters))
            self.do(node, node.sending.edges_changed({other}, self.now))

    def settle(self):
        self.revive()
        while self.minds:
            self.tell_mind()
        while self.news:
            self.tell()
        for _ in range(400):
            while any(self.up.values()):
                self.pass_on()
            while any(self.down.values()):
                self.arrive()
            while any(self.beside.values()):
                self.arrive_directly()
            for node in self.nodes.values():
                while node.uncommitted:
                    node.receiving.committed(node.uncommitted.popleft())
            if not any(node.sending.kept for node in self.nodes.values()):
                return
            self.tick()


def check(world):
    for node in world.nodes.values():
        assert node.sending.kept == 0, "something is kept for ever"
        mine = {n: qos for (*one, n), (_, qos, _) in world.published.items() if one == [node.name, node.boots[-1]]}
        reliable = sorted(number for number, qos in mine.items() if qos)
        assert sorted(node.acknowledged) == reliable
    for (origin, boot, number), (topic, _, owed) in world.published.items():
        for other in map(world.nodes.get, owed):
            came = (other.delivered[origin, topic] + other.plain[origin, topic]).count((boot, number))
            late = other.superseded[origin, boot, number]
            assert came <= 1
            if boot == world.nodes[origin].boots[-1] and topic not in other.fickle:
                assert came + late == 1
                assert came == 1 or world.patience_s not in (None, inf)
    for node in world.nodes.values():
        for came in (node.delivered, node.plain):
            for (origin, _), numbers in came.items():
                turns = [(world.nodes[origin].boots.index(boot), number) for boot, number in numbers]
                assert turns == sorted(set(turns)), "out of order, or twice"


CALM = ["publish"] * 4 + ["pass_on"] * 8 + ["arrive"] * 12 + ["commit"] * 6 + ["tick", "tell"]
WILD = [*CALM, "kill", "revive", "revive", "cut_off", "move", "tell"]
STARTS = [*WILD, "restart", "lose_log"]
MINDS = [*WILD, "change_mind", "tell_mind", "tell_mind"]
DIRECT = [*STARTS, *["arrive_directly"] * 10, "lose_directly"]
SLOW = ["publish"] * 4 + ["pass_on"] * 3 + ["arrive"] * 4 + ["arrive_directly"] * 4 + ["lose_directly"] * 2
SLOW += ["commit"] * 6 + ["tick", "kill", "revive", "cut_off", "move", "tell", "tell"]


@pytest.mark.parametrize("events", [CALM, WILD, STARTS, MINDS])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_message_is_delivered_once_and_in_order_and_then_acknowledged(events, seed):
    world = World(seed)
    for _ in range(300):
        getattr(world, world.random.choice(events))()
    world.settle()
    check(world)


@pytest.mark.parametrize("patience_s", [inf, 0.1])
@pytest.mark.parametrize("events", [DIRECT, SLOW])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_with_direct_copies_every_message_is_delivered_once_or_counted_as_superseded(events, patience_s, seed):
    world = World(seed, patience_s)
    for _ in range(300):
        getattr(world, world.random.choice(events))()
    world.settle()
    check(world)


def test_random_histories_with_deadlines_have_races_won_by_both_ways_and_gaps_that_are_given_up():
    """Or the laws above would hold of nothing."""
    first, given_up, superseded = Counter(), 0, 0
    for seed in range(20):
        world = World(seed, 0.1)
        for _ in range(300):
            getattr(world, world.random.choice(SLOW))()
        world.settle()
        for node in world.nodes.values():
            first += node.receiving.races.first
            given_up += node.receiving.counts["given up"]
            superseded += node.superseded.total()
    assert min(first["direct"], first["router"]) > 50
    assert given_up > 10
    assert superseded > 5


def test_random_histories_have_boots_with_lower_numbers_and_messages_that_are_dropped_on_purpose():
    boots = dropped = 0
    for seed in range(20):
        world = World(seed)
        for _ in range(300):
            getattr(world, world.random.choice(STARTS))()
        boots += sum(len(node.boots) - 1 for node in world.nodes.values())
        dropped += world.dropped_plainly
    assert min(boots, dropped) > 10


def test_without_faults_nothing_is_sent_twice():
    world = World(1)
    for _ in range(200):
        world.publish()
        while any(world.up.values()):
            world.pass_on()
        while any(world.down.values()):
            world.arrive()
        for node in world.nodes.values():
            while node.uncommitted:
                node.receiving.committed(node.uncommitted.popleft())
            world.do(node, node.receiving.tick(world.now))
        while world.news:
            world.tell()
    world.settle()
    check(world)
    assert all(node.sending.sent_again <= len(TOPICS) for node in world.nodes.values())  # those that waited for a route
    assert all(not node.sending.dropped for node in world.nodes.values())
