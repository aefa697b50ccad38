"""An edge's own exchange, as the overlay sees it: what its clients want and publish, and messages in both directions.

The overlay is a client inside the exchange. What is wanted elsewhere it subscribes to; a copy of QoS 1 or 2 is
acknowledged once every other edge has it, so until then it is in the log. What comes from elsewhere it publishes; as
its subscriptions are "no local", that does not go out again. Of QoS 2 the number of the last message is written down in
the same breath as the message, as a retained message of its own, so that it is not delivered again after a crash.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from firelane.exchange.clients.needs import said
from firelane.exchange.journal.numbering import Numbering
from firelane.exchange.journal.retained import ORIGIN, origin_of
from firelane.exchange.lanes.message import NUMBER, Message
from firelane.exchange.protocol.connecting import OVERLAY, is_served
from firelane.exchange.protocol.publishing import MOST_DEFERRED_BYTES
from firelane.exchange.run import Exchange
from firelane.exchange.sockets.inside import Inside
from firelane.mqtt.packets import Ack, Kind, Packet, Publish, Subscribe, Subscription, Unsubscribe
from firelane.overlay.asking import asking
from firelane.overlay.local.had import Had
from firelane.overlay.local.origin import Origins
from firelane.overlay.local.retold import Retold
from firelane.overlay.local.seen import Seen
from firelane.overlay.local.wanting import SINCE_START, Wanting
from firelane.overlay.messages.actions import Acknowledge, Copy, Deliver
from firelane.overlay.messages.receiving import Chain
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.registry import Wish
from firelane.overlay.registry.documents import LARGEST
from firelane.overlay.sharing import joined
from firelane.scenario.need import Need

FILTERS_AT_ONCE = 500
TELL, DO_NOT_TELL = 0, 2  # what is retained, to a new subscription (retain handling)
# Of messages from elsewhere: how much the exchange puts off while its log is full (beyond MOST_DEFERRED_BYTES it would
# hear nothing more that is said here, acknowledgements included), and how much waits for that.
MOST_PUT_OFF_BYTES = MOST_DEFERRED_BYTES // 2
MOST_WAITING, MOST_WAITING_BYTES = 65_535, 64_000_000

_Asked = dict[tuple[int, int], Need]  # what clients need of one filter, by itself (which is not another's while it is
# remembered here) and by their QoS


class Local:
    """`got` is called with every message that a local client publishes and others want, `safe` with messages from
    elsewhere that are in the log, `failed` with those that had waited and could then not be published for a bug, `over`
    if its session was ended; `wanting` is what clients wanted at the last look, which is what others know."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        got: Callable[[Copy], None],
        wanting: Wanting | None = None,
        safe: Callable[[Stamp], None],
        failed: Callable[[Deliver, Exception], None] = lambda action, bug: _raise(bug),
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._exchange, self._got, self._safe, self._failed = exchange, got, safe, failed
        self._wanting = wanting or Wanting()
        self._inside = Inside(exchange.server, OVERLAY, self._take, over=over, window=65_535)
        self._wanted: dict[str, Wish] = {}
        self._told: set[str] = set()  # filters whose retained messages were told in this life
        self._unsafe: dict[int, Stamp] = {}  # by packet identifier
        self._free = list(range(65_535, 0, -1))
        self._waiting: deque[Deliver] = deque()  # for an identifier, or for room in the log
        self._waiting_bytes = 0
        self._unsaid: deque[Subscribe | Unsubscribe] = deque()  # what is still to be asked of the exchange
        self._had = Had()
        self._retold, self._seen = Retold(self._wanting), Seen()
        self._numbering = Numbering(exchange.broker.retained, exchange.broker.boot & LARGEST)
        self._origins = Origins()
        self._known: dict[str, tuple[_Asked, Wish]] | None = None  # what was wanted at the last look
        self.refused: Counter[str] = Counter()
        self.writers: dict[str, int] = {}  # DDS endpoints by topic; 0 where they have gone and no client counts
        self.readers: dict[str, int] = {}

    @property
    def boot(self) -> int:
        """Under which this edge's messages have their numbers."""
        return self._numbering.boot

    def enter(self) -> dict[Chain, tuple[int, int]]:
        """Begin; returns the last numbers of QoS 2 that are known from before, with boots, by origin and topic."""
        had = self._had.read(self._exchange.broker.retained)
        self._seen.read(self._exchange.broker.retained)
        self._inside.enter()
        self.reserve()
        session = self._inside.session
        left = sorted(session.received)  # of QoS 2, published before a crash: they are in the log
        if left:
            self._free = [one for one in self._free if one not in session.received]  # PUBCOMP sets them free
            self._inside.say(*(Ack(kind=Kind.PUBREL, packet_id=one) for one in left))
        self._wanted = {one: Wish(qos=subscription.qos) for one, subscription in session.subscriptions.items()}
        return had

    def leave(self) -> None:
        """End; what is kept for others stays in the log."""
        self._unsaid.clear()
        self._inside.say(*self._seen.marks())
        self._inside.leave()

    def reserve(self) -> None:
        """Write down ahead how far numbers may grow, and which have come; to be called now and then."""
        ahead = self._numbering.marks(self._exchange.broker.numbers.last)
        self._inside.say(*ahead, *self._seen.marks(time.monotonic()))

    @property
    def changed(self) -> int:
        """Grows whenever clients' subscriptions may have changed."""
        return self._exchange.broker.changed

    def wishes(self) -> dict[str, Wish]:
        """What local clients want. A shared group is of one site; what begins with $ stays there.

        The wish for a filter is the same object as long as nothing of it changes, so that whoever compares is quick.
        """
        asked: dict[str, _Asked] = {}
        for session in self._exchange.broker.sessions.values():
            if is_served(session.client_id):
                for one in session.subscriptions.values():
                    if not one.topics.startswith("$"):
                        asked.setdefault(one.topics, {})[id(one.lane.need), one.qos] = one.lane.need
        anew = self.boot if self._known is None else time.time_ns() // 1000
        known = self._known or {}
        self._known = {
            one: before
            if (before := known.get(one)) is not None and before[0].keys() == some.keys()
            else _heard(some, anew if before is None else before[1].anew)
            for one, some in asked.items()
        }
        return {one: wish for one, (_, wish) in self._known.items()}

    def lasting(self) -> set[str]:
        """The filters of which messages are kept for clients while this edge is stopped: their sessions outlive it."""
        if not self._exchange.broker.journal.durable:
            return set()
        return {
            one.topics
            for session in self._exchange.broker.sessions.values()
            if session.durable and is_served(session.client_id)
            for one in session.subscriptions.values()
            if one.qos and not one.topics.startswith("$")
        }

    def endpoints(self) -> tuple[dict[str, int], dict[str, int], dict[str, float]]:
        """How many publish and subscribe to which topics (no wildcards), and how often is published.

        A DDS endpoint that has not yet written anything has no rate; one that has fallen silent has 0.
        """
        subscribers: Counter[str] = Counter()
        for session in self._exchange.broker.sessions.values():
            if is_served(session.client_id):
                for one in session.subscriptions.values():
                    if not one.topics.startswith("$") and "+" not in one.topics and "#" not in one.topics:
                        subscribers[one.topics] += 1
        traffic = self._exchange.broker.routes.traffic
        totals, now = dict(traffic.totals()), time.monotonic()
        shares = self._origins.local_shares(totals.items(), now)
        seen = traffic.known(now)
        rates = {
            one.name: round(one.rate_hz * shares[one.name], 3)
            for one in seen
            if not one.name.startswith("$") and shares.get(one.name)
        }
        publishers = dict.fromkeys(rates, 1) | self.writers
        rates = {one: 0.0 for one in self.writers if one in totals and one not in shares} | rates
        return {one: count for one, count in publishers.items() if count}, dict(subscribers) | self.readers, rates

    def want(self, filters: Mapping[str, Wish], again: set[str]) -> None:
        """What is wanted elsewhere; for those that somebody wants anew, retained messages are told again."""
        gone = [one for one in self._wanted if one not in filters]
        new = [
            one
            for one, wish in filters.items()
            if one not in self._told or one in again or ((was := self._wanted[one]) is not wish and _differ(was, wish))
        ]
        known, self._wanted = self._told, dict(filters)
        self._told = set(filters)
        subscriptions = [
            Subscription(
                filter=one,
                qos=filters[one].qos,
                no_local=True,
                retain_as_published=True,
                retain_handling=TELL if one in again or one not in known else DO_NOT_TELL,
            )
            for one in new
        ]
        self._unsaid += asking(((one, filters[one.filter].need) for one in subscriptions), gone)
        self.ask_on()

    def ask_on(self) -> None:
        """Ask for some of what is wanted elsewhere; to be called now and then, as much at once would hold up others."""
        some: list[Packet] = []
        count = 0
        while self._unsaid and count < FILTERS_AT_ONCE:
            packet = self._unsaid.popleft()
            count += len(packet.subscriptions if isinstance(packet, Subscribe) else packet.filters)
            some.append(packet)
        self._inside.say(*some)

    def has_told(self, one: str) -> bool:
        """Whether the exchange has told all that is retained of a filter since it was asked for it."""
        subscription = self._inside.session.subscriptions.get(one)
        asking = self._unsaid or self._inside.connection.stalled_until  # while it waits nothing of that has begun
        return not asking and (subscription is None or subscription.lane.replay is None)

    def hold(self, holding: bool) -> None:
        """Whether messages of QoS 1 and 2 for others are to wait in the exchange."""
        self._inside.hold(holding)

    def acknowledge(self, action: Acknowledge) -> None:
        """A message need not be kept any longer."""
        kind = Kind.PUBACK if action.qos == 1 else Kind.PUBREC
        self._inside.say(Ack(kind=kind, packet_id=action.packet_id))

    @property
    def has_room(self) -> bool:
        """Whether more that needs the log may come from elsewhere."""
        return len(self._waiting) < MOST_WAITING and self._waiting_bytes < MOST_WAITING_BYTES

    def deliver(self, action: Deliver) -> None:
        """Publish a message from elsewhere here, now or when there is room for it."""
        if self._needs_room(action) and (self._waiting or not self._is_room(action)):
            self._waiting.append(action)
            self._waiting_bytes += action.size_bytes
        else:
            self._deliver(action)

    def go_on(self) -> None:
        """Publish what has waited, as far as there is room; to be called now and then."""
        while self._waiting and self._is_room(self._waiting[0]):
            action = self._waiting.popleft()
            self._waiting_bytes -= action.size_bytes
            try:
                self._deliver(action)
            except Exception as bug:  # nobody who waits for it is there to be told
                self._failed(action, bug)

    def _needs_room(self, action: Deliver) -> bool:
        return bool(action.stamp.qos or action.stamp.retain)

    def _is_room(self, action: Deliver) -> bool:
        """Whether there is an identifier, and the exchange does not already put off as much as it may."""
        if action.stamp.qos and not self._free:
            return False
        inside = self._inside.connection
        return not inside.deferred or inside.deferred_bytes + action.size_bytes <= MOST_PUT_OFF_BYTES

    def _deliver(self, action: Deliver) -> None:
        stamp, properties, retain = action.stamp, action.properties, action.stamp.retain
        if retain:
            has_come = self._retold.has_come(action.topic, stamp)
            retain = self._takes_its_place(action.topic, stamp)
            unwanted = not (self._wanting.anybody(action.topic) or self._is_wanted(action.topic))
            if unwanted or has_come or (stamp.first and not retain):
                if stamp.qos:
                    self._safe(stamp)
                return
        if retain:  # so that what is kept here is not taken for this edge's own
            origin = f"{stamp.origin} {stamp.first or stamp.number:x} {stamp.boot:x}"
            others = [one for one in properties.get("user_property", ()) if one[0] != ORIGIN]
            properties = {**properties, "user_property": [*others, (ORIGIN, origin)]}
        message = Publish(
            topic=action.topic, payload=action.payload, qos=stamp.qos, retain=retain, properties=properties
        )
        self._origins.came(action.topic)
        if not stamp.qos:
            self._inside.say(message)
            return
        message.packet_id = self._free.pop()
        self._unsafe[message.packet_id] = stamp
        if stamp.qos == 1:
            self._inside.say(message)
        else:
            self._inside.say(message, *self._had.marks(action.topic, stamp))

    def _is_wanted(self, topic: str) -> bool:
        """Whether a client wants a topic now: else what is retained would stay, and nobody hear of its end."""
        return any(is_served(one.session.client_id) for one in self._exchange.broker.routes.subscriptions(topic))

    def _takes_its_place(self, topic: str, stamp: Stamp) -> bool:
        """Whether a retained message is newer than what is kept here: of the same site by its number; of another, or if
        the kept one is of this site, unless it was known before this edge was started. An older one may be told to
        somebody else, or be sent again as its origin did not hear that it had come."""
        kept = self._exchange.broker.retained.get(topic.encode())
        origin, number, boot = _parted(kept)
        self._seen.came(stamp, replaces=kept is not None and origin != stamp.origin)
        own = stamp.first or stamp.number
        if origin == stamp.origin and boot in (stamp.boot, None):
            return own != number if boot is None else own > number
        return kept is None or self._wanting.since(topic) != SINCE_START or not self._seen.before(stamp)

    def _take(self, packet: Packet) -> None:
        match packet:
            case Publish():
                *said, (_, number) = packet.properties["user_property"]
                if " " in number and any(name == ORIGIN for name, _ in said):  # it is told again
                    self.refused["kept for another edge"] += 1  # a retained message that came from there
                    if packet.qos:
                        self.acknowledge(Acknowledge(packet.packet_id, packet.qos))
                else:
                    self._got(_copy(packet, number, said))
            case Ack(kind=Kind.PUBACK | Kind.PUBREC):
                self._settle(packet)
            case Ack(kind=Kind.PUBREL):  # the end of what was acknowledged with PUBREC
                self._inside.say(Ack(kind=Kind.PUBCOMP, packet_id=packet.packet_id))
            case Ack(kind=Kind.PUBCOMP):
                self._release(packet.packet_id)
            case _:
                pass

    def _settle(self, packet: Ack) -> None:
        stamp = self._unsafe.pop(packet.packet_id, None)
        if stamp is None:
            return
        if packet.reason >= 0x80:  # it is not wanted here, and would not be if it came again
            self.refused[f"{packet.reason:#x}"] += 1
        self._safe(stamp)
        if stamp.qos == 2 and packet.reason < 0x80:
            self._inside.say(Ack(kind=Kind.PUBREL, packet_id=packet.packet_id))
        else:
            self._release(packet.packet_id)

    def _release(self, packet_id: int) -> None:
        self._free.append(packet_id)
        self.go_on()


def _raise(bug: Exception) -> None:
    raise bug


def _parted(kept: Message | None) -> tuple[str, int, int | None]:
    """The site of a retained message, empty if it is this one, as what cannot be read is; its number there, and the
    boot of that if known."""
    try:
        match ((kept and origin_of(kept)) or "").split(" "):
            case [site, number, boot]:
                return site, int(number, 16), int(boot, 16)
            case [site, number]:  # as it was written before
                return site, int(number, 16), None
    except ValueError:
        pass
    return "", 0, None


def _differ(one: Wish, other: Wish) -> bool:
    """Whether a subscription for one would not do for the other."""
    return (one.qos, one.need) != (other.qos, other.need)


def _heard(some: _Asked, anew: int) -> tuple[_Asked, Wish]:
    """What is wanted of a filter. Who is still connected here while this site cannot be reached must not miss anything
    either, so others keep it also for sessions that do not last."""
    qos = max(qos for _, qos in some)
    return some, Wish(qos=qos, keeps=qos > 0, need=dict(said(joined(list(some.values())))) or None, anew=anew)


def _copy(packet: Publish, number: str, said: list[tuple[str, str]]) -> Copy:
    """A message as the exchange hands it over, with its number, which is the last user property, taken off."""
    properties: dict[str, Any] = dict(packet.properties)
    del properties["user_property"]
    rest = [one for one in said if one[0] != NUMBER]  # a client may write anything
    own, _, first = number.partition(" ")
    if rest:
        properties["user_property"] = rest
    properties.pop("subscription_identifier", None)
    return Copy(
        topic=packet.topic,
        payload=packet.payload,
        qos=packet.qos,
        number=int(own),
        retain=packet.retain,
        first=int(first or 0),
        packet_id=packet.packet_id,
        properties=properties,
    )
