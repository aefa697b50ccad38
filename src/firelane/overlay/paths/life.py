"""Whether whoever is at the other end of a connection is alive: it says something, or has yet to hear the question.

On a thin uplink a question can wait behind seconds of messages. As long as what is before it moves, silence means
nothing; once the other end's kernel has it, an answer is due. No clock, no I/O.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios

from firelane.exchange.sockets.kernel import CLOSED, parsed, tcp_info


class Life:
    """Of one connection. Positions are bytes of its stream."""

    def __init__(self, now: float) -> None:
        self._since = now  # when there was the last sign of life
        self._question: int | None = None  # where the first one ends that has no answer
        self._acked = 0

    def heard(self, now: float) -> None:
        """Something came."""
        self._since = now
        self._question = None

    def asked(self, end: int) -> None:
        """A question was written; it ends there."""
        if self._question is None:
            self._question = end

    def silent_s(self, now: float, acked: int) -> float:
        """How long an answer has been due, or nothing has moved, now that so much has arrived there."""
        if self._question is not None and self._acked < acked < self._question:
            self._since = now
        self._acked = acked
        return now - self._since


def acked_bytes(socket_: socket.socket) -> int:
    """How much has arrived at the other end's kernel; 0 where this one does not tell."""
    raw = tcp_info(socket_)
    return 0 if raw is None else parsed(raw).acked_bytes


def queued_bytes(socket_: socket.socket) -> int:
    """How much is in this end's kernel, sent or not, that has not arrived there."""
    try:
        (size,) = struct.unpack("i", fcntl.ioctl(socket_.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    except CLOSED:
        return 0
    return int(size)
