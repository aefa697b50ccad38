"""What a publisher sends of its sensors: the readings that the shared models failed to predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.errors import FirelaneError
from firelane.sense.state import (
    COVARIANCE,
    FIELDS,
    MODELS,
    NOISE,
    SIDE,
    SLOPE_VARIANCE,
    TIME,
    VALUE,
    VARIANCE,
    VERSION,
    WANDER,
)
from firelane.sense.trace import LEAST_DELTA, MOST_VALUE

MOST_OF_STATE = 1e100  # so that no product overflows


class UpdateError(FirelaneError):
    """Updates or readings that a bank cannot take; it is as it was before them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Updates:
    """A row for every update, in order; `whole` ones carry the state after them, which heals what was lost before."""

    sensor: Ints
    sequence: Ints  # of the sensor's updates, from 1
    time_s: Floats  # the publisher's
    value: Floats
    delta: Floats
    model: Ints  # that predicts from now on
    whole: Flags
    state: Floats  # whole updates x fields of a bank's state
    version: int = VERSION

    def __len__(self) -> int:
        return len(self.sensor)

    def pick(self, rows: Ints | Flags) -> Updates:
        """Some of them, such as those that were not lost."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        return Updates(
            sensor=self.sensor[rows],
            sequence=self.sequence[rows],
            time_s=self.time_s[rows],
            value=self.value[rows],
            delta=self.delta[rows],
            model=self.model[rows],
            whole=self.whole[rows],
            state=self._states_of(rows),
            version=self.version,
        )

    def _states_of(self, rows: Ints | Flags) -> Floats:
        if not len(self.state):
            return self.state
        return self.state[np.isin(np.flatnonzero(self.whole), np.arange(len(self))[rows])]

    def check(self, sensors: int) -> None:
        """Refuse what a bank of so many sensors does not know or cannot reckon with."""
        if self.version != VERSION:
            raise UpdateError(
                f"updates follow version {self.version} of the models, this side knows version {VERSION}; "
                "use the same release at both ends"
            )
        columns = (self.sensor, self.sequence, self.time_s, self.value, self.delta, self.model, self.whole)
        if any(one.shape != (len(self),) for one in columns):
            raise UpdateError("the columns of updates have different lengths; leave these updates out")
        for good, what in (
            ((self.sensor >= 0) & (self.sensor < sensors), f"is not one of the {sensors} that are known here"),
            ((self.model >= 0) & (self.model < len(MODELS)), f"uses a model that is not one of {', '.join(MODELS)}"),
            (self.sequence >= 1, "has no number; they count from 1"),
            (np.abs(self.time_s) <= MOST_VALUE, "has a time that is no number, or too large"),
            (np.abs(self.value) <= MOST_VALUE, "has a value that is no number, or too large"),
            ((self.delta >= LEAST_DELTA) & (self.delta <= MOST_VALUE), "has a delta that is none"),
        ):
            if not good.all():
                row = int(np.flatnonzero(~good)[0])
                raise UpdateError(f"update {self.sequence[row]} of sensor {self.sensor[row]} {what}; leave it out")
        if self.state.shape != (np.count_nonzero(self.whole), FIELDS):
            raise UpdateError("the states of whole updates are not all there; leave these updates out")
        if not self._states_can_be():
            raise UpdateError("a whole update carries a state that no filter has; leave it out")

    def _states_can_be(self) -> bool:
        """Whether states are such that all that follows from them is finite and no variance negative."""
        state = self.state
        positive = state[:, [VARIANCE, SLOPE_VARIANCE, WANDER, NOISE]]
        as_told = np.column_stack([self.time_s[self.whole], self.value[self.whole]])
        return bool(
            (np.abs(state) <= MOST_OF_STATE).all()  # NaN is not
            and (positive > 0).all()
            and (state[:, COVARIANCE] >= 0).all()
            and np.isin(state[:, SIDE], (-1.0, 0.0, 1.0)).all()
            and np.array_equal(state[:, [TIME, VALUE]], as_told)
        )
