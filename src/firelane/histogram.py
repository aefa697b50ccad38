"""Fixed log buckets for delays, the same everywhere, so that histograms merge by adding.

Sixteen buckets to a doubling, from 1 µs (2^-20 s) to 4096 s: the bucket is read off the float's bits, and
a percentile interpolated inside its bucket is within 3 % of a spread sample's, and within a bucket's width
(6 %) if all delays are equal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BUCKETS = 512
ROWS_AT_ONCE = 4096  # histograms are large; their cumulative sums are made in blocks
FIRST_EXPONENT = -20
SHIFT = 48  # drops all but four bits of the mantissa of a float64
OFFSET = (FIRST_EXPONENT + 1023) << (52 - SHIFT)


def bucket_of(delay_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The bucket of each delay; the first and last take what lies beyond."""
    bits = np.ascontiguousarray(delay_s, np.float64).view(np.int64)
    buckets: npt.NDArray[np.int64] = np.clip((bits >> SHIFT) - OFFSET, 0, BUCKETS - 1)
    return buckets


def edges_s() -> npt.NDArray[np.float64]:
    """The lower edge of every bucket and the upper edge of the last."""
    edges = ((np.arange(BUCKETS + 1, dtype=np.int64) + OFFSET) << SHIFT).view(np.float64).copy()
    edges[0] = 0.0
    return edges


def percentiles_s(counts: npt.NDArray[np.integer], shares: tuple[float, ...]) -> npt.NDArray[np.float64]:
    """Percentiles of histograms (rows of `counts`), one column per share; NaN where a row is empty."""
    result = np.full((len(counts), len(shares)), np.nan)
    for start in range(0, len(counts), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        result[part] = _percentiles_s(counts[part], shares)
    return result


def _percentiles_s(counts: npt.NDArray[np.integer], shares: tuple[float, ...]) -> npt.NDArray[np.float64]:
    cumulative = np.cumsum(counts, axis=1, dtype=np.float64)
    total = cumulative[:, -1]
    edges = edges_s()
    result = np.full((len(counts), len(shares)), np.nan)
    for column, share in enumerate(shares):
        rank = share * total
        bucket = np.minimum((cumulative < rank[:, None]).sum(axis=1), BUCKETS - 1)
        rows = np.arange(len(counts))
        inside = np.maximum(counts[rows, bucket], 1)
        before = cumulative[rows, bucket] - counts[rows, bucket]
        part = np.clip((rank - before) / inside, 0.0, 1.0)
        value = edges[bucket] + part * (edges[bucket + 1] - edges[bucket])
        result[:, column] = np.where(total > 0, value, np.nan)
    return result
