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

from firelane.exchange.connecting import OVERLAY, is_served
from firelane.exchange.inside import Inside
from firelane.exchange.message import NUMBER
from firelane.exchange.needs import said
from firelane.exchange.run import Exchange
from firelane.mqtt.packets import Ack, Kind, Packet, Publish, Subscribe, Subscription, Unsubscribe
from firelane.overlay.actions import Acknowledge, Copy, Deliver
from firelane.overlay.had import Had
from firelane.overlay.interest import Wish
from firelane.overlay.origin import Origins
from firelane.overlay.receiving import Chain

FILTERS_A_PACKET = 500
ORIGIN = "firelane-origin"  # the user property of a retained message that came from another edge


class Local:
    """`got` is called with every message that a local client publishes and others want, `safe` with messages from
    elsewhere that are in the log, `over` if its session was ended."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        got: Callable[[Copy], None],
        safe: Callable[[str, int], None],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._exchange, self._got, self._safe = exchange, got, safe
        self._inside = Inside(exchange.server, OVERLAY, self._take, over=over, window=65_535)
        self._wanted: dict[str, Wish] = {}
        self._unsafe: dict[int, tuple[str, int, int]] = {}  # packet identifier -> origin, number, QoS
        self._free = list(range(65_535, 0, -1))
        self._waiting: deque[Deliver] = deque()  # for an identifier
        self._had = Had()
        self._origins = Origins()
        self.refused: Counter[str] = Counter()
        self.writers: dict[str, int] = {}  # DDS endpoints by topic; 0 where they have gone and no client counts
        self.readers: dict[str, int] = {}

    def enter(self) -> dict[Chain, int]:
        """Begin; returns the last numbers of QoS 2 that are known from before, by origin and topic."""
        had = self._had.read(self._exchange.broker.retained)
        self._inside.enter()
        session = self._inside.session
        left = sorted(session.received)  # of QoS 2, published before a crash: they are in the log
        if left:
            self._free = [one for one in self._free if one not in session.received]  # PUBCOMP sets them free
            self._inside.say(*(Ack(kind=Kind.PUBREL, packet_id=one) for one in left))
        self._wanted = {one: Wish(qos=subscription.qos) for one, subscription in session.subscriptions.items()}
        return had

    def leave(self) -> None:
        """End; what is kept for others stays in the log."""
        self._inside.leave()

    @property
    def changed(self) -> int:
        """Grows whenever clients' subscriptions may have changed."""
        return self._exchange.broker.changed

    def wishes(self) -> dict[str, Wish]:
        """What local clients want. A shared group is of one site; what begins with $ stays there."""
        found: dict[str, Wish] = {}
        weights: dict[str, float] = {}
        for session in self._exchange.broker.sessions.values():
            if not is_served(session.client_id):
                continue
            for one in session.subscriptions.values():
                if one.topics.startswith("$"):
                    continue
                before, need = found.get(one.topics), one.lane.need
                if before is None or need.weight > weights[one.topics]:
                    weights[one.topics] = need.weight
                    asked = dict(said(need)) or None
                else:
                    asked = dict(before.need) if before.need else None
                qos = max(one.qos, 0 if before is None else before.qos)
                # Who is still connected here while this site cannot be reached must not miss anything either.
                found[one.topics] = Wish(qos=qos, keeps=qos > 0, need=asked)
        return found

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
        totals = dict(traffic.totals())
        shares = self._origins.local_shares(totals.items())
        seen = traffic.known(time.monotonic())
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
        new = [one for one, wish in filters.items() if one in again or self._wanted.get(one) != wish]
        self._wanted = dict(filters)
        packets: list[Packet] = []
        for one in new:
            wish = Subscription(filter=one, qos=filters[one].qos, no_local=True, retain_as_published=True)
            needs = list((filters[one].need or {}).items())
            packets.append(
                Subscribe(packet_id=1, subscriptions=[wish], properties={"user_property": needs} if needs else {})
            )
        packets += [
            Unsubscribe(packet_id=1, filters=gone[first : first + FILTERS_A_PACKET])
            for first in range(0, len(gone), FILTERS_A_PACKET)
        ]
        if packets:
            self._inside.say(*packets)

    def acknowledge(self, action: Acknowledge) -> None:
        """A message need not be kept any longer."""
        kind = Kind.PUBACK if action.qos == 1 else Kind.PUBREC
        self._inside.say(Ack(kind=kind, packet_id=action.packet_id))

    def deliver(self, action: Deliver) -> None:
        """Publish a message from elsewhere here."""
        stamp = action.stamp
        properties = action.properties
        if stamp.retain:  # so that what is kept here is not taken for this edge's own
            others = [one for one in properties.get("user_property", ()) if one[0] != ORIGIN]
            properties = {**properties, "user_property": [*others, (ORIGIN, stamp.origin)]}
        message = Publish(
            topic=action.topic, payload=action.payload, qos=stamp.qos, retain=stamp.retain, properties=properties
        )
        if stamp.qos and not self._free:
            self._waiting.append(action)
            return
        self._origins.came(action.topic)
        if not stamp.qos:
            self._inside.say(message)
            return
        message.packet_id = self._free.pop()
        self._unsafe[message.packet_id] = stamp.origin, stamp.number, stamp.qos
        if stamp.qos == 1:
            self._inside.say(message)
        else:
            self._inside.say(message, *self._had.marks(stamp.origin, action.topic, stamp.number))

    def _take(self, packet: Packet) -> None:
        match packet:
            case Publish() if any(name == ORIGIN for name, _ in packet.properties["user_property"]):
                self.refused["kept for another edge"] += 1  # a retained message that came from there
                if packet.qos:
                    self.acknowledge(Acknowledge(packet.packet_id, packet.qos))
            case Publish():
                self._got(_copy(packet))
            case Ack(kind=Kind.PUBACK | Kind.PUBREC):
                self._settle(packet)
            case Ack(kind=Kind.PUBREL):  # the end of what was acknowledged with PUBREC
                self._inside.say(Ack(kind=Kind.PUBCOMP, packet_id=packet.packet_id))
            case Ack(kind=Kind.PUBCOMP):
                self._release(packet.packet_id)
            case _:
                pass

    def _settle(self, packet: Ack) -> None:
        known = self._unsafe.pop(packet.packet_id, None)
        if known is None:
            return
        origin, number, qos = known
        if packet.reason >= 0x80:  # it is not wanted here, and would not be if it came again
            self.refused[f"{packet.reason:#x}"] += 1
        self._safe(origin, number)
        if qos == 2 and packet.reason < 0x80:
            self._inside.say(Ack(kind=Kind.PUBREL, packet_id=packet.packet_id))
        else:
            self._release(packet.packet_id)

    def _release(self, packet_id: int) -> None:
        self._free.append(packet_id)
        if self._waiting:
            self.deliver(self._waiting.popleft())


def _copy(packet: Publish) -> Copy:
    """A message as the exchange hands it over, with its number taken off."""
    properties: dict[str, Any] = dict(packet.properties)
    own = properties.pop("user_property")
    rest = [one for one in own if one[0] != NUMBER]
    if rest:
        properties["user_property"] = rest
    properties.pop("subscription_identifier", None)
    return Copy(
        topic=packet.topic,
        payload=packet.payload,
        qos=packet.qos,
        number=int(next(text for name, text in reversed(own) if name == NUMBER)),
        retain=packet.retain,
        packet_id=packet.packet_id,
        properties=properties,
    )
