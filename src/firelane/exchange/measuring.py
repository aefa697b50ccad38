"""Live Metrics: what became of every subscription over a window, in the table that predictions and simulations use.

Delays are counted in the fixed buckets of `firelane.histogram`, so that windows can be added.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firelane.exchange.lane import Dropped, Lane
from firelane.exchange.link import Link
from firelane.exchange.session import Session
from firelane.histogram import BUCKETS, bucket_of, percentiles_s
from firelane.metrics import LinkLoad, Metrics, metrics_table
from firelane.scenario.utility import utilities

PERCENTILES = (0.5, 0.95, 0.99)


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

    def counts(self, passed: int) -> npt.NDArray[np.int64]:
        """The histogram, with those who did not wait at all in its first bucket."""
        counts = np.zeros(BUCKETS, np.int64) if self.histogram is None else self.histogram.astype(np.int64)
        counts[0] += passed
        return counts


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

    def metrics(
        self, name: str, sessions: Iterable[Session], links: Iterable[Link], now: float, version: int | None
    ) -> Metrics:
        """The window as it is now."""
        lanes = [lane for session in sessions for lane in session.lanes.values() if lane.filter]
        window_s = max(now - self._began_at, 1e-9)
        tallies = [self._tally(lane) for lane in lanes]
        columns = _columns(lanes, tallies, window_s)
        curve = utilities([lane.need for lane in lanes])
        rows = len(lanes)
        value = curve.value(np.nan_to_num(columns["success"]))
        table = metrics_table(
            rows,
            {
                "source": np.repeat("live", rows),
                "window_start": pa.array([datetime.fromtimestamp(self._began_wall_s, UTC)] * rows),
                "window_s": np.full(rows, window_s),
                "subscriber": pa.array([one.session.name for one in lanes], pa.string()),
                "filter": pa.array([one.filter for one in lanes], pa.string()),
                "utility": value,
                "utility_max": curve.most,
                "plan_version": None if version is None else np.full(rows, version),
                **columns,
            },
        )
        late = np.array([_kept(lane, tally) for lane, tally in zip(lanes, tallies, strict=True)])
        loads = {one.name: self._load(one, window_s) for one in links if one.paced}
        return Metrics(source="live", scenario=name, table=table, links=loads, discounted=float((value * late).sum()))

    def _load(self, link: Link, window_s: float) -> LinkLoad:
        load = (link.sent_bytes - self._link_bytes.get(link, 0)) * link.byte_s / window_s
        return LinkLoad(load=load, stable=link.queued < link.most)


def _columns(lanes: list[Lane], tallies: list[Tally], window_s: float) -> dict[str, npt.NDArray[np.float64]]:
    both = list(zip(lanes, tallies, strict=True))
    due = np.array([lane.due - one.due + lane.merged - one.merged for lane, one in both], float)
    delivered = np.array([lane.delivered - one.delivered for lane, one in both], float)
    by_others = np.array([lane.merged - one.merged - (lane.unmerged - one.unmerged) for lane, one in both], float)
    unmerged = np.array([lane.unmerged - one.unmerged for lane, one in both], float)
    dropped = np.array(
        [[a - b for a, b in zip(lane.dropped, one.dropped, strict=True)] for lane, one in both], float
    ).reshape(len(both), len(Dropped))
    settled = delivered + by_others + dropped.sum(axis=1) + unmerged
    passed = np.array([lane.passed - one.passed for lane, one in both], float)
    timed = np.array([one.timed for one in tallies], float) + passed
    total_s = np.array([one.delay_s for one in tallies])
    histogram = np.array([one.counts(lane.passed - one.passed) for lane, one in both]).reshape(len(both), BUCKETS)
    percentiles = percentiles_s(histogram, PERCENTILES)
    return {
        "flow": np.array([-1 if lane.flow is None else lane.flow for lane in lanes]),
        "priority": np.array([lane.klass for lane in lanes], np.int64),
        "drop_rate": np.array([lane.drop_rate for lane in lanes], float),
        "stable": dropped[:, Dropped.OVERFLOW] == 0,
        "offered_hz": due / window_s,
        "delivered_hz": delivered / window_s,
        "success": np.divide(delivered + by_others, settled, out=np.full(len(both), np.nan), where=settled > 0),
        "delay_mean_s": np.divide(total_s, timed, out=np.full(len(both), np.nan), where=timed > 0),
        **{f"delay_p{round(100 * share)}_s": percentiles[:, n] for n, share in enumerate(PERCENTILES)},
        "bytes": np.array([lane.bytes - one.bytes for lane, one in both], np.int64),
        **{f"dropped_{why.name.lower()}": dropped[:, why].astype(np.int64) for why in Dropped},
        "queued": np.array([lane.owed for lane in lanes], np.int64),
    }


def _kept(lane: Lane, tally: Tally) -> float:
    """How much of its value a late delivery keeps: max_delay / delay beyond max_delay, else all."""
    timed = tally.timed + lane.passed - tally.passed
    bound, delay_s = lane.need.max_delay_s, tally.delay_s / timed if timed else 0.0
    return 1.0 if bound is None or delay_s <= bound else bound / delay_s
