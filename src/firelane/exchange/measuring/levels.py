"""Means that forget slowly while all is as it was, and at once when two looks in a row agree that it is not.

How far looks usually are from a mean is remembered too, so that what comes in bursts is not taken for a change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firelane.arrays import Flags, Floats, Ints

SURE_SQUARED = 4**2  # standard deviations from which on a look is a surprise,
LEAST_CHANGE = 0.2  # if it is as far off as this, relative to the mean
PARTLY_SQUARED = 2**2  # that two looks differ by from which on the mean of both errs more than the later one alone

# `spread` is the mean square of how far looks were off, beyond chance; `before` what the last look saw, if that was a
# surprise (`doubted`). All zero: nothing is known yet.
LEVEL = np.dtype(
    [("value", np.float64), ("looks", np.int64), ("spread", np.float64), ("before", np.float64), ("doubted", np.bool_)]
)


def look(
    levels: npt.NDArray[Any], which: Ints, seen: Floats, noise: Floats, weight: float, new_noise: Floats | None = None
) -> Flags:
    """Blend into some levels what was seen, which chance alone moves by so much (variances); says which have changed.

    `new_noise` is what chance does to what was seen if the level has changed to it, where that is known.

    The first looks are averaged, then older ones fade. A change seldom falls between two looks: the first of the two
    that tell of it saw only part of it, and counts if it differs from the second by no more than chance.
    """
    value, before, doubted = (levels[name][which] for name in ("value", "before", "doubted"))
    looks, spread = levels["looks"][which] + 1, levels["spread"][which]
    share = np.maximum(weight, 1 / looks)
    off = seen - value
    square = off * off
    surprise = (square > SURE_SQUARED * (noise + spread)) & (np.abs(off) > LEAST_CHANGE * value)
    changed: Flags = doubted & surprise & (off * (before - value) > 0)
    waits = surprise & (looks > 1) & ~changed
    spread = np.where(doubted, _wider(spread, (before - value) ** 2 - noise, share), spread)
    spread = np.where(waits, spread, _wider(spread, square - noise, share))
    partly = (seen - before) ** 2 > PARTLY_SQUARED * (noise if new_noise is None else new_noise)
    levels["value"][which] = np.where(changed, np.where(partly, seen, (seen + before) / 2), value + share * off)
    levels["looks"][which] = np.where(changed, np.where(partly, 1, 2), looks)
    levels["spread"][which] = np.where(changed | (looks == 1), 0.0, spread)
    levels["before"][which] = seen
    levels["doubted"][which] = waits
    return changed


def _wider(spread: Floats, beyond: Floats, share: Floats) -> Floats:
    return np.maximum(0.0, spread + share * (beyond - spread))
