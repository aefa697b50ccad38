"""What is to be written to whom: into outboxes at once, or when the log is safe up to where it must be."""

from __future__ import annotations

from collections import deque

from firelane.exchange.clients.connection import Connection
from firelane.exchange.clients.session import Session
from firelane.exchange.journal.journal import Journal


class Outboxes:
    """Owns the list of connections that have something to write."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.dirty: list[Connection] = []
        self.after_commit: deque[tuple[int, Connection, bytes]] = deque()

    def put(self, connection: Connection, data: bytes) -> None:
        """Put a message in the outbox of a connection."""
        if not connection.outbox:
            self.dirty.append(connection)
        connection.outbox.append(data)
        connection.outbox_bytes += len(data)

    def write(self, connection: Connection, data: bytes) -> None:
        """Put a control packet in the outbox of a connection, before all that waits."""
        self.put(connection, data)
        _charge(connection, data)

    def write_committed(self, connection: Connection, data: bytes, position: int) -> None:
        """The same, once the log is safe up to `position`."""
        if position <= self.journal.committed:
            self.put(connection, data)
        else:
            self.after_commit.append((position, connection, data))
        _charge(connection, data)

    def committed(self) -> list[Session]:
        """The log is safe further than before: acknowledge, and send what had to wait; returns who may be sent more."""
        waiting, self.after_commit = self.after_commit, deque()
        safe = self.journal.committed
        resumed: dict[Session, None] = {}
        for position, connection, data in waiting:
            session = connection.session
            if position > safe:
                self.after_commit.append((position, connection, data))
                continue
            if session is None or session.connection is None:
                continue  # gone meanwhile; what it is owed is sent when it comes back
            if session.connection is connection:  # else it has come back, and may be waiting for the same
                self.put(connection, data)
            if not session.connection.direct:
                resumed[session] = None
        return list(resumed)


def _charge(connection: Connection, data: bytes) -> None:
    session = connection.session
    if session is not None and session.link is not None and session.link.paced:
        session.link.charge(len(data))
