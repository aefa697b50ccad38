"""What other sites retain and nobody here wants any more is forgotten: what becomes of it there is no longer heard of.

Whoever wants it again is told what is retained there then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from firelane.exchange.broker import Broker
from firelane.exchange.journal.retained import origin_of

EVERYTHING = ("#",)  # that clients may publish
FEW = 4
AT_ONCE = 5000  # steps in search of such messages, before others have their turn: some milliseconds


class Unwanted:
    """Of one edge: a few steps at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._filters: deque[str] = deque()
        self._steps: Iterator[bytes | None] | None = None

    @property
    def busy(self) -> bool:
        """Whether something is left to be looked at; until then nobody is to be told what is wanted since."""
        return self._steps is not None or bool(self._filters)

    def add(self, filters: Iterable[str]) -> None:
        """Nobody wants these any more, though others may match the same topics."""
        self._filters.extend(filters)
        if sum("+" in one or "#" in one for one in self._filters) > FEW:  # each is a walk; one of all is right as well
            self._filters = deque(EVERYTHING)

    def look(self, wanted: Callable[[str], bool]) -> None:
        """Forget some of what nobody wants."""
        left = AT_ONCE
        while left and self.busy:
            if self._steps is None:
                self._steps = self._broker.retained.steps(self._filters.popleft())
            some = list(islice(self._steps, left))
            for topic in some:
                if topic is not None:
                    self._forget(topic, wanted)
            if len(some) < left:
                self._steps = None
            left -= max(1, len(some))

    def finish(self, wanted: Callable[[str], bool]) -> None:
        """Forget all of it."""
        while self.busy:
            self.look(wanted)

    def _forget(self, topic: bytes, wanted: Callable[[str], bool]) -> None:
        message = self._broker.retained.get(topic)
        if message is None or origin_of(message) is None or wanted(topic.decode()):
            return
        over = self._broker.retained.clear(topic)
        assert over is not None
        self._broker.journal.unretained(over)
