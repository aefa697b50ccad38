"""The broker without its sockets: events in (bytes came, a connection closed, time passed, the log is safe), and
out come bytes in outboxes, connections to close and passwords to check. No sockets, no clock; what waits in the log is
read from there.

Whoever drives it calls, after each event, `take_dirty` and writes what it finds; a test does it by hand.
"""

from __future__ import annotations

import heapq
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from firelane.errors import PlanError
from firelane.exchange.clients.access import Access, Identity, Verdict
from firelane.exchange.clients.connection import Connection, Phase
from firelane.exchange.clients.links import Links
from firelane.exchange.clients.needs import NeedError, Needs, asked
from firelane.exchange.clients.neighbours import Neighbours
from firelane.exchange.clients.session import Session, Subscription, Totals
from firelane.exchange.clients.treatment import Treatment
from firelane.exchange.delivering.answering import Answering
from firelane.exchange.delivering.delivering import Delivering
from firelane.exchange.delivering.dropping import Dropping
from firelane.exchange.delivering.outboxes import Outboxes
from firelane.exchange.delivering.replays import Replays
from firelane.exchange.delivering.routes import Routes
from firelane.exchange.delivering.serving import Serving
from firelane.exchange.journal.cleaning import Cleaning
from firelane.exchange.journal.journal import Journal
from firelane.exchange.journal.recovery import Recovery
from firelane.exchange.journal.retained import RetainedMessages
from firelane.exchange.lanes.lane import Lane
from firelane.exchange.lanes.message import NEVER, Message, Numbers, SampledMessage
from firelane.exchange.measuring.counts import Counts
from firelane.exchange.measuring.measuring import Delays, Measuring, Reading
from firelane.exchange.protocol import connecting, granting, publishing, reading, sensing
from firelane.exchange.sensors.streams import Streams
from firelane.exchange.telemetry import Recorder
from firelane.exchange.telemetry.recorder import NO_MORE
from firelane.mqtt.reasons import Reason
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan
from firelane.sense.offer import OFFER

_OFFER = OFFER.encode()
CONNECT_WITHIN_S = 10.0
PACKET_WITHIN_S = 60.0  # and a second more for every kilobyte
LANES_A_STEP = 500  # a few milliseconds' worth
READ_A_STEP = 100
SPARE_TIMERS = 64
SPARE_CONNECTIONS = 100  # beyond the limit, who are still told why they are refused


class Broker:
    """All sessions and what happens to them."""

    def __init__(self, scenario: Scenario, journal: Journal) -> None:
        self.settings = settings = scenario.exchange
        self.links = Links(scenario, settings.limits)
        self.needs = Needs(settings, scenario)
        self.treatment = Treatment(scenario, None)
        self.limits = settings.limits
        self.access = Access(settings)
        self.journal = journal
        self.counts = Counts()
        self.sessions: dict[str, Session] = {}
        self.by_number: dict[int, Session] = {}
        self.connections: dict[Connection, None] = {}
        self.routes = Routes(self._may_receive)
        self.retained = RetainedMessages(self._may_receive)
        self.streams = Streams(self)
        self.boot = secrets.randbits(64)
        self.recorder: Recorder | None = None
        self._sampled_next = NO_MORE  # the number of the next message that is recorded
        self.alerted: Callable[[bytes], None] = lambda payload: None  # what to do about an alert that was published
        self.neighbours: Neighbours | None = None  # at an edge: other edges that send to it directly
        self.changed = 0  # grows when subscriptions, needs or links change
        self.since_plan = Measuring()
        self.numbers = Numbers()
        self.outboxes = Outboxes(journal)
        replays = Replays(journal, self.retained, self.numbers)
        self.dropping = Dropping(journal)
        self.serving = Serving(journal, self.dropping, replays, self.outboxes, self.numbers)
        self.answering = Answering(journal, self.outboxes, self.serving)
        self.delivering = Delivering(journal, self.outboxes, self.serving, self.numbers, boot=self.boot)
        self._timers: list[tuple[float, int]] = []  # when, and the number of the session
        self.to_check: list[Connection] = []  # whose password is to be checked
        self.stalled: dict[Connection, None] = {}  # not read from for a while
        self.deferring: dict[Connection, None] = {}  # whose messages wait for room in the log
        self._connects: dict[str, tuple[float, float]] = {}  # address -> credit, and when it was counted
        self._last_number = 0
        self._look_for_silence_at = 0.0
        self._cleaning: Iterator[None] | None = None
        self._applying: Iterator[None] | None = None

    # ---- events

    def recover(self, now: float) -> None:
        """Take up where the log ends. Sessions that were connected when it ended have just lost their connection."""
        self.since_plan = Measuring(now=now)
        recovered = Recovery(self.journal).run()
        self.numbers.last = recovered.last_sequence
        self._last_number = recovered.last_number
        for session in recovered.sessions:
            self.sessions[session.client_id] = self.by_number[session.number] = session
            self._judge(session)
            for subscription in session.subscriptions.values():
                self.routes.add(subscription)
            if session.expires_at == NEVER and session.expiry_s != NEVER:
                session.expires_at = now + session.expiry_s
                self.journal.session(session)  # or the next start would count from there
            self.ring(session, session.expires_at)
            if session.will is not None:
                session.will_at = now + session.will.properties.get("will_delay_interval", 0)
                self.ring(session, session.will_at)
        for kept in recovered.retained:
            self.retained.keep(kept)
            if kept.message.topic.startswith(_OFFER):
                sensing.recovered(self, kept.message)

    def opened(self, connection: Connection) -> None:
        """A client has opened a connection; far too many are closed without a word."""
        self.connections[connection] = None
        self.counts.connections_opened += 1
        if len(self.connections) > self.limits.connections + SPARE_CONNECTIONS:
            self.counts.connections_refused += 1
            connecting.disconnect(self, connection, Reason.QUOTA_EXCEEDED)

    received = reading.received  # bytes came

    def closed(self, connection: Connection, now: float) -> None:
        """A connection is gone."""
        self.connections.pop(connection, None)
        self.stalled.pop(connection, None)
        self.deferring.pop(connection, None)
        connecting.closed(self, connection, now)
        session = connection.session
        if session is not None and session.link is not None and not session.link.own:
            self.serving.serve(session.link, now)  # it has left room for others

    def verified(self, connection: Connection, right: bool, now: float) -> None:
        """A password was checked."""
        connecting.verified(self, connection, right, now)
        if connection.phase is Phase.OPEN:
            self._resume(connection, now)

    def writable(self, connection: Connection, writable: bool, now: float) -> None:
        """A socket takes no more, or takes more again."""
        connection.writable = writable
        session = connection.session
        if session is not None and session.connection is connection:
            if writable:
                self.serving.resume(session, now)
            else:
                connection.direct = False

    def committed(self, position: int, now: float) -> None:
        """The log is safe up to here."""
        self.journal.committed = position
        for session in self.outboxes.committed():
            self.serving.resume(session, now)

    def tick(self, now: float) -> None:
        """Time has passed: wills, sessions that expire, clients that fell silent or may go on. Ten times a second."""
        while self._timers and self._timers[0][0] <= now:
            when, number = heapq.heappop(self._timers)
            session = self.by_number.get(number)
            if session is not None and session.rings_at == when:
                session.rings_at = NEVER
                connecting.when_due(self, session, now)
        if now >= self._look_for_silence_at:
            self._look_for_silence_at = now + 1.0
            for connection in list(self.connections):
                self._check_silence(connection, now)
        for connection in list(self.deferring) if not self.journal.refusing else ():
            publishing.take_up(self, connection, now)
        for connection in list(self.stalled):
            if now >= connection.stalled_until and (not self.journal.behind or self.journal.refusing):
                self._resume(connection, now)  # and if the log still takes nothing, it is stalled again
        if len(self._connects) > 10_000:
            self._connects.clear()
        if self.streams.ready and (self.streams.followed or self.streams.ended):
            granting.tend(self, now)

    def clean(self) -> bool:
        """Do one step of cleaning the oldest segment of the log; False when that is done or not worth it."""
        if self._cleaning is None:
            self._cleaning = Cleaning(self.journal, self.by_number, self.retained).steps()
        if next(self._cleaning, self) is self:
            self._cleaning = None
        return self._cleaning is not None

    # ---- what is to be done

    def take_dirty(self) -> list[Connection]:
        """The connections that have something to write or are to be closed."""
        dirty = self.outboxes.dirty
        if dirty:
            self.outboxes.dirty = []
        return dirty

    def let_go_unreadable(self, now: float) -> list[str]:
        """Close the connections of sessions whose messages the log cannot give back; returns what is wrong."""
        problems, self.serving.unreadable = self.serving.unreadable, {}
        for session in problems:
            if session.connection is not None:
                connection = session.connection
                connecting.disconnect(self, connection, Reason.UNSPECIFIED_ERROR, "a message that waits is damaged")
                connecting.closed(self, connection, now)
        return [f"{session.client_id} cannot be sent what it is owed: {why}" for session, why in problems.items()]

    def take_output(self, connection: Connection) -> bytes:
        """The bytes to write to a connection now."""
        outbox = connection.outbox
        data = outbox[0] if len(outbox) == 1 else b"".join(outbox)
        self.counts.packets_sent += len(outbox)
        self.counts.bytes_sent += len(data)
        outbox.clear()
        connection.outbox_bytes = 0
        return data

    def written(self, connection: Connection, now: float) -> None:
        """The socket has had its turn: what waits for room may follow."""
        session = connection.session
        if session is not None and session.waits:
            self.serving.resume(session, now)

    def kick(self, client_id: str, now: float) -> bool:
        """Close a client's connection on somebody's order."""
        session = self.sessions.get(client_id)
        if session is None or session.connection is None:
            return False
        connection = session.connection
        connecting.disconnect(self, connection, Reason.ADMINISTRATIVE_ACTION)
        connecting.closed(self, connection, now)
        return True

    def end_session(self, client_id: str, now: float) -> bool:
        """End a session for good on somebody's order, its client connected or not."""
        session = self.sessions.get(client_id)
        if session is None:
            return False
        self.kick(client_id, now)
        if client_id in self.sessions:
            connecting.end_session(self, session, now)
        return True

    def clear_retained(self, topic: str) -> bool:
        """Forget a topic's retained message on somebody's order."""
        kept = self.retained.clear(topic.encode())
        if kept is None:
            return False
        self.journal.unretained(kept)
        if kept.message.topic.startswith(_OFFER):
            self.streams.end(topic.removeprefix(OFFER))
        return True

    def shut_down(self) -> None:
        """Tell everybody that the exchange goes away."""
        for connection in list(self.connections):
            served = connection.upstream is None
            connecting.disconnect(self, connection, Reason.SERVER_SHUTTING_DOWN if served else Reason.SUCCESS)

    def reload(self, scenario: Scenario, now: float) -> None:
        """Go on with other settings: roles, rules and limits hold from now on for those who are connected, too.

        A subscription that is no longer allowed stays, but brings nothing. Users who are no more are let go.
        """
        self.settings = settings = scenario.exchange
        self.links = Links(scenario, settings.limits, self.links)
        self.needs = Needs(settings, scenario, self.needs)
        self.treatment = Treatment(scenario, self.treatment.plan)
        self.routes.forget_all()
        self.limits = settings.limits
        self.access = Access(settings)
        for connection in self.connections:
            connection.allowed = set() if settings.access else None
            connection.publish_credit = NEVER if settings.limits.publish_hz is None else settings.limits.publish_hz
        for session in list(self.sessions.values()):
            self._judge(session)
            known = session.identity.user is None or session.identity.user in settings.users
            if session.connection is not None and session.connection.user is None and not known:
                connecting.disconnect(self, session.connection, Reason.NOT_AUTHORIZED)
                connecting.closed(self, session.connection, now)
            if session.connection is not None:
                self.seat(session, session.connection, now)
                self.serving.resume(session, now)

    def _judge(self, session: Session) -> None:
        """Give a session the roles that its user has now, and look at its subscriptions in that light."""
        identity = session.identity
        user = self.settings.users.get(identity.user) if identity.user is not None else None
        session.identity = replace(identity, roles=tuple(user.roles) if user is not None else ())
        for topic_filter, subscription in session.subscriptions.items():
            verdict = self.access.may_subscribe(session.identity, topic_filter)
            subscription.partly = verdict is not Verdict.ALL and not connecting.is_inside(session.client_id)

    # ---- for the handlers

    def ring(self, session: Session, when: float) -> None:
        """Look at a session at some time; an earlier time replaces a later one, so there is one timer a session."""
        if when < session.rings_at:
            session.rings_at = when
            if len(self._timers) > 2 * len(self.by_number) + SPARE_TIMERS:  # most are of sessions that have ended
                waiting = (one for one in self.by_number.values() if one.rings_at != NEVER)
                self._timers = [(one.rings_at, one.number) for one in waiting if one is not session]
                heapq.heapify(self._timers)
            heapq.heappush(self._timers, (when, session.number))

    def new_message(self, topic: bytes, payload: bytes, qos: int, retain: bool, publisher: Session | None) -> Message:
        """A message with the next number."""
        numbers = self.numbers
        numbers.last = sequence = numbers.last + 1
        if sequence < self._sampled_next:
            return Message(topic, payload, qos, retain, publisher, sequence)
        return self._sampled(topic, payload, qos, retain, publisher, sequence)

    def _sampled(
        self, topic: bytes, payload: bytes, qos: int, retain: bool, publisher: Session | None, sequence: int
    ) -> Message:
        assert self.recorder is not None
        self._sampled_next = sequence + self.recorder.gap()
        message = SampledMessage(topic, payload, qos, retain, publisher, sequence)
        message.weight = self.recorder.weight
        return message

    def record(self, recorder: Recorder) -> None:
        """Have deliveries and membership recorded from now on."""
        self.recorder = self.dropping.recorder = recorder
        self._sampled_next = self.numbers.last + recorder.gap()

    def note_membership(self, session: Session, topic_filter: str, event: str, now: float) -> None:
        """Record that a client subscribed, unsubscribed, or is lost."""
        if self.recorder is not None:
            self.recorder.membership(now, session.client_id, topic_filter, event)

    def new_session(self, client_id: str, identity: Identity) -> Session:
        """A session that nobody had before."""
        self._last_number += 1
        session = Session(number=self._last_number, client_id=client_id, identity=identity)
        self.sessions[client_id] = self.by_number[session.number] = session
        return session

    def seat(self, session: Session, connection: Connection, now: float) -> None:
        """Find out which of the scenario's subscribers a client is, and put it on its link."""
        before = session.link
        session.subscriber = self.links.subscriber(session.identity, connection.address)
        link = self.links.link(session.subscriber, before)
        if link is not before:
            self.answering.sit_on(session, link, now)
        for subscription in session.subscriptions.values():
            self.grant(subscription)
        treated_anew = [self.treat(session, lane) for lane in session.lanes.values()]
        session.rank()
        if any(treated_anew) or link is not before:
            self.routes.forget_those_of(session)

    def grant(self, subscription: Subscription) -> None:
        """Look anew at what a subscription needs; a profile that is no more is as if it had not been named."""
        session = subscription.session
        who = (session.identity, session.subscriber, subscription.filter)
        try:
            granted = self.needs.granted(*who, subscription.profile, asked(subscription.wishes))
        except (NeedError, KeyError):
            granted = self.needs.granted(*who, None, {})
        subscription.lane.want(granted.need, granted.best_class)
        self.changed += 1

    def treat(self, session: Session, lane: Lane) -> bool:
        """Give a lane the class, the drop rate and the precision that the plan has for it; whether they are new."""
        before = (lane.klass, lane.threshold, lane.delta)
        flow, klass, drop_rate, delta = self.treatment.of(session.subscriber or session.client_id, lane.filter)
        klass = max(klass, lane.best_class)
        if klass != lane.klass and session.link is not None:
            session.link.move(lane, klass)
        lane.treat(klass, drop_rate, flow, delta)
        return before != (lane.klass, lane.threshold, lane.delta)

    def measure(self, most: int | None = None) -> bool:
        """Count the delays that lanes have noted, of so many lanes; whether there are more."""
        serving = self.serving
        now_timed, serving.timed = serving.timed[:most], serving.timed[len(serving.timed[:most]) :]
        passings, serving.passings = serving.passings[:most], serving.passings[len(serving.passings[:most]) :]
        delays = Delays(
            [(lane, lane.take_delays()) for lane in now_timed]
            + [noted for passing in passings for noted in passing.fold()]
        )
        self.since_plan.fold(delays)
        self.counts.note_delays(delays)
        return bool(serving.timed or serving.passings)

    def deliveries(self) -> Totals:
        """The totals of everybody, those who have left too."""
        self.measure()
        return self.counts.deliveries(self.sessions.values())

    def read(self, now: float) -> Reading:
        """What became of every subscription since the plan in force was applied, or since the start."""
        self.measure()
        plan = self.treatment.plan
        version = None if plan is None else plan.version
        name = self.links.scenario.name
        return self.since_plan.read(name, self.sessions.values(), self.links.shared(), now, version)

    def read_in_steps(self, now: float) -> Generator[None, None, Reading | None]:
        """The same in steps; None if a plan was applied meanwhile."""
        while self.measure(READ_A_STEP):
            yield
        window, plan = self.since_plan, self.treatment.plan
        version = None if plan is None else plan.version
        steps = window.read_in_steps(self.links.scenario.name, self.sessions.values(), now, version, READ_A_STEP)
        reading = yield from steps
        return None if self.treatment.plan is not plan or self._applying is not None else reading

    def apply(self, plan: Plan, now: float) -> None:
        """Treat every lane as a plan says, from the next `carry_on` to the last.

        Nobody is disconnected, nothing that waits is lost or reordered.
        """
        in_force = self.treatment.plan
        if in_force is not None and plan.version <= in_force.version:
            raise PlanError(f"version {plan.version} is not newer than the plan in force, {in_force.version}")
        self.measure()
        self.treatment = Treatment(self.links.scenario, plan)
        if self.recorder is not None:
            self.recorder.plan_version = plan.version
        self._applying = self._apply_in_steps(now)

    def carry_on(self) -> bool:
        """Apply the plan to some more lanes; False when it holds for all."""
        if self._applying is not None and next(self._applying, self) is self:
            self._applying = None
        return self._applying is not None

    def _apply_in_steps(self, now: float) -> Iterator[None]:
        count, window = 0, Measuring(self.links.shared(), now)
        for session in list(self.sessions.values()):
            for lane in session.lanes.values():
                self.treat(session, lane)
                window.begin(lane)
            session.rank()
            count += len(session.lanes)
            if count >= LANES_A_STEP:
                count = 0
                yield
        self.routes.forget_apart()
        for route in list(self.routes.known.values()):
            route.look_anew()
            count += len(route.copies)
            if count >= LANES_A_STEP:
                count = 0
                yield
        self.since_plan = window

    def wake(self, now: float) -> None:
        """A link may be free for what waits on it."""
        self.serving.wake(now)

    def tidy(self, session: Session) -> None:
        """Let go of the lanes of a session that are needed no more."""
        if len(session.lanes) == len(session.subscriptions):
            return
        self.measure()
        for lane in session.tidy():
            self.since_plan.forget(lane)
        session.rank()

    def session_ended(self, session: Session) -> None:
        """Forget a session."""
        self.measure()
        for lane in session.lanes.values():
            self.since_plan.forget(lane)
        self.changed += 1
        self.counts.ended.add(session.totals)
        del self.by_number[session.number]
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]
        session.let_go()

    def connected(self, connection: Connection) -> None:
        """A client was let in."""
        connection.fast = True
        self.counts.connected += 1
        self.counts.connections_accepted += 1
        self.counts.most_connected = max(self.counts.most_connected, self.counts.connected)

    def disconnected(self, connection: Connection) -> None:
        """A client's session has lost its connection."""
        connection.fast = connection.direct = False
        self.counts.connected -= 1

    def over_limit(self, connection: Connection, now: float) -> Reason | None:
        """Why a connection or a session is one too many, if it is."""
        if len(self.connections) > self.limits.connections:
            return Reason.QUOTA_EXCEEDED
        rate_hz = self.limits.connect_hz
        if rate_hz is not None:
            most = max(1.0, rate_hz)
            credit, since = self._connects.get(connection.address, (most, now))
            credit = min(most, credit + (now - since) * rate_hz) - 1
            self._connects[connection.address] = (max(credit, 0.0), now)
            if credit < 0:
                return Reason.CONNECTION_RATE_EXCEEDED
        return None

    def _may_receive(self, session: Session, topic: str) -> bool:
        return self.access.may_receive(session.identity, topic)

    def stall(self, connection: Connection, until: float) -> None:
        """Read nothing more from a connection for a while."""
        connection.stalled_until = max(connection.stalled_until, until)
        connection.reading = False
        self.stalled[connection] = None

    def _resume(self, connection: Connection, now: float) -> None:
        connection.stalled_until = 0.0
        connection.reading = True
        connection.heard_at = now
        connection.needed = 0
        self.stalled.pop(connection, None)
        if connection.partial is not None:
            self.received(connection, b"", now)

    def _check_silence(self, connection: Connection, now: float) -> None:
        """Close whoever does not say CONNECT, keeps nothing alive, or never finishes a packet (MQTT-3.1.2-22)."""
        if connection.phase is Phase.NEW:
            if now - connection.opened_at > CONNECT_WITHIN_S:
                connecting.disconnect(self, connection, Reason.KEEP_ALIVE_TIMEOUT)
            return
        if connection.phase is not Phase.OPEN or connection.stalled_until:
            return
        silent_s = now - connection.heard_at
        late = connection.keep_alive_s and silent_s > 1.5 * connection.keep_alive_s
        if connection.partial is not None:
            late = late or now - connection.partial_since > PACKET_WITHIN_S + connection.needed / 1000
        if late:
            connecting.disconnect(self, connection, Reason.KEEP_ALIVE_TIMEOUT)
            connecting.closed(self, connection, now)
