"""The origin's side of messages between sites: sends each to the router of its topic, and keeps those of QoS 1 and 2
until every edge that wants them has them.

A router remembers nothing. What it had in hand when it died is sent again through another, in order; what an edge
misses it asks for; what nobody answers for is sent again after a while. Numbers and `after` let receivers put things
in order and throw away what comes twice. No clock, no I/O.

Implements: pubsubcoord, section 2.4.3, what it leaves open: loss while a broker fails.
Differs:    acknowledgements are end to end, from edge to edge.
Symbols:    none of the paper's.
Checked by: tests/overlay/test_message_histories.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple, TypeVar

from firelane.overlay.interest import Interest
from firelane.overlay.messages.actions import Acknowledge, Action, Copy, Direct, Forward, Tell, Unwatch, Watch
from firelane.overlay.messages.keeping import FIRST_RETRY_S, Keeping, Kept
from firelane.overlay.messages.notes import AGAIN_AT_ONCE, Missing, Note, Nothing, Outdated
from firelane.overlay.messages.questions import Questions
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.owner import Assignment, owner

LOOK_EVERY_S = 0.2  # for what is to be sent again
MOST_TOPICS = 100_000  # whose last number is remembered
LOOKED_AT = 100  # messages that somebody has not got yet, to find the last that one edge has not
LONGEST_WAIT_S = 1.0  # for the route of a new topic: the registry may be away
SETTLED_S = 3.0  # after which other edges have found a router that is there (again), too; until then another is better
MOST_WAITING = 1000  # messages of QoS 0 that wait for it, of all topics
MOST_KEPT = 50_000  # from there on edges that are away no longer get the oldest: 65 535 are all that can be under way
MOST_KEPT_BYTES = 256_000_000  # of payload, likewise


class Route(NamedTuple):
    """Through which router a topic goes, under which epoch, and which of the edges that want it cannot reach it."""

    router: str | None
    epoch: int
    missed: tuple[str, ...] = ()


UNKNOWN = Route(None, 0)
Way = TypeVar("Way", str, str | None)


@dataclass(slots=True)
class _Topic:
    """What was sent of a topic of late."""

    asked_at: float  # who routes it
    known: bool = False  # who routes it, or it was waited for in vain
    router: str | None = None
    waiting: list[Copy] = field(default_factory=list)  # of QoS 0, for the route
    last: int = 0  # number of the last message of QoS 1 or 2
    kept: dict[int, Kept] = field(default_factory=dict)  # by number, the oldest first


class Sending:
    """Of one edge. Methods are told what happened and return what is to be done."""

    def __init__(self, name: str, boot: int, interest: Interest) -> None:
        self._name, self._boot, self._interest = name, boot, interest
        self._routers: frozenset[str] = frozenset()  # that live, as the registry says
        self._paths: set[str] = set()  # routers that this edge is connected to
        self._fresh: dict[str, float] = {}  # those that it has just been connected to, and when they are used
        self._assignments: dict[str, Assignment] = {}
        self._routes: dict[str, Route] = {}  # as follows from these, of topics that were sent
        self._narrowed = False  # whether they depend on what other edges cannot reach
        self._topics: dict[str, _Topic] = {}
        self._keeping = Keeping(interest)
        self._questions = Questions()
        self._unknown: dict[str, None] = {}  # topics whose route is waited for, the first asked for first
        self._waiting = 0
        self._look_at = 0.0
        self.dropped: Counter[str] = Counter()
        self.sent_again = 0

    @property
    def kept(self) -> int:
        """How many messages somebody may not have yet."""
        return len(self._keeping.messages)

    @property
    def full(self) -> bool:
        """Whether so many bytes are kept that no more are to be handed over until somebody has them."""
        return self._keeping.kept_bytes > MOST_KEPT_BYTES

    def route(self, topic: str) -> Route:
        """The router for a topic: the owner, or another one while this edge, or one that wants the topic, cannot reach
        that for long. If there is none that all of these reach, it is one that most do, and the others miss what is of
        QoS 0."""
        found = self._routes.get(topic)
        if found is None:
            assignment = self._assignments.get(topic)
            epoch = 0 if assignment is None else assignment.epoch
            unreached = self._interest.unreached_for(topic)
            usable = _missed_by_fewest(self._paths, unreached.values()) if unreached else self._paths
            chosen = owner(topic, assignment, self._routers)
            if chosen not in usable:
                chosen = owner(topic, assignment, usable)
            missed = tuple(edge for edge, routers in unreached.items() if chosen in routers)
            found = self._routes[topic] = Route(chosen, epoch, missed)
        return found

    # ---- what is known

    def routers_listener(self, routers: Collection[str], now: float) -> list[Action]:
        """Routers have come or gone."""
        if self._routers == frozenset(routers):  # their loads have changed
            return []
        self._routers = frozenset(routers)
        self._routes.clear()
        return self._moved(now)

    def topic_node_listener(self, topic: str, assignment: Assignment | None, now: float) -> list[Action]:
        """A topic was given to a router; older news than what is known is refused (Algorithm 2)."""
        known = self._assignments.get(topic)
        if assignment is None:
            if known is not None:  # its epoch still counts
                self._assignments[topic] = Assignment(router=None, epoch=known.epoch)
        elif known is None or assignment.epoch >= known.epoch:
            self._assignments[topic] = assignment
        self._routes.pop(topic, None)
        state = self._topics.get(topic)
        # What is under way on an old path arrives, or is asked for; what waits for the first goes out.
        return self._begin(topic, state, now) if state is not None and not state.known else []

    def path_up(self, router: str, now: float) -> list[Action]:
        """A router can be reached: what waits for a path goes out; what has one keeps it until others know the new."""
        if self._paths:
            self._fresh[router] = now + SETTLED_S
            return []
        self._paths.add(router)
        self._routes.clear()
        return self._moved(now)

    def path_down(self, router: str, now: float) -> list[Action]:
        """A router cannot be reached any more: what it may have lost is sent through another."""
        self._fresh.pop(router, None)
        self._paths.discard(router)
        self._routes.clear()
        if not self._paths:
            self._use(list(self._fresh))
        lost = {topic: state for topic, state in self._topics.items() if state.router == router}
        for state in lost.values():
            state.router = None
        return self._send_all(lost, now)

    def edges_changed(self, edges: Collection[str], now: float) -> list[Action]:
        """Other edges have come, gone or changed, and these want less: nothing is owed to those who want nothing."""
        if self._narrowed or self._interest.unreached:
            self._routes.clear()  # who wants a topic, or what they cannot reach, may be different
            self._narrowed = bool(self._interest.unreached)
        if not edges:
            return []
        actions = [action for edge in edges for action in self._no_longer_owed(edge)]
        return actions + self._forget_those_away(now)

    # ---- messages

    def published(self, copy: Copy, now: float) -> list[Action]:
        """A local client has published something that may be wanted elsewhere."""
        wants = self._interest.of(copy.topic)
        missing = [edge for edge, qos in wants.items() if qos] if copy.qos and copy.only is None else []
        if copy.first:  # what is retained is told to those who are away when they are back
            missing = [edge for edge in missing if self._interest.is_here(edge)]
        done: list[Action] = [Acknowledge(copy.packet_id, copy.qos)] if copy.qos and not missing else []
        if not wants:
            return done
        state = self._topics.get(copy.topic)
        if state is None:
            done += self._make_room()
            state = self._new_topic(copy.topic, now)
            done.append(Watch(copy.topic))
        if not missing:
            directly = self._directly(copy, 0, 0) if copy.only is None else []
            return done + directly + self._send_plainly(copy, state)
        router, epoch, missed = self.route(copy.topic) if state.known else UNKNOWN
        self._count_missed(copy.topic, [edge for edge in missed if not wants.get(edge)])  # others are sent it again
        for edge in self._interest.direct(copy.topic):
            done += self._directly(copy, _last_owed(state, self._keeping.lacked(edge)), copy.qos, edge)
        keeping, size_bytes = self._keeping, copy.size_bytes
        if len(keeping.messages) >= MOST_KEPT or keeping.kept_bytes + size_bytes > MOST_KEPT_BYTES:
            done += self._make_room_for_others(1, size_bytes)
        kept = Kept(copy, state.last, len(missing), size_bytes, now, now + FIRST_RETRY_S)
        keeping.keep(kept, missing)
        state.last = copy.number
        state.kept[copy.number] = kept
        state.router = router
        return done if router is None else [*done, self._forward(copy, kept, router, epoch)]

    def _directly(self, copy: Copy, after: int, qos: int, only: str | None = None) -> list[Action]:
        """Copies without a router, for edges that have a deadline; the route need not be known for that."""
        edges = [edge for edge in self._interest.direct(copy.topic) if only is None or edge == only]
        if not edges:
            return []
        epoch = self.route(copy.topic).epoch
        stamp = Stamp(self._name, self._boot, copy.number, after, epoch, qos, copy.retain, copy.first)
        return [Direct(edge, copy, stamp) for edge in edges]

    def _send_plainly(self, copy: Copy, state: _Topic) -> list[Action]:
        """A message of QoS 0 waits for nothing but the route of a new topic."""
        if not state.known:
            if self._waiting >= MOST_WAITING:
                self.dropped["no route yet"] += 1
            else:
                self._waiting += 1
                state.waiting.append(copy)
            return []
        router, epoch, missed = self.route(copy.topic)
        if router is None:
            self.dropped["no path"] += 1
            return []
        stamp = Stamp(self._name, self._boot, copy.number, 0, epoch, 0, copy.retain, copy.first)
        if copy.only is not None:
            ways = [router, *sorted(self._paths - {router})]
            edges = [edge for edge in copy.only if not self._owes(state, edge, copy.first)]
            return [Forward(self._way(ways, edge), copy, stamp, edge) for edge in edges]
        self._count_missed(copy.topic, missed)
        return [Forward(router, copy, stamp)]

    def _owes(self, state: _Topic, edge: str, first: int) -> bool:
        """Whether an edge gets this retained message anyway, with its QoS: told before that it would come twice."""
        lacked = self._keeping.lacked(edge)
        return any((one.copy.first or number) == first and number in lacked for number, one in state.kept.items())

    def _count_missed(self, topic: str, edges: Collection[str]) -> None:
        """What these get with QoS 0 does not come to them through a router; perhaps directly."""
        missed = set(edges).difference(self._interest.direct(topic)) if edges else ()
        if missed:
            self.dropped["an edge that wants it cannot reach its router"] += len(missed)

    def came(self, edge: str, numbers: Iterable[int]) -> list[Action]:
        """Another edge has these messages."""
        return [self._over(kept) for kept in self._keeping.came(edge, numbers)]

    def given_up(self, number: int) -> list[Action]:
        """A message can be sent to nobody: it is larger than routers take."""
        kept = self._keeping.messages.get(number)
        return [] if kept is None else self._drop(kept)

    def missing(self, edge: str, what: Missing, now: float, through: str | None = None) -> list[Action]:
        """Another edge has not got what was before a message: it is sent again, or there is nothing. The answer goes
        through the router that the question came by: the edge may not have found the others yet."""
        state = self._topics.get(what.topic)
        if state is None or state.last < what.before:
            return []  # started again, it has not been handed over all that it owes: asked once more, it will know
        found = self._questions.answer(what, state.kept, state.last, self._keeping.lacked(edge))
        first = found[0] if found else None
        if found:
            self._questions.asked(edge, what, now + FIRST_RETRY_S)
        actions = self._again(edge, found, now, through)
        if first is None or first.after > what.last:  # an edge that was started again does not know what it had
            before = what.before if first is None else first.copy.number
            note = Note(edge=self._name, boot=self._boot, nothing=(Nothing(topic=what.topic, before=before),))
            actions.append(Tell(edge, note, through))
        return actions

    def back(self, edge: str, now: float, through: str | None = None) -> list[Action]:
        """Another edge can be reached again: of every topic it is sent the last message that it lacks, and will ask for
        what was before."""
        newest: dict[str, Kept] = {}
        for one in reversed(self._keeping.lacked(edge).values()):
            if one.copy.topic not in newest:
                newest[one.copy.topic] = one
                one.attempts, one.retry_at = 0, now
        some = list(islice(newest.values(), AGAIN_AT_ONCE))
        for one in some:
            one.rest(now)
        return self._again(edge, some, now, through)

    def outdated(self, edge: str, what: Outdated, now: float, through: str | None = None) -> list[Action]:
        """Another edge knows of a newer epoch and has refused a message."""
        if what.topic not in self._topics:
            return []
        actions: list[Action] = []
        known = self._assignments.get(what.topic)
        if known is None or known.epoch < what.epoch:
            actions += self.topic_node_listener(what.topic, Assignment(router=what.router, epoch=what.epoch), now)
        kept = self._keeping.lacked(edge).get(what.number)
        return actions if kept is None else actions + self._again(edge, [kept], now, through)

    def tick(self, now: float) -> list[Action]:
        """Send again what edges that are there have not acknowledged for long; wait no longer for the registry."""
        actions: list[Action] = []
        settled = [router for router, at in self._fresh.items() if at <= now]
        if settled:
            self._use(settled)
            actions += self._moved(now)
        waited = takewhile(lambda one: now >= self._topics[one].asked_at + LONGEST_WAIT_S, self._unknown)
        for topic in list(waited):
            actions += self._begin(topic, self._topics[topic], now)
        if now < self._look_at:
            return actions
        self._look_at = now + LOOK_EVERY_S
        self._questions.forget(now)
        return actions + self._forget_those_away(now) + self._try_late_ones(now)

    # ---- inside

    def _use(self, routers: Iterable[str]) -> None:
        for router in routers:
            del self._fresh[router]
            self._paths.add(router)
        self._routes.clear()

    def _begin(self, topic: str, state: _Topic, now: float) -> list[Action]:
        """The route of a topic is known: what waited for it goes out."""
        state.known = True
        self._unknown.pop(topic, None)
        waiting, state.waiting = state.waiting, []
        self._waiting -= len(waiting)
        actions = [action for copy in waiting for action in self._send_plainly(copy, state)]
        return actions + self._send_all({topic: state}, now)

    def _make_room(self) -> list[Action]:
        """Forget some topics of which nothing is kept, if there are very many."""
        if len(self._topics) < MOST_TOPICS:
            return []
        idle = (name for name, one in self._topics.items() if not (one.kept or one.waiting))
        forgotten = list(islice(idle, MOST_TOPICS // 10))
        for name in forgotten:
            del self._topics[name]
            self._unknown.pop(name, None)
            self._assignments.pop(name, None)
            self._routes.pop(name, None)
        return [Unwatch(name) for name in forgotten]

    def _too_much(self, more: int = 0, more_bytes: int = 0) -> bool:
        keeping = self._keeping
        return len(keeping.messages) + more > MOST_KEPT or keeping.kept_bytes + more_bytes > MOST_KEPT_BYTES

    def _forget_those_away(self, now: float) -> list[Action]:
        """Nobody waits because an edge is away for long, or does not answer."""
        self._keeping.look(sending=bool(self._paths), full=self._too_much(1), now=now)
        return self._make_room_for_others()

    def _make_room_for_others(self, more: int = 0, more_bytes: int = 0) -> list[Action]:
        """The oldest messages that only edges that are away lack are dropped."""
        actions: list[Action] = []
        while self._too_much(more, more_bytes) and (kept := self._keeping.oldest_of_those_away()) is not None:
            self.dropped["edge away for too long"] += kept.lacking
            actions += self._drop(kept)
        return actions

    def _no_longer_owed(self, edge: str) -> list[Action]:
        """What an edge does not want any more, or is gone."""
        lacked = self._keeping.lacked(edge)
        topics = {kept.copy.topic for kept in lacked.values()}
        known = edge in self._interest.edges
        unwanted = {topic for topic in topics if not known or edge not in self._interest.of(topic)}
        numbers = [number for number, kept in lacked.items() if kept.copy.topic in unwanted] if unwanted else []
        return [self._over(kept) for kept in self._keeping.settle(edge, numbers)]

    def _new_topic(self, topic: str, now: float) -> _Topic:
        state = self._topics[topic] = _Topic(asked_at=now)
        self._unknown[topic] = None
        return state

    def _drop(self, kept: Kept) -> list[Action]:
        self._keeping.drop(kept)
        return [self._over(kept)]

    def _over(self, kept: Kept) -> Acknowledge:
        """A message is kept no longer."""
        state = self._topics.get(kept.copy.topic)
        if state is not None:
            state.kept.pop(kept.copy.number, None)
        return Acknowledge(kept.copy.packet_id, kept.copy.qos)

    def _moved(self, now: float) -> list[Action]:
        """What had no path may have one."""
        without = {
            topic: state
            for topic, state in self._topics.items()
            if state.known and state.kept and (state.router is None or state.router not in self._paths)
        }
        return self._send_all(without, now)

    def _send_all(self, topics: Mapping[str, _Topic], now: float) -> list[Action]:
        """All that is kept of these, in the order in which it was published, so that no topic waits for another's."""
        kept: list[tuple[Kept, str, int]] = []
        for topic, state in topics.items():
            state.router, epoch, _ = self.route(topic)
            if state.router is not None:
                kept += [(one, state.router, epoch) for one in state.kept.values()]
        actions: list[Action] = []
        for one, router, epoch in sorted(kept, key=lambda each: each[0].copy.number):
            one.rest(now)
            actions += self._once_more(one, router, epoch, now)
        return actions

    def _try_late_ones(self, now: float) -> list[Action]:
        """One attempt for each message that is due, to all edges that lack it and are there; some for each edge."""
        late: dict[int, list[str]] = {}
        for edge in filter(self._interest.is_here, self._keeping.edges):
            due = self._questions.due(edge, self._keeping.lacked(edge), now)
            for number in islice(due, AGAIN_AT_ONCE):
                late.setdefault(number, []).append(edge)
        return [action for one in sorted(late) for action in self._attempt(self._keeping.messages[one], late[one], now)]

    def _again(self, edge: str, some: Iterable[Kept], now: float, through: str | None) -> list[Action]:
        """To one edge that has said something, through the router that it was said by."""
        reached = through is not None and (through in self._paths or through in self._fresh)
        return [action for kept in some for action in self._attempt(kept, [edge], now, through if reached else None)]

    def _attempt(self, kept: Kept, edges: list[str], now: float, through: str | None = None) -> list[Action]:
        """To some edges, through a router by which they can be reached, else through another than the last time."""
        router, epoch, _ = self.route(kept.copy.topic)
        if router is None:
            hurried = self._interest.direct(kept.copy.topic)
            edges = [edge for edge in edges if edge in hurried]
            if not edges:
                return []
        ways: list[str | None] = [through]
        if through is None:
            kept.attempts += 1
            ways = [None] if router is None else [router, *sorted(self._paths - {router})]
            first = kept.attempts % len(ways)
            ways = ways[first:] + ways[:first]
            kept.rest(now)
        return [action for edge in edges for action in self._once_more(kept, self._way(ways, edge), epoch, now, edge)]

    def _way(self, ways: Sequence[Way], edge: str) -> Way:
        """The first by which an edge can be reached."""
        unreached = self._interest.unreached.get(edge, ())
        return next((one for one in ways if one not in unreached), ways[0])

    def _once_more(
        self, kept: Kept, router: str | None, epoch: int, now: float, edge: str | None = None
    ) -> list[Action]:
        if kept.copy.number not in self._keeping.messages:  # over meanwhile
            return []
        copy = kept.left(now)
        if copy is None:
            self.dropped["expired"] += 1
            return self._drop(kept)
        self.sent_again += 1
        directly = [] if edge is None else self._directly(copy, kept.after, copy.qos, edge)
        return directly if router is None else [*directly, self._forward(copy, kept, router, epoch, edge)]

    def _forward(self, copy: Copy, kept: Kept, router: str, epoch: int, edge: str | None = None) -> Forward:
        stamp = Stamp(self._name, self._boot, copy.number, kept.after, epoch, copy.qos, copy.retain, copy.first)
        return Forward(router, copy, stamp, edge)


def _missed_by_fewest(routers: Collection[str], unreached: Collection[frozenset[str]]) -> Collection[str]:
    counts = {router: sum(router in one for one in unreached) for router in routers}
    fewest = min(counts.values(), default=0)
    return [router for router, count in counts.items() if count == fewest]


def _last_owed(state: _Topic, lacked: dict[int, Kept]) -> int:
    """The last message of a topic that an edge has not acknowledged: what is sent directly need wait for no other.

    Among very many the one before is named instead, which the edge asks for if it lacks it.
    """
    newest = islice(reversed(state.kept), LOOKED_AT)
    found = next((number for number in newest if number in lacked), 0)
    return found if found or len(state.kept) <= LOOKED_AT else state.last
