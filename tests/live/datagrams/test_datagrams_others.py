"""A client that others wrote (the mqttsn package, after Eclipse's RSMB) against the exchange.

It knows how to enter, subscribe and publish, and hands numbers and names as they come to its callback.
"""

from __future__ import annotations

import socket
import time

import pytest
from mqttsn.client import Callback
from mqttsn.client import Client as Theirs
from mqttsn.client import publish as publish_without_connection

from live.brokers import HOST, firelane
from live.hard.ports import port_of
from live.wire import Wire

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),  # its reader has no way to end
]
PATIENCE_S = 10.0


class Seen(Callback):
    def __init__(self) -> None:
        self.messages: list[tuple[object, bytes]] = []
        self.registered: dict[int, bytes] = {}
        self.answered: list[int] = []

    def message_arrived(self, topic, payload, qos, retained, message_id) -> bool:
        self.messages.append((topic, payload))
        return True

    def published(self, message_id) -> None:
        self.answered.append(message_id)


def wait_for(done) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_mqttsn_package_publishes_and_subscribes(tmp_path):
    with firelane(tmp_path, "--set", "exchange.mqtt_sn={port: 0}") as broker, Wire(broker.port) as wire:
        port = port_of(broker, "mqtt-sn")
        wire.connect()
        wire.subscribe("#")
        theirs, seen = Theirs(b"theirs", HOST, port), Seen()
        theirs.register_callback(seen)
        theirs.connect()
        assert theirs.subscribe("ab") == (0, 0)
        code, number = theirs.subscribe("some/topic", 1)
        assert code == 0
        assert number > 0
        assert theirs.register(b"other/topic") > 0

        wire.publish("ab", b"short")
        wait_for(lambda: ("ab", b"short") in seen.messages)
        assert wire.take().payload == b"short"

        theirs.publish("ab", "from them", qos=0)
        assert wire.take().payload == b"from them"
        message_id = theirs.publish(number, "surely", qos=1)
        came = wire.take()
        assert (came.topic, came.payload) == ("some/topic", b"surely")
        wait_for(lambda: message_id in seen.answered)
        message_id = theirs.publish(number, "once", qos=2)
        assert wire.take().payload == b"once"
        wait_for(lambda: message_id in seen.answered)

        publish_without_connection("cd", "thrown", port=port, host=HOST)
        came = wire.take()
        assert (came.topic, came.payload) == ("cd", b"thrown")
        theirs.sock.shutdown(socket.SHUT_RDWR)  # its own goodbye fails, as it makes no message of two bytes
        theirs.sock.close()
