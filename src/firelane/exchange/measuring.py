"""Live Metrics: what became of every subscription over a window, in the table that predictions and simulations use.

Delays are counted in the fixed buckets of `firelane.histogram`, so that windows can be added.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firelane.exchange.lane import Dropped, Lane
from firelane.exchange.link import Link
from firelane.exchange.session import Session
from firelane.histogram import BUCKETS, bucket_of, percentiles_s
from firelane.metrics import LinkLoad, Metrics, metrics_table
from firelane.scenario.model import Need
from firelane.scenario.utility import utilities

PERCENTILES = (0.5, 0.95, 0.99)
COUNTS = 10
_NONE = np.zeros(BUCKETS, np.uint32)


class Tally:
    """A lane's counts when a window began, and the delays since."""

    __slots__ = (
        "bytes",
        "delay_s",
        "delivered",
        "dropped",
        "due",
        "histogram",
        "merged",
        "passed",
        "timed",
        "unmerged",
    )

    def __init__(self, lane: Lane) -> None:
        self.due, self.delivered, self.passed = lane.due, lane.delivered, lane.passed
        self.merged, self.unmerged = lane.merged, lane.unmerged
        self.bytes = lane.bytes
        self.dropped = list(lane.dropped)
        self.timed = 0
        self.delay_s = 0.0
        self.histogram: npt.NDArray[np.uint32] | None = None

    def add(self, delays_s: npt.NDArray[np.float64]) -> None:
        """Count delays."""
        if self.histogram is None:
            self.histogram = np.zeros(BUCKETS, np.uint32)
        self.histogram += np.bincount(bucket_of(delays_s), minlength=BUCKETS).astype(np.uint32)
        self.timed += len(delays_s)
        self.delay_s += float(delays_s.sum())


class Measuring:
    """A window over all lanes, from now on; lanes that were there before are to be begun."""

    def __init__(self, links: Iterable[Link] = (), now: float = 0.0) -> None:
        self._began_at = now
        self._began_wall_s = time.time()
        self._tallies: dict[Lane, Tally] = {}
        self._link_bytes = {link: link.sent_bytes for link in links}

    def begin(self, lane: Lane) -> None:
        """Do not count what a lane has done so far."""
        self._tallies[lane] = Tally(lane)

    def forget(self, lane: Lane) -> None:
        """A lane is no more."""
        self._tallies.pop(lane, None)

    def fold(self, lane: Lane, delays_s: npt.NDArray[np.float64]) -> None:
        """Count delays that a lane has noted."""
        self._tally(lane).add(delays_s)

    def _tally(self, lane: Lane) -> Tally:
        tally = self._tallies.get(lane)
        if tally is None:
            tally = self._tallies[lane] = Tally(lane)
            tally.due = tally.delivered = tally.passed = tally.merged = tally.unmerged = tally.bytes = 0
            tally.dropped = [0] * len(Dropped)
        return tally

    def read(
        self, name: str, sessions: Iterable[Session], links: Iterable[Link], now: float, version: int | None
    ) -> Reading:
        """The window as it is now; what takes longer than noting it down is done by `Reading.metrics`."""
        lanes = [lane for session in sessions for lane in session.lanes.values() if lane.filter]
        tallies = [self._tally(lane) for lane in lanes]
        both = list(zip(lanes, tallies, strict=True))
        window_s = max(now - self._began_at, 1e-9)
        counts = [
            (
                lane.due - one.due,
                lane.delivered - one.delivered,
                lane.passed - one.passed,
                lane.merged - one.merged,
                lane.unmerged - one.unmerged,
                lane.bytes - one.bytes,
                lane.owed,
                one.timed,
                -1 if lane.flow is None else lane.flow,
                lane.klass,
            )
            for lane, one in both
        ]
        dropped = np.array([one.dropped for one in lanes], np.int64) - np.array([one.dropped for one in tallies])
        return Reading(
            scenario=name,
            version=version,
            began_wall_s=self._began_wall_s,
            window_s=window_s,
            subscribers=[one.session.name for one in lanes],
            filters=[one.filter for one in lanes],
            needs=[one.need for one in lanes],
            drop_rates=np.array([one.drop_rate for one in lanes], float),
            counts=np.array(counts, np.int64).reshape(len(lanes), COUNTS).T,
            dropped=dropped.reshape(len(lanes), len(Dropped)),
            delays_s=np.array([one.delay_s for one in tallies], float),
            histograms=np.array([_NONE if one.histogram is None else one.histogram for one in tallies], np.uint32),
            links={one.name: self._load(one, window_s) for one in links if one.paced},
        )

    def _load(self, link: Link, window_s: float) -> LinkLoad:
        sent_bytes = link.sent_bytes - self._link_bytes.get(link, 0)
        load = sent_bytes * 8 / (link.described.pace * link.bandwidth_bps * window_s)
        return LinkLoad(load=load, stable=link.queued < link.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A window over all lanes, noted down; nothing in it changes any more, so any thread may look at it."""

    scenario: str
    version: int | None
    began_wall_s: float
    window_s: float
    subscribers: list[str]
    filters: list[str]
    needs: list[Need]
    drop_rates: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]  # a row for each of due, delivered, ..., see Measuring.read
    dropped: npt.NDArray[np.int64]  # a row for each lane
    delays_s: npt.NDArray[np.float64]  # sums
    histograms: npt.NDArray[np.uint32]
    links: dict[str, LinkLoad]

    def metrics(self) -> Metrics:
        """The table that predictions and simulations use."""
        columns = self._columns()
        curve = utilities(self.needs)
        rows = len(self.needs)
        value = curve.value(np.nan_to_num(columns["success"]))
        table = metrics_table(
            rows,
            {
                "source": np.repeat("live", rows),
                "window_start": pa.array([datetime.fromtimestamp(self.began_wall_s, UTC)] * rows),
                "window_s": np.full(rows, self.window_s),
                "subscriber": pa.array(self.subscribers, pa.string()),
                "filter": pa.array(self.filters, pa.string()),
                "utility": value,
                "utility_max": curve.most,
                "plan_version": None if self.version is None else np.full(rows, self.version),
                **columns,
            },
        )
        worth = float((value * self._kept(columns["delay_mean_s"])).sum())
        return Metrics(source="live", scenario=self.scenario, table=table, links=self.links, discounted=worth)

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        due, delivered, passed, merged, unmerged, sent_bytes, queued, timed, flow, klass = self.counts
        by_others = merged - unmerged
        settled = delivered + by_others + self.dropped.sum(axis=1) + unmerged
        timed = timed + passed
        histograms = self.histograms.astype(np.int64).reshape(len(self.needs), BUCKETS)
        histograms[:, 0] += passed  # who did not wait at all
        percentiles = percentiles_s(histograms, PERCENTILES)
        return {
            "flow": flow,
            "priority": klass,
            "drop_rate": self.drop_rates,
            "stable": self.dropped[:, Dropped.OVERFLOW] == 0,
            "offered_hz": (due + merged) / self.window_s,
            "delivered_hz": delivered / self.window_s,
            "success": _ratio(delivered + by_others, settled),
            "delay_mean_s": _ratio(self.delays_s, timed),
            **{f"delay_p{round(100 * share)}_s": percentiles[:, n] for n, share in enumerate(PERCENTILES)},
            "bytes": sent_bytes,
            **{f"dropped_{why.name.lower()}": self.dropped[:, why] for why in Dropped},
            "queued": queued,
        }

    def _kept(self, delay_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """How much of its value a late delivery keeps: max_delay / delay beyond max_delay, else all."""
        bounds = [math.inf if one.max_delay_s is None else one.max_delay_s for one in self.needs]
        late = delay_s > np.array(bounds, float)
        kept: npt.NDArray[np.float64] = np.divide(bounds, delay_s, out=np.ones(len(bounds)), where=late)
        return kept


def _ratio(part: npt.NDArray[Any], whole: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    ratio: npt.NDArray[np.float64] = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return ratio
