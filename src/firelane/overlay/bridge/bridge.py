"""The bridge of an edge: finds the DDS endpoints of its site, is a client of the exchange for them, and passes samples
both ways.

Implements: pubsubcoord, section 2.6.2 and appendix A.3: endpoints are discovered by built-in topics, and come and go in
            the registry as they do on the network; a topic's samples are carried for those that want it.
Differs:    samples travel as MQTT messages that any client can read; a reader or writer of the bridge is there only
            while somebody needs it; settings that do not fit are told.
Symbols:    ep -> Peer.
Checked by: tests/overlay/test_bridge.py
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic
from typing import Any, Self

from firelane.dds import Network, Participant, Roster
from firelane.dds.waking import Waking
from firelane.exchange.protocol.connecting import DDS
from firelane.exchange.run import Exchange
from firelane.exchange.sockets.inside import Inside
from firelane.mqtt.packets import Ack, Kind, Packet, Publish, Suback, Subscribe, Subscription, Unsubscribe
from firelane.overlay.bridge.catalogue import Catalogue
from firelane.overlay.bridge.incoming import Incoming
from firelane.overlay.bridge.lan import Lan, complaints, mark_of, selecting, sorted_out
from firelane.overlay.bridge.names import Names
from firelane.overlay.bridge.outgoing import WINDOW, Outgoing
from firelane.overlay.edge import EdgeBroker
from firelane.overlay.registry import Wish
from firelane.scenario.dds_settings import DdsSettings

TICK_S = 0.02
LOOK_EVERY_S = 0.2  # at liveliness
AGAIN_S = 5.0  # and types that have not come are asked for again
REST = 5  # times as long as it takes to look at everybody, when many come and go
AWAY_S = 10.0  # and another site's writers are gone
MOST_LINES = 1000  # told apart
MOST_FORMER = 10_000  # topics that had writers here
SHOWN = 20


class Bridge:
    """Joins an edge's DDS domain with those of others, for as long as `run` runs; a context manager."""

    def __init__(
        self, exchange: Exchange, edge: EdgeBroker, settings: DdsSettings, *, tell: Callable[[str], None]
    ) -> None:
        self._exchange, self._edge, self._settings, self._tell = exchange, edge, settings, tell
        self._names = Names(settings.root)
        self._mark = mark_of(settings.root, edge.name, exchange.broker.boot)
        network = Network(
            interface=settings.interface,
            multicast=settings.multicast,
            peers=settings.peers,
            lease_s=settings.lease_s,
        )
        self._participant = Participant(settings.domain, network, mark=self._mark)
        self._inside = self._client()
        self._selected = selecting(settings.topics)
        self._lan = Lan()
        self._wishes: dict[str, Wish] = {}
        self._seen = -1
        self._look_at = self._again_at = self._rest_until = 0.0
        self._stale = True
        self._former: OrderedDict[str, int] = OrderedDict()
        self._away: dict[str, float] = {}
        self._lines: dict[str, None] = {}
        self._told: Counter[str] = Counter()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._participant)
            self._roster = Roster(self._participant)
            stack.callback(self._roster.close)
            self._waking = stack.enter_context(Waking(self._participant, self._drain))
            self._catalogue = Catalogue(self._participant, self._look_anew, self._complain)
            stack.callback(self._catalogue.close)
            self._outgoing = Outgoing(
                self._participant,
                self._roster,
                self._catalogue,
                self._names,
                self._edge.name,
                publish=lambda messages: self._inside.say(*messages),
                most_bytes=self._exchange.broker.limits.packet_bytes,
                tell=self._complain,
                follow=self._waking.follow,
            )
            stack.callback(self._outgoing.close)
            self._incoming = Incoming(
                self._participant, self._catalogue, self._names, self._edge.name, done=self._done, tell=self._complain
            )
            stack.callback(self._incoming.close)
            self._inside.enter()
            stack.callback(self._leave)
            self._forget_former()
            self._stack = stack.pop_all()
        self._edge.more["dds"] = self.statistics
        return self

    def __exit__(self, *_: object) -> None:
        self._edge.more.pop("dds", None)
        self._edge.declare_endpoints({}, {})
        self._stack.close()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                self._turn(monotonic())
            except Exception as problem:  # of one endpoint or sample, which is not to harm the others
                self._complain("failed", f"the DDS bridge: {type(problem).__name__}: {problem}")
                await asyncio.sleep(LOOK_EVERY_S)
            await asyncio.sleep(TICK_S)

    def statistics(self) -> dict[str, Any]:
        """What it knows and has done."""
        return {
            "domain": self._settings.domain,
            "prefix": self._settings.root,
            "stands_by": self._lan.stands_by,
            "readers": {topic: len(peers) for topic, peers in self._lan.readers.items()},
            "writers": {topic: len(peers) for topic, peers in self._lan.writers.items()},
            "read": len(self._outgoing.readers),
            "written": len(self._incoming),
            "types": len(self._catalogue),
            "out": self._outgoing.statistics(),
            "in": dict(self._incoming.counts + self._catalogue.counts),
            "told": dict(self._told),
            "lines": list(self._lines)[-SHOWN:],
        }

    # ---- what is there, and what is wanted

    def _turn(self, now: float) -> None:
        self._stale |= self._roster.look()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._stale |= self._outgoing.look()
            self._see_sites(now)
        stale = self._stale or now >= self._again_at
        if (stale or self._exchange.broker.changed != self._seen) and now >= self._rest_until:
            if stale:
                self._see_lan()
            self._outgoing.have(self._lan, self._wanted)
            self._declare()
            self._stale, self._seen = False, self._exchange.broker.changed
            took_s = monotonic() - now
            self._rest_until, self._again_at = now + took_s * (1 + REST), now + AGAIN_S
        self._incoming.tick(now)
        self._drain()

    def _see_lan(self) -> None:
        self._drain()  # what those have written who have gone
        self._lan = sorted_out(self._roster.peers.values(), self._roster.marks, self._mark, self._selected)
        for line, kind in complaints(self._lan).items():
            self._complain(kind, line)
        self._incoming.have(self._lan)
        self._subscribe()

    def _wanted(self, topic: str) -> bool:
        """Whether anybody but this bridge wants a DDS topic: a client, or another site."""
        routes = self._exchange.broker.routes
        base = self._names.topic(topic)
        found = (one.session.client_id for name in (base, f"{base}/-") for one in routes.subscriptions(name))
        return any(client_id != DDS for client_id in found)

    def _subscribe(self) -> None:
        """Be subscribed to what readers here want."""
        wishes = self._lan.wishes()
        gone = [one for topic in self._wishes.keys() - wishes.keys() for one in self._names.filters(topic)]
        new = {topic: wish for topic, wish in wishes.items() if self._wishes.get(topic) != wish}
        packets: list[Packet] = [self._subscription(topic, wish) for topic, wish in new.items()]
        if gone:
            packets.append(Unsubscribe(packet_id=1, filters=gone))
        self._wishes = wishes
        if packets:
            self._inside.say(*packets)

    def _subscription(self, topic: str, wish: Wish) -> Subscribe:
        handling = 1 if topic in self._wishes else 0  # what is retained is told only to who is new
        filters = [
            Subscription(filter=one, qos=wish.qos, no_local=True, retain_handling=handling)
            for one in self._names.filters(topic)
        ]
        needs = list((wish.need or {}).items())
        return Subscribe(packet_id=1, subscriptions=filters, properties={"user_property": needs} if needs else {})

    def _declare(self) -> None:
        """Register endpoints, and only those that live."""
        lost = self._outgoing.lost
        writers = {self._names.topic(one): len(peers) for one, peers in self._lan.writers.items() if one not in lost}
        readers = {self._names.topic(one): len(peers) for one, peers in self._lan.readers.items()}
        self._former |= dict.fromkeys(writers, 0)
        while len(self._former) > MOST_FORMER:
            self._former.popitem(last=False)
        self._edge.declare_endpoints({**self._former, **writers}, readers)

    def _see_sites(self, now: float) -> None:
        here = {site for site in self._incoming.sites() if not site or self._edge.present(site)}
        self._away = {site: self._away.get(site, now) for site in self._incoming.sites() - here}
        for site, since in self._away.items():
            if now > since + AWAY_S:
                self._incoming.gone(site)

    def _look_anew(self) -> None:
        self._stale = True

    # ---- messages

    def _client(self) -> Inside:
        return Inside(self._exchange.server, DDS, self._got, over=self._over, window=WINDOW, lasts=False)

    def _leave(self) -> None:
        self._inside.leave()

    def _drain(self) -> None:
        if self._outgoing.drain():
            self._waking.read()

    def _got(self, packet: Packet) -> None:
        match packet:
            case Publish():
                self._incoming.came(packet, monotonic())
            case Ack(kind=Kind.PUBACK):
                self._outgoing.settled(packet.packet_id, packet.reason)
                self._drain()
            case Suback() if any(reason >= 0x80 for reason in packet.reasons):
                self._complain("failed", "the exchange refuses a subscription of the DDS bridge; check its limits")
            case _:
                pass

    def _done(self, packet: Publish) -> None:
        if packet.qos:
            self._inside.say(Ack(kind=Kind.PUBACK, packet_id=packet.packet_id))

    def _over(self) -> None:
        """Somebody has ended its session: begin anew."""
        self._complain("failed", "the session of the DDS bridge was ended; it begins anew")
        self._inside = self._client()
        self._inside.enter()
        self._wishes = {}
        self._outgoing.begin_anew()
        self._stale = True

    def _forget_former(self) -> None:
        """Take back what an earlier run had retained: its writers may not be there any more."""
        retained = self._exchange.broker.retained.matching(f"{self._settings.root}/+/+")
        topics = [kept.message.topic.decode() for kept in retained]
        own = [topic for topic in topics if self._names.is_instance(topic, self._edge.name)]
        self._outgoing.take_back(own)

    def _complain(self, kind: str, line: str) -> None:
        """Tell a line once, and count it."""
        if line in self._lines:
            return
        self._told[kind] += 1
        if len(self._lines) >= MOST_LINES:
            del self._lines[next(iter(self._lines))]
        self._lines[line] = None
        self._tell(line)
