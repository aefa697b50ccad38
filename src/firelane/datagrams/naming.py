"""How topics are named in datagrams: by a number that was registered or agreed on, or by a name of two bytes."""

from __future__ import annotations

from collections.abc import Mapping

from firelane.mqtt.sn.messages import Publish, TopicKind, is_short

MOST_TOPICS = 10_000

Written = tuple[TopicKind, int | str]


class Naming:
    """The numbers that a client knows of its exchange."""

    def __init__(self, predefined: Mapping[int, str]) -> None:
        self._predefined = dict(predefined)
        self._agreed = {name: number for number, name in predefined.items()}
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def written(self, topic: str) -> Written | None:
        """How a topic is written in a message; None if it must be registered first."""
        if topic in self._agreed:
            return TopicKind.PREDEFINED, self._agreed[topic]
        if is_short(topic):
            return TopicKind.SHORT, topic
        number = self._numbers.get(topic)
        return None if number is None else (TopicKind.NORMAL, number)

    def wished(self, topic_filter: str) -> Written:
        """How a filter is written in SUBSCRIBE."""
        number = self._agreed.get(topic_filter)
        return (TopicKind.NORMAL, topic_filter) if number is None else (TopicKind.PREDEFINED, number)

    def name(self, message: Publish) -> str | None:
        """The topic of a message that came; None if its number stands for nothing."""
        if isinstance(message.topic, str):
            return message.topic
        return (self._predefined if message.topic_kind is TopicKind.PREDEFINED else self._names).get(message.topic)

    def learn(self, topic: str, number: int) -> None:
        """A number stands for a topic from now on."""
        if len(self._names) >= MOST_TOPICS:
            self.clear()
        self._numbers[topic], self._names[number] = number, topic

    def forget(self, topic: str | None = None, number: int = 0) -> None:
        """The other side does not know a topic, or a number, any more."""
        topic = self._names.get(number) if topic is None else topic
        if topic in self._numbers:
            self._names.pop(self._numbers.pop(topic), None)

    def clear(self) -> None:
        """All of them, as after a new connection."""
        self._numbers.clear()
        self._names.clear()
