"""The numbers that stand for topics between the gateway and one client (MQTT-SN 1.2, sections 6.5 and 6.7).

A table has so many places; who is used least recently gives way. A client that uses a number that is no more is told
so and registers anew, and a topic that lost its number gets another when it is needed, so nothing is lost by this.
"""

from __future__ import annotations

from collections.abc import Mapping

from firelane.mqtt.sn.messages import TopicKind, is_short

LAST_ID = 65_534
MOST_NAME_BYTES = 65_536  # of all names together

Written = tuple[TopicKind, int | str]  # how a topic is named in a message


class Topics:
    """Which numbers a client knows, and which topics it does not want to know."""

    def __init__(self, predefined: Mapping[int, str], most: int) -> None:
        self._predefined = predefined
        self._most = most
        self._numbers: dict[str, int] = {}  # the one used last comes last
        self._names: dict[int, str] = {}
        self._agreed: dict[str, int] = {}  # predefined ones that the client has used itself
        self._refused: dict[str, None] = {}
        self._name_bytes = 0
        self._last = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def name(self, kind: TopicKind, topic: int | str) -> str | None:
        """The topic that a client means; None if the number stands for nothing."""
        if isinstance(topic, str):
            return topic
        if kind is TopicKind.PREDEFINED:
            name = self._predefined.get(topic)
            if name is not None:
                self._agreed[name] = topic
            return name
        name = self._names.get(topic)
        if name is not None:
            self._use(name)
        return name

    def known(self, number: int) -> str | None:
        """The topic that a number stands for."""
        return self._names.get(number)

    def written(self, name: str) -> Written | None:
        """How a topic is named to the client; None if it has to be told a number first."""
        if name in self._numbers:
            return TopicKind.NORMAL, self._use(name)
        if name in self._agreed:
            return TopicKind.PREDEFINED, self._agreed[name]
        return (TopicKind.SHORT, name) if is_short(name) else None

    def register(self, name: str, number: int | None = None) -> int:
        """The number of a topic from now on: the one it has, this one, or the next that is free."""
        if name in self._numbers:
            return self._use(name)
        number = self.next_number() if number is None else number
        if number in self._names:
            self.forget(self._names[number])
        self._refused.pop(name, None)
        self._numbers[name], self._names[number] = number, name
        self._name_bytes += len(name)
        while len(self._numbers) > 1 and (len(self._numbers) > self._most or self._name_bytes > MOST_NAME_BYTES):
            self.forget(next(iter(self._numbers)))
        return number

    def next_number(self) -> int:
        """A number that stands for nothing, and did not lately."""
        while True:
            self._last = self._last + 1 if self._last < LAST_ID else 1
            if self._last not in self._names:
                return self._last

    def forget(self, name: str) -> None:
        """A client does not know what was believed that it knows."""
        number = self._numbers.pop(name, None)
        if number is not None:
            del self._names[number]
            self._name_bytes -= len(name)
        self._agreed.pop(name, None)

    def refuse(self, name: str) -> None:
        """A client does not want to know a topic."""
        self._refused[name] = None
        if len(self._refused) > self._most:
            del self._refused[next(iter(self._refused))]

    def refused(self, name: str) -> bool:
        """Whether it said so."""
        return name in self._refused

    def _use(self, name: str) -> int:
        number = self._numbers[name] = self._numbers.pop(name)
        return number
