"""What topics weighed at the last steps, a column each in one array: bounded in steps and in topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from firelane.arrays import Floats

FIRST_COLUMNS = 16


class Lately:
    """The loads of so many steps; a topic is forgotten when it had none in any of them.

    Beyond `most_topics` further ones are not remembered, and counted in `left_out`.
    """

    def __init__(self, steps: int, most_topics: int) -> None:
        self._load = np.zeros((steps, FIRST_COLUMNS))
        self._column: dict[str, int] = {}
        self._free = list(range(FIRST_COLUMNS))
        self._most = most_topics
        self._recorded = 0
        self.left_out = 0

    def __len__(self) -> int:
        """The steps that are remembered."""
        return min(self._recorded, len(self._load))

    @property
    def topics(self) -> frozenset[str]:
        """Those that had a load at one of the steps."""
        return frozenset(self._column)

    def record(self, loads: Mapping[str, float]) -> None:
        """One step more; the oldest is forgotten."""
        if not len(self._load):
            return
        found = [(self._column_of(topic), load) for topic, load in loads.items()]
        row = self._load[self._recorded % len(self._load)]
        row[:] = 0.0
        self._recorded += 1
        for column, load in found:
            if column is not None:
                row[column] = load
        self._forget()

    def of(self, topics: Sequence[str]) -> Floats:
        """Steps x topics, the newest step last; 0 for what is not remembered."""
        rows = np.arange(self._recorded - len(self), self._recorded) % max(len(self._load), 1)
        column = np.array([self._column.get(topic, -1) for topic in topics], np.int64)
        return np.where(column >= 0, self._load[rows][:, column], 0.0)

    def _column_of(self, topic: str) -> int | None:
        column = self._column.get(topic)
        if column is None and len(self._column) < self._most:
            if not self._free:
                self._widen()
            column = self._column[topic] = self._free.pop()
        self.left_out += column is None
        return column

    def _widen(self) -> None:
        steps, columns = self._load.shape
        self._load = np.hstack((self._load, np.zeros((steps, columns))))
        self._free = list(range(columns, 2 * columns))

    def _forget(self) -> None:
        some = set(np.flatnonzero(self._load.any(axis=0)).tolist())
        for topic in [topic for topic, column in self._column.items() if column not in some]:
            self._free.append(self._column.pop(topic))
