"""Datagrams between a broker that is driven by hand and clients on UDP.

    air = Air(desk, predefined={1: "a/b"})
    ann = air.join("ann")                   a client that was let in
    ann.subscribe("a/#")
    ann.say(...)                            whatever it wants
    assert ann.heard() == [...]             what has come for it since

What `air.loses` says of a datagram is lost on its way to the client.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from desk import Desk

from firelane.exchange.gateway.listener import Listener
from firelane.mqtt.sn.decode import decode
from firelane.mqtt.sn.encode import encode
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Answer,
    Connect,
    Kind,
    Message,
    Plain,
    Publish,
    Register,
    Step,
    Suback,
    Subscribe,
    TopicKind,
    WillMessage,
    WillTopic,
)
from firelane.scenario.settings import MqttSn


class Air:
    """What a listener needs of a server and of a socket."""

    def __init__(self, desk: Desk, **settings: object) -> None:
        self.desk = desk
        self.drivers: dict[object, None] = {}
        self.loses: Callable[[Message], bool] = lambda message: False
        self.sensors: dict[tuple[str, int], Sensor] = {}
        self.sent_bytes: dict[tuple[str, int], int] = {}
        self._later: list[Callable[[], None]] = []
        self._ports = itertools.count(1)
        self.listener = Listener(self, MqttSn(**settings), clock=lambda: desk.now)
        self.listener.connection_made(self)

    @property
    def broker(self):
        return self.desk.broker

    @property
    def counts(self):
        return self.broker.counts

    # ---- the server

    def settle(self) -> None:
        self.desk.settle()

    def later(self, act: Callable[[], None]) -> None:
        self._later.append(act)

    def forget(self, driver: object) -> None:
        self.drivers.pop(driver, None)

    # ---- the socket

    def is_closing(self) -> bool:
        return False

    def sendto(self, datagram: bytes, address: tuple[str, int]) -> None:
        self.sent_bytes[address] = self.sent_bytes.get(address, 0) + len(datagram)
        assert len(datagram) <= max(self.listener.settings.datagram_bytes, 255)
        message = decode(datagram)
        if address in self.sensors and not self.loses(message):
            self.sensors[address].arrived.append(message)

    # ---- what happens

    def arrive(self, datagram: bytes, address: tuple[str, int]) -> None:
        """A datagram comes from an address."""
        self.listener.datagram_received(datagram, address)
        self.go_on()

    def go_on(self) -> None:
        """What waited for its turn has it."""
        while self._later:
            self._later.pop(0)()

    def pass_time(self, seconds: float) -> None:
        """Let time pass in steps of a tick, and everybody notice."""
        for _ in range(round(seconds * 10)):
            self.listener.tick(self.desk.now + 0.1)
            self.desk.pass_time(0.1)
            self.go_on()

    def sensor(self, port: int | None = None, host: str = "127.0.0.1") -> Sensor:
        """A client that has said nothing."""
        sensor = Sensor(self, (host, next(self._ports) if port is None else port))
        self.sensors[sensor.address] = sensor
        return sensor

    def join(self, client_id: str, **fields: object) -> Sensor:
        """A client that is let in."""
        sensor = self.sensor()
        assert sensor.connect(client_id, **fields) == 0
        return sensor


class Sensor:
    """A client's end."""

    def __init__(self, air: Air, address: tuple[str, int]) -> None:
        self.air = air
        self.address = address
        self.arrived: list[Message] = []
        self.names: dict[int, str] = {}
        self._ids = itertools.count(1)

    def say(self, message: Message) -> None:
        self.air.arrive(encode(message), self.address)

    def heard(self, kind: type = object) -> list[Message]:
        """What has come, all of it or of a type."""
        found = [one for one in self.arrived if isinstance(one, kind)]
        self.arrived = [one for one in self.arrived if not isinstance(one, kind)]
        return found

    def connect(self, client_id: str, **fields: object) -> int:
        """Introduce itself; returns the return code."""
        self.say(Connect(client_id=client_id, **fields))
        (answer,) = self.heard(Answer)
        assert answer.kind is Kind.CONNACK
        return answer.return_code

    def connect_with_will(self, client_id: str, topic: str, payload: bytes, **fields: object) -> None:
        self.say(Connect(client_id=client_id, will=True, **fields))
        assert self.heard() == [Plain(kind=Kind.WILLTOPICREQ)]
        self.say(WillTopic(kind=Kind.WILLTOPIC, topic=topic))
        assert self.heard() == [Plain(kind=Kind.WILLMSGREQ)]
        self.say(WillMessage(kind=Kind.WILLMSG, payload=payload))
        assert self.heard(Answer) == [Answer(kind=Kind.CONNACK)]

    def subscribe(self, topic: int | str, kind: TopicKind = TopicKind.NORMAL, qos: int = 0) -> Suback:
        self.say(Subscribe(kind=Kind.SUBSCRIBE, message_id=next(self._ids), topic=topic, topic_kind=kind, qos=qos))
        (answer,) = self.heard(Suback)
        if answer.topic_id and kind is TopicKind.NORMAL:
            self.names[answer.topic_id] = topic
        return answer

    def register(self, topic: str) -> Acknowledged:
        self.say(Register(topic_id=0, message_id=next(self._ids), topic=topic))
        (answer,) = self.heard(Acknowledged)
        assert answer.kind is Kind.REGACK
        return answer

    def publish(self, topic: int | str, payload: bytes, kind: TopicKind = TopicKind.NORMAL, **fields: object) -> int:
        """Send a message; returns its message id."""
        message_id = next(self._ids) if fields.get("qos", 0) > 0 else 0
        self.say(Publish(topic=topic, topic_kind=kind, payload=payload, message_id=message_id, **fields))
        return message_id

    def take_in(self) -> list[tuple[str, bytes]]:
        """Answer everything as a good client does until nothing more comes; the messages, by the names it knows."""
        said = []
        while self.arrived:
            message = self.arrived.pop(0)
            match message:
                case Register():
                    self.names[message.topic_id] = message.topic
                    self.say(Acknowledged(kind=Kind.REGACK, topic_id=message.topic_id, message_id=message.message_id))
                case Publish():
                    name = message.topic
                    if message.topic_kind is TopicKind.NORMAL:
                        name = self.names[message.topic]
                    elif message.topic_kind is TopicKind.PREDEFINED:
                        name = self.air.listener.settings.predefined[message.topic]
                    said.append((name, message.payload))
                    if message.qos == 1:
                        topic_id = message.topic if isinstance(message.topic, int) else 0
                        answer = Acknowledged(kind=Kind.PUBACK, topic_id=topic_id, message_id=message.message_id)
                        self.say(answer)
                    elif message.qos == 2:
                        self.say(Step(kind=Kind.PUBREC, message_id=message.message_id))
                case Step(kind=Kind.PUBREL):
                    self.say(Step(kind=Kind.PUBCOMP, message_id=message.message_id))
        return said
