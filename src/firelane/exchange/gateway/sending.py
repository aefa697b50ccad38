"""What goes to a client on UDP: a topic is told by its number first; what must be answered is sent again until it is.

One REGISTER and one message of QoS 1 or 2 are under way at a time, as small clients expect (MQTT-SN 1.2, sections 6.10,
6.12 and 6.13). Messages whose topic the client does not know yet wait in their lanes, so they keep their class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from firelane.exchange.gateway.topics import Topics
from firelane.exchange.lanes.message import Message
from firelane.exchange.measuring.counts import Counts
from firelane.mqtt.sn.encode import PUBLISH_BYTES, REGISTER_BYTES, encode, framed_bytes, most_payload
from firelane.mqtt.sn.messages import Acknowledged, Kind, Publish, Register, ReturnCode, Step
from firelane.scenario.settings import MqttSn

LAST_MESSAGE_ID = 65_535


@dataclass(slots=True)
class Pending:
    """Something that the client has not answered yet, and when it is sent again."""

    message: Publish | Step | Register
    topic: str  # of a message, or the one to be registered
    due_at: float
    tries: int = 1


class Out(Protocol):
    """Sends a datagram; what is the gateway's own has not been counted on the link yet."""

    def __call__(self, datagram: bytes, *, own: bool = False) -> None:
        """Send it."""
        ...


class Sending:
    """One client's side of it. `out` sends a datagram, `lost` is called when a client does not answer any more."""

    def __init__(
        self,
        settings: MqttSn,
        counts: Counts,
        out: Out,
        lost: Callable[[float], None],
        clock: Callable[[], float],
    ) -> None:
        self.topics = Topics(settings.predefined, settings.topics)
        self._settings = settings
        self._counts = counts
        self._out = out
        self._lost = lost
        self._clock = clock
        self.flying: dict[int, Pending] = {}  # by message id
        self.registering: Pending | None = None
        self._last_id = 0

    # ---- the gate that messages must pass

    @property
    def most_bytes(self) -> int:
        """The largest payload that goes into a datagram."""
        return most_payload(self._settings.datagram_bytes)

    def fits(self, message: Message) -> bool:
        """Whether a message, and the name of its topic, go into a datagram, and the client wants the topic."""
        most = self._settings.datagram_bytes
        if framed_bytes(PUBLISH_BYTES, len(message.payload)) > most:
            return False
        topic = message.topic.decode()
        if self.topics.written(topic) is not None:
            return True
        return framed_bytes(REGISTER_BYTES, len(message.topic)) <= most and not self.topics.refused(topic)

    def ready(self, message: Message) -> bool:
        """Whether the client knows the topic; if not, it is told."""
        topic = message.topic.decode()
        if self.topics.written(topic) is not None or not self.fits(message):
            return True  # what does not fit is dropped when it is sent
        if self.registering is None:
            self._register(topic)
        return False

    def _register(self, topic: str) -> None:
        self._last_id = self._last_id + 1 if self._last_id < LAST_MESSAGE_ID else 1
        message = Register(topic_id=self.topics.next_number(), message_id=self._last_id, topic=topic)
        self.registering = Pending(message, topic, self._clock() + self._settings.retry_s)
        self._out(encode(message), own=True)

    # ---- messages

    def publish(self, topic: str, message: Publish) -> None:
        """Send a message; its own `topic` is replaced by what the client knows."""
        if message.qos:
            self._fly(Pending(message, topic, self._clock() + self._settings.retry_s))
            return
        written = self.topics.written(topic)
        if written is None:
            self._counts.datagrams_ignored += 1  # its number went to another topic since it passed the gate
            return
        self._out(encode(replace(message, topic_kind=written[0], topic=written[1])))

    def release(self, message_id: int) -> None:
        """PUBREL: the second half of QoS 2."""
        message = Step(kind=Kind.PUBREL, message_id=message_id)
        self._fly(Pending(message, "", self._clock() + self._settings.retry_s))

    def _fly(self, pending: Pending, *, own: bool = False) -> None:
        message = pending.message
        self.flying[message.message_id] = pending
        if isinstance(message, Publish):
            written = self.topics.written(pending.topic)
            if written is None:
                if self.registering is None:
                    self._register(pending.topic)
                return
            self._out(encode(replace(message, topic_kind=written[0], topic=written[1])), own=own)
            pending.message = replace(message, duplicate=True)
        else:
            self._out(encode(message), own=own)

    # ---- answers

    def answered(self, message_id: int) -> None:
        """PUBACK, PUBREC or PUBCOMP came."""
        self.flying.pop(message_id, None)

    def unknown_topic(self, answer: Acknowledged, now: float) -> None:
        """The client says that a number stands for nothing: it has forgotten, or was never told."""
        pending = self.flying.get(answer.message_id)
        if pending is not None and pending.topic:
            self.topics.forget(pending.topic)
            self._again(pending, now)
        elif (name := self.topics.known(answer.topic_id)) is not None:
            self.topics.forget(name)

    def registered(self, answer: Acknowledged) -> list[Pending]:
        """REGACK: what waits for it goes on; returns messages under way of which the client does not want the topic."""
        asked = self.registering
        assert asked is not None
        assert isinstance(asked.message, Register)
        self.registering = None
        concerned = [one for one in self.flying.values() if one.topic == asked.topic]
        if answer.return_code != ReturnCode.ACCEPTED:
            self.topics.refuse(asked.topic)
            return concerned
        self.topics.register(asked.topic, asked.message.topic_id)
        for one in concerned:
            self._fly(one)
        return []

    def expects(self, answer: Acknowledged) -> bool:
        """Whether a REGACK answers what was asked, and for good: a client that is busy is asked again."""
        asked = self.registering
        if asked is None or asked.message.message_id != answer.message_id:
            return False
        return answer.return_code != ReturnCode.CONGESTION

    # ---- again

    @property
    def waits(self) -> bool:
        """Whether something has not been answered."""
        return bool(self.flying) or self.registering is not None

    def tick(self, now: float) -> None:
        """Send again what was not answered in time."""
        for pending in (self.registering, *self.flying.values()):
            if pending is not None and now >= pending.due_at:
                self._again(pending, now)

    def wake(self, now: float) -> None:
        """The client listens again: what it has not answered is sent at once."""
        for pending in (self.registering, *self.flying.values()):
            if pending is not None:
                pending.tries = 0
                self._again(pending, now)

    def _again(self, pending: Pending, now: float) -> None:
        if pending.tries > self._settings.retries:
            self._lost(now)
            return
        pending.tries += 1
        pending.due_at = now + self._settings.retry_s
        self._counts.datagrams_again += 1
        if pending is self.registering:
            self._out(encode(pending.message), own=True)
        else:
            self._fly(pending, own=True)
