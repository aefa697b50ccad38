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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf

from firelane.overlay.actions import Acknowledge, Action, Copy, Direct, Forward, Tell, Unwatch, Watch
from firelane.overlay.interest import Interest
from firelane.overlay.notes import AGAIN_AT_ONCE, Missing, Note, Nothing, Outdated
from firelane.overlay.owner import Assignment, owner
from firelane.overlay.stamp import Stamp

FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 10.0
LOOK_EVERY_S = 0.2  # for what is to be sent again
MOST_TOPICS = 100_000  # whose last number is remembered
LOOKED_AT = 100  # messages that somebody has not got yet, to find the last that one edge has not
LONGEST_WAIT_S = 1.0  # for the route of a new topic: the registry may be away
EXPIRY = "message_expiry_interval"
SETTLED_S = 3.0  # after which other edges have found a router that is there (again), too; until then another is better
MOST_WAITING = 1000  # messages of QoS 0 that wait for it, of all topics
MOST_KEPT = 50_000  # from there on edges that are away no longer get the oldest: 65 535 are all that can be under way
AWAY_LOOKED_AT = 100  # messages, at each new one, to find the oldest that only they lack


@dataclass(slots=True)
class _Kept:
    """A message that somebody may not have yet."""

    copy: Copy
    after: int
    missing: set[str]
    since: float
    retry_s: float = FIRST_RETRY_S
    retry_at: float = 0.0

    def left(self, now: float) -> Copy | None:
        """The message with what is left of its time, as MQTT says; None if that is over."""
        expiry_s = self.copy.properties.get(EXPIRY)
        if expiry_s is None:
            return self.copy
        left_s = expiry_s - int(now - self.since)
        return replace(self.copy, properties={**self.copy.properties, EXPIRY: left_s}) if left_s > 0 else None


@dataclass(slots=True)
class _Topic:
    """What was sent of a topic of late."""

    asked_at: float  # who routes it
    known: bool = False  # who routes it, or it was waited for in vain
    router: str | None = None
    waiting: list[Copy] = field(default_factory=list)  # of QoS 0, for the route
    last: int = 0  # number of the last message of QoS 1 or 2
    kept: dict[int, _Kept] = field(default_factory=dict)  # by number, the oldest first


class Sending:
    """Of one edge. Methods are told what happened and return what is to be done."""

    def __init__(self, name: str, boot: int, interest: Interest) -> None:
        self._name, self._boot, self._interest = name, boot, interest
        self._routers: frozenset[str] = frozenset()  # that live, as the registry says
        self._paths: set[str] = set()  # routers that this edge is connected to
        self._fresh: dict[str, float] = {}  # those that it has just been connected to, and when they are used
        self._assignments: dict[str, Assignment] = {}
        self._topics: dict[str, _Topic] = {}
        self._kept: dict[int, _Kept] = {}  # all, by number
        self._unknown: dict[str, None] = {}  # topics whose route is waited for
        self._waiting = 0
        self._look_at = 0.0
        self.dropped: Counter[str] = Counter()
        self.sent_again = 0

    @property
    def kept(self) -> int:
        """How many messages somebody may not have yet."""
        return len(self._kept)

    def route(self, topic: str) -> tuple[str | None, int]:
        """The router for a topic and its epoch: the owner, or while that cannot be reached another one."""
        assignment = self._assignments.get(topic)
        epoch = 0 if assignment is None else assignment.epoch
        chosen = owner(topic, assignment, self._routers)
        if chosen not in self._paths:
            chosen = owner(topic, assignment, self._paths)
        return chosen, epoch

    # ---- what is known

    def routers_listener(self, routers: Collection[str], now: float) -> list[Action]:
        """Routers have come or gone."""
        self._routers = frozenset(routers)
        return self._moved(now)

    def topic_node_listener(self, topic: str, assignment: Assignment | None, now: float) -> list[Action]:
        """A topic was given to a router; older news than what is known is refused (Algorithm 2)."""
        known = self._assignments.get(topic)
        if assignment is None:
            if known is not None:  # its epoch still counts
                self._assignments[topic] = Assignment(router=None, epoch=known.epoch)
        elif known is None or assignment.epoch >= known.epoch:
            self._assignments[topic] = assignment
        state = self._topics.get(topic)
        # What is under way on an old path arrives, or is asked for; what waits for the first goes out.
        return self._begin(topic, state, now) if state is not None and not state.known else []

    def path_up(self, router: str, now: float) -> list[Action]:
        """A router can be reached: what waits for a path goes out; what has one keeps it until others know the new."""
        if self._paths:
            self._fresh[router] = now + SETTLED_S
            return []
        self._paths.add(router)
        return self._moved(now)

    def path_down(self, router: str, now: float) -> list[Action]:
        """A router cannot be reached any more: what it may have lost is sent through another."""
        self._fresh.pop(router, None)
        self._paths.discard(router)
        if not self._paths:
            self._use(list(self._fresh))
        lost = {topic: state for topic, state in self._topics.items() if state.router == router}
        for state in lost.values():
            state.router = None
        return self._send_all(lost, now)

    def edges_changed(self, now: float) -> list[Action]:
        """Other edges have come, gone or changed: nothing is owed to those who want nothing."""
        actions: list[Action] = []
        for number, kept in list(self._kept.items()):
            wants = self._interest.of(kept.copy.topic)
            kept.missing = {edge for edge in kept.missing if edge in self._interest.edges and edge in wants}
            if not kept.missing:
                actions += self._done(number, kept)
            elif kept.retry_at == inf and self._somebody_here(kept):
                kept.retry_at = now
        return actions

    # ---- messages

    def published(self, copy: Copy, now: float) -> list[Action]:
        """A local client has published something that may be wanted elsewhere."""
        wants = self._interest.of(copy.topic)
        missing = {edge for edge, qos in wants.items() if qos} if copy.qos else set()
        done: list[Action] = [Acknowledge(copy.packet_id, copy.qos)] if copy.qos and not missing else []
        if not wants:
            return done
        state = self._topics.get(copy.topic)
        if state is None:
            done += self._make_room()
            state = self._new_topic(copy.topic, now)
            done.append(Watch(copy.topic))
        if not missing:
            return done + self._directly(copy, 0, 0) + self._send_plainly(copy, state)
        router, epoch = self.route(copy.topic) if state.known else (None, 0)
        for edge in self._interest.direct(copy.topic):
            done += self._directly(copy, _owed(state, edge), copy.qos, edge)
        if len(self._kept) >= MOST_KEPT:
            done += self._forget_those_away()
        kept = _Kept(copy, state.last, missing, now, retry_at=now + FIRST_RETRY_S)
        state.last = copy.number
        state.kept[copy.number] = self._kept[copy.number] = kept
        state.router = router
        return done if router is None else [*done, self._forward(copy, kept, router, epoch)]

    def _directly(self, copy: Copy, after: int, qos: int, only: str | None = None) -> list[Action]:
        """Copies without a router, for edges that have a deadline; the route need not be known for that."""
        edges = [edge for edge in self._interest.direct(copy.topic) if only is None or edge == only]
        if not edges:
            return []
        stamp = Stamp(self._name, self._boot, copy.number, after, self.route(copy.topic)[1], qos, copy.retain)
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
        router, epoch = self.route(copy.topic)
        if router is None:
            self.dropped["no path"] += 1
            return []
        return [Forward(router, copy, Stamp(self._name, self._boot, copy.number, 0, epoch, 0, copy.retain))]

    def came(self, edge: str, numbers: Iterable[int]) -> list[Action]:
        """Another edge has these messages."""
        actions: list[Action] = []
        for number in numbers:
            kept = self._kept.get(number)
            if kept is not None:
                kept.missing.discard(edge)
                if not kept.missing:
                    actions += self._done(number, kept)
        return actions

    def given_up(self, number: int) -> list[Action]:
        """A message can be sent to nobody: it is larger than routers take."""
        kept = self._kept.get(number)
        return [] if kept is None else self._done(number, kept)

    def missing(self, edge: str, what: Missing, now: float, through: str | None = None) -> list[Action]:
        """Another edge has not got what was before a message: it is sent again, or there is nothing. The answer goes
        through the router that the question came by: the edge may not have found the others yet."""
        state = self._topics.get(what.topic)
        if state is None or state.last < what.before:
            return []  # started again, it has not been handed over all that it owes: asked once more, it will know
        found = [one for number, one in state.kept.items() if what.last < number < what.before and edge in one.missing]
        first = found[0] if found else None
        for one in found:  # the edge asks for more of it by itself
            one.retry_at = max(one.retry_at, now + FIRST_RETRY_S)
        actions = self._again(edge, found[:AGAIN_AT_ONCE], now, through)
        if first is None or first.after > what.last:  # an edge that was started again does not know what it had
            before = what.before if first is None else first.copy.number
            note = Note(edge=self._name, boot=self._boot, nothing=(Nothing(topic=what.topic, before=before),))
            actions.append(Tell(edge, note, through))
        return actions

    def back(self, edge: str, now: float, through: str | None = None) -> list[Action]:
        """Another edge can be reached again: of every topic it is sent the last message that it lacks, and will ask for
        what was before."""
        newest: dict[str, _Kept] = {}
        for one in reversed(self._kept.values()):
            if edge in one.missing and one.copy.topic not in newest:
                newest[one.copy.topic] = one
                one.retry_s, one.retry_at = FIRST_RETRY_S, now
        return self._again(edge, islice(newest.values(), AGAIN_AT_ONCE), now, through)

    def outdated(self, edge: str, what: Outdated, now: float, through: str | None = None) -> list[Action]:
        """Another edge knows of a newer epoch and has refused a message."""
        known = self._assignments.get(what.topic)
        if known is None or known.epoch < what.epoch:
            self.topic_node_listener(what.topic, Assignment(router=what.router, epoch=what.epoch), now)
        kept = self._kept.get(what.number)
        return [] if kept is None or edge not in kept.missing else self._again(edge, [kept], now, through)

    def tick(self, now: float) -> list[Action]:
        """Send again what edges that are there have not acknowledged for long; wait no longer for the registry."""
        actions: list[Action] = []
        settled = [router for router, at in self._fresh.items() if at <= now]
        if settled:
            self._use(settled)
            actions += self._moved(now)
        for topic in list(self._unknown):
            state = self._topics.get(topic)
            if state is None or state.known:
                del self._unknown[topic]
            elif now >= state.asked_at + LONGEST_WAIT_S:
                actions += self._begin(topic, state, now)
        if now < self._look_at:
            return actions
        self._look_at = now + LOOK_EVERY_S
        late: dict[str, list[_Kept]] = {}
        for kept in self._kept.values():
            if kept.retry_at > now:
                continue
            if not self._somebody_here(kept):
                kept.retry_at = inf  # until somebody comes
                continue
            for edge in kept.missing:
                some = late.setdefault(edge, [])
                if self._interest.is_here(edge) and len(some) < AGAIN_AT_ONCE:
                    some.append(kept)
        for edge, some in late.items():
            actions += self._again(edge, some, now)
        return actions

    # ---- inside

    def _use(self, routers: Iterable[str]) -> None:
        for router in routers:
            del self._fresh[router]
            self._paths.add(router)

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
            self._assignments.pop(name, None)
        return [Unwatch(name) for name in forgotten]

    def _somebody_here(self, kept: _Kept) -> bool:
        """Whether an edge lacks it that is there."""
        return any(map(self._interest.is_here, kept.missing))

    def _forget_those_away(self) -> list[Action]:
        """Nobody waits because an edge is away for long: the oldest messages that only such edges lack are dropped."""
        actions: list[Action] = []
        for number, kept in list(islice(self._kept.items(), AWAY_LOOKED_AT)):
            if len(self._kept) < MOST_KEPT:
                break
            if not self._somebody_here(kept):
                self.dropped["edge away for too long"] += len(kept.missing)
                actions += self._done(number, kept)
        return actions

    def _new_topic(self, topic: str, now: float) -> _Topic:
        state = self._topics[topic] = _Topic(asked_at=now)
        self._unknown[topic] = None
        return state

    def _done(self, number: int, kept: _Kept) -> list[Action]:
        del self._kept[number]
        state = self._topics.get(kept.copy.topic)
        if state is not None:
            state.kept.pop(number, None)
        return [Acknowledge(kept.copy.packet_id, kept.copy.qos)]

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
        kept: list[tuple[_Kept, str, int]] = []
        for topic, state in topics.items():
            state.router, epoch = self.route(topic)
            if state.router is not None:
                kept += [(one, state.router, epoch) for one in state.kept.values()]
        actions: list[Action] = []
        for one, router, epoch in sorted(kept, key=lambda each: each[0].copy.number):
            one.retry_at = now + one.retry_s
            actions += self._once_more(one, router, epoch, now)
        return actions

    def _again(self, edge: str, some: Iterable[_Kept], now: float, through: str | None = None) -> list[Action]:
        """To one edge, through a router by which it can be reached, else the owner and then one after the other."""
        actions: list[Action] = []
        for kept in some:
            router, epoch = self.route(kept.copy.topic)
            if router is None and edge not in self._interest.direct(kept.copy.topic):
                continue
            turns = round(kept.retry_s / FIRST_RETRY_S).bit_length() - 1
            kept.retry_s = min(2 * kept.retry_s, LONGEST_RETRY_S)
            kept.retry_at = now + kept.retry_s
            paths = [None] if router is None else [router, *sorted(self._paths - {router})]
            reached = through is not None and (through in self._paths or through in self._fresh)
            chosen = through if reached else paths[turns % len(paths)]
            actions += self._once_more(kept, chosen, epoch, now, edge)
        return actions

    def _once_more(
        self, kept: _Kept, router: str | None, epoch: int, now: float, edge: str | None = None
    ) -> list[Action]:
        if kept.copy.number not in self._kept:  # over meanwhile
            return []
        copy = kept.left(now)
        if copy is None:
            self.dropped["expired"] += 1
            return self._done(kept.copy.number, kept)
        self.sent_again += 1
        directly = [] if edge is None else self._directly(copy, kept.after, copy.qos, edge)
        return directly if router is None else [*directly, self._forward(copy, kept, router, epoch, edge)]

    def _forward(self, copy: Copy, kept: _Kept, router: str, epoch: int, edge: str | None = None) -> Forward:
        stamp = Stamp(self._name, self._boot, copy.number, kept.after, epoch, copy.qos, copy.retain)
        return Forward(router, copy, stamp, edge)


def _owed(state: _Topic, edge: str) -> int:
    """The last message of a topic that an edge has not acknowledged: what is sent directly need wait for no other.

    Among very many the one before is named instead, which the edge asks for if it lacks it.
    """
    newest = islice(reversed(state.kept.items()), LOOKED_AT)
    found = next((number for number, kept in newest if edge in kept.missing), 0)
    return found if found or len(state.kept) <= LOOKED_AT else state.last
