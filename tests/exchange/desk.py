"""A broker driven by hand: a clock, connections and a disk that do only what a test says.

    desk = Desk(folder)                     everything is committed at once
    ann = desk.join("ann")                  a client's end of a connection
    ann.subscribe("a", qos=1)
    desk.join("ben").publish("a", b"1", qos=1)
    assert ann.payloads() == [b"1"]

With `prompt=False` nothing is committed until `desk.commit()`. After every event the books are checked (`check`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

from firelane.exchange.broker import Broker
from firelane.exchange.connection import Connection, Phase
from firelane.exchange.journal import Journal
from firelane.exchange.log import Log
from firelane.exchange.log.record import FRAME_BYTES
from firelane.exchange.session import State
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import (
    V5,
    Ack,
    Connack,
    Connect,
    Disconnect,
    Kind,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from firelane.scenario.settings import ExchangeSettings, Limits

MOST_BYTES = 268_435_460
WALL_AHEAD_S = 1_000_000.0


class Line:
    """A client's end of a connection. `got` are the packets that came and were not yet looked at."""

    def __init__(self, desk: Desk, version: int) -> None:
        self.desk = desk
        self.version = version
        self.connection = Connection("127.0.0.1", desk.now, driver=self)
        self.connack: Connack | None = None
        self.got: list[Packet] = []
        self.closed = False
        self.bytes = b""  # all that ever came
        self._buffer = b""
        self._packet_ids = itertools.count(1)
        desk.broker.opened(self.connection)

    # ---- what the client does

    def send(self, *packets: Packet) -> None:
        self.send_raw(b"".join(encode(one, self.version) for one in packets))

    def send_raw(self, raw: bytes) -> None:
        assert not self.closed, "the connection is closed"
        self.desk.broker.received(self.connection, raw, self.desk.now)
        self.desk.settle()

    def connect(self, client_id: str, **fields: object) -> Connack | None:
        self.send(Connect(client_id=client_id, version=self.version, **fields))
        self.connack = self.take(Connack)
        return self.connack

    def subscribe(self, *filters: str | Subscription, qos: int = 0, **properties: object) -> Suback | None:
        wanted = [Subscription(filter=one, qos=qos) if isinstance(one, str) else one for one in filters]
        self.send(Subscribe(packet_id=next(self._packet_ids), subscriptions=wanted, properties=properties))
        return self.take(Suback)

    def unsubscribe(self, *filters: str) -> Suback | None:
        self.send(Unsubscribe(packet_id=next(self._packet_ids), filters=list(filters)))
        return self.take(Suback)

    def publish(self, topic: str, payload: bytes = b"", *, qos: int = 0, packet_id: int = 0, **fields: object) -> int:
        """Send a message and return its packet identifier; what it is answered with is in `got`."""
        packet_id = packet_id or (next(self._packet_ids) if qos else 0)
        self.send(Publish(topic=topic, payload=payload, qos=qos, packet_id=packet_id, **fields))
        return packet_id

    def ack(self, kind: Kind, packet_id: int, reason: int = 0) -> None:
        self.send(Ack(kind=kind, packet_id=packet_id, reason=reason))

    def leave(self, reason: int = 0, **properties: object) -> None:
        """Take leave as MQTT wants it."""
        self.send(Disconnect(reason=reason, properties=properties))

    def drop(self) -> None:
        """Be lost without a word."""
        if not self.closed:
            self.closed = True
            self.desk.broker.closed(self.connection, self.desk.now)
            self.desk.settle()

    def full(self, full: bool = True) -> None:
        """The socket takes no more, or takes more again."""
        self.desk.broker.writable(self.connection, not full, self.desk.now)
        self.desk.settle()

    # ---- what the client sees

    def arrive(self, data: bytes) -> None:
        """Bytes from the broker."""
        self.bytes += data
        self._buffer += data
        while (place := frame(self._buffer, 0, MOST_BYTES)) is not None and place[1] <= len(self._buffer):
            start, end = place
            self.got.append(decode(self._buffer[0], self._buffer[start:end], self.connection.version))
            self._buffer = self._buffer[end:]

    def take(self, kind: type) -> Packet | None:
        """The first packet of a type, or None."""
        found = next((one for one in self.got if isinstance(one, kind)), None)
        if found is not None:
            self.got.remove(found)
        return found

    def take_all(self) -> list[Packet]:
        """Everything that came."""
        came, self.got = self.got, []
        return came

    def messages(self) -> list[Publish]:
        """The messages that came."""
        came = [one for one in self.got if isinstance(one, Publish)]
        self.got = [one for one in self.got if not isinstance(one, Publish)]
        return came

    def payloads(self) -> list[bytes]:
        """What the messages said."""
        return [one.payload for one in self.messages()]

    def acks(self) -> list[tuple[Kind, int]]:
        """The acknowledgements that came, with their packet identifiers."""
        came = [one for one in self.got if isinstance(one, Ack)]
        self.got = [one for one in self.got if not isinstance(one, Ack)]
        return [(one.kind, one.packet_id) for one in came]

    def take_in(self) -> list[bytes]:
        """Acknowledge messages as a good client does until no more come; what they said."""
        said = []
        while any(isinstance(one, Publish | Ack) for one in self.got):
            for one in self.take_all():
                if isinstance(one, Publish):
                    said.append(one.payload)
                    if one.qos:
                        self.ack(Kind.PUBACK if one.qos == 1 else Kind.PUBREC, one.packet_id)
                elif isinstance(one, Ack) and one.kind is Kind.PUBREL:
                    self.ack(Kind.PUBCOMP, one.packet_id)
        return said


class Desk:
    """A broker with its log in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        prompt: bool = True,
        segment_bytes: int = 2000,
        limits: dict[str, object] | None = None,
        **settings: object,
    ) -> None:
        self.folder = folder
        self.prompt = prompt
        self.segment_bytes = segment_bytes
        self.settings = ExchangeSettings(limits=Limits(**(limits or {})), **settings)
        self.now = 1000.0
        self.lines: list[Line] = []
        self._undeleted: list[int] = []
        self._start()

    def _start(self) -> None:
        durable = self.settings.durability == "fsync"
        cap_bytes = self.settings.limits.log_bytes
        self.log = Log.open(self.folder, cap_bytes=cap_bytes, segment_bytes=self.segment_bytes, sync=False)
        self.broker = Broker(self.settings, Journal(self.log, durable=durable, wall_ahead_s=WALL_AHEAD_S))
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

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the broker notice."""
        self.now += seconds
        self.broker.tick(self.now)
        self.settle()

    def write(self, batches: int | None = None) -> None:
        """Let the disk take what was handed to it, or only so many batches; the broker is not told yet."""
        for number in self._undeleted:
            self._delete(number)
        self._undeleted.clear()
        writer = self.log._writer
        for _ in range(len(writer._batches) if batches is None else min(batches, len(writer._batches))):
            writer._step()
        while writer._drop_due():
            writer._step()

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
            self.commit()

    def settle(self) -> None:
        """What whoever owns the sockets does after every event."""
        broker = self.broker
        while dirty := broker.take_dirty():
            for connection in dirty:
                line = connection.driver
                data = broker.take_output(connection) if connection.outbox else b""
                if not line.closed:
                    line.arrive(data)
                if connection.phase is Phase.CLOSING:
                    line.drop()
                elif not connection.direct:
                    broker.written(connection, self.now)
        self.broker.journal.flush()
        for batch in self.log._writer._batches:
            batch.taken = True  # so that every event has a batch of its own
        self.check()
        if self.prompt and self.log.committed < self.log.appended:
            self.commit()

    # ---- what must always hold

    def session(self, client_id: str):
        return self.broker.sessions[client_id]

    def check(self) -> None:
        counts, limits = self.broker.counts, self.broker.limits
        assert counts.due == counts.delivered + sum(counts.dropped), "of the sessions that ended"
        assert counts.connected == sum(one.connection is not None for one in self.broker.sessions.values())
        for session in self.broker.sessions.values():
            assert session.due == session.delivered + sum(session.dropped) + session.owed, session.client_id
            assert all(count >= 0 for count in (session.due, session.delivered, *session.dropped))
            assert all(one.packet_id == key for key, one in session.in_flight.items())
            assert len(session.queue) <= limits.queue
            assert session.queue_bytes == sum(one.message.size_bytes for one in session.queue)
            assert set(session.resend) <= set(session.in_flight.values())
            connection = session.connection
            if connection is not None:
                assert connection.window_used >= 0
                assert connection.window_used == len(session.in_flight) - len(session.resend)
                assert not (connection.direct and (session.queue or session.resend))
        if self.broker._cleaning is None:
            self._check_log()

    def _check_log(self) -> None:
        """Who holds which message, and how much of the log is needed, counted anew."""
        journal = self.broker.journal
        holders, sizes, others = Counter(), {}, []
        for session in self.broker.sessions.values():
            others += [session, *session.subscriptions.values()]
            held = [(one.location, one.size_bytes) for one in (*session.queue, *_unreleased(session))]
            held += zip(session.backlog.locations(), session.backlog._sizes[session.backlog._head :], strict=True)
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


def _unreleased(session):
    return [one for one in session.in_flight.values() if one.state is not State.RELEASED]
