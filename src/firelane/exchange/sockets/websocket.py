"""MQTT inside WebSocket frames (MQTT 5, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from firelane.exchange.sockets.server import Driver

if TYPE_CHECKING:
    from firelane.exchange.sockets.server import Server


class WebSocketDriver(Driver):
    """A connection whose bytes come and go in binary frames; how frames are cut says nothing (MQTT-6.0.0-2)."""

    __slots__ = ("_socket",)

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        limit = server.broker.limits.packet_bytes + 65_536
        self._socket = ServerProtocol(subprotocols=["mqtt"], max_size=limit)  # type: ignore[list-item]

    def take(self, data: bytes, now: float) -> None:
        """Frames, or the handshake before them."""
        self._socket.receive_data(data)
        for event in self._socket.events_received():
            if isinstance(event, Request):
                self._socket.send_response(self._socket.accept(event))
            elif isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.CONT):
                super().take(bytes(event.data), now)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:  # MQTT-6.0.0-1
                self._socket.fail(1003, "MQTT is binary")
        self._pass_on()

    def eof_received(self) -> None:
        """The client says no more."""
        self._socket.receive_eof()
        self._pass_on()

    def write(self, data: bytes) -> None:
        """Bytes to the client, in one frame."""
        if not self._closing and data and self._socket.state is State.OPEN:
            self._socket.send_binary(data)
            self._pass_on()

    def close(self) -> None:
        """Say goodbye as WebSocket does, then close."""
        if not self._closing and self._socket.state is State.OPEN:
            self._socket.send_close(1000)
            self._pass_on()
        super().close()

    def _pass_on(self) -> None:
        for data in self._socket.data_to_send():
            if data:
                self._transport.write(data)
            else:
                super().close()
        if not self.connection.writable:
            self._read_no_more_than_is_read()
        if self._socket.close_expected() and self._socket.state is State.CLOSED:
            super().close()
