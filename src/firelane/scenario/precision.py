"""How much less has to be sent of sensors when the precision they are told with is widened.

A stream of sensors that is told anew to somebody who bears `factor` times its delta is off by what remains above that
delta, so the rate of updates falls with the root of `factor - 1`. Up to twice the delta nothing is saved.

Implements: rdds, section III-B3, Eq. 5 (the rate of updates falls with the root of the precision).
Differs:    the precision is what may differ between the stream and what is told of it (docs/reference/sense.md has what
            was measured).
Symbols:    delta_i -> factor x tolerance.
Checked by: tests/scenario/test_precision.py, tests/sense/test_recoding.py
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firelane.arrays import Floats

WORTH_IT = 2.0  # from this factor on something is saved


def kept_share(factor: npt.ArrayLike) -> Floats:
    """The share of updates that are left when a tolerance is widened by a factor."""
    wide = np.maximum(np.asarray(factor, np.float64), WORTH_IT)
    return np.asarray((wide - 1.0) ** -0.5)


def widening(share: npt.ArrayLike) -> Floats:
    """The factor that leaves just this share of updates; 1 if all are to be left."""
    some = np.asarray(share, np.float64)
    return np.where(some < 1.0, 1.0 + np.maximum(some, 1e-9) ** -2.0, 1.0)
