"""Whatever happens to good clients, their broker and its disk: the books balance and no promise is broken.

Clients connect, take over, subscribe, publish, answer or do not; sockets fill up; the disk is slow; the broker crashes
and starts again; the log is cleaned. What the sessions should be is known from what the clients did and how much of
the log was on disk.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from desk import Desk
from good_client import EXPIRY_S, Client, Publication, State
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from plans import a_plan

from firelane.exchange.clients import session
from firelane.exchange.delivering import routes
from firelane.exchange.delivering.dropping import Dropping
from firelane.exchange.journal import cleaning
from firelane.exchange.lanes.lane import Dropped
from firelane.mqtt.packets import V3, V5
from firelane.mqtt.topics import matches
from firelane.scenario.model import Link, Need, Subscriber
from firelane.scenario.settings import Cap

LIMITS = {"queue": 3, "inflight": 4}
FILTERS = ["a", "+", "#", "b/+", "b/#", "$share/g/s"]
TOPICS = ["a", "b/x", "b/y", "s"]
LAST_PACKET_ID = 7  # so that identifiers are soon used again
MOST_TURNS = 1000

filters = st.sampled_from(FILTERS)
qualities = st.sampled_from([0, 1, 2, 2])
anybody = st.integers(0, 3)
names = st.sampled_from(["three", "five", "five-narrow", "five-aliases"])
treatments = st.tuples(st.sampled_from([0, 0, 3, 5, 8]), st.sampled_from([0.0, 0.0, 0.5, 1.0]))  # class, drop rate


class Sessions(RuleBasedStateMachine):
    scenario: ClassVar[dict[str, object]] = {}

    def __init__(self):
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(secrets, "randbits", lambda bits: bits)  # or the same steps would not drop the same
        self.folder = Path(tempfile.mkdtemp(prefix="firelane-"))
        self.desk = Desk(self.folder, prompt=False, segment_bytes=400, limits=LIMITS, scenario=self.scenario)
        self.publications: dict[int, Publication] = {}
        self.clients = {
            "three": self.client("three", V3, 4),
            "five": self.client("five", V5, 2),
            "five-narrow": self.client("five-narrow", V5, 1),
            "five-aliases": self.client("five-aliases", V5, 4, aliases=1),
        }
        self.patches.setattr(cleaning, "RECORDS_A_STEP", 2)
        self.patches.setattr(session, "LAST_PACKET_ID", LAST_PACKET_ID)
        self.turns = []
        self.patches.setattr(routes.Turn, "take", self.note_turn(routes.Turn.take))
        self.patches.setattr(Dropping, "count_drop", self.note_drop(Dropping.count_drop))

    def client(self, name, version, window, aliases=0):
        client = Client(self.desk, name, version, window, aliases, publications=self.publications)
        client.on_accepted = self.accepted
        return client

    def note_turn(self, take):
        def taken(turn, qos):
            copy = take(turn, qos)
            self.turns.append(copy.session.client_id)
            return copy

        return taken

    def note_drop(self, count_drop):
        def dropped(dropping, lane, why, message, qos, arrived):
            count_drop(dropping, lane, why, message, qos, arrived)
            name = lane.session.client_id
            if why is Dropped.EXPIRED:
                publication = self.publications[int(message.payload)]
                assert message.expires_at <= self.desk.now
                assert publication.again or abs(message.expires_at - publication.expires_at) < 1e-3
                publication.expired.add((name, self.clients[name].state.session))
            elif qos:
                assert why is Dropped.DISCONNECTED
                assert not (lane.session.durable and lane.session.subscriptions)  # it ends

        return dropped

    def accepted(self, publication, before):
        """Who is owed a copy, and does the broker agree?"""
        publication.owed.clear()
        turns, self.turns = self.turns, []
        assert len(turns) == (publication.topic == "s" and any("$share/g/s" in one.state.subscriptions
                                                               for one in self.clients.values()))  # fmt: skip
        for client in self.clients.values():
            fitting = [qos for one, qos in client.state.subscriptions.items() if matches(one, publication.topic)]
            wanted = [max(fitting)] if fitting else []
            wanted += [client.state.subscriptions["$share/g/s"] for name in turns if name == client.name]
            for qos in wanted:
                publication.owe(client.name, client.state.session, qos)
            due, replaying = before.get(client.name, (0, False))
            if not replaying and client.name in self.desk.broker.sessions:
                assert self.desk.session(client.name).totals.due == due + len(wanted)

    def online(self):
        return [one for one in self.clients.values() if one.line is not None]

    def pick(self, who):
        """Somebody who is connected; if nobody is, the first comes back."""
        if not self.online():
            next(iter(self.clients.values())).connect(clean=False, lasts=True)
        return self.online()[who % len(self.online())]

    # ---- clients

    @initialize(wishes=st.lists(st.lists(st.tuples(filters, qualities), max_size=2), min_size=4, max_size=4))
    def everybody_comes(self, wishes):
        for client, wish in zip(self.clients.values(), wishes, strict=True):
            client.connect(clean=False, lasts=True)
            for topic_filter, qos in wish:
                client.subscribe(topic_filter, qos)
        self.desk.commit()
        self.read()

    @rule(who=anybody, clean=st.sampled_from([False, False, True]), lasts=st.sampled_from([True, True, False]))
    def connect(self, who, clean, lasts):
        list(self.clients.values())[who].connect(clean=clean, lasts=lasts)

    @rule(who=anybody, first_lost=st.booleans())
    def come_back(self, who, first_lost):
        client = list(self.clients.values())[who]
        if first_lost and client.line is not None:
            client.line.drop()
            client.read()
        if client.state.lasts or client.line is None:
            client.connect(clean=False, lasts=True)

    @rule(who=anybody, leave=st.booleans())
    def disconnect(self, who, leave):
        client = self.pick(who)
        client.line.leave() if leave else client.line.drop()
        client.read()

    @rule(who=anybody, topic_filter=filters, qos=qualities)
    def subscribe(self, who, topic_filter, qos):
        self.pick(who).subscribe(topic_filter, qos)

    @rule(who=anybody, topic_filter=filters)
    def unsubscribe(self, who, topic_filter):
        self.pick(who).unsubscribe(topic_filter)

    @rule(
        who=anybody,
        topic=st.sampled_from(TOPICS),
        qos=qualities,
        retain=st.sampled_from([False, False, False, True]),
        times=st.sampled_from([1, 1, 4]),
        expiry_s=st.sampled_from([None, None, 2, 10]),
    )
    def publish(self, who, topic, qos, retain, times, expiry_s):
        client = self.pick(who)
        for _ in range(times):
            if len(client.unacknowledged) < LIMITS["inflight"]:
                number = len(self.publications) + 1
                expiry_s = expiry_s if client.version == V5 else None
                self.publications[number] = Publication(number, client.name, topic, qos, retain, expiry_s)
                client.publish(self.publications[number])
                self.read()

    @rule(who=anybody, count=st.sampled_from([1, 2, 100]))
    def answer(self, who, count):
        self.pick(who).answer(count)

    @rule()
    def all_answer(self):
        for client in self.online():
            client.answer(100)

    @rule(who=anybody, full=st.booleans())
    def socket(self, who, full):
        self.pick(who).line.full(full)

    # ---- disk and time

    @rule(batches=st.integers(1, 3))
    def write(self, batches):
        self.desk.write(batches)

    @rule()
    def tell(self):
        self.desk.tell()

    @rule()
    def commit(self):
        self.desk.commit()

    @rule(steps=st.sampled_from([1, 3, 100]))
    def clean(self, steps):
        for _ in range(steps):
            self.desk.broker.clean()
        self.desk.settle()

    @rule(seconds=st.sampled_from([0.1, 3.0, 3.0, 20.0, 60.0]))
    def pass_time(self, seconds):
        self.desk.pass_time(seconds)
        for client in self.clients.values():
            if client.state.left_at is not None:
                assert client.expired == (client.name not in self.desk.broker.sessions)
                if client.expired:
                    client.become(State())

    @rule()
    def crash(self):
        self.read()
        committed = self.desk.log.committed
        self.desk.crash()
        for client in self.clients.values():
            self.compare(client, committed)

    def compare(self, client, committed):
        """A session is as the log on disk had it, or as what followed made it."""
        client.crashed(committed)
        certain = [State(), *(state for position, state in client.history if position <= committed)][-1]
        for state in (certain, *(state for position, state in client.history if position > committed)):
            left_at = self.desk.now if state.left_at is None else state.left_at
            if self.is_found(client, state, left_at):
                client.history = [(0, state if state.lasts else State())]
                client.become(replace(state, left_at=left_at) if state.lasts else State())
                return
        raise AssertionError(f"{client.name} should have {certain}")

    def is_found(self, client, state, left_at):
        found = self.desk.broker.sessions.get(client.name)
        if found is None or not state.lasts:
            return found is None and not state.lasts
        subscriptions = {name: one.qos for name, one in found.subscriptions.items()}
        in_time = client.version == V3 or abs(found.expires_at - left_at - EXPIRY_S) < 1e-3
        return in_time and subscriptions == state.subscriptions

    # ---- what must hold

    def read(self):
        for client in self.clients.values():
            client.read()

    @invariant()
    def everybody_reads(self):
        self.read()
        for client in self.online():
            session = self.desk.session(client.name)
            assert {name: one.qos for name, one in session.subscriptions.items()} == client.state.subscriptions

    def teardown(self):
        try:
            self.read()
            self.everything_arrives()
            self.everything_ends()
        finally:
            self.patches.undo()
            self.desk.stop()
            shutil.rmtree(self.folder)

    def everything_arrives(self):
        desk = self.desk
        for client in self.clients.values():
            if client.line is None and client.state.lasts:
                client.connect(clean=False, lasts=True)
            elif client.line is not None:
                client.line.full(False)
        desk.commit()
        self.read()
        turns = 0
        while self.is_waiting() or any(client.to_answer for client in self.online()):
            turns += 1
            assert turns < MOST_TURNS, "somebody waits for ever"
            for client in self.online():
                client.answer(100)
            desk.commit()
            self.read()
            desk.now += 0.25  # links have sent what they had
            desk.broker.wake(desk.now)
            desk.settle()
            desk.commit()
            self.read()
        for client in self.online():
            session = desk.session(client.name)
            assert (session.owed, len(session.in_flight), len(session.received)) == (0, 0, 0)
            assert not client.unacknowledged
        for publication in self.publications.values():
            self.check_promises(publication)

    def is_waiting(self):
        """Whether somebody waits for a link to be free."""
        return any(self.desk.session(client.name).queued for client in self.online())

    def check_promises(self, publication):
        for (name, number, qos), copies in publication.owed.items():
            client = self.clients[name]
            if publication.accepted and qos and client.state.lasts and client.state.session == number:
                had = {one: client.had[number, publication.number, one] for one in (1, 2)}
                if (name, number) in publication.expired:
                    continue
                if (name, number) in publication.twice:
                    assert sum(had.values()) >= 1, f"{name} had {publication.number} not even once"
                else:
                    assert had[qos] >= copies, f"{name} did not have {publication.number}"

    def everything_ends(self):
        desk = self.desk
        for client in self.clients.values():
            desk.join(client.name, V5).leave()
        janitor = desk.join("janitor", V5)
        for topic in TOPICS:
            janitor.publish(topic, b"", retain=True)
        janitor.leave()
        desk.commit()
        desk.clean()
        desk.commit()
        journal = desk.broker.journal
        assert not desk.broker.sessions
        assert desk.broker.routes.count == 0
        assert (journal._holders, journal._moved, journal.watched) == ({}, {}, {})
        assert desk.log.live_bytes == 0
        assert desk.log.bytes <= 3 * desk.segment_bytes


class PlannedSessions(Sessions):
    """The same with two clients on a thin link and one on a thin link of its own, under plans that come and go."""

    scenario: ClassVar[dict[str, object]] = {
        "links": {
            "thin": Link(bandwidth_bps=8000.0, buffer_messages=4, guaranteed={5: 0.1}),
            "own": Link(bandwidth_bps=8000.0, buffer_messages=2, each=True),
        },
        "subscribers": {
            "three": Subscriber(link="thin", subscribes={}),
            "five": Subscriber(link="thin", subscribes={"a": Need(keep="latest")}),
            "five-narrow": Subscriber(link="own", subscribes={}),
            "five-aliases": Subscriber(link="default", subscribes={}),
        },
    }

    @rule(treatments=st.dictionaries(st.tuples(names, filters), treatments, max_size=6))
    def plan(self, treatments):
        in_force = self.desk.broker.treatment.plan
        self.desk.apply(a_plan(treatments, 1 if in_force is None else in_force.version + 1))

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.2, 2.0]))
    def links_are_free(self, seconds):
        self.desk.now += seconds
        self.desk.broker.wake(self.desk.now)
        self.desk.settle()

    @rule(
        bandwidth=st.sampled_from([8000.0, 80_000.0, None]),
        buffer=st.sampled_from([2, 4]),
        best=st.sampled_from([None, None, 3]),
        places=st.lists(st.sampled_from(["thin", "own", "default"]), min_size=4, max_size=4),
        latest=st.sets(st.tuples(names, filters), max_size=3),
    )
    def reload(self, bandwidth, buffer, best, places, latest):
        thin = Link(bandwidth_bps=bandwidth, buffer_messages=buffer, guaranteed={5: 0.1} if buffer > 2 else {})
        subscribers = {
            name: Subscriber(link=place, subscribes={one: Need(keep="latest") for who, one in latest if who == name})
            for name, place in zip(self.clients, places, strict=True)
        }
        caps = {} if best is None else {"*": Cap(priority=best)}
        scenario = self.desk.scenario
        self.desk.reload(
            replace(
                scenario,
                links={**self.scenario["links"], "thin": thin},
                subscribers=subscribers,
                exchange=replace(scenario.exchange, caps=caps),
            )
        )

    @invariant()
    def everybody_is_treated_as_planned(self):
        broker = self.desk.broker
        cap = self.desk.scenario.exchange.caps.get("*", Cap()).priority or 0
        for client in self.online():
            session = self.desk.session(client.name)
            assert session.link.described == self.desk.scenario.link(self.desk.scenario.subscribers[client.name].link)
            for name, one in session.subscriptions.items():
                assert one.lane.klass == max(cap, broker.treatment.of(client.name, name)[1])


TestSessions = Sessions.TestCase
TestPlannedSessions = PlannedSessions.TestCase
TestPlannedSessions.settings = settings(max_examples=60, stateful_step_count=80)
TestSessions.settings = settings(max_examples=60, stateful_step_count=80)


@pytest.mark.soak
class TestPlannedSessionsForLong(PlannedSessions.TestCase):
    settings = settings(max_examples=5000, stateful_step_count=100)


@pytest.mark.soak
class TestSessionsForLong(Sessions.TestCase):
    settings = settings(max_examples=5000, stateful_step_count=100)
