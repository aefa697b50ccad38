"""The traffic to plan for: as it is now, or more where a forecast is believed; never less."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from firelane.control.cause import Cause
from firelane.control.drift import Expectation
from firelane.control.forecast import AS_NOW, TREND, Forecast, Record
from firelane.exchange.measuring.observed import Observed
from firelane.scenario.control_settings import ControlSettings

LOOK_S = 1.0
EARLY = 0.05  # of it
REACH = 2  # horizons that a plan on a trend is made for, so that it lasts;
MOST_REACH = 6  # or as far ahead as the trend has lasted: the longer it has, the longer it may
LEAD = 0.2  # of the horizon: how long before a forecast's time the next is planned for
SETTLING_S = 3.0  # in which the mean of a rate that has jumped follows
SURPRISE = 4.0  # standard deviations
FALLING_S = 10.0  # for which a plan for less traffic waits while there is less and less: it is in no hurry


class Ahead(NamedTuple):
    """What may be planned for, and for how long such a plan is held on to."""

    observed: Observed
    held_s: float


class Outlook:
    """Watches rates once a second, and holds on to what a plan was made for until its time has come."""

    def __init__(self, settings: ControlSettings) -> None:
        self._proactive = settings.proactive
        self._horizon_s = settings.horizon_s
        self._forecast = Forecast(max(1, round(settings.horizon_s / LOOK_S)))
        self._looked_at = float("-inf")
        self._held: Mapping[str, float] = {}
        self._held_until = self._foreseen_until = 0.0
        self._trend_since = self._trend_seen = float("-inf")  # the last one
        self._waited = False  # for the next look to tell what has changed
        self._falling_since: float | None = None

    @property
    def record(self) -> Record:
        """How forecasts did."""
        return self._forecast.record

    @property
    def way(self) -> str:
        """What is believed at present: a trend, a cycle, or that all stays as it is."""
        return self._forecast.way

    def change(self, settings: ControlSettings) -> Outlook:
        """Under other settings; what was seen stays known if it is of use."""
        if (settings.proactive, settings.horizon_s) == (self._proactive, self._horizon_s):
            return self
        return Outlook(settings)

    def look(self, observed: Observed, costs: Mapping[str, float], now: float) -> None:
        """Take the latest rates into account; costs are what one message of a topic is to links."""
        if self._proactive and now - self._looked_at >= LOOK_S * (1 - EARLY):
            self._looked_at = now
            self._forecast.look({one.name: one.latest_hz for one in observed.topics}, costs)
            if self._forecast.way == TREND:
                if now - self._trend_seen > self._horizon_s:
                    self._trend_since = now - LOOK_S * self._forecast.line_looks
                self._trend_seen = now

    def held(self, observed: Observed, now: float) -> Observed:
        """What is seen, or what was foreseen and may still come."""
        return _at_least(observed, self._held) if now < self._held_until else observed

    def ahead(self, observed: Observed, now: float, reach: int = 1) -> Observed:
        """What is to be expected within so many horizons."""
        present = self.held(observed, now)
        if not self._believing:
            return present
        return _at_least(present, self._forecast.ahead({one.name: one.rate_hz for one in present.topics}, reach))

    def moved(self, expectation: Expectation, observed: Observed, listened_s: float, now: float) -> Cause | None:
        """Whether the traffic is another than was planned for, or soon will be; for a thread.

        What is foreseen beyond a forecast that was planned for waits until that has nearly come.
        """
        self.look(observed, expectation.costs(), now)
        held, ahead = self.held(observed, now), self.ahead(observed, now)
        if not expectation.outdated(ahead, listened_s):
            self._falling_since = None
            return None  # though there may be less now
        if ahead is held or expectation.outdated(held, listened_s):
            if self._waits(expectation, observed, listened_s, now):
                return None
            self._waited, self._falling_since = False, None
            return Cause(kind="load", words=expectation.shift(held, listened_s))
        if now < self._foreseen_until - LEAD * self._horizon_s:
            return None
        return Cause(kind="forecast", words=f"a {self.way}: soon {expectation.shift(ahead, listened_s)}")

    def to_plan_for(self, observed: Observed, now: float) -> list[Ahead]:
        """What is ahead, the farthest first, as nearer is better than nothing where that cannot be planned for.

        Where a rate has just jumped it is what it was last, as means follow only bit by bit.
        """
        jumped = {
            one.name: one.latest_hz
            for one in observed.topics
            if one.latest_hz - one.rate_hz > SURPRISE * math.sqrt(max(one.rate_hz, 1.0))
        }
        return [
            Ahead(_at_least(self.ahead(observed, now, reach), jumped), reach * self._horizon_s if reach else SETTLING_S)
            for reach in self._reaches(now)
        ]

    def planned(self, expected: Observed, now: float, *, held_s: float = SETTLING_S) -> None:
        """A plan was made for this, and is held on to for so long."""
        self._held = {one.name: one.rate_hz for one in expected.topics}
        self._held_until = now + held_s
        self._foreseen_until = now + self._horizon_s if self._believing else 0.0

    def _waits(self, expectation: Expectation, observed: Observed, listened_s: float, now: float) -> bool:
        """Whether the next looks will tell better what has changed, and that can wait."""
        if observed.unsettled and not self._waited:  # topics that change together are not all seen to at once
            self._waited = True
            return True
        if not expectation.falls(observed, listened_s):
            return False
        self._falling_since = now if self._falling_since is None else self._falling_since
        return now < self._falling_since + FALLING_S

    def _reaches(self, now: float) -> list[int]:
        """How many horizons ahead may be planned for; 0 if nothing is foreseen."""
        if not self._believing:
            return [0]
        if self._forecast.way != TREND:
            return [1]
        lasted = round(max(REACH, min(MOST_REACH, (now - self._trend_since) / self._horizon_s)))
        return [one for one in range(MOST_REACH, 0, -1) if one in (lasted, (lasted + REACH) // 2, REACH)]

    @property
    def _believing(self) -> bool:
        return self._proactive and self._forecast.way != AS_NOW


def _at_least(observed: Observed, rates_hz: Mapping[str, float]) -> Observed:
    topics = tuple(
        one._replace(rate_hz=rates_hz[one.name]) if rates_hz.get(one.name, 0.0) > one.rate_hz else one
        for one in observed.topics
    )
    return observed if topics == observed.topics else replace(observed, topics=topics)
