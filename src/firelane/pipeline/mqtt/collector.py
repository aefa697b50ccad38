"""The thread that brings what a broker says into the log, and acknowledges what is there."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.blocks import Message
from firelane.pipeline.mqtt.log import Log
from firelane.pipeline.mqtt.session import BrokerError, BrokerSession, TakenOverError, Wishes

WAIT_S = 0.5  # for messages, between looks at what else there is to do
FULL_WAIT_S = 0.1
TIDY_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
LASTING_S = 10.0  # a connection that lasts for so long was a good one


class Collector:
    """Collects from the moment it is made, which is a BrokerError if the broker cannot be had.

    Later on it connects again, with longer and longer pauses. What ends it for good is raised by `check`.
    """

    def __init__(self, log: Log, address: Address, wishes: Wishes, *, readers: Sequence[str]) -> None:
        self._log = log
        self._address = address
        self._wishes = wishes
        self._readers = readers
        self._counts = {"received": 0, "repeated": 0, "sessions_lost": 0}
        self._tidied_s = 0.0
        self._ended = threading.Event()
        self._problem: BaseException | None = None
        first = BrokerSession(address, wishes)
        self._thread = threading.Thread(target=self._run, args=(first,), name="firelane-mqtt", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what ended it, if anything did."""
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        """End the thread and let go of the log."""
        self._ended.set()
        self._thread.join()
        self._log.close()

    def _run(self, session: BrokerSession) -> None:
        try:
            self._stay_connected(session)
        except BaseException as problem:  # whatever it is, `check` hands it on
            self._problem = problem

    def _stay_connected(self, session: BrokerSession | None) -> None:
        pause_s, began_s = FIRST_PAUSE_S, 0.0
        while not self._ended.is_set():
            try:
                if session is None:
                    session = BrokerSession(self._address, self._wishes)
                    self._counts["sessions_lost"] += not session.resumed
                began_s = time.monotonic()
                with session:
                    self._collect(session)
            except TakenOverError:
                raise
            except (BrokerError, OSError) as problem:  # the broker is away, or the disk is full: both may pass
                self._log.say(connected=False, problem=str(problem))
            if session is not None and time.monotonic() - began_s > LASTING_S:
                pause_s = FIRST_PAUSE_S
            session = None
            self._ended.wait(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _collect(self, session: BrokerSession) -> None:
        self._log.say(connected=True, problem="", **self._counts)
        while not self._ended.is_set():
            self._tidy()
            if self._log.full:
                self._hold_back(session)
                continue
            messages = session.receive(WAIT_S)
            if messages:
                kept = [Message(topic=one.topic, payload=one.payload) for one in messages]
                new = self._log.append(kept, time.time_ns() // 1000)
                session.acknowledge(messages)
                self._count(len(messages), new)

    def _hold_back(self, session: BrokerSession) -> None:
        """Read nothing until readers are done with more; the broker keeps what it has."""
        self._log.say(full=True)
        while self._log.full and not self._ended.wait(FULL_WAIT_S):
            session.stay()
            self._log.trim(self._readers)
        session.patient()
        self._log.say(full=False)

    def _tidy(self) -> None:
        now_s = time.monotonic()
        if now_s - self._tidied_s >= TIDY_S:
            self._tidied_s = now_s
            self._log.trim(self._readers)
            self._log.say(**self._counts)

    def _count(self, received: int, new: int) -> None:
        self._counts["received"] += received
        self._counts["repeated"] += received - new
