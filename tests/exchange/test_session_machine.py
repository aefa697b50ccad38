"""Whatever happens to good clients, their broker and its disk: the books balance and no promise is broken.

Clients connect, take over, subscribe, publish, answer or do not; sockets fill up; the disk is slow; the broker crashes
and starts again; the log is cleaned. What the sessions should be is known from what the clients did and how much of
the log was on disk.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from desk import Desk
from good_client import EXPIRY_S, Client, Publication, State
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from firelane.exchange import cleaning
from firelane.mqtt.packets import V3, V5
from firelane.mqtt.topics import matches

LIMITS = {"queue": 3, "inflight": 4}
FILTERS = ["a", "b", "+", "$share/g/s"]
TOPICS = ["a", "b", "s"]
NAMES = ["three", "five", "five-narrow", "five-aliases"]
names = st.sampled_from(NAMES)


class Sessions(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="firelane-"))
        self.desk = Desk(self.folder, prompt=False, segment_bytes=700, limits=LIMITS)
        self.publications: dict[int, Publication] = {}
        self.clients = {
            "three": self.client("three", V3, 4),
            "five": self.client("five", V5, 2),
            "five-narrow": self.client("five-narrow", V5, 1),
            "five-aliases": self.client("five-aliases", V5, 4, aliases=1),
        }
        self.crashed_at = 0.0
        self.records_a_step, cleaning.RECORDS_A_STEP = cleaning.RECORDS_A_STEP, 2

    def client(self, name, version, window, aliases=0):
        client = Client(self.desk, name, version, window, aliases, publications=self.publications)
        client.on_accepted = self.accepted
        return client

    def accepted(self, publication, before):
        """Who is owed a copy, and does the broker agree?"""
        publication.owed.clear()
        got, group = [], []
        for client in self.clients.values():
            session = self.desk.broker.sessions.get(client.name)
            if session is None:
                continue
            due, replaying = before[client.name]
            fitting = [qos for one, qos in client.state.subscriptions.items() if matches(one, publication.topic)]
            self.owe(publication, client, max(fitting), 1) if fitting else None
            more = session.due - due - bool(fitting)
            assert more >= 0
            if publication.topic == "s" and "$share/g/s" in client.state.subscriptions:
                group.append(client)
                if more and not replaying:
                    got.append(client)
            else:
                assert replaying or more == 0
        assert len(got) <= 1
        assert len(got) == bool(group) or any(before[one.name][1] for one in group)
        for client in got:
            self.owe(publication, client, client.state.subscriptions["$share/g/s"], 1)

    def owe(self, publication, client, qos, copies):
        key = (client.name, client.state.session, min(qos, publication.qos))
        publication.owed[key] = publication.owed.get(key, 0) + copies

    def online(self):
        return [one for one in self.clients.values() if one.line is not None]

    # ---- clients

    @initialize(lasting=st.lists(st.tuples(names, st.sampled_from(FILTERS), st.integers(0, 2)), max_size=6))
    def some_subscribe(self, lasting):
        for name, topic_filter, qos in lasting:
            if self.clients[name].line is None:
                self.clients[name].connect(clean=False, lasts=True)
            self.clients[name].subscribe(topic_filter, qos)
        self.desk.commit()
        self.read()

    @rule(name=names, clean=st.sampled_from([False, False, False, True]), lasts=st.sampled_from([True, True, True, False]))
    def connect(self, name, clean, lasts):
        client = self.clients[name]
        changes = client.state.lasts and (clean or not lasts)
        client.connect(clean=clean, lasts=lasts)
        if changes:  # CONNACK does not wait for the log, so a crash now would bring back what the client gave up
            self.desk.commit()

    @rule(name=names, leave=st.booleans())
    def disconnect(self, name, leave):
        client = self.clients[name]
        if client.line is not None:
            client.line.leave() if leave else client.line.drop()
            client.read()

    @rule(name=names, topic_filter=st.sampled_from(FILTERS), qos=st.integers(0, 2))
    def subscribe(self, name, topic_filter, qos):
        if self.clients[name].line is not None:
            self.clients[name].subscribe(topic_filter, qos)

    @rule(name=names, topic_filter=st.sampled_from(FILTERS))
    def unsubscribe(self, name, topic_filter):
        if self.clients[name].line is not None:
            self.clients[name].unsubscribe(topic_filter)

    @rule(
        name=names,
        topic=st.sampled_from(TOPICS),
        qos=st.sampled_from([0, 1, 1, 2, 2]),
        retain=st.sampled_from([False, False, True]),
        times=st.sampled_from([1, 1, 3]),
    )
    def publish(self, name, topic, qos, retain, times):
        client = self.clients[name]
        for _ in range(times):
            if client.line is not None and len(client.unacknowledged) < LIMITS["inflight"]:
                number = len(self.publications) + 1
                self.publications[number] = Publication(number, name, topic, qos, retain)
                client.publish(self.publications[number])
                self.read()

    @rule(name=names, count=st.sampled_from([1, 2, 100]))
    def answer(self, name, count):
        client = self.clients[name]
        if client.line is not None:
            client.answer(count)

    @rule()
    def all_answer(self):
        for client in self.online():
            client.answer(100)

    @rule(name=names, full=st.booleans())
    def socket(self, name, full):
        if self.clients[name].line is not None:
            self.clients[name].line.full(full)

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

    @rule()
    def clean(self):
        self.desk.broker.clean()
        self.desk.settle()

    @rule(seconds=st.sampled_from([0.1, 20.0, 60.0]))
    def pass_time(self, seconds):
        self.desk.pass_time(seconds)
        now = self.desk.now
        for client in self.clients.values():
            if client.line is None and client.state.session and client.version == V5:
                away_s = now - client.away_since
                if client.name not in self.desk.broker.sessions:
                    assert away_s >= EXPIRY_S - 1e-6
                    client.become(State())
                else:
                    assert now - max(client.away_since, self.crashed_at) < EXPIRY_S + 1e-6

    @rule()
    def crash(self):
        self.read()
        committed = self.desk.log.committed
        self.desk.crash()
        self.crashed_at = self.desk.now
        for client in self.clients.values():
            self.compare(client, committed)

    def compare(self, client, committed):
        """A session is as the log on disk had it, or as what followed made it."""
        if client.line is not None:
            client.line = None
            client.away_since = self.desk.now
            client.to_answer.clear()
            client.open_ids.clear()
        session = self.desk.broker.sessions.get(client.name)
        found = {} if session is None else {name: one.qos for name, one in session.subscriptions.items()}
        certain = [State(), *(state for position, state in client.history if position <= committed)][-1]
        for state in (certain, *(state for position, state in client.history if position > committed)):
            if (session is not None) == state.lasts and found == (state.subscriptions if state.lasts else {}):
                client.state = state if state.lasts else State()
                client.history = [(0, client.state)]
                return
        raise AssertionError(f"{client.name} has {found}, and should have {certain}")

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
            cleaning.RECORDS_A_STEP = self.records_a_step
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
        while any(client.to_answer for client in self.online()):
            for client in self.online():
                client.answer(100)
            desk.commit()
            self.read()
        for client in self.online():
            session = desk.session(client.name)
            assert (session.owed, len(session.in_flight), len(session.received)) == (0, 0, 0)
            assert not client.unacknowledged
        for publication in self.publications.values():
            self.check_promises(publication)

    def check_promises(self, publication):
        for (name, session, qos), copies in publication.owed.items():
            client = self.clients[name]
            if publication.accepted and qos and client.state.lasts and client.state.session == session:
                had = client.had[session, publication.number, qos]
                assert had == copies if qos == 2 else had >= 1, f"{name} had {publication.number} {had} times"

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


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=150, stateful_step_count=60)
