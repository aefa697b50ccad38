"""One stream of sensors at the exchange: what was offered and granted, and what its sensors are believed to read."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from firelane.arrays import Flags, Ints
from firelane.exchange.coarser import Coarser
from firelane.exchange.message import NEVER
from firelane.exchange.routes import Route
from firelane.exchange.session import Session, Subscription
from firelane.scenario.sense_settings import SenseSettings
from firelane.sense.agreement import LoadSignals
from firelane.sense.bank import ModelBank
from firelane.sense.numbering import Numbering
from firelane.sense.offer import SENSOR_TYPE, Grant, Offer, OfferError
from firelane.sense.receiving import FORMER, Clock
from firelane.sense.updates import UpdateError, Updates
from firelane.sense.wire import WRAP, Batch, decode

MOST_BEHIND_S = 10.0  # that a message may be; else the publisher's clock was set
MOST_LAYERS = 8  # updates of one sensor in one message that are looked at one by one
SILENT = 1.5  # heartbeats, after which nobody is told anything more
MOST_MISMATCHES = 100
MOST_LOAD = 0.7  # where an offer does not say
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0


@dataclass(slots=True)
class Asking:
    """How often somebody has asked for states of late: each time the pause grows, and a while of peace ends that."""

    pause_s: float = FIRST_PAUSE_S
    next_at: float = -NEVER

    def may(self, now: float) -> bool:
        """Whether it may ask now; then it has."""
        if now < self.next_at:
            return False
        calm = now > self.next_at + 2 * self.pause_s
        self.pause_s = FIRST_PAUSE_S if calm else min(2 * self.pause_s, LONGEST_PAUSE_S)
        self.next_at = now + self.pause_s
        return True


@dataclass(slots=True)
class Split:
    """A route as it was split up: who gets the stream as it is, and who gets one made for it."""

    route: Route
    delta: float
    direct: Route
    coarse: list[Coarser] = field(default_factory=list)


class Stream:
    """One stream. `owner` is the client that offered it; while it is connected, nobody else may speak for it."""

    def __init__(self, topic: str, offer: Offer, owner: str | None) -> None:
        self.topic = topic
        self.name = topic.encode()
        self.owner = owner
        self.speaker: Session | None = None  # who published last
        self.qos = 0  # of its messages
        self.coarse: dict[Session, Coarser] = {}
        self.split: Split | None = None
        self.asking = Asking()  # the exchange itself, for states of the publisher's
        self.asked: dict[Session, Asking] = {}
        self.grant: Grant | None = None  # as it was last published
        self.granted_at = -NEVER
        self.tightest: float | None = None  # of the tolerances that were asked for
        self.subscribers = 0
        self.loads = LoadSignals()
        self._clients: set[str] = set()
        self.moved = True  # something that was granted may be otherwise by now
        self.mismatches: dict[tuple[str, str], str] = {}  # of client and filter: why
        self.messages = 0
        self.updates = 0
        self.unreadable = 0
        self.suppressed = 0  # of those who got one of their own and are gone
        self.offer = offer
        self.boot = offer.boot
        self._former: deque[int] = deque(maxlen=FORMER)  # boots that others have followed
        self._numbering = Numbering()
        self._late = False  # the last message had been overtaken
        self._begin(offer.boot)

    def __len__(self) -> int:
        return len(self.offer.sensors)

    def offered(self, offer: Offer) -> None:
        """The publisher says what it offers; with another boot or other sensors it begins anew."""
        before, self.offer = self.offer, offer
        if (before.boot, before.sensors, before.kind) != (offer.boot, offer.sensors, offer.kind):
            self._begin(offer.boot)

    def listen(self, settings: SenseSettings) -> None:
        """Hear what loads subscribers ask for, up to what is offered."""
        most, period_s = self.offer.load or MOST_LOAD, settings.load_period_s
        floor = min(settings.load_floor, most)
        if (most, floor, period_s) != (self.loads.most, self.loads.floor, self.loads.period_s):
            self.loads = LoadSignals(most=most, floor=floor, period_s=period_s)

    def hear(self, session: Session, load: float, now: float) -> bool:
        """Take in what load a subscriber asks for; whether it counts. It does no longer when it has gone."""
        self._clients.add(session.client_id)
        return self.loads.heard(session.client_id, session.identity.user, load, now)

    def _begin(self, boot: int) -> None:
        count = 0 if self.offer.discrete else len(self)
        if boot != self.boot:
            self._former.append(self.boot)
        self.boot = boot
        self.delta = self.offer.precision or 0.0
        self.bank = ModelBank(count)
        self.gone: Ints = np.zeros(0, np.int64)  # sensors that their publisher says it no longer reads
        self.suspect: Flags = np.ones(count, np.bool_)  # an update of theirs may have been lost
        self.lacking: Flags = np.zeros(count, np.bool_)  # their states are to be asked for
        self.lacks = False  # some of them may be
        self.sure: Flags = np.zeros(count, np.bool_)  # their states are known, to the last update
        self.clock = Clock()
        self.heard_at = self._latest_s = -math.inf
        self._numbering.restart()
        self.begun_anew()

    def begun_anew(self) -> None:
        """Everybody is to be told everything again."""
        for coarser in self.coarse.values():
            coarser.begin()

    @property
    def number(self) -> int:
        """Of the last message."""
        return ((self._numbering.next or 0) - 1) % WRAP

    @property
    def missed(self) -> int:
        """Messages that never came, by their numbers."""
        return self._numbering.missed

    def settle(self, subscriptions: list[Subscription]) -> list[tuple[str, str, str]]:
        """These are the subscriptions that bring it to somebody; returns whose wishes it newly turns out not to meet.

        They are kept: the stream is then as precise as it was offered.
        """
        precision = self.offer.precision
        tolerances = [one.lane.need.tolerance for one in subscriptions if one.lane.need.tolerance is not None]
        self.subscribers = len(subscriptions)
        self.tightest = max(precision, min(tolerances)) if tolerances and precision is not None else None
        before, self.mismatches = self.mismatches, dict(islice(self._unmet(subscriptions), MOST_MISMATCHES))
        clients = {one.session.client_id for one in subscriptions}
        for gone in self._clients - clients:
            self.loads.gone(gone)
        self.moved = True
        self._clients = clients
        self.asked = {session: one for session, one in self.asked.items() if session.client_id in clients}
        return [(*who, why) for who, why in self.mismatches.items() if who not in before]

    def _unmet(self, subscriptions: list[Subscription]) -> Iterator[tuple[tuple[str, str], str]]:
        for one in subscriptions:
            try:
                self.offer.meets(one.lane.need.tolerance, dict(one.wishes).get(SENSOR_TYPE))
            except OfferError as problem:
                yield (one.session.client_id, one.filter), str(problem)

    def silent(self, now: float) -> bool:
        """Whether its publisher has not been heard of for longer than it may be."""
        return now - self.heard_at > SILENT * self.offer.heartbeat_s

    def read(self, payload: bytes, now: float) -> Batch | None:
        """The message that is in a payload; None if it makes no sense here."""
        try:
            batch = decode(payload)
            batch.updates.check(len(self))
            self._check(batch)
        except UpdateError:
            self.unreadable += 1
            return None
        if batch.boot != self.boot:
            self._begin(batch.boot)
        self.messages += 1
        self.heard_at, self._latest_s = now, max(self._latest_s, batch.time_s)
        if self.clock.theirs(now) - batch.time_s > MOST_BEHIND_S:
            self.clock = Clock()
        self.clock.heard(batch.time_s, now)
        lost, self._late = self._numbering.take(batch)
        if lost:
            self._lose()
        if not self._late:
            self._take_word(batch)
        return batch

    def _check(self, batch: Batch) -> None:
        if batch.sensors != len(self) or batch.discrete != self.offer.discrete:
            raise UpdateError("this message is not of the stream that was offered; offer it anew")
        if batch.boot != self.boot == self.offer.boot and (batch.boot in self._former or batch.time_s < self._latest_s):
            raise UpdateError("this message is of a life before this one; leave it out")

    def _lose(self) -> None:
        """Something was lost: who depends on it is to know."""
        self.suspect |= self.bank.sequence > 0
        self.sure[self.suspect] = False
        self.lacking |= self.bank.sequence > 0
        self.lacks = True
        for coarser in self.coarse.values():
            coarser.alarm()

    def _take_word(self, batch: Batch) -> None:
        """What the latest message says of the stream as a whole."""
        if not self.offer.discrete:
            self.delta = batch.delta
        if not (batch.heartbeat or len(batch.gone)):
            return
        gone = batch.gone if batch.heartbeat else np.union1d(self.gone, batch.gone)
        if not np.array_equal(gone, self.gone):
            self.gone = gone
            for coarser in self.coarse.values():
                coarser.unsaid = True

    def follow(self, updates: Updates) -> Iterator[Updates]:
        """Take updates in, those of one sensor one after the other; what was taken, each time."""
        if self.offer.discrete or not len(updates):
            return
        for layer in _layers(updates):
            first = (self.bank.sequence[layer.sensor] == 0) & ~layer.whole
            self.lacking[layer.sensor[first]] = True
            part = layer.pick(~first) if first.any() else layer
            newer = part.sequence > self.bank.sequence[part.sensor]
            try:
                self.bank.apply(part)
            except UpdateError:  # its time goes back: somebody else's, or a clock that was set
                self.unreadable += 1
                self._lose()
            else:
                last = (part.sequence == self.bank.sequence[part.sensor]) & self.bank.in_step[part.sensor]
                self.suspect[part.sensor[newer if self._late else last]] = self._late
            self.sure[part.sensor] = self.bank.in_step[part.sensor] & ~self.suspect[part.sensor]
            self.lacking[part.sensor] = ~self.sure[part.sensor]
            self.lacks = self.lacks or bool(self.lacking[layer.sensor].any())
            self.updates += len(part)
            yield part

    def whole(self, sensors: Ints) -> Updates:
        """The states of some sensors, as far as they are known for sure."""
        return self.bank.whole(sensors[self.sure[sensors]])


def _layers(updates: Updates) -> Iterator[Updates]:
    """Updates in portions in which each sensor is there once; beyond the most, the rest together."""
    sensors = updates.sensor
    if len(np.unique(sensors)) == len(sensors):
        yield updates
        return
    order = np.argsort(sensors, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(sensors[order]) != 0])
    rank = np.empty(len(sensors), np.int64)
    rank[order] = np.arange(len(sensors)) - np.repeat(starts, np.diff(np.r_[starts, len(sensors)]))
    rank = np.minimum(rank, MOST_LAYERS - 1)
    for layer in range(int(rank.max()) + 1):
        yield updates.pick(rank == layer)
