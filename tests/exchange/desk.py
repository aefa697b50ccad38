"""A broker driven by hand: a clock, connections and a disk that do only what a test says.

    desk = Desk(folder)                     everything is committed at once
    ann = desk.join("ann")                  a client's end of a connection
    ann.subscribe("a", qos=1)
    desk.join("ben").publish("a", b"1", qos=1)
    assert ann.payloads() == [b"1"]

With `prompt=False` nothing is committed until `desk.commit()`. After every event the books are checked (`check`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from line import Line

from firelane.exchange.broker import Broker
from firelane.exchange.clients.connection import Phase
from firelane.exchange.gateway.peer import Peer
from firelane.exchange.journal.journal import Journal
from firelane.exchange.lanes.lane import State
from firelane.exchange.lanes.link import Link
from firelane.exchange.lanes.message import NEVER
from firelane.exchange.log import Log
from firelane.exchange.log.record import FRAME_BYTES
from firelane.mqtt.packets import V5
from firelane.scenario.model import Scenario
from firelane.scenario.settings import ExchangeSettings, Limits

WALL_AHEAD_S = 1_000_000.0


class Desk:
    """A broker with its log in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        prompt: bool = True,
        segment_bytes: int = 2000,
        limits: dict[str, object] | None = None,
        scenario: dict[str, object] | None = None,
        **settings: object,
    ) -> None:
        self.folder = folder
        self.prompt = prompt
        self.segment_bytes = segment_bytes
        self.settings = ExchangeSettings(limits=Limits(**(limits or {})), **settings)
        self.scenario = Scenario(name="desk", exchange=self.settings, **(scenario or {}))
        self.now = 1000.0
        self.lines: list[Line] = []
        self._undeleted: list[int] = []
        self.crowded: dict[Link, int] = {}
        self._start()

    def _start(self) -> None:
        durable = self.settings.durability == "fsync"
        cap_bytes = self.settings.limits.log_bytes
        self.log = Log.open(self.folder, cap_bytes=cap_bytes, segment_bytes=self.segment_bytes, sync=False)
        self.broker = Broker(self.scenario, Journal(self.log, durable=durable, wall_ahead_s=WALL_AHEAD_S))
        self.broker.recover(self.now)
        writer = self.log._writer
        self._delete, writer._delete = writer._delete, self._undeleted.append
        self.settle()

    # ---- what happens

    def dial(self, version: int = V5) -> Line:
        """A connection on which nothing has been said."""
        line = Line(self, version)
        self.lines.append(line)
        return line

    def join(self, client_id: str, version: int = V5, **fields: object) -> Line:
        """A client that is let in; a property of CONNECT may be given by its name."""
        plain = {"clean_start", "keep_alive_s", "user", "password", "will"}
        properties = {name: value for name, value in fields.items() if name not in plain}
        own = {name: value for name, value in fields.items() if name in plain}
        line = self.dial(version)
        connack = line.connect(client_id, properties=properties, **own)
        assert connack is not None
        assert connack.reason == 0
        return line

    def lasting(self, client_id: str, version: int = V5, **properties: object) -> Line:
        """A client whose session outlives its connection and a crash: for 100 seconds, or for ever in MQTT 3.1.1."""
        if version == V5:
            properties["session_expiry_interval"] = 100
        return self.join(client_id, version, clean_start=False, **properties)

    def subscriber(self, client_id: str = "ann", version: int = V5, **properties: object) -> Line:
        """The same with a subscription to `a` that the log has."""
        line = self.lasting(client_id, version, **properties)
        line.subscribe("a", qos=2)
        self.commit()
        line.take_all()
        return line

    def apply(self, plan) -> None:
        """Put a plan in force."""
        self.broker.apply(plan, self.now)
        self.settle()

    def reload(self, scenario: Scenario) -> None:
        """Go on with another scenario, also after a crash; who changes links takes along all that waits."""
        self.scenario = scenario
        self.broker.reload(scenario, self.now)
        self.crowded = {link: len(fresh(here)) for link, here in self._links()}
        self.settle()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the broker notice."""
        self.now += seconds
        self.broker.tick(self.now)
        self.settle()

    def write(self, batches: int | None = None) -> None:
        """Let the disk take what was handed to it, or only so many batches; the broker is not told yet."""
        self._delete_now()
        writer = self.log._writer
        for _ in range(len(writer._batches) if batches is None else min(batches, len(writer._batches))):
            writer._step()
        while writer._drop_due():
            writer._step()

    def _delete_now(self) -> None:
        for number in self._undeleted:
            self._delete(number)
        self._undeleted.clear()

    def delete_cleaned(self) -> None:
        """Everything is on disk, and segments that were cleaned are gone from it."""
        self.commit()
        self.write()
        self._delete_now()

    def tell(self) -> None:
        """Tell the broker how far the disk is."""
        if self.broker.journal.durable:
            self.broker.committed(self.log.committed, self.now)
        self.settle()

    def commit(self) -> None:
        """Everything that was written down is on disk, and what that brings about."""
        self.broker.journal.flush()
        while self.log.committed < self.log.appended or self._behind():
            self.write()
            self.tell()
            self.broker.journal.flush()

    def _behind(self) -> bool:
        return self.broker.journal.durable and self.broker.journal.committed < self.log.committed

    def crash(self) -> None:
        """Lose everything that the disk has not got, and start again."""
        self.stop()
        for line in self.lines:
            line.closed = True
        self.lines.clear()
        self.crowded.clear()
        self._start()

    def stop(self) -> None:
        """End without another word to anybody."""
        self.log._data.clear()
        self.log._writer._batches.clear()
        self.log._writer._drops.clear()
        self._undeleted.clear()  # a deletion that did not happen; its file is found again
        self.log.close()

    def clean(self) -> None:
        """Clean the log as far as it goes."""
        while self.log.oldest_to_clean() is not None or self.broker._cleaning is not None:
            self.broker.clean()
            self.settle()
        if self.prompt:
            self.delete_cleaned()

    def settle(self) -> None:
        """What whoever owns the sockets does after every event."""
        broker = self.broker
        while broker.carry_on():
            pass
        while dirty := broker.take_dirty():
            for connection in dirty:
                line = connection.driver
                data = broker.take_output(connection) if connection.outbox else b""
                if isinstance(line, Peer):
                    self._write_datagrams(line, data)
                elif not line.closed:
                    line.arrive(data)
                if connection.phase is Phase.CLOSING:
                    line.close() if isinstance(line, Peer) else line.drop()
                elif not connection.direct:
                    broker.written(connection, self.now)
        self.broker.journal.flush()
        for batch in self.log._writer._batches:
            batch.taken = True  # so that every event has a batch of its own
        self.check()
        if self.prompt and self.log.committed < self.log.appended:
            self.commit()

    def _write_datagrams(self, peer: Peer, data: bytes) -> None:
        session = peer.connection.session
        if session is not None:
            peer.sit_on(session.link)
        peer.write(data)

    # ---- what must always hold

    def session(self, client_id: str):
        return self.broker.sessions[client_id]

    def check(self) -> None:
        self.broker.measure()
        counts = self.broker.counts
        ended = counts.ended
        assert ended.due == ended.delivered + sum(ended.dropped), "of the sessions that ended"
        assert counts.connected == sum(one.connection is not None for one in self.broker.sessions.values())
        for session in self.broker.sessions.values():
            totals = session.totals
            assert totals.due == totals.delivered + sum(totals.dropped) + session.owed, session.client_id
            assert all(count >= 0 for count in (totals.due, totals.delivered, *totals.dropped))
            assert all(one.packet_id == key for key, one in session.in_flight.items())
            assert session.queued == len(waiting(session))
            assert session.stored == sum(len(lane.backlog) for lane in session.lanes.values())
            assert set(session.replaying) == {lane for lane in session.lanes.values() if lane.replay is not None}
            assert all(one.waiting for one in waiting(session))
            connection = session.connection
            if connection is not None:
                again = [one for one in session.in_flight.values() if one.waiting]
                assert connection.window_used >= 0
                assert connection.window_used == len(session.in_flight) - len(again)
                assert not (connection.direct and session.waits)
                for lane in session.lanes.values():
                    assert lane.entry is None or lane.queue
                    assert not lane.queue or lane.entry is not None or lane.blocked
                    assert lane.blocked == (lane in session.blocked)
                    in_mind = lane.queue or not lane.backlog or lane in session.link.hungry or session.blocked
                    damaged = session in self.broker.serving.unreadable
                    assert in_mind or damaged or not connection.writable, "forgotten in the log"
            else:
                assert session.queued == 0
        for link, here in self._links():
            self._check_buffer(link, here)
            if not link.own:
                self._check_turns(link, here)
        if self.broker._cleaning is None:
            self._check_log()

    def _links(self):
        """The links that somebody sits on, with who does."""
        links = {}
        for session in self.broker.sessions.values():
            if session.connection is not None:
                links.setdefault(session.link, []).append(session)
        return links.items()

    def _check_buffer(self, link, here) -> None:
        """Never more waits than the buffer has room for, but for what is sent again and what came from other links."""
        queued = [one for session in here for one in waiting(session)]
        assert link.queued == len(queued)
        again = [one for one in queued if one.packet_id]
        assert link.again == len(again)
        assert link.queued_bytes == sum(one.message.size_bytes for one in queued if not one.packet_id)
        count = len(fresh(here))
        assert count <= max(link.most, self.crowded.get(link, 0)), f"{count} wait on {link.name}"
        self.crowded[link] = count

    def _check_turns(self, link, here) -> None:
        """Whoever shares a link and could be sent something has its turn: now, or when the link is free."""
        ready = [session for session in here if session.connection.writable]
        in_line = any(lane.entry is not None for session in ready for lane in session.lanes.values())
        assert not in_line or link.wakes_at != NEVER, f"{link.name} sleeps"
        for session in ready:
            connection = session.connection
            held = session.holding_until > self.broker.journal.committed or connection.gate is not None
            if not (held or connection.window_used or session.again):
                assert not any(lane.queue for lane in session.blocked), f"{session.client_id} is left out"
                hungry = any(lane in link.hungry for lane in session.lanes.values())
                assert link.wakes_at != NEVER or not hungry, f"{session.client_id} starves"

    def _check_log(self) -> None:
        """Who holds which message, and how much of the log is needed, counted anew."""
        journal = self.broker.journal
        holders, sizes, others = Counter(), {}, []
        for session in self.broker.sessions.values():
            others += [session, *session.subscriptions.values()]
            held = [(one.location, one.size_bytes) for one in {*waiting(session), *_unreleased(session)}]
            for lane in session.lanes.values():
                held += zip(lane.backlog.locations(), lane.backlog.sizes(), strict=True)
            for location, size_bytes in (*held, *session.received.values()):
                if location:
                    holders[location] += 1
                    moved = journal._moved.get(location)
                    sizes[location] = size_bytes if moved is None else moved.size_bytes
        others += [*self.broker.retained]
        assert {location: count for location, count in holders.items() if count > 1} == journal._holders
        assert set(journal._moved) <= set(holders)
        assert not journal.watched
        needed = [*sizes.values(), *(one.size_bytes for one in others if one.location)]
        assert self.log.live_bytes == sum(needed) + FRAME_BYTES * len(needed)


def waiting(session):
    return [one for lane in session.lanes.values() for one in lane.queue]


def fresh(sessions):
    """What waits to be sent for the first time."""
    return [one for session in sessions for one in waiting(session) if not one.packet_id]


def _unreleased(session):
    return [one for one in session.in_flight.values() if one.state is not State.RELEASED]
