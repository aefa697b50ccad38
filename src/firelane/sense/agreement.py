"""What load a publisher may have, as its subscribers ask for it: the least, unless somebody abuses that.

Whoever lowers the target costs everybody precision, though never more than was promised: a publisher keeps within the
tolerances it granted at any load. So a signal counts only from a client that holds a granted subscription (the caller
sees to it), and
* no signal is taken for less than the floor;
* a client is heard a few times a period and no more;
* a client lowers what it asks for by half a period at most, beginning at the most there is, so a spike or a single
  forged message does little, and coming anew does not help;
* a signal that is not renewed is forgotten after 2.5 periods, and with its client;
* there is room for so many clients; when it is full, the user who has most of them gives way.
If asked to, it leaves out users who stay far below the median of the others. By default it does not: the weakest
subscriber is the one that the minimum is there for.

Implements: rdds, section III-C4 (the broker's minimum, and its remedy against denial of service).
Differs:    the paper has the floor, and leaves open what else. A signal below the floor counts as the floor.
Symbols:    U_ref,k -> load, U_ref -> target.
Checked by: tests/sense/test_agreement.py
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from statistics import median

from firelane.errors import FirelaneError
from firelane.sense.occupancy import FLOOR, WINDOW_S

EXPIRES = 2.5  # periods
HEARD_AGAIN = 0.25  # periods
LOWERED = 0.5  # by this factor in a period
MOST_CLIENTS = 1000
LEAST_USERS = 3  # to speak of a median
PATIENCE = 5.0  # periods that a user may stay far below the others


@dataclass(slots=True, kw_only=True)
class _Signal:
    user: str | None
    load: float
    heard_s: float
    outlying_since_s: float = math.inf


class LoadSignals:
    """The loads that the subscribers of a stream ask for, and what becomes of them."""

    def __init__(
        self,
        *,
        most: float = 0.7,
        floor: float = FLOOR,
        period_s: float = WINDOW_S,
        most_clients: int = MOST_CLIENTS,
        outlying: float | None = None,
    ) -> None:
        """`most` is what the publisher offers; who stays below `outlying` x the median of users stops to count."""
        if not (0 < floor <= most <= 1 and 0 < period_s < math.inf and most_clients >= 1):
            raise FirelaneError(
                "load signals need 0 < floor <= most <= 1, a period above 0 s and room for a client; these are "
                f"{floor:g}, {most:g}, {period_s:g}, {most_clients}"
            )
        if outlying is not None and not 0 < outlying < 1:
            raise FirelaneError(f"outlying is a part of the median, above 0 and below 1; it is {outlying:g}")
        self.most, self.floor, self.period_s, self.most_clients = most, floor, period_s, most_clients
        self.outlying = outlying
        self.refused: Counter[str] = Counter()  # garbage, soon, full
        self._signals: dict[str, _Signal] = {}
        self._users: Counter[str | None] = Counter()

    def __len__(self) -> int:
        return len(self._signals)

    def heard(self, client: str, user: str | None, load: float, now_s: float) -> bool:
        """Take a client's signal; False, and counted, if it is garbage, too soon, or there is no room for it."""
        if isinstance(load, bool) or not isinstance(load, (int, float)) or not 0 <= load <= 1:  # NaN is not
            self.refused["garbage"] += 1
            return False
        known = self._signals.get(client)
        if known is not None and 0 <= now_s - known.heard_s < HEARD_AGAIN * self.period_s:
            self.refused["soon"] += 1
            return False
        if known is None and not self._make_room(user, now_s):
            self.refused["full"] += 1
            return False
        self._take(client, user, known, float(load), now_s)
        return True

    def target(self, now_s: float) -> float | None:
        """The least load asked for by those who count; None if nobody asks."""
        self._forget_old(now_s)
        counting = self._signals.values() if self.outlying is None else self._without_outliers(now_s)
        return min((one.load for one in counting), default=None)

    def gone(self, client: str) -> None:
        """The client has no granted subscription any more."""
        signal = self._signals.pop(client, None)
        if signal is not None:
            self._users[signal.user] -= 1
            if not self._users[signal.user]:
                del self._users[signal.user]

    def _take(self, client: str, user: str | None, known: _Signal | None, load: float, now_s: float) -> None:
        before, passed = (self.most, 1.0) if known is None else (known.load, self._periods_since(known, now_s))
        least = max(before * LOWERED ** min(passed, 1.0), self.floor)
        taken = min(max(load, least), self.most)
        since_s = math.inf if known is None else known.outlying_since_s
        self.gone(client)
        self._signals[client] = _Signal(user=user, load=taken, heard_s=now_s, outlying_since_s=since_s)
        self._users[user] += 1

    def _periods_since(self, signal: _Signal, now_s: float) -> float:
        return max(now_s - signal.heard_s, 0.0) / self.period_s

    def _forget_old(self, now_s: float) -> None:
        # They stand in the order in which they were heard.
        while self._signals:
            client, oldest = next(iter(self._signals.items()))
            if self._periods_since(oldest, now_s) <= EXPIRES:
                return
            self.gone(client)

    def _make_room(self, user: str | None, now_s: float) -> bool:
        if len(self._signals) < self.most_clients:
            return True
        self._forget_old(now_s)
        if len(self._signals) < self.most_clients:
            return True
        crowd, size = self._users.most_common(1)[0]
        if self._users[user] + 1 >= size:
            return False
        self.gone(next(client for client in reversed(self._signals) if self._signals[client].user == crowd))
        return True

    def _without_outliers(self, now_s: float) -> list[_Signal]:
        """Those who have not long been far below the median of the users; a user's lowest signal stands for it."""
        lowest: dict[str | None, float] = {}
        for one in self._signals.values():
            lowest[one.user] = min(one.load, lowest.get(one.user, math.inf))
        bar = median(lowest.values()) * (self.outlying or 0.0) if len(lowest) >= LEAST_USERS else 0.0
        for one in self._signals.values():
            one.outlying_since_s = min(one.outlying_since_s, now_s) if one.load < bar else math.inf
        return [one for one in self._signals.values() if now_s - one.outlying_since_s < PATIENCE * self.period_s]
