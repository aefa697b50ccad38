"""Connections that say nothing, or hardly anything: they are let go after about ten seconds."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect
from live.brokers import firelane
from live.hard.ports import port_of, tls_and_websocket
from live.hard.witness import MB, Witness, open_files

pytestmark = pytest.mark.slow

COUNT = 50
HELLO = encode(Connect(client_id="s" * 100, version=V5), V5)


def test_who_does_not_introduce_himself_is_let_go(tmp_path):
    with firelane(tmp_path, *tls_and_websocket(tmp_path)) as broker, Witness(broker) as witness, ExitStack() as opened:
        before = open_files(broker)
        silent, dribbling = [], []
        for port in [broker.port, port_of(broker, "mqtts"), port_of(broker, "ws")]:
            silent += [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(COUNT)]
        dribbling = [opened.enter_context(socket.create_connection(("127.0.0.1", broker.port))) for _ in range(COUNT)]
        feeding = threading.Thread(target=feed, args=(dribbling,))
        feeding.start()
        started = time.monotonic()
        while open_files(broker) > before:
            assert time.monotonic() < started + 30
            time.sleep(0.1)
        assert time.monotonic() > started + 5
        feeding.join()
        assert witness.grown_bytes < 20 * MB


def feed(sockets):
    """A byte of CONNECT for everybody every now and then, until nobody takes one."""
    listening = set(sockets)
    for byte in HELLO:
        for one in list(listening):
            try:
                one.sendall(bytes((byte,)))
            except ConnectionError:
                listening.discard(one)
        if not listening:
            return
        time.sleep(0.2)
