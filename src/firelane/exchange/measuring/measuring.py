"""Live Metrics: what became of every subscription over a window, in the table that predictions and simulations use.

Delays are counted in the fixed buckets of `firelane.histogram`, so that windows can be added.
"""

from __future__ import annotations

import math
import time
from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firelane.arrays import sum_by
from firelane.exchange.clients.session import Session
from firelane.exchange.lanes.lane import Dropped, Lane
from firelane.exchange.lanes.link import Link
from firelane.histogram import BUCKETS, bucket_of, percentiles_s
from firelane.metrics import LinkLoad, Metrics, metrics_table
from firelane.scenario.model import Need
from firelane.scenario.utility import utilities

PERCENTILES = (0.5, 0.95, 0.99)
COUNTS = 10
_NONE = np.zeros(BUCKETS, np.uint32)
_NO_BUCKETS = np.zeros(0, np.uint32)
_GROWING = np.array([[0], [1], [2], [3], [4], [5], [7]])  # the rows of counts that grow; the others say how it is now

# subscriber, filter, need, drop_rate, share, counts, dropped, delay_s, histogram
Note = tuple[str, str, Need, float, float, tuple[int, ...], list[int], float, npt.NDArray[np.uint32]]


class Delays:
    """What lanes have noted of delays; a lane may be there more than once."""

    __slots__ = ("_each_s", "counts", "lanes", "sums_s")

    def __init__(self, noted: Sequence[tuple[Lane, array[float]]]) -> None:
        self.lanes = [lane for lane, _ in noted]
        self.counts = np.array([len(some) for _, some in noted], np.int64)
        self._each_s = np.frombuffer(b"".join(some for _, some in noted))
        self.sums_s = sum_by(np.repeat(np.arange(len(noted)), self.counts), self._each_s, len(noted))

    def __iter__(self) -> Iterator[tuple[Lane, list[int], float]]:
        """Each lane, the buckets of its delays, and their sum in seconds."""
        buckets, first = bucket_of(self._each_s).tolist(), 0
        for lane, count, sum_s in zip(self.lanes, self.counts.tolist(), self.sums_s.tolist(), strict=True):
            yield lane, buckets[first : first + count], sum_s
            first += count


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
        self.histogram: Counter[int] = Counter()  # of all buckets mostly a few

    @classmethod
    def of_new(cls, lane: Lane) -> Tally:
        """Of a lane that came when the window had begun: all that it did counts."""
        tally = cls(lane)
        tally.due = tally.delivered = tally.passed = tally.merged = tally.unmerged = tally.bytes = 0
        tally.dropped = [0] * len(Dropped)
        return tally

    def add(self, buckets: list[int], delay_s: float) -> None:
        """Count delays: the bucket of each, and their sum."""
        self.histogram.update(buckets)
        self.timed += len(buckets)
        self.delay_s += delay_s


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

    def fold(self, delays: Delays) -> None:
        """Count delays that lanes have noted."""
        for lane, buckets, sum_s in delays:
            self._tally(lane).add(buckets, sum_s)

    def _tally(self, lane: Lane) -> Tally:
        tally = self._tallies.get(lane)
        if tally is None:
            tally = self._tallies[lane] = Tally.of_new(lane)
        return tally

    def read(
        self, name: str, sessions: Iterable[Session], links: Iterable[Link], now: float, version: int | None
    ) -> Reading:
        """The window as it is now; what takes longer than noting it down is done by `Reading.metrics`."""
        window_s = max(now - self._began_at, 1e-9)
        notes = [
            self._note(lane, histogram=True) for session in sessions for lane in session.lanes.values() if lane.filter
        ]
        loads = {one.name: self._load(one, window_s) for one in links if one.paced}
        return _reading(name, version, self._began_wall_s, window_s, notes, loads)

    def read_in_steps(
        self, name: str, sessions: Iterable[Session], now: float, version: int | None, lanes_a_step: int
    ) -> Generator[None, None, Reading]:
        """The same a few lanes at a time, for whoever looks often: without percentiles and links."""
        window_s = max(now - self._began_at, 1e-9)
        lanes = [lane for session in sessions for lane in session.lanes.values() if lane.filter]
        parts = [_reading(name, version, self._began_wall_s, window_s, [], {})]
        for first in range(0, len(lanes), lanes_a_step):
            notes = [self._note(lane, histogram=False) for lane in lanes[first : first + lanes_a_step]]
            parts.append(_reading(name, version, self._began_wall_s, window_s, notes, {}))
            yield
        return _joined(parts)

    def _note(self, lane: Lane, *, histogram: bool) -> Note:
        one = self._tallies.get(lane) or Tally.of_new(lane)
        counts = (
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
        dropped = [now - before for now, before in zip(lane.dropped, one.dropped, strict=True)]
        return (
            lane.session.name, lane.filter, lane.need, lane.drop_rate, lane.share, counts, dropped, one.delay_s,
            _dense(one.histogram) if histogram else _NO_BUCKETS,
        )  # fmt: skip

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
    shares: npt.NDArray[np.float64]  # of what would be due at the precision asked for, what is due
    counts: npt.NDArray[np.int64]  # a row for each of due, delivered, ..., see Measuring.read
    dropped: npt.NDArray[np.int64]  # a row for each lane
    delays_s: npt.NDArray[np.float64]  # sums
    histograms: npt.NDArray[np.uint32]
    links: dict[str, LinkLoad]

    @property
    def settled(self) -> npt.NDArray[np.int64]:
        """Of how many messages of each subscription it is known what became of them."""
        _, delivered, _, merged, *_ = self.counts
        return np.asarray(delivered + merged + self.dropped.sum(axis=1))

    @property
    def success(self) -> npt.NDArray[np.float64]:
        """The share of them that arrived, whichever of the subscriber's filters carried them.

        What need not be sent of sensors, as a plan has widened their precision, has not arrived.
        """
        _, delivered, _, merged, unmerged, *_ = self.counts
        return _ratio(delivered + merged - unmerged, self.settled) * self.shares

    @property
    def timed(self) -> npt.NDArray[np.int64]:
        """How many delays are known."""
        return np.asarray(self.counts[7] + self.counts[2])

    @property
    def delay_mean_s(self) -> npt.NDArray[np.float64]:
        """Their mean."""
        return _ratio(self.delays_s, self.timed)

    def since(self, earlier: Reading) -> Reading:
        """What came after an earlier reading; all of it, if another window has begun meanwhile.

        Percentiles are those of the whole window.
        """
        if (earlier.version, earlier.began_wall_s) != (self.version, self.began_wall_s):
            return self
        places = _places(self, earlier)
        rows = np.flatnonzero(places >= 0)
        then = places[rows]
        counts, dropped, delays_s = self.counts.copy(), self.dropped.copy(), self.delays_s.copy()
        counts[_GROWING, rows] -= earlier.counts[_GROWING, then]
        dropped[rows] -= earlier.dropped[then]
        delays_s[rows] -= earlier.delays_s[then]
        window_s = self.window_s - earlier.window_s
        return replace(self, window_s=window_s, counts=counts, dropped=dropped, delays_s=delays_s)

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
        due, delivered, passed, merged, _, sent_bytes, queued, _, flow, klass = self.counts
        histograms = self.histograms.astype(np.int64).reshape(len(self.needs), BUCKETS)
        histograms[:, 0] += passed  # who did not wait at all
        percentiles = percentiles_s(histograms, PERCENTILES)
        return {
            "flow": flow,
            "priority": klass,
            "drop_rate": self.drop_rates,
            "stable": self.dropped[:, Dropped.OVERFLOW] == 0,
            "offered_hz": (due / self.shares + merged) / self.window_s,
            "delivered_hz": delivered / self.window_s,
            "success": self.success,
            "delay_mean_s": self.delay_mean_s,
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


def _dense(histogram: Counter[int]) -> npt.NDArray[np.uint32]:
    if not histogram:
        return _NONE
    counts = np.zeros(BUCKETS, np.uint32)
    counts[list(histogram)] = list(histogram.values())
    return counts


def _reading(
    name: str, version: int | None, began_wall_s: float, window_s: float, notes: list[Note], links: dict[str, LinkLoad]
) -> Reading:
    subscribers, filters, needs, drop_rates, shares, counts, dropped, delays_s, histograms = (
        zip(*notes, strict=True) if notes else ((),) * 9
    )
    rows = len(notes)
    return Reading(
        scenario=name,
        version=version,
        began_wall_s=began_wall_s,
        window_s=window_s,
        subscribers=list(subscribers),
        filters=list(filters),
        needs=list(needs),
        drop_rates=np.array(drop_rates, float),
        shares=np.array(shares, float),
        counts=np.array(counts, np.int64).reshape(rows, COUNTS).T,
        dropped=np.array(dropped, np.int64).reshape(rows, len(Dropped)),
        delays_s=np.array(delays_s, float),
        histograms=np.array(histograms, np.uint32).reshape(rows, -1) if rows else np.zeros((0, 0), np.uint32),
        links=links,
    )


def _joined(parts: list[Reading]) -> Reading:
    """One reading of several, each of other lanes; without percentiles."""
    return replace(
        parts[0],
        subscribers=[name for one in parts for name in one.subscribers],
        filters=[name for one in parts for name in one.filters],
        needs=[need for one in parts for need in one.needs],
        drop_rates=np.concatenate([one.drop_rates for one in parts]),
        shares=np.concatenate([one.shares for one in parts]),
        counts=np.concatenate([one.counts for one in parts], axis=1),
        dropped=np.concatenate([one.dropped for one in parts]),
        delays_s=np.concatenate([one.delays_s for one in parts]),
    )


def _places(reading: Reading, earlier: Reading) -> npt.NDArray[np.int64]:
    """In which row of an earlier reading each subscription was, -1 if it was not there."""
    if (reading.subscribers, reading.filters) == (earlier.subscribers, earlier.filters):
        return np.arange(len(reading.filters))
    before = _numbered(earlier)
    return np.array([before.get(key, -1) for key in _numbered(reading)], np.int64)


def _numbered(reading: Reading) -> dict[tuple[str, str, int], int]:
    """The row of each subscription; of clients that are one subscriber, the first has number 0."""
    seen: Counter[tuple[str, str]] = Counter()
    places = {}
    for row, pair in enumerate(zip(reading.subscribers, reading.filters, strict=True)):
        places[*pair, seen[pair]] = row
        seen[pair] += 1
    return places


def _ratio(part: npt.NDArray[Any], whole: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    ratio: npt.NDArray[np.float64] = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return ratio
