"""Laws of the leader over random histories: joins, deaths, topics, loads, elections, writes that are late or lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from firelane.overlay.leader.assignment import STRATEGIES, Tuning
from firelane.overlay.leader.events import (
    Assign,
    Deposed,
    Elected,
    LoadsReported,
    NotAssigned,
    Router,
    RoutersChanged,
    Tick,
    Topic,
    TopicsChanged,
    WakeAt,
)
from firelane.overlay.leader.leading import Leader, Leading
from firelane.overlay.owner import Assignment

EDGES = ("north", "south", "east")
ROUTERS = ("r1", "r2", "r3", "r4")
TOPICS = tuple(f"t{number}" for number in range(12))
MAX_MOVES = 2
STEP_S = 10.0
PERIOD = 3
QUIET_STEPS = 60  # more than twelve topics need at two a step, and many periods
# Shrinking takes minutes, as every try ends with a long quiet.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)

edges = st.frozensets(st.sampled_from(EDGES), max_size=3)
loads = st.dictionaries(st.sampled_from(TOPICS), st.sampled_from([0.0, 1.0, 3.0, 10.0, 100.0, math.nan, -1.0]))
capacities = st.sampled_from([1.0, 1.0, 2.0])


def leading(strategy):
    return Leading(strategy=strategy, tuning=Tuning(period_steps=PERIOD), max_moves=MAX_MOVES, step_s=STEP_S)


class World:
    """A registry, whose writes arrive in order but late or not at all, and a leader that follows it."""

    def __init__(self, strategy):
        self.strategy = strategy
        self.leader = Leader(leading(strategy))
        self.now_s, self.epoch, self.leads = 0.0, 0, False
        self.routers, self.topics, self.written, self.on_the_way = {}, {}, {}, []
        self.intended = {}  # what is or will be written
        self.wake_s = math.inf

    def send(self, kind, **what):
        actions = self.leader.handle(kind(now_s=self.now_s, **what))
        assert self.leads or not actions, "it acts only when elected"
        for action in actions:
            if isinstance(action, WakeAt):
                self.wake_s = action.at_s
            else:
                self.check(action)
                self.on_the_way.append(dict(action.homes))
                self.intended.update(action.homes)
        return [one for one in actions if isinstance(one, Assign)]

    def check(self, assign):
        moved = {topic for topic in assign.homes if self.intended.get(topic) in self.routers}
        assert assign.homes
        assert assign.why
        assert set(assign.homes.values()) <= self.routers.keys()
        assert all(self.crosses(topic) for topic in assign.homes)
        assert all(self.intended.get(topic) != router for topic, router in assign.homes.items())
        assert len(moved) == assign.moves <= MAX_MOVES, "the budget is for topics whose router lives"
        orphans = {
            topic for topic in self.topics if self.crosses(topic) and self.intended.get(topic) not in self.routers
        }
        assert orphans <= assign.homes.keys(), "all that have no router get one at once"

    def homeless(self):
        return {topic for topic in self.topics if self.crosses(topic) and self.intended.get(topic) not in self.routers}

    def crosses(self, topic):
        publishers, subscribers = self.topics[topic]
        return any(one != other for one in publishers for other in subscribers)

    def tell_topics(self, *topics):
        told = {}
        for topic in topics:
            there = self.topics.get(topic)
            told[topic] = there and Topic(publishers=there[0], subscribers=there[1], assignment=self.written.get(topic))
        return self.send(TopicsChanged, topics=told)

    def elect(self, *, another):
        if another:
            self.leader = Leader(leading(self.strategy))
            self.leads = False
            self.send(RoutersChanged, routers=self.routers)
            self.tell_topics(*self.topics)
        self.epoch += 1
        self.leads = True
        self.drop_writes()
        return self.send(Elected, epoch=self.epoch)

    def drop_writes(self):
        """A leader that is no more, or begins anew, has none of its writes done."""
        self.on_the_way.clear()
        self.intended = {topic: one.router for topic, one in self.written.items()}

    def deliver(self):
        homes = self.on_the_way.pop(0)
        self.epoch += 1
        there = [topic for topic in homes if topic in self.topics]
        for topic in there:
            self.written[topic] = Assignment(router=homes[topic], epoch=self.epoch)
        self.tell_topics(*there)

    def tick(self):
        self.now_s = max(self.now_s, self.wake_s)
        assigned = self.send(Tick)
        assert self.wake_s > self.now_s, "a Tick is followed by a later one"
        return assigned

    def run_until_quiet(self):
        """The moves of each step from now on; a step's time never has more than the budget."""
        moves = []
        for _ in range(QUIET_STEPS):
            end_s, here = self.now_s + STEP_S, 0
            while self.wake_s < end_s:
                here += sum(one.moves for one in self.tick())
                while self.on_the_way:
                    self.deliver()
            self.now_s = end_s
            assert here <= MAX_MOVES
            moves.append(here)
        return moves


class Histories(RuleBasedStateMachine):
    @initialize(strategy=st.sampled_from(sorted(STRATEGIES)))
    def start(self, strategy):
        self.world = World(strategy)

    @rule(router=st.sampled_from(ROUTERS), capacity=capacities)
    def join(self, router, capacity):
        self.world.routers[router] = Router(boot="b", capacity=capacity)
        self.world.send(RoutersChanged, routers=dict(self.world.routers))

    @rule(router=st.sampled_from(ROUTERS))
    def die(self, router):
        self.world.routers.pop(router, None)
        self.world.send(RoutersChanged, routers=dict(self.world.routers))

        assert not self.world.leads or not self.world.routers or not self.world.homeless(), "at once, not in a batch"

    @rule(topic=st.sampled_from(TOPICS), publishers=edges, subscribers=edges)
    def change(self, topic, publishers, subscribers):
        self.world.topics[topic] = (publishers, subscribers)
        self.world.tell_topics(topic)

    @rule()
    def change_all(self):
        self.world.topics = {topic: (frozenset({"north"}), frozenset({"south"})) for topic in TOPICS}
        self.world.tell_topics(*TOPICS)

    @rule(topic=st.sampled_from(TOPICS))
    def vanish(self, topic):
        for part in (self.world.topics, self.world.written, self.world.intended):
            part.pop(topic, None)
        for homes in self.world.on_the_way:
            homes.pop(topic, None)
        self.world.tell_topics(topic)

    @rule(loads=loads)
    def report(self, loads):
        self.world.send(LoadsReported, loads=loads)

    @rule(another=st.booleans())
    def elect(self, another):
        self.world.elect(another=another)

    @precondition(lambda self: self.world.leads)
    @rule()
    def depose(self):
        self.world.leads = False
        self.world.drop_writes()
        self.world.send(Deposed)

    @precondition(lambda self: self.world.leads and self.world.wake_s < math.inf)
    @rule()
    def tick(self):
        self.world.tick()

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds):
        self.world.now_s += seconds

    @precondition(lambda self: self.world.on_the_way)
    @rule()
    def deliver(self):
        self.world.deliver()

    @precondition(lambda self: self.world.on_the_way)
    @rule()
    def lose(self):
        world = self.world
        lost = frozenset().union(*world.on_the_way)
        world.on_the_way.clear()
        world.intended = {topic: one.router for topic, one in world.written.items()}
        world.send(NotAssigned, topics=lost)

    def teardown(self):
        world = getattr(self, "world", None)
        if world is None:
            return
        if not world.leads:
            world.elect(another=False)
        if not world.routers:
            self.join("r1", 1.0)
        while world.on_the_way:
            world.deliver()
        moves = world.run_until_quiet()
        for topic in world.topics:
            if world.crosses(topic):
                assert world.written[topic].router in world.routers, "every topic that crosses has a living router"
        assert not any(moves[QUIET_STEPS // 2 :]), "constant loads come to rest"


def run_histories(examples, steps):
    run_state_machine_as_test(
        Histories, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None, phases=UNSHRUNK)
    )


def test_random_histories():
    run_histories(60, 30)


@pytest.mark.slow
def test_many_random_histories():
    run_histories(300, 50)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(data=st.data())
@settings(max_examples=25, phases=UNSHRUNK)
def test_a_second_leader_finds_nothing_to_do_after_the_first(strategy, data):
    world = World(strategy)
    world.routers = {name: Router(boot="b", capacity=data.draw(capacities)) for name in ROUTERS[:3]}
    world.topics = {topic: (frozenset({"north"}), frozenset({"south"})) for topic in TOPICS}
    loads = {topic: data.draw(st.floats(1, 100)) for topic in TOPICS}
    for topic in TOPICS:  # anywhere, also on a router that is dead
        world.written[topic] = Assignment(router=data.draw(st.sampled_from(ROUTERS)), epoch=0)
    world.elect(another=True)
    world.send(LoadsReported, loads=loads)
    while world.on_the_way:
        world.deliver()
    for _ in range(data.draw(st.integers(0, 4))):  # the first may fall before it is done
        world.tick()
        while world.on_the_way:
            world.deliver()
    for _ in range(2):
        assert not any(one.moves for one in world.elect(another=True)), "it takes over what there is"
        world.send(LoadsReported, loads=loads)
        while world.on_the_way:
            world.deliver()
        moves = world.run_until_quiet()
        assert not any(moves[QUIET_STEPS // 2 :])
    assert not any(moves)
