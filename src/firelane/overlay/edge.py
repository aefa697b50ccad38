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
from collections import Counter
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from firelane.exchange.neighbours import Neighbours
from firelane.exchange.run import Exchange
from firelane.mqtt.packets import Publish
from firelane.overlay.actions import Acknowledge, Action, Copy, Deliver, Direct, Forward, Tell, Unwatch, Watch
from firelane.overlay.addressing import addressed, named
from firelane.overlay.deadlines import Admission, Deadlines
from firelane.overlay.direct import Directly
from firelane.overlay.interest import Interest, Wish, edge_of
from firelane.overlay.local import Local
from firelane.overlay.notes import FOR, TO, Note, NoteError, read_note
from firelane.overlay.owner import Assignment
from firelane.overlay.path import Credentials, Path, Sent
from firelane.overlay.receiving import Receiving
from firelane.overlay.registry import KnownEdge, KnownRouter, Registry, RegistryError, Wanted
from firelane.overlay.registry.feed import Changes
from firelane.overlay.sending import Sending
from firelane.overlay.stamp import StampError, stamped, taken_off

TICK_S = 0.02
LOOK_EVERY_S = 0.1  # at local subscriptions
TOGETHER_S = 0.05  # news of other edges that come within this are looked at together
REPORT_EVERY_S = 1.0  # topics and their rates
NOTABLE = 0.05  # change of a rate, to be told: of itself, or of what topics have here on average if that is more
LARGEST_BOOT = 2**63 - 1
EARLY = "a message that came while this edge was starting or ending"


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
        self._boot = exchange.broker.boot & LARGEST_BOOT
        self._interest = Interest()
        self._exchange, self._entered = exchange, False
        self._admission = Admission(exchange.broker.settings)
        self._deadlines = Deadlines(self._admission)
        self._direct = Directly(name, exchange.broker.settings.overlay.direct, self._credentials, tell)
        self._local = Local(exchange, got=self._published, safe=self._committed, over=self._cut_off)
        self._sending = Sending(name, self._boot, self._interest)
        self._receiving = Receiving(name, self._boot)
        self._paths: dict[str, tuple[Path, asyncio.Task[None]]] = {}
        self._wishes: dict[str, Wish] = {}
        self._changed = -1
        self._reported_at = 0.0
        self._rates_hz: dict[str, float] = {}
        self._others_known = asyncio.Event()
        self._news: dict[str, KnownEdge | None] = {}  # of other edges, not yet looked at
        self._learning: asyncio.TimerHandle | None = None
        self._learnt_at = 0.0
        self._group: asyncio.TaskGroup | None = None
        self._strange: Counter[str] = Counter()
        self._said = ""
        self.more: dict[str, Callable[[], dict[str, Any]]] = {}  # of whom else to tell in `statistics`

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self.registry.announce_edge(self.name, self._boot, self._locator)
                self._exchange.broker.neighbours = Neighbours(
                    name=self.name, admits=self._admission.sends, got=self._sent_directly
                )
                self._wishes = self._now_wanted()  # also of clients that are away: others keep messages for them
                self._declare(lambda: self.registry.want({one: _wanted(wish) for one, wish in self._wishes.items()}))
                self.registry.on_edges(self._edges_listener)
                self.registry.on_routers(self._routers_listener)  # meanwhile, as it takes a few round trips
                await self._others_known.wait()  # or what waits in the log would seem to be wanted by nobody
                had = self._local.enter()
                self._receiving = Receiving(self.name, self._boot, had, self._deadlines.patience_s)
                self._entered = True
                self._local.want(self._interest.filters(), set())
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

    @property
    def keeps(self) -> bool:
        """Whether messages are to be kept for it while it is away."""
        return any(wish.keeps for wish in self._wishes.values())

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
            "strange": dict(self._strange),
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
        new = self._learn()
        self._local.want(self._interest.filters(), new)
        self._do(self._sending.edges_changed(monotonic()))

    def _learn(self) -> set[str]:
        """Take the news of other edges in; returns what is wanted anew."""
        new: set[str] = set()
        for name, known in self._news.items():
            if name != self.name:
                new |= self._interest.change(name, None if known is None else edge_of(known))
        self._news.clear()
        if self._group is not None:
            self._direct.edges_changed(self._interest.hurrying, self._group)
        return new

    def _routers_listener(self, changes: Changes[KnownRouter]) -> None:
        for name, known in changes.items():
            before = self._paths.get(name)
            if before is not None and (known is None or known.locator != before[0].locator):
                before[1].cancel()
                del self._paths[name]
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
        self._do(self._sending.published(copy, monotonic()))

    def _cut_off(self) -> None:
        self._tell("the session by which this edge is joined to others was ended; start the edge again")

    def _committed(self, origin: str, number: int) -> None:
        self._receiving.committed(origin, number)

    def _arrived(self, router: str, packet: Publish) -> None:
        if not self._entered:  # it comes again, if it matters
            self._strange[EARLY] += 1
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
        except (NoteError, StampError) as problem:
            self._strange[str(problem)[:80]] += 1
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
            self._strange[str(problem)[:80]] += 1
            return
        rest.pop("topic_alias", None)
        if self._entered:
            self._do(self._receiving.arrived(topic, payload, rest, stamp, None, monotonic()))
        else:  # it comes again, if it matters
            self._strange[EARLY] += 1

    def _noted(self, payload: bytes, router: str, now: float) -> None:
        note = read_note(payload)
        self._do(self._sending.came(note.edge, note.came))
        for gap in note.missing:
            self._do(self._sending.missing(note.edge, gap, now, router))
        if note.back:
            self._do(self._sending.back(note.edge, now, router))
        for refused in note.outdated:
            self._do(self._sending.outdated(note.edge, refused, now, router))
        for answer in note.nothing:
            self._do(self._receiving.nothing(note.edge, answer))

    def _say_back(self, router: str) -> None:
        """Others may have sent something that did not come, and nobody would notice on a topic that says no more."""
        note = Note(edge=self.name, boot=self._boot, back=True)
        self._do(Tell(other, note, router) for other, edge in self._interest.edges.items() if edge.here)

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            try:
                self._do_one(action)
            except Exception as bug:  # one message must not end what all others need
                what = f"{type(bug).__name__}: {bug}"[:80]
                self._strange[what] += 1
                if self._strange[what] == 1:
                    self._tell(f"a bug, sorry: {what}")

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
            self._strange[str(problem).partition(";")[0][:80]] += 1
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
            paths[0].publish(f"{FOR}{action.edge}", action.note.encode(), 0, {})

    # ---- time

    async def _keep_time(self) -> None:
        look_at = 0.0
        while True:
            now = monotonic()
            self._do(self._sending.tick(now))
            self._do(self._receiving.tick(now))
            if now >= look_at:
                look_at = now + LOOK_EVERY_S
                self._look(now)
            await asyncio.sleep(TICK_S)

    def _look(self, now: float) -> None:
        """See what local clients want, and say so where it has changed (endpoint created or deleted)."""
        if self._local.changed != self._changed:
            self._changed = self._local.changed
            wishes = self._now_wanted()
            if wishes != self._wishes:
                self._wishes = wishes
                self._declare(lambda: self.registry.want({one: _wanted(wish) for one, wish in wishes.items()}))
                for path, _ in self._paths.values():
                    path.want(wishes)
                self._reported_at = 0.0
        if now >= self._reported_at + REPORT_EVERY_S:
            self._reported_at = now
            publish, subscribe, rates_hz = self._local.endpoints()
            mean_hz = sum(rates_hz.values()) / max(1, len(rates_hz))
            self._rates_hz = {name: steady(self._rates_hz.get(name), rate, mean_hz) for name, rate in rates_hz.items()}
            self._declare(lambda: self.registry.endpoints(publish, subscribe, self._rates_hz))

    def _now_wanted(self) -> dict[str, Wish]:
        self._deadlines.update(self._exchange.broker.sessions.values())
        return self._deadlines.joined(self._local.wishes())

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


def _wanted(wish: Wish) -> Wanted:
    need = dict(wish.need) if wish.need else None
    return Wanted(qos=wish.qos, keeps=wish.keeps, need=need, deadline_s=wish.deadline_s)
