"""The receiver's side of messages between sites: each is delivered here once, in the order of its topic, and then
acknowledged to the edge that it came from.

A message says which one was before it. If that has not come, it waits a moment for it, and then the origin is asked; at
once, if this edge has just been started or found a router, as then it is hardly on its way.
What was sent under an older epoch than was seen here is refused. QoS 0 is not waited for: what comes too late is
discarded. So it is with all of a topic that nobody here wants with more, whatever others want: of it only second copies
are acknowledged, as an origin that has not heard of that yet may send it again.

Numbers of an origin grow as long as its log lasts (firelane.exchange.journal.numbering); where that was lost, its
messages have another boot, and all that is known of its numbers begins anew. So under one boot what has too low a
number has come before, whatever clocks say, and of a log that was lost nothing is sent again.

A topic with a deadline comes by two ways, through a router and directly; the first copy wins. There a gap is waited for
no longer than the deadline: what comes after that is discarded, counted, and acknowledged. After a start, what was kept
for this edge meanwhile is waited for first. No clock, no I/O.

Implements: pubsubcoord, section 2.4.2, the receiving end of two paths.
Differs:    what the paper leaves to DDS: copies are recognised by their numbers, order is kept, and late ones counted.
Symbols:    none of the paper's.
Checked by: tests/overlay/test_message_histories.py, tests/overlay/test_deadlines.py, tests/overlay/test_boots.py
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from typing import Any

from firelane.overlay.messages.actions import Action, Deliver, Tell
from firelane.overlay.messages.notes import AGAIN_AT_ONCE, MOST_NUMBERS, Missing, Note, Nothing, Outdated
from firelane.overlay.messages.races import Races, way
from firelane.overlay.messages.sender import Sender
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.owner import Assignment

ASK_AFTER_S = 0.2  # a gap
ASK_AGAIN_S = 1.0
# Messages that wait for others before them; beyond that they are not taken, and come again.
MOST_HELD, MOST_HELD_BYTES = 10_000, 64_000_000
MOST_CHAINS = 200_000  # pairs of origin and topic that are remembered
LOOKED_AT = 8  # of these, to find some that are idle, when another one comes
MOST_SKIPPED = 16  # gaps of a chain that were given up and are remembered

Chain = tuple[str, str]  # origin and topic


@dataclass(slots=True)
class _Chain:
    """What came of one topic from one origin under one boot."""

    boot: int
    last: int = 0  # of QoS 1 and 2
    last_plain: int = 0  # of QoS 0
    held: dict[int, Deliver] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)  # their numbers, a heap
    ask_at: float = 0.0
    since_asked: int = 0  # messages that have come in order
    asked: int = 0  # before which message something was missing when that was last asked for
    skipped: tuple[tuple[int, int], ...] = ()  # gaps that were given up: what is between comes too late
    caught_up: bool = False  # whether all that had been kept for this edge before it started has come
    paths_found: int = 0  # when something last came in order

    @property
    def answered(self) -> bool:
        """Whether all has come that was sent again for the last question: the gap is filled, or it was that much."""
        return 0 < self.asked <= self.last or self.since_asked >= AGAIN_AT_ONCE


_NOTHING = _Chain(0)


class Receiving:
    """Of one edge. Methods are told what happened and return what is to be done."""

    def __init__(
        self,
        name: str,
        boot: int,
        had: Mapping[Chain, tuple[int, int]] | None = None,
        patience_s: Callable[[str], float | None] = lambda topic: None,
        wanted_qos: Callable[[str], int] = lambda topic: 2,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`had` are the last numbers of QoS 2 that are known from before, with their boots; `patience_s` is how long a
        gap on a topic may be waited for, None if it has no deadline; `wanted_qos` is the highest QoS that somebody here
        asks for; without `has_room` nothing is taken that is to be kept, and comes again."""
        self._name, self._boot = name, boot
        self._chains = OrderedDict((key, _Chain(boot, last)) for key, (last, boot) in (had or {}).items())
        self._epochs: OrderedDict[str, Assignment] = OrderedDict()
        self._senders: dict[str, Sender] = {}
        self._gaps: dict[Chain, None] = {}
        self._held = self._held_bytes = 0
        self._paths_found = 1
        self._patience_s, self._wanted_qos, self._has_room = patience_s, wanted_qos, has_room
        self._due: dict[Chain, dict[int, float]] = {}  # until when what is held waits for what is before it
        self.counts: Counter[str] = Counter()
        self.races = Races()

    @property
    def held(self) -> int:
        """How many messages wait for others before them."""
        return self._held

    def topic_node_listener(self, topic: str, assignment: Assignment | None) -> None:
        """The registry says who routes a topic since when."""
        if assignment is not None and assignment.epoch > self._epoch(topic):
            self._know(topic, assignment)

    def path_up(self) -> None:
        """A router can be reached (again): what was sent meanwhile is missing, not late."""
        self._paths_found += 1

    def arrived(
        self, topic: str, payload: bytes, properties: dict[str, Any], stamp: Stamp, router: str | None, now: float
    ) -> list[Action]:
        """A message has come from another site; by no router if its origin has sent it directly."""
        if stamp.origin == self._name:
            self.counts["own"] += 1
            return []
        sender = self._senders.get(stamp.origin)
        if sender is None:
            sender = self._senders[stamp.origin] = Sender(stamp.boot, now)
        if stamp.boot == sender.boot:
            sender.heard_at = now
        elif sender.has_turned(stamp.boot, now):
            turned = self._turn(stamp.origin, sender, stamp.boot, now)
            return [*turned, *self.arrived(topic, payload, properties, stamp, router, now)]
        if router is not None:
            sender.router = router
        known = self._epochs.get(topic)
        if known is not None and stamp.epoch < known.epoch:
            return self._refuse(topic, sender, stamp, known)
        if known is None or stamp.epoch > known.epoch or (known.router is None and router is not None):
            self._know(topic, Assignment(router=router, epoch=stamp.epoch))
        chain = self._chain((stamp.origin, topic), stamp.boot)
        if chain.boot != stamp.boot:
            if sender.is_later(chain.boot, stamp.boot):
                self.counts["superseded"] += 1
                return []
            chain = self._chains[stamp.origin, topic] = _Chain(stamp.boot)
        seen = self._raced(topic, stamp, router)
        deliver = Deliver(topic, payload, properties, stamp)
        if not stamp.qos:
            if stamp.number <= max(chain.last_plain, chain.last):
                self.counts["again" if seen or stamp.number == chain.last_plain else "superseded"] += 1
                return []
            if stamp.retain and not self._has_room():
                return self._no_room(stamp)
            chain.last_plain = stamp.number
            return [deliver]
        if stamp.number > chain.last and not self._has_room():
            return self._no_room(stamp)
        if not self._wanted_qos(topic):
            return self._plainly(chain, sender, deliver, seen)
        if stamp.number <= chain.last:
            late = not seen and any(last < stamp.number < next_one for last, next_one in chain.skipped)
            self.counts["superseded" if late else "again"] += 1
            self._acknowledge(sender, stamp)
            return []
        if stamp.after > chain.last and stamp.boot == sender.boot:  # else nobody could send what is missing
            self._hold(chain, deliver, now)
            return []
        return self._in_order(chain, sender, deliver)

    def heard(self, origin: str, boot: int, now: float) -> list[Action]:
        """Another site says something, which may be that it has begun anew."""
        sender = self._senders.get(origin)
        if sender is None:
            return []
        if boot == sender.boot:
            sender.heard_at = now
        elif sender.has_turned(boot, now):
            return self._turn(origin, sender, boot, now)
        return []

    def forgotten(self, origin: str) -> list[Action]:
        """Of another site nothing comes any more that is missing: what waits for it is delivered without."""
        gaps = [one for one in self._gaps if one[0] == origin]
        return [action for key in gaps for action in self._let_go(key)]

    def nothing(self, origin: str, boot: int, what: Nothing) -> list[Action]:
        """Of what was missing before a message there is nothing for this edge."""
        chain = self._chains.get((origin, what.topic))
        if chain is None or chain.boot != boot or not chain.held or what.before > chain.order[0]:
            return []
        chain.last = max(chain.last, what.before - 1)
        released = self._released(chain, self._senders[origin])
        chain.caught_up = chain.caught_up or not chain.held
        return released

    def committed(self, stamp: Stamp) -> None:
        """A message is safe here: its origin need not keep it for this edge."""
        sender = self._senders.get(stamp.origin)
        if sender is not None and sender.boot == stamp.boot:
            sender.unsafe.discard(stamp.number)
            sender.safe.append(stamp.number)

    def tick(self, now: float) -> list[Action]:
        """Acknowledge what is safe, ask for what is missing, and wait no longer than a deadline."""
        given_up = self._give_up(now)
        notes: list[Action] = [
            self._tell(origin, came=tuple(sender.safe[first : first + MOST_NUMBERS]))
            for origin, sender in self._senders.items()
            for first in range(0, len(sender.safe), MOST_NUMBERS)
        ]
        for sender in self._senders.values():
            sender.safe.clear()
        for key in list(self._gaps):
            chain = self._chains.get(key)
            if chain is None or not chain.held:
                del self._gaps[key]
            elif not self._wanted_qos(key[1]):
                given_up += self._let_go(key)
            elif chain.ask_at <= now or chain.answered:
                chain.ask_at, chain.since_asked, chain.asked = now + ASK_AGAIN_S, 0, chain.order[0]
                gap = Missing(topic=key[1], last=chain.last, before=chain.asked)
                notes.append(self._tell(key[0], missing=(gap,)))
        return given_up + notes

    # ---- inside

    def _epoch(self, topic: str) -> int:
        known = self._epochs.get(topic)
        return -1 if known is None else known.epoch

    def _know(self, topic: str, assignment: Assignment) -> None:
        if len(self._epochs) >= MOST_CHAINS and topic not in self._epochs:
            self._epochs.popitem(last=False)
        self._epochs[topic] = assignment

    def _chain(self, key: Chain, boot: int) -> _Chain:
        chain = self._chains.get(key)
        if chain is None:
            self._forget_idle()
            chain = self._chains[key] = _Chain(boot)
        else:
            self._chains.move_to_end(key)
        return chain

    def _forget_idle(self) -> None:
        """Forget what was not heard of for longest. What holds messages is passed over, a few at a time: there may be
        some more for a while, of which the next ones forget as many."""
        for _ in range(LOOKED_AT):
            if len(self._chains) < MOST_CHAINS:
                break
            key, oldest = self._chains.popitem(last=False)
            if oldest.held:
                self._chains[key] = oldest

    def _turn(self, origin: str, sender: Sender, boot: int, now: float) -> list[Action]:
        """An origin has begun anew: what waits for messages that it has lost is delivered without them."""
        actions = self.forgotten(origin)
        sender.turn(boot, now)
        return actions

    def _plainly(self, chain: _Chain, sender: Sender, deliver: Deliver, seen: bool) -> list[Action]:
        """Others want it with QoS 1 or 2, and nobody here: it waits for nothing."""
        stamp = deliver.stamp
        actions = self._let_go((stamp.origin, deliver.topic)) if chain.held else []
        newest = max(chain.last, chain.last_plain)
        chain.last, chain.last_plain = max(chain.last, stamp.number), max(newest, stamp.number)
        chain.paths_found, chain.caught_up = self._paths_found, True
        if stamp.number <= newest:
            self.counts["again" if seen or stamp.number == newest else "superseded"] += 1
            self._acknowledge(sender, stamp)
        elif stamp.retain:  # it is kept here, with its QoS
            actions.append(self._delivered(chain, sender, deliver))
        else:
            plain = Stamp(stamp.origin, stamp.boot, stamp.number, 0, stamp.epoch, 0)
            actions.append(Deliver(deliver.topic, deliver.payload, deliver.properties, plain))
        return actions

    def _refuse(self, topic: str, sender: Sender, stamp: Stamp, known: Assignment) -> list[Action]:
        self.counts["outdated"] += 1
        if stamp.boot != sender.boot:
            return []
        what = Outdated(topic=topic, number=stamp.number, epoch=known.epoch, router=known.router)
        return [self._tell(stamp.origin, outdated=(what,))]

    def _raced(self, topic: str, stamp: Stamp, router: str | None) -> bool:
        """Whether another copy came before; of topics that come by one way only, none is remembered."""
        identity = stamp.origin, stamp.boot, stamp.number
        seen = self.races.seen(identity)
        if router is None or self._patience_s(topic) is not None:
            self.races.came(identity, way(router))
        return seen

    def _give_up(self, now: float) -> list[Action]:
        """Deliver what has waited as long as its deadline lets it, without what was before."""
        actions: list[Action] = []
        for key, due in list(self._due.items()):
            chain = self._chains.get(key, _NOTHING)
            late = max((number for number, until in due.items() if until <= now and number in chain.held), default=0)
            while chain.held and chain.order[0] <= late:
                actions += self._without(chain, self._senders[key[0]])
            left = {number: until for number, until in due.items() if number in chain.held}
            if left:
                self._due[key] = left
            else:
                del self._due[key]
        return actions

    def _let_go(self, key: Chain) -> list[Action]:
        """Deliver all that waits, without what was before."""
        chain, actions = self._chains.get(key, _NOTHING), []
        while chain.held:
            actions += self._without(chain, self._senders[key[0]])
        self._gaps.pop(key, None)
        self._due.pop(key, None)
        return actions

    def _without(self, chain: _Chain, sender: Sender) -> list[Action]:
        """Deliver what has waited longest, without what was before."""
        number = chain.order[0]
        chain.skipped = (*chain.skipped, (chain.last, number))[-MOST_SKIPPED:]
        chain.last = max(chain.last, number - 1)
        self.counts["given up"] += 1
        return self._released(chain, sender)

    def _hold(self, chain: _Chain, deliver: Deliver, now: float) -> None:
        stamp, number = deliver.stamp, deliver.stamp.number
        if number in chain.held:
            self.counts["again"] += 1
        elif self._held >= MOST_HELD or self._held_bytes + deliver.size_bytes > MOST_HELD_BYTES:
            self._no_room(stamp)
        else:
            if not chain.held:
                late = chain.last and chain.paths_found == self._paths_found  # else it was sent in its absence
                chain.ask_at = now + (ASK_AFTER_S if late else 0.0)
                chain.since_asked = chain.asked = 0
                self._gaps[stamp.origin, deliver.topic] = None
            chain.held[number] = deliver
            heappush(chain.order, number)
            self._held += 1
            self._held_bytes += deliver.size_bytes
            patience_s = self._patience_s(deliver.topic)
            if chain.caught_up and patience_s is not None and patience_s < inf:
                self._due.setdefault((stamp.origin, deliver.topic), {})[number] = now + patience_s

    def _no_room(self, stamp: Stamp) -> list[Action]:
        """It has not come: if it is kept for this edge, it comes again."""
        self.counts["no room"] += 1
        self.races.forget((stamp.origin, stamp.boot, stamp.number))
        return []

    def _acknowledge(self, sender: Sender, stamp: Stamp) -> None:
        """A copy of what is here already."""
        if stamp.boot == sender.boot and stamp.number not in sender.unsafe:
            sender.safe.append(stamp.number)

    def _delivered(self, chain: _Chain, sender: Sender, deliver: Deliver) -> Deliver:
        stamp = deliver.stamp
        if stamp.boot == sender.boot:
            sender.unsafe.add(stamp.number)
        if stamp.retain and stamp.number < chain.last_plain:  # it must come, but a newer one of QoS 0 is kept here
            return replace(deliver, stamp=replace(stamp, retain=False))
        return deliver

    def _in_order(self, chain: _Chain, sender: Sender, deliver: Deliver) -> list[Action]:
        chain.last, chain.paths_found = deliver.stamp.number, self._paths_found
        chain.since_asked += 1
        actions = [self._delivered(chain, sender, deliver), *self._released(chain, sender)]
        chain.caught_up = chain.caught_up or not chain.held
        return actions

    def _released(self, chain: _Chain, sender: Sender) -> list[Action]:
        actions: list[Action] = []
        while chain.order:
            number = chain.order[0]
            deliver = chain.held[number]
            if number > chain.last and deliver.stamp.after > chain.last:
                break
            heappop(chain.order)
            del chain.held[number]
            self._held -= 1
            self._held_bytes -= deliver.size_bytes
            if number > chain.last:
                chain.last, chain.paths_found = number, self._paths_found
                chain.since_asked += 1
                actions.append(self._delivered(chain, sender, deliver))
            elif number not in sender.unsafe:
                sender.safe.append(number)
        return actions

    def _tell(self, origin: str, **said: Any) -> Tell:
        sender = self._senders[origin]
        return Tell(origin, Note(edge=self._name, boot=self._boot, of=sender.boot, **said), sender.router)
