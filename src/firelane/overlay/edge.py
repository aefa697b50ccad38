"""An edge broker: an exchange with local clients that joins others through routers.

Implements: pubsubcoord, section 2.6.2 and Algorithm 2: endpoints are registered, routers are found through the
            registry, and a topic's messages go to the router that has it.
Differs:    an edge is connected to every router, so a topic can move without anybody connecting anew; what is told in
            the registry are counts and filters of the whole edge.
Symbols:    ep -> a filter or topic of local clients, rb_locator -> locator, rb_peer_list -> the paths.
Checked by: tests/overlay/test_sites.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any

from firelane.exchange.clients.neighbours import Neighbours
from firelane.exchange.run import Exchange
from firelane.mqtt.packets import Publish
from firelane.overlay.deadlines import Admission, Deadlines
from firelane.overlay.interest import Interest, edge_of
from firelane.overlay.local.local import Local
from firelane.overlay.local.unwanted import EVERYTHING, Unwanted
from firelane.overlay.local.wanting import Wanting
from firelane.overlay.messages.actions import Acknowledge, Action, Copy, Deliver, Direct, Forward, Tell, Unwatch, Watch
from firelane.overlay.messages.addressing import addressed, named
from firelane.overlay.messages.notes import FOR, TO, Note, read_note
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.sending import Sending
from firelane.overlay.messages.stamp import Stamp, StampError, stamped, taken_off
from firelane.overlay.messages.strange import Strange, StrangeError
from firelane.overlay.owner import Assignment
from firelane.overlay.paths.direct import Directly
from firelane.overlay.paths.line import Sent
from firelane.overlay.paths.path import Credentials, Path
from firelane.overlay.paths.reach import Reach
from firelane.overlay.registry import KnownEdge, KnownRouter, Registry, RegistryError, Wish
from firelane.overlay.registry.documents import LARGEST
from firelane.overlay.registry.feed import Changes
from firelane.overlay.retelling import Retelling

TICK_S = 0.02
LOOK_EVERY_S = 0.1  # at local subscriptions
REST = 5  # times as long as it takes to look at all of them, when many come and go
TOGETHER_S = 0.05  # news of other edges that come within this are looked at together
ANSWERED_S = 1.0  # at most, until others are told what routers have been asked for
RETELL_AFTER_S = 0.3  # what is retained, to edges that are reached again
REPORT_EVERY_S = 1.0  # topics and their rates
NOTABLE = 0.05  # change of a rate, to be told: of itself, or of what topics have here on average if that is more
EARLY = "a message that came while this edge was starting or ending"
UNWATCHED = "a topic whose router cannot be followed"


class EdgeBroker:
    """Joins a running exchange with others for as long as `run` runs."""

    def __init__(
        self,
        exchange: Exchange,
        registry: Registry,
        name: str,
        *,
        locator: str | None = None,
        credentials: Credentials | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name = name
        self.registry = registry
        self._credentials, self._tell = credentials or Credentials(), tell
        self._locator = locator
        self._interest = Interest()
        self._exchange, self._entered = exchange, False
        self._admission = Admission(exchange.broker.settings)
        self._deadlines, self._wanting = Deadlines(self._admission), Wanting()
        self._direct = Directly(name, exchange.broker.settings.overlay.direct, self._credentials, tell)
        self._local = Local(
            exchange,
            got=self._published,
            wanting=self._wanting,
            safe=self._committed,
            failed=self._failed,
            over=self._cut_off,
        )
        self._unwanted = Unwanted(exchange.broker)
        self._boot = self._local.boot
        self._sending = Sending(name, self._boot, self._interest)
        self._receiving = Receiving(name, self._boot)
        self._paths: dict[str, tuple[Path, asyncio.Task[None]]] = {}
        self._wishes: dict[str, Wish] = {}
        self._changed = -1
        self._reported_at = 0.0
        self._reach = Reach()
        self._rates_hz: dict[str, float] = {}
        self._others_known = asyncio.Event()
        self._news: dict[str, KnownEdge | None] = {}  # of other edges, not yet looked at
        self._learning: asyncio.TimerHandle | None = None
        self._learnt_at = 0.0
        self._retelling = Retelling(self._local.has_told)
        self._retell_at = inf  # what others want anew, or edges that are back have missed
        self._declare_at = inf  # new wishes, at the latest
        self._unanswered: set[str] = set()  # routers that had not yet answered what was asked of them then
        self._owed_otherwise: set[str] = set()  # edges that are owed more or less than before
        self._group: asyncio.TaskGroup | None = None
        self._strange = Strange()
        self._said = ""
        self.more: dict[str, Callable[[], dict[str, Any]]] = {}  # of whom else to tell in `statistics`

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self.registry.announce_edge(self.name, self._exchange.broker.boot & LARGEST, self._locator)
                self._exchange.broker.neighbours = Neighbours(
                    name=self.name, admits=self._admission.sends, got=self._sent_directly
                )
                self._wishes = self._now_wanted()  # also of clients that are away: others keep messages for them
                self._unwanted.add(EVERYTHING)
                self._unwanted.finish(self._wanting.anybody)  # before anybody comes back who was not waited for
                self._declare(lambda: self.registry.want(self._wishes))
                self.registry.on_edges(self._edges_listener)
                self.registry.on_routers(self._routers_listener)  # meanwhile, as it takes a few round trips
                await self._others_known.wait()  # or what waits in the log would seem to be wanted by nobody
                had = self._local.enter()
                self._receiving = Receiving(
                    self.name,
                    self._boot,
                    had,
                    self._deadlines.patience_s,
                    self._wanting.qos,
                    lambda: self._local.has_room,
                )
                self._entered = True
                self._tell_again()
                for router, (path, _) in self._paths.items():
                    if path.connected:  # since before it could take anything
                        self._say_back(router)
                await self._keep_time()
        finally:
            self._group = None
            self._entered = False
            if self._learning is not None:
                self._learning.cancel()
            self._exchange.broker.neighbours = None
            self._local.leave()

    def lasting(self) -> dict[str, Wish]:
        """What is to be kept for it while it is stopped."""
        lasting = self._local.lasting()
        return {one: wish for one, wish in self._now_wanted().items() if one in lasting}

    def statistics(self) -> dict[str, Any]:
        """What it knows, keeps and has seen."""
        return {
            "edge": self.name,
            "routers": {name: path.connected for name, (path, _) in self._paths.items()},
            "edges": {name: edge.here for name, edge in self._interest.edges.items()},
            "kept": self._sending.kept,
            "held": self._receiving.held,
            "sent_again": self._sending.sent_again,
            "filters_refused": sum(path.refused for path, _ in self._paths.values()),
            "dropped": dict(sum((path.dropped for path, _ in self._paths.values()), self._sending.dropped)),
            "received": dict(self._receiving.counts),
            "direct": {
                **self._direct.statistics(),
                "first": dict(self._receiving.races.first),
                "second": dict(self._receiving.races.second),
                "filters": len(self._deadlines),
                "not_admitted": self._deadlines.refused,
            },
            "strange": dict(self._strange.counts),
            "strange_last": dict(self._strange.last),
            **{name: told() for name, told in self.more.items()},
        }

    def present(self, edge: str) -> bool:
        """Whether an edge is here now: this one, or another that the registry knows to be connected."""
        return edge == self.name or self._interest.is_here(edge)

    def declare_endpoints(self, writers: dict[str, int], readers: dict[str, int]) -> None:
        """Tell the registry of endpoints that are no clients of the exchange, by topic; 0 where all have gone."""
        if (writers, readers) != (self._local.writers, self._local.readers):
            self._local.writers, self._local.readers = writers, readers
            self._reported_at = 0.0

    # ---- what is told by the registry

    def _edges_listener(self, changes: Changes[KnownEdge]) -> None:
        self._news.update(changes)
        if not self._others_known.is_set():
            self._learn()
            self._others_known.set()
        elif self._learning is None:
            wait_s = self._learnt_at + TOGETHER_S - monotonic()
            if wait_s <= 0:
                self._others_changed()
            else:  # many may change at once, and each look is at all of them
                self._learning = asyncio.get_running_loop().call_later(wait_s, self._others_changed)

    def _others_changed(self) -> None:
        self._learning, self._learnt_at = None, monotonic()
        self._learn()
        if self._entered and (self._retelling.asked or self._interest.altered):
            self._tell_again()
        debtors, self._owed_otherwise = self._owed_otherwise, set()
        self._do(self._sending.edges_changed(debtors, monotonic()))

    def _learn(self) -> None:
        """Take the news of other edges in."""
        for name, known in self._news.items():
            if name != self.name:
                change = self._interest.change(name, None if known is None else edge_of(known))
                self._retelling.ask(change.new)
                if change.debts:
                    self._owed_otherwise.add(name)
                if known is None:
                    self._do(self._receiving.forgotten(name))
        self._news.clear()
        if self._group is not None:
            self._direct.edges_changed(self._interest.hurrying, self._group)

    def _tell_again(self) -> None:
        """What others want, and to those who want some of it anew what is retained here."""
        self._local.want(self._interest.filters(), self._retelling.begin(monotonic()))
        if self._retelling.asked:
            self._retell_at = min(self._retell_at, monotonic() + RETELL_AFTER_S)

    def _retell_on(self, now: float) -> None:
        """What could not be told again yet, as it was being told."""
        begun = self._retelling.begin(now)
        if begun:
            self._local.want(self._interest.filters(), begun)
        self._retell_at = now + RETELL_AFTER_S if self._retelling.asked else inf

    def _routers_listener(self, changes: Changes[KnownRouter]) -> None:
        for name, known in changes.items():
            before = self._paths.get(name)
            if before is not None and (known is None or known.locator != before[0].locator):
                before[1].cancel()
                del self._paths[name]
                self._sending.dropped += before[0].dropped
                self._do(self._sending.path_down(name, monotonic()))
            if known is not None and name not in self._paths:
                self._add_path(name, known.locator)
        self._do(self._sending.routers_listener(self._paths, monotonic()))

    def _topic_node_listener(self, topic: str, assignment: Assignment | None) -> None:
        self._receiving.topic_node_listener(topic, assignment)
        self._do(self._sending.topic_node_listener(topic, assignment, monotonic()))

    def _add_path(self, router: str, locator: str) -> None:
        said: dict[str, str] = {}

        def up() -> None:
            said.clear()
            self._tell(f"router {router} at {locator}: connected")
            if not any(other.connected for name, (other, _) in self._paths.items() if name != router):
                here = [name for name, edge in self._interest.edges.items() if edge.here]
                if here:
                    self._retell(self._interest.filters(), here)  # which could not be told while there was no way
            self._do(self._sending.path_up(router, monotonic()))
            self._receiving.path_up()
            if self._entered:
                self._say_back(router)

        def down(problem: str) -> None:
            if self._paths.get(router, (None,))[0] is path:
                if problem != said.get("last"):  # once, not at every try
                    said["last"] = problem
                    self._tell(f"router {router} at {locator}: {problem}; trying again")
                self._do(self._sending.path_down(router, monotonic()))

        path = Path(
            self.name,
            locator,
            self._credentials,
            got=lambda packet: self._arrived(router, packet),
            up=up,
            down=down,
            tell=lambda line: self._tell(f"router {router} at {locator}: {line}"),
        )
        path.want(self._wishes)
        assert self._group is not None
        self._paths[router] = path, self._group.create_task(path.run())

    # ---- messages

    def _published(self, copy: Copy) -> None:
        if copy.first:
            copy = replace(copy, only=self._retelling.edges(copy.topic, self._interest.of(copy.topic)))
        self._do(self._sending.published(copy, monotonic()))
        if self._sending.full:
            self._local.hold(True)

    def _cut_off(self) -> None:
        self._tell("the session by which this edge is joined to others was ended; start the edge again")

    def _committed(self, stamp: Stamp) -> None:
        self._receiving.committed(stamp)

    def _arrived(self, router: str, packet: Publish) -> None:
        if not self._entered:  # it comes again, if it matters
            self._strange.came(EARLY)
            return
        now = monotonic()
        try:
            if packet.topic.startswith(FOR):
                self._noted(packet.payload, router, now)
                return
            stamp, properties = taken_off(packet.properties)
            topic = packet.topic
            if topic.startswith(TO):
                topic, properties = named(properties)
        except StrangeError as problem:
            self._strange.refused(problem)
            return
        properties.pop("subscription_identifier", None)
        self._do(self._receiving.arrived(topic, packet.payload, properties, stamp, router, now))

    def _sent_directly(self, origin: str, payload: bytes, properties: dict[str, Any]) -> None:
        """Another edge has sent something here; what comes of it waits until the exchange has done with its packet."""
        self._exchange.server.later(lambda: self._arrived_directly(origin, payload, properties))

    def _arrived_directly(self, origin: str, payload: bytes, properties: dict[str, Any]) -> None:
        try:
            stamp, rest = taken_off(properties)
            topic, rest = named(rest)
            if stamp.origin != origin:
                raise StampError("a message of another edge than the one that has sent it directly")
        except StampError as problem:
            self._strange.refused(problem)
            return
        rest.pop("topic_alias", None)
        if self._entered:
            self._do(self._receiving.arrived(topic, payload, rest, stamp, None, monotonic()))
        else:  # it comes again, if it matters
            self._strange.came(EARLY)

    def _noted(self, payload: bytes, router: str, now: float) -> None:
        note = read_note(payload)
        self._do(self._receiving.heard(note.edge, note.boot, now))
        for answer in note.nothing:
            self._do(self._receiving.nothing(note.edge, note.boot, answer))
        if note.back:
            self._do(self._sending.back(note.edge, now, router))
            self._retell(self._interest.wishes_of(note.edge), [note.edge])
        if note.of not in (0, self._boot):  # it means numbers of a log that was lost
            return
        self._do(self._sending.came(note.edge, note.came))
        for gap in note.missing:
            self._do(self._sending.missing(note.edge, gap, now, router))
        for refused in note.outdated:
            self._do(self._sending.outdated(note.edge, refused, now, router))

    def _retell(self, filters: Iterable[str], edges: Iterable[str]) -> None:
        """What is retained here may have been lost on its way. Several lines break and come back together."""
        self._retelling.ask(filters, frozenset(edges))
        if self._retelling.asked:
            self._retell_at = min(self._retell_at, monotonic() + RETELL_AFTER_S)

    def _say_back(self, router: str) -> None:
        """Others may have sent something that did not come, and nobody would notice on a topic that says no more."""
        note = Note(edge=self.name, boot=self._boot, back=True)
        self._do(Tell(other, note, router) for other, edge in self._interest.edges.items() if edge.here)

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            try:
                self._do_one(action)
            except Exception as bug:  # one message must not end what all others need
                self._failed(action, bug)

    def _failed(self, action: Action, bug: Exception) -> None:
        what = f"{type(bug).__name__}: {bug}"
        if self._strange.came(f"a bug: {type(bug).__name__} ({type(action).__name__})", what):
            self._tell(f"a bug, sorry: {what[:80]}")
        if isinstance(action, Deliver) and action.stamp.qos:
            # Its origin would keep it for good. Sent again it would fail again, and behind those that have come since:
            # it is counted, and settled.
            self._receiving.committed(action.stamp)

    def _do_one(self, action: Action) -> None:
        match action:
            case Forward():
                self._forward(action)
            case Direct():
                self._direct.send(action, monotonic())
            case Acknowledge():
                self._local.acknowledge(action)
            case Deliver():
                self._local.deliver(action)
            case Tell():
                self._send_note(action)
            case Watch():
                self._watch(action.topic)
            case Unwatch():
                self.registry.unwatch_topic(action.topic)

    def _watch(self, topic: str) -> None:
        try:
            self.registry.watch_topic(topic, self._topic_node_listener)
        except RegistryError as problem:  # there are too many: this one stays with the router that hashing gives it
            self._strange.came(UNWATCHED, str(problem).partition(";")[0])
            self._topic_node_listener(topic, None)

    def _forward(self, action: Forward) -> None:
        copy = action.copy
        if action.edge is not None:
            topic, properties = addressed(action.edge, copy, action.stamp)
        else:
            topic, properties = copy.topic, stamped(copy.properties, action.stamp)
        path = self._paths.get(action.router)
        if path is None:
            return
        sent = path[0].publish(topic, copy.payload, min(action.stamp.qos, 1), properties)
        if sent is Sent.TOO_LARGE and copy.qos:  # it would be next time too
            self._do(self._sending.given_up(copy.number))

    def _send_note(self, action: Tell) -> None:
        preferred = self._paths.get(action.router or "")
        paths = [one for one, _ in ([preferred] if preferred else []) + list(self._paths.values()) if one.connected]
        if paths:
            paths[0].note(action.edge, action.note.encode())

    # ---- time

    async def _keep_time(self) -> None:
        look_at = 0.0
        while True:
            now = monotonic()
            self._do(self._sending.tick(now))
            self._do(self._receiving.tick(now))
            self._local.hold(self._sending.full)
            self._unwanted.look(self._wanting.anybody)
            if now >= self._retell_at:
                self._retell_on(now)
            self._declare_wishes(now)
            self._local.ask_on()
            self._local.go_on()
            if now >= look_at:
                self._look(now)
                self._local.reserve()
                self._retelling.look(now)
                look_at = now + max(LOOK_EVERY_S, (1 + REST) * (monotonic() - now))
            await asyncio.sleep(TICK_S)

    def _look(self, now: float) -> None:
        """See what local clients want, and say so where it has changed (endpoint created or deleted)."""
        if self._local.changed != self._changed and not self._unwanted.busy:
            self._changed = self._local.changed
            wishes = self._now_wanted()
            if wishes != self._wishes:
                self._unwanted.add(self._wishes.keys() - wishes.keys())
                self._wishes = wishes
                for path, _ in self._paths.values():
                    path.want(wishes)
                self._declare_at = min(self._declare_at, now + ANSWERED_S)
                self._reported_at = 0.0
        if self._reach.look({router: path.connected for router, (path, _) in self._paths.items()}, now):
            self.registry.unreached(self._reach.unreached)
        if now >= self._reported_at + REPORT_EVERY_S:
            self._reported_at = now
            publish, subscribe, rates_hz = self._local.endpoints()
            mean_hz = sum(rates_hz.values()) / max(1, len(rates_hz))
            self._rates_hz = {name: steady(self._rates_hz.get(name), rate, mean_hz) for name, rate in rates_hz.items()}
            self._declare(lambda: self.registry.endpoints(publish, subscribe, self._rates_hz))

    def _declare_wishes(self, now: float) -> None:
        """Others are told once routers pass on what is wanted, or what they tell of it at once would be lost. Where a
        router is slow they are told all the same, and once more when it has answered."""
        waited_for = {router for router, (path, _) in self._paths.items() if path.connected and path.asking}
        for router in self._unanswered - waited_for:
            self._unanswered.discard(router)
            self._say_back(router)
        if self._declare_at < inf and (not waited_for or now >= self._declare_at):
            self._declare_at = inf
            self._unanswered |= waited_for
            self._declare(lambda: self.registry.want(self._wishes))

    def _now_wanted(self) -> dict[str, Wish]:
        self._deadlines.update(self._exchange.broker.sessions.values())
        wishes = self._local.wishes()
        self._wanting.update(wishes)
        return self._deadlines.joined(wishes)

    def _declare(self, act: Callable[[], None]) -> None:
        try:
            act()
        except RegistryError as problem:  # too much of it: what was declared before stands
            if str(problem) != self._said:
                self._said = str(problem)
                self._tell(f"other sites are not told what clients want here: {problem}")


def steady(before: float | None, now: float, mean_hz: float) -> float:
    """A topic's rate as it is told: the last one, while that errs too little to matter for what routers carry."""
    return now if before is None or abs(now - before) > NOTABLE * max(before, mean_hz) else before
