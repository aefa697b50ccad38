"""A well-behaved pair of clients that must stay served, whatever others do, and an eye on the broker's memory."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

from live.brokers import Broker
from live.wire import PATIENCE_S, Wire, unique

MB = 1_000_000
_PAGE_BYTES = 4096
PAUSE_S = 0.02


def memory_bytes(broker: Broker) -> int:
    """What a broker's process has in memory now."""
    return int(Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def open_files(broker: Broker) -> int:
    return len(list(Path(f"/proc/{broker.process.pid}/fd").iterdir()))


class Witness:
    """One publishes, one subscribes, message after message at QoS 0, 1 and 2: each must arrive, once and in time.

    In time is within the patience of a `Wire`. `slowest_s` and `most_bytes` say what was seen.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.count = 0
        self.slowest_s = 0.0
        self.most_bytes = self.first_bytes = memory_bytes(broker)
        self._topic = unique("witness")
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._clients = ExitStack()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Witness:
        self._publisher, self._subscriber = (self._clients.enter_context(Wire(self.broker.port)) for _ in range(2))
        self._publisher.connect()
        self._subscriber.connect()
        self._subscriber.subscribe(self._topic, qos=2)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._clients.close()
        if kind is None and self._problem is not None:
            raise AssertionError(f"the witness was not served after {self.count} messages") from self._problem
        print(f"\n{self.count} messages, slowest {self.slowest_s * 1000:.0f} ms, {self.grown_bytes / MB:.1f} MB more")

    @property
    def grown_bytes(self) -> int:
        """How much memory the broker took at most beyond what it had at the beginning."""
        self.most_bytes = max(self.most_bytes, memory_bytes(self.broker))
        return self.most_bytes - self.first_bytes

    def wait(self, messages: int = 10) -> None:
        """Wait until so many more messages have arrived."""
        wanted, deadline = self.count + messages, time.monotonic() + messages * PATIENCE_S
        while self.count < wanted and self._problem is None:
            assert time.monotonic() < deadline
            time.sleep(PAUSE_S)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._one()
                time.sleep(PAUSE_S)
        except (OSError, AssertionError) as problem:  # TimeoutError is an OSError
            self._problem = problem

    def _one(self) -> None:
        payload, started = b"%d" % self.count, time.monotonic()
        self._publisher.publish(self._topic, payload, qos=self.count % 3)
        assert self._subscriber.take().payload == payload
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        self.most_bytes = max(self.most_bytes, memory_bytes(self.broker))
        self.count += 1
