"""The hot side: what happens on the event loop is noted here in plain tuples, and taken away once a second.

Memory is bounded between two takes. When there is no room for another delivery record, it is folded into the one of
its subscription, class and outcome: weights add up, size and delay become means. When there is no room for another of
these, into the one of its class and outcome. So no delivery is ever missing from the sum of weights. Membership cannot
be folded; what finds no room is counted, and told by the writer.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from firelane.exchange.telemetry.records import TOPICS

# Bytes of memory between two takes, beside the strings: some 25 000 deliveries and 3 000 folded records.
MOST_BYTES = 8_000_000
MOST_FOLDED_BYTES = 2_000_000
MOST_MEMBERSHIP_BYTES = 8_000_000
ROW_BYTES = 240
FOLDED_BYTES = 500
MEMBER_BYTES = 150
NO_MORE = 1 << 62
CLOCK_STEP_S = 0.01  # the wall clock was set, if it moves by more against the other

# ingress_s, subscriber, filter, topic, priority, qos, wire_bytes, delay_s, outcome, weight, plan_version
Row = tuple[
    float, str | None, str | None, bytes | None, int, int | None, int, float | None, str, float, int | None
]  # fmt: skip
Key = tuple[str | None, str | None, int, int | None, str, int | None]
MemberRow = tuple[float, str, str, str]  # time_s, client, filter, event


@dataclass(slots=True)
class Folded:
    """Many deliveries in one record."""

    ingress_s: float  # of the first
    weight: float = 0.0
    wire_bytes: float = 0.0  # times weight, as the next two
    delay_s: float = 0.0
    delay_weight: float = 0.0  # of those whose delay is known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taken:
    """What was noted between two takes, numbered from `first` on: deliveries, then folded ones, then membership.

    `now_s` is the time of the take on the clock of the records, `ahead_s` how far the wall clock is ahead of it.
    """

    now_s: float
    ahead_s: float
    first: int
    deliveries: list[Row]
    folded: dict[Key, Folded]
    membership: list[MemberRow]
    membership_lost: int

    def __len__(self) -> int:
        return len(self.deliveries) + len(self.folded) + len(self.membership)


class Recorder:
    """Notes deliveries, drops and membership; set `plan_version` whenever another plan applies. One thread only."""

    __slots__ = (
        "_ahead_s",
        "_folded",
        "_folded_room",
        "_lost",
        "_members",
        "_members_room",
        "_number",
        "_room",
        "_rows",
        "_share",
        "plan_version",
        "weight",
    )

    def __init__(self, *, sampling: float) -> None:
        self.plan_version: int | None = None
        self._ahead_s = 0.0
        self._number = 0
        self.sample(sampling)
        self._clear()

    def _clear(self) -> None:
        self._rows: list[Row] = []
        self._room = MOST_BYTES
        self._folded: dict[Key, Folded] = {}
        self._folded_room = MOST_FOLDED_BYTES
        self._members: list[MemberRow] = []
        self._members_room = MOST_MEMBERSHIP_BYTES
        self._lost = 0

    def sample(self, share: float) -> None:
        """From now on sample this share of the messages."""
        self._share = share
        self.weight = 1.0 / share if share > 0 else 0.0  # how many messages a sampled one stands for

    def gap(self) -> int:
        """By how many messages the next sampled one follows: drawn, as if each was sampled or not by chance."""
        if self._share >= 1:
            return 1
        if self._share <= 0:
            return NO_MORE
        return 1 + int(math.log(1 - random.random()) / math.log1p(-self._share))

    def delivery(
        self,
        ingress_s: float,
        subscriber: str,
        topic_filter: str,
        topic: bytes,
        priority: int,
        qos: int,
        wire_bytes: int,
        delay_s: float | None,
        outcome: str,
        weight: float = 1.0,
    ) -> None:
        """Note a delivery that was made, with the weight of its message, or one that was dropped.

        Those of telemetry's own messages are not noted.
        """
        room = self._room - ROW_BYTES - len(subscriber) - len(topic_filter) - len(topic)
        if topic.startswith(TOPICS):
            return
        if room < 0:
            key = (subscriber, topic_filter, priority, qos, outcome, self.plan_version)
            self._fold(key, ingress_s, wire_bytes, delay_s, weight)
            return
        self._room = room
        self._rows.append(
            (ingress_s, subscriber, topic_filter, topic, priority, qos, wire_bytes, delay_s, outcome, weight,
             self.plan_version)
        )  # fmt: skip

    def membership(self, time_s: float, client: str, topic_filter: str, event: str) -> None:
        """Note that a client subscribed, unsubscribed, or is lost."""
        room = self._members_room - MEMBER_BYTES - len(client) - len(topic_filter)
        if room < 0:
            self._lost += 1
            return
        self._members_room = room
        self._members.append((time_s, client, topic_filter, event))

    def take(self, now_s: float, wall_s: float) -> Taken:
        """Hand over everything noted so far; `now_s` on the clock of the records, `wall_s` since the epoch.

        The two clocks are compared anew only when one of them was set, so that all copies of a message have the
        same ingress.
        """
        if abs(wall_s - now_s - self._ahead_s) > CLOCK_STEP_S:
            self._ahead_s = wall_s - now_s
        taken = Taken(
            now_s=now_s,
            ahead_s=self._ahead_s,
            first=self._number,
            deliveries=self._rows,
            folded=self._folded,
            membership=self._members,
            membership_lost=self._lost,
        )
        self._number += len(taken)
        self._clear()
        return taken

    def _fold(self, key: Key, ingress_s: float, wire_bytes: int, delay_s: float | None, weight: float) -> None:
        folded = self._folded.get(key) or self._new_folded(key, ingress_s)
        folded.weight += weight
        folded.wire_bytes += weight * wire_bytes
        if delay_s is not None:
            folded.delay_s += weight * delay_s
            folded.delay_weight += weight

    def _new_folded(self, key: Key, ingress_s: float) -> Folded:
        subscriber, topic_filter, priority, _, outcome, _ = key
        room = self._folded_room - FOLDED_BYTES - len(subscriber or "") - len(topic_filter or "")
        if room >= 0:
            self._folded_room = room
        else:
            key = (None, None, priority, None, outcome, None)
        return self._folded.setdefault(key, Folded(ingress_s))
