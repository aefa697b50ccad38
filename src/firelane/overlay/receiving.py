"""The receiver's side of messages between sites: each is delivered here once, in the order of its topic, and then
acknowledged to the edge that it came from.

A message says which one was before it. If that has not come, it waits a moment for it, and then the origin is asked; at
once, if this edge has just been started or found a router, as then it is hardly on its way.
What was sent under an older epoch than was seen here is refused. QoS 0 is not waited for: what comes too late is
discarded.

A topic with a deadline comes by two ways, through a router and directly; the first copy wins. There a gap is waited for
no longer than the deadline: what comes after that is discarded, counted, and acknowledged. After a start, what was kept
for this edge meanwhile is waited for first. No clock, no I/O.

Implements: pubsubcoord, section 2.4.2, the receiving end of two paths.
Differs:    what the paper leaves to DDS: copies are recognised by their numbers, order is kept, and late ones counted.
Symbols:    none of the paper's.
Checked by: tests/overlay/test_message_histories.py, tests/overlay/test_deadlines.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from firelane.overlay.actions import Action, Deliver, Tell
from firelane.overlay.notes import AGAIN_AT_ONCE, MOST_NUMBERS, Missing, Note, Nothing, Outdated
from firelane.overlay.owner import Assignment
from firelane.overlay.races import Races, way
from firelane.overlay.stamp import Stamp

ASK_AFTER_S = 0.2  # a gap
ASK_AGAIN_S = 1.0
# Messages that wait for others before them; beyond that they are not taken, and come again.
MOST_HELD, MOST_HELD_BYTES = 10_000, 64_000_000
MOST_CHAINS = 200_000  # pairs of origin and topic that are remembered
MOST_SKIPPED = 16  # gaps of a chain that were given up and are remembered

Chain = tuple[str, str]  # origin and topic


@dataclass(slots=True)
class _Chain:
    """What came of one topic from one origin."""

    last: int = 0  # of QoS 1 and 2
    last_plain: int = 0  # of QoS 0
    held: dict[int, Deliver] = field(default_factory=dict)
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


_NOTHING = _Chain()


class Receiving:
    """Of one edge. Methods are told what happened and return what is to be done."""

    def __init__(
        self,
        name: str,
        boot: int,
        had: Mapping[Chain, int] | None = None,
        patience_s: Callable[[str], float | None] = lambda topic: None,
    ) -> None:
        """`had` are the last numbers of QoS 2 that are known from before; `patience_s` is how long a gap on a topic may
        be waited for, None if it has no deadline."""
        self._name, self._boot = name, boot
        self._chains: dict[Chain, _Chain] = {key: _Chain(last) for key, last in (had or {}).items()}
        self._epochs: dict[str, Assignment] = {}
        self._unsafe: set[tuple[str, int]] = set()  # delivered, and not yet in the log here
        self._safe: dict[str, list[int]] = {}  # and not yet acknowledged to their origin
        self._through: dict[str, str] = {}  # by which router an origin's last message came
        self._gaps: dict[Chain, None] = {}
        self._held = self._held_bytes = 0
        self._paths_found = 1
        self._patience_s = patience_s
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
        if router is not None:
            self._through[stamp.origin] = router
        known = self._epochs.get(topic)
        if known is not None and stamp.epoch < known.epoch:
            return self._refuse(topic, stamp, known)
        if known is None or stamp.epoch > known.epoch or (known.router is None and router is not None):
            self._know(topic, Assignment(router=router, epoch=stamp.epoch))
        chain = self._chain((stamp.origin, topic))
        seen = self._raced(topic, stamp, router)
        deliver = Deliver(topic, payload, properties, stamp)
        if not stamp.qos:
            if stamp.number <= chain.last_plain:
                self.counts["again" if seen or stamp.number == chain.last_plain else "superseded"] += 1
                return []
            chain.last_plain = stamp.number
            return [deliver]
        if stamp.number <= chain.last:
            late = not seen and any(last < stamp.number < next_one for last, next_one in chain.skipped)
            self.counts["superseded" if late else "again"] += 1
            if (stamp.origin, stamp.number) not in self._unsafe:
                self._safe.setdefault(stamp.origin, []).append(stamp.number)
            return []
        if stamp.after > chain.last:
            self._hold(chain, deliver, now)
            return []
        return self._in_order(chain, deliver)

    def nothing(self, origin: str, what: Nothing) -> list[Action]:
        """Of what was missing before a message there is nothing for this edge."""
        chain = self._chains.get((origin, what.topic))
        if chain is None or not chain.held or what.before > min(chain.held):
            return []
        chain.last = max(chain.last, what.before - 1)
        released = self._released(chain)
        chain.caught_up = chain.caught_up or not chain.held
        return released

    def committed(self, origin: str, number: int) -> None:
        """A message is safe here: its origin need not keep it for this edge."""
        self._unsafe.discard((origin, number))
        self._safe.setdefault(origin, []).append(number)

    def tick(self, now: float) -> list[Action]:
        """Acknowledge what is safe, ask for what is missing, and wait no longer than a deadline."""
        given_up = self._give_up(now)
        notes: list[Action] = [
            self._tell(origin, came=tuple(numbers[first : first + MOST_NUMBERS]))
            for origin, numbers in self._safe.items()
            for first in range(0, len(numbers), MOST_NUMBERS)
        ]
        self._safe = {}
        for key in list(self._gaps):
            chain = self._chains.get(key)
            if chain is None or not chain.held:
                del self._gaps[key]
            elif chain.ask_at <= now or chain.answered:
                chain.ask_at, chain.since_asked, chain.asked = now + ASK_AGAIN_S, 0, min(chain.held)
                gap = Missing(topic=key[1], last=chain.last, before=chain.asked)
                notes.append(self._tell(key[0], missing=(gap,)))
        return given_up + notes

    # ---- inside

    def _epoch(self, topic: str) -> int:
        known = self._epochs.get(topic)
        return -1 if known is None else known.epoch

    def _know(self, topic: str, assignment: Assignment) -> None:
        if len(self._epochs) >= MOST_CHAINS and topic not in self._epochs:
            del self._epochs[next(iter(self._epochs))]
        self._epochs[topic] = assignment

    def _chain(self, key: Chain) -> _Chain:
        chain = self._chains.pop(key, None)
        if chain is None:
            if len(self._chains) >= MOST_CHAINS:
                idle = next((one for one, chain in self._chains.items() if not chain.held), None)
                if idle is not None:
                    del self._chains[idle]  # the one that was not heard of for longest
            chain = _Chain()
        self._chains[key] = chain
        return chain

    def _refuse(self, topic: str, stamp: Stamp, known: Assignment) -> list[Action]:
        self.counts["outdated"] += 1
        what = Outdated(topic=topic, number=stamp.number, epoch=known.epoch, router=known.router)
        return [self._tell(stamp.origin, outdated=(what,))]

    def _raced(self, topic: str, stamp: Stamp, router: str | None) -> bool:
        """Whether another copy came before; of topics that come by one way only, none is remembered."""
        identity = stamp.origin, stamp.number
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
            while chain.held and (number := min(chain.held)) <= late:
                chain.skipped = (*chain.skipped, (chain.last, number))[-MOST_SKIPPED:]
                chain.last = max(chain.last, number - 1)
                self.counts["given up"] += 1
                actions += self._released(chain)
            left = {number: until for number, until in due.items() if number in chain.held}
            if left:
                self._due[key] = left
            else:
                del self._due[key]
        return actions

    def _hold(self, chain: _Chain, deliver: Deliver, now: float) -> None:
        number = deliver.stamp.number
        if number in chain.held:
            self.counts["again"] += 1
        elif self._held >= MOST_HELD or self._held_bytes + len(deliver.payload) > MOST_HELD_BYTES:
            self.counts["no room"] += 1
            self.races.forget((deliver.stamp.origin, number))
        else:
            if not chain.held:
                late = chain.last and chain.paths_found == self._paths_found  # else it was sent in its absence
                chain.ask_at = now + (ASK_AFTER_S if late else 0.0)
                chain.since_asked = chain.asked = 0
                self._gaps[deliver.stamp.origin, deliver.topic] = None
            chain.held[number] = deliver
            self._held += 1
            self._held_bytes += len(deliver.payload)
            patience_s = self._patience_s(deliver.topic)
            if chain.caught_up and patience_s is not None and patience_s < inf:
                self._due.setdefault((deliver.stamp.origin, deliver.topic), {})[number] = now + patience_s

    def _in_order(self, chain: _Chain, deliver: Deliver) -> list[Action]:
        chain.last, chain.paths_found = deliver.stamp.number, self._paths_found
        chain.since_asked += 1
        self._unsafe.add((deliver.stamp.origin, deliver.stamp.number))
        actions = [deliver, *self._released(chain)]
        chain.caught_up = chain.caught_up or not chain.held
        return actions

    def _released(self, chain: _Chain) -> list[Action]:
        actions: list[Action] = []
        if not chain.held or chain.held[min(chain.held)].stamp.after > chain.last:
            return actions
        for number in sorted(chain.held):
            deliver = chain.held[number]
            if number > chain.last and deliver.stamp.after > chain.last:
                break
            del chain.held[number]
            self._held -= 1
            self._held_bytes -= len(deliver.payload)
            if number > chain.last:
                chain.last, chain.paths_found = number, self._paths_found
                chain.since_asked += 1
                self._unsafe.add((deliver.stamp.origin, number))
                actions.append(deliver)
            elif (deliver.stamp.origin, number) not in self._unsafe:
                self._safe.setdefault(deliver.stamp.origin, []).append(number)
        return actions

    def _tell(self, origin: str, **said: Any) -> Tell:
        return Tell(origin, Note(edge=self._name, boot=self._boot, **said), self._through.get(origin))
