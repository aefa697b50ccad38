"""A broker of a few lines that does to every delivery what it is told to: to see whether the load notices."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connack, Connect, Disconnect, Kind, Publish, Suback, Subscribe
from firelane.mqtt.topics import matches

Tamper = Callable[[str, bytes], list[bytes]]  # a subscriber and a packet for it -> what it gets instead
MOST_BYTES = 10_000_000


def honestly(_: str, packet: bytes) -> list[bytes]:
    return [packet]


class _Guest:
    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.name = ""
        self.filters: list[str] = []
        self.buffer = bytearray()


class Crooked:
    def __init__(self, listener: socket.socket, tamper: Tamper) -> None:
        self.port = listener.getsockname()[1]
        self.stopping = False
        self._listener, self._tamper = listener, tamper
        self._guests: list[_Guest] = []
        self._ready = selectors.DefaultSelector()
        self._ready.register(listener, selectors.EVENT_READ)

    def run(self) -> None:
        with self._ready:
            while not self.stopping:
                for key, _ in self._ready.select(0.02):
                    if key.data is None:
                        self._welcome()
                    else:
                        self._read(key.data)
        for guest in self._guests:
            guest.link.close()

    def _welcome(self) -> None:
        guest = _Guest(self._listener.accept()[0])
        guest.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._guests.append(guest)
        self._ready.register(guest.link, selectors.EVENT_READ, guest)

    def _read(self, guest: _Guest) -> None:
        arrived = b""
        with suppress(ConnectionError):
            arrived = guest.link.recv(1 << 18)
        if not arrived:
            self._ready.unregister(guest.link)
            self._guests.remove(guest)
            guest.link.close()
        guest.buffer += arrived
        while (place := frame(guest.buffer, 0, MOST_BYTES)) is not None and place[1] <= len(guest.buffer):
            start, end = place
            raw = bytes(guest.buffer[:end])
            del guest.buffer[:end]
            self._handle(guest, raw, decode(raw[0], raw[start:], V5))

    def _handle(self, guest: _Guest, raw: bytes, packet: object) -> None:
        match packet:
            case Connect():
                guest.name = packet.client_id
                guest.link.sendall(encode(Connack(), V5))
            case Subscribe():
                guest.filters = [one.filter for one in packet.subscriptions]
                answer = Suback(kind=Kind.SUBACK, packet_id=packet.packet_id, reasons=[0] * len(guest.filters))
                guest.link.sendall(encode(answer, V5))
            case Publish():
                for one in self._guests:
                    if any(matches(wanted, packet.topic) for wanted in one.filters):
                        with suppress(ConnectionError):  # it has had enough
                            one.link.sendall(b"".join(self._tamper(one.name, raw)))
            case Disconnect():
                pass


@contextmanager
def crooked(tamper: Tamper = honestly) -> Iterator[Crooked]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = Crooked(listener, tamper)
        thread = Thread(target=broker.run)
        thread.start()
        try:
            yield broker
        finally:
            broker.stopping = True
            thread.join()
