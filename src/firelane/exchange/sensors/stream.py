"""One stream of sensors at the exchange: what was offered and granted, and what its sensors are believed to read."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from firelane.arrays import Flags, Ints
from firelane.exchange.clients.session import Session, Subscription
from firelane.exchange.delivering.routes import Route
from firelane.exchange.lanes.message import NEVER
from firelane.exchange.sensors.asking import Asking
from firelane.exchange.sensors.coarser import Coarser
from firelane.scenario.sense_settings import SenseSettings
from firelane.sense.agreement import LoadSignals
from firelane.sense.asking import Asker
from firelane.sense.bank import ModelBank
from firelane.sense.ledger import Ledger
from firelane.sense.offer import SENSOR_TYPE, Grant, Offer, OfferError, Resync
from firelane.sense.receiving import FORMER, Clock
from firelane.sense.told import told_among
from firelane.sense.updates import UpdateError, Updates
from firelane.sense.wire import WRAP, Batch, decode

MOST_BEHIND_S = 10.0  # that a message may be; else the publisher's clock was set
MOST_LAYERS = 8  # updates of one sensor in one message that are looked at one by one
SILENT = 1.5  # heartbeats, after which nobody is told anything more
MOST_MISMATCHES = 100
MOST_LOAD = 0.7  # where an offer does not say
NOBODY: Ints = np.zeros(0, np.int64)


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
        self.asker = Asker(0.0)  # the exchange itself, for states of the publisher's
        self.asked: dict[Session, Asking] = {}
        self.grant: Grant | None = None  # as it was last published
        self.granted_at = -NEVER
        self.tightest: float | None = None  # of the tolerances that were asked for
        self.subscribers = 0
        self.lossy = False  # some of them may lose messages on their way
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
        self.ledger = Ledger()
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
        self.ledger.restart(count)
        self.lacks = False  # states are to be asked for
        self.unsure = True  # of some sensors, for all that is known
        self.sure: Flags = np.zeros(count, np.bool_)  # their states are known, to the last update
        self._told_in: Ints = np.full(count, -1, np.int64)  # the message with the newest update of each
        self.clock = Clock()
        self.heard_at = self._latest_s = -math.inf
        self.begun_anew()

    def begun_anew(self) -> None:
        """Everybody is to be told everything again."""
        for coarser in self.coarse.values():
            coarser.begin()

    @property
    def number(self) -> int:
        """Of the last message."""
        return ((self.ledger.numbering.next or 0) - 1) % WRAP

    @property
    def missed(self) -> int:
        """Messages that never came, by their numbers."""
        return self.ledger.numbering.missed

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
        connections = [one.session.connection for one in subscriptions]
        self.lossy = any(one is not None and one.gate is not None for one in connections)
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
        self._late = self.ledger.take(batch)
        if not self._is_calm(batch):
            self._doubt_others(batch.updates.sensor)
        if not self._late:
            self._take_word(batch)
        return batch

    def _check(self, batch: Batch) -> None:
        if batch.sensors != len(self) or batch.discrete != self.offer.discrete:
            raise UpdateError("this message is not of the stream that was offered; offer it anew")
        if batch.boot != self.boot == self.offer.boot and (batch.boot in self._former or batch.time_s < self._latest_s):
            raise UpdateError("this message is of a life before this one; leave it out")

    def _is_calm(self, batch: Batch) -> bool:
        """Whether nothing is missing, but for what is in this message."""
        trail = batch.trail
        if self.unsure or not self.ledger.settled:
            return False
        return trail is None or bool((self.bank.sequence[trail.sensor] >= trail.sequence).all())

    def _doubt_others(self, but: Ints) -> None:
        """See which sensors are known for sure, but for some of which there are updates to take."""
        if self.offer.discrete:
            return
        lacking = self.ledger.lacking(self.bank)
        others = np.setdiff1d(self.bank.all, but)
        self.unsure = False
        self._mark(others, lacking[others])

    def look_again(self) -> None:
        """See whether anything is still missing, now that updates have been taken."""
        if self.unsure:
            self._doubt_others(NOBODY)

    def _mark(self, sensors: Ints, lacking: Flags) -> None:
        """These are known for sure, or lack something; who depends on one of which that has changed is to know."""
        sure, before = (self.bank.sequence[sensors] > 0) & ~lacking, self.sure[sensors]
        self.sure[sensors] = sure
        if lacking.any():
            self.unsure = self.lacks = True
        for coarser in self.coarse.values():
            if (before & ~sure).any():
                coarser.alarm()
            if (sure & ~before).any():
                coarser.look_anew()

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

    def follow(self, updates: Updates, number: int) -> Iterator[Updates]:
        """Take a message's updates in, those of one sensor one after the other; what was taken, each time."""
        if self.offer.discrete or not len(updates):
            return
        for layer in _layers(updates):
            first = (self.bank.sequence[layer.sensor] == 0) & ~layer.whole
            part = layer.pick(~first) if first.any() else layer
            newer = part.sequence > self.bank.sequence[part.sensor]
            try:
                self.bank.apply(part)
            except UpdateError:  # its time goes back: somebody else's, or a clock that was set
                self.unreadable += 1
                self.ledger.doubt()
                self._doubt_others(NOBODY)
            else:
                self._told_in[part.sensor[newer]] = number
                self._mark(layer.sensor, self._lacking_of(layer.sensor))
            self.updates += len(part)
            yield part

    def _lacking_of(self, sensors: Ints) -> Flags:
        """Whether sensors lack something, just after updates of theirs; more of the newest message may be to come."""
        behind = self.bank.sequence[sensors] < self.ledger.latest[sensors]
        unknown = self.bank.sequence[sensors] == 0
        return self.ledger.open[sensors] | ~self.bank.in_step[sensors] | (behind if self._late else unknown)

    def wanted(self, asked: Resync) -> Ints:
        """The sensors whose states somebody asks for who gets the stream as it is."""
        return self.named(asked, told_among(self._told_in, asked.batches or ()))

    def named(self, asked: Resync, told: Ints) -> Ints:
        """The sensors whose states are asked for, by name or as told in messages that were missed."""
        if asked.everything:
            return self.bank.all
        named = np.array(asked.sensors or (), np.int64)
        return np.union1d(named[named < len(self)], told)

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
