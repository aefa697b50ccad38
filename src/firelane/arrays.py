"""The arrays that large things are kept in, and the one sum that all of them need."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def sum_by(place: Ints, values: npt.NDArray[np.generic], places: int) -> Floats:
    """The sum of the values that belong to each of so many places."""
    return np.bincount(place, values, minlength=places).astype(np.float64)


def optional(values: Floats) -> list[float | None]:
    """The values as a list, with None for what is not a number."""
    missing = np.isnan(values)
    if missing.all():
        return [None] * len(values)
    some = values.astype(object)
    some[missing] = None
    result: list[float | None] = some.tolist()
    return result
