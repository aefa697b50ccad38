"""No broker at all: forwards every publisher's bytes to every subscriber, unread.

What the load reaches against it is the most that the load can show of any broker. It lets everybody in, gives every
subscriber everything, and takes PUBLISH packets of one size below 128 bytes; those of QoS 1 it acknowledges.
`python relay.py PORT` runs it.
"""

from __future__ import annotations

import select
import socket
import sys

CONNECT, PUBLISH, SUBSCRIBE = 0x10, 0x30, 0x80
QOS_1 = 0x32
CONNACK, PUBACK = bytes((0x20, 2, 0, 0)), bytes((0x40, 2, 0, 0))
PAYLOAD_BYTES = 64
READ_BYTES = 1 << 18


class Relay:
    """Publishers, subscribers, and the bytes between them."""

    def __init__(self, port: int = 0) -> None:
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1000)
        self.port = self.listener.getsockname()[1]
        self._poll = select.epoll()
        self._poll.register(self.listener, select.EPOLLIN)
        self._links: dict[int, socket.socket] = {}
        self._subscribers: list[socket.socket] = []
        self._rest: dict[int, bytes] = {}  # by publisher, the part of a packet that has come

    def run(self) -> None:
        """Until the process ends."""
        while True:
            for handle, _ in self._poll.poll():
                if handle == self.listener.fileno():
                    self._welcome()
                else:
                    self._read(self._links[handle])

    def forward(self, packets: bytes) -> None:
        """Whole packets to every subscriber."""
        for subscriber in self._subscribers:
            subscriber.sendall(packets)

    def _welcome(self) -> None:
        link, _ = self.listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links[link.fileno()] = link
        self._poll.register(link, select.EPOLLIN)

    def _read(self, link: socket.socket) -> None:
        data = link.recv(READ_BYTES)
        if not data:
            self._forget(link)
        elif link.fileno() in self._rest or data[0] & 0xF0 == PUBLISH:
            self._publish(link, self._rest.get(link.fileno(), b"") + data)
        elif data[0] == CONNECT:
            link.sendall(CONNACK)
        elif data[0] & 0xF0 == SUBSCRIBE:
            link.sendall(bytes((0x90, 3, *data[2:4], data[-1])))
            self._subscribers.append(link)

    def _publish(self, link: socket.socket, data: bytes) -> None:
        if len(data) >= 2:
            size = 2 + data[1]
            whole = len(data) // size * size
            if data[0] == QOS_1:
                self._acknowledge(link, data[:whole], size)
            self.forward(data[:whole])
            data = data[whole:]
        self._rest[link.fileno()] = data

    def _acknowledge(self, link: socket.socket, packets: bytes, size: int) -> None:
        """The packet identifier stands before the payload."""
        answer = bytearray(PUBACK * (len(packets) // size))
        answer[2::4] = packets[size - PAYLOAD_BYTES - 2 :: size]
        answer[3::4] = packets[size - PAYLOAD_BYTES - 1 :: size]
        link.sendall(answer)

    def _forget(self, link: socket.socket) -> None:
        self._rest.pop(link.fileno(), None)
        del self._links[link.fileno()]
        if link in self._subscribers:
            self._subscribers.remove(link)
        link.close()


if __name__ == "__main__":
    Relay(int(sys.argv[1])).run()
