"""A client for scripts: one UDP socket, one message of MQTT-SN at a time, free to misbehave."""

from __future__ import annotations

import itertools
import socket
import time

from firelane.mqtt.sn.decode import decode
from firelane.mqtt.sn.encode import encode
from firelane.mqtt.sn.messages import Answer, Connect, Kind, Message, Suback, Subscribe

PATIENCE_S = 10.0


class Udp:
    """A socket of a client; what comes out of turn waits until it is asked for."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.waiting: list[Message] = []
        self._ids = itertools.count(1)

    def __enter__(self) -> Udp:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, message: Message) -> None:
        self.socket.send(encode(message))

    def expect(self, kind: type, within_s: float = PATIENCE_S) -> Message:
        """The next message of a type; others wait."""
        for place, one in enumerate(self.waiting):
            if isinstance(one, kind):
                return self.waiting.pop(place)
        deadline = time.monotonic() + within_s
        while True:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            one = decode(self.socket.recv(65_536))
            if isinstance(one, kind):
                return one
            self.waiting.append(one)

    def expect_nothing(self, seconds: float) -> None:
        self.socket.settimeout(seconds)
        try:
            came = decode(self.socket.recv(65_536))
        except TimeoutError:
            came = None
        assert came is None
        assert not self.waiting

    def connect(self, client_id: str, **fields: object) -> int:
        self.say(Connect(client_id=client_id, **fields))
        return self.expect(Answer).return_code

    def subscribe(self, topic: str, qos: int = 0) -> Suback:
        self.say(Subscribe(kind=Kind.SUBSCRIBE, message_id=next(self._ids), topic=topic, qos=qos))
        return self.expect(Suback)
