"""Whether bounds are missed: over the last seconds, twice in a row, with enough messages to tell."""

from __future__ import annotations

from collections import deque

from firelane.control.bounds import Bounds, measured
from firelane.exchange.measuring.measuring import Reading
from firelane.scenario.model import Scenario
from firelane.scenario.utility import NeedTable

WINDOW_S = 5.0
LEAST_WINDOW_S = 2.0
SLACK = 0.05  # of a bound on delay, which a mean over few seconds exceeds by chance
REST_S = 30.0  # after a miss about which nothing can be done; twice as long after each further one
LONGEST_REST_S = 600.0
MOST_NAMED = 3


class Watch:
    """Looks at readings, one after the other, of one exchange."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Reading]] = deque()
        self._missed: set[str] = set()
        self._rest_s = REST_S
        self._rests_until = 0.0

    def look(self, reading: Reading, scenario: Scenario, now: float) -> str | None:
        """What was missed at this look and at the one before, in words."""
        if self._readings and self._readings[-1][1].began_wall_s != reading.began_wall_s:
            self.begin()
        while len(self._readings) > 1 and self._readings[1][0] <= now - WINDOW_S:
            self._readings.popleft()
        since = self._readings[0] if self._readings else None
        self._readings.append((now, reading))
        if since is None or now - since[0] < LEAST_WINDOW_S or now < self._rests_until:
            return None
        window = reading.since(since[1])
        names = [f"{one} {two}" for one, two in zip(window.subscribers, window.filters, strict=True)]
        bounds = Bounds(NeedTable(window.needs), scenario.categories)
        words = bounds.words(measured(window, range(len(names)), len(names)), names, SLACK)
        before, self._missed = self._missed, {one.partition(":")[0] for one in words}
        again = [one for one in words if one.partition(":")[0] in before]
        more = f" and {len(again) - MOST_NAMED} more" if len(again) > MOST_NAMED else ""
        return "; ".join(again[:MOST_NAMED]) + more if again else None

    def begin(self) -> None:
        """Another plan is in force: what was before does not count."""
        self._readings.clear()
        self._missed = set()

    def renew(self) -> None:
        """Conditions have changed: what could not be helped may be now."""
        self._rest_s, self._rests_until = REST_S, 0.0

    def rest(self, now: float) -> bool:
        """Nothing can be done about what is missed: do not say so for a while. Whether that is news."""
        news = self._rest_s == REST_S
        self._rests_until = now + self._rest_s
        self._rest_s = min(LONGEST_REST_S, 2 * self._rest_s)
        self._missed = set()
        return news

    def rest_until_renewed(self) -> None:
        """The plan in force was chosen all the same."""
        self._rests_until = float("inf")
