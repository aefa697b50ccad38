"""Alerts on their way: into a table, and back to the broker with QoS 1."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pyarrow.dataset as ds

from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerError, BrokerSession, Wishes
from firelane.pipeline.watch.batches import write_batch

TOPIC = "$firelane/alerts"
MOST_KNOWN = 100_000  # alerts that are not told again
MOST_WAITING = 10_000  # that the broker did not take yet
PAUSE_S = 5.0  # before it is asked again

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("window_start", pa.timestamp("us", tz="UTC")),
        pa.field("window_end", pa.timestamp("us", tz="UTC")),
        pa.field("kind", pa.string()),
        pa.field("subject", pa.string()),
        pa.field("measured", pa.float64()),
        pa.field("bound", pa.float64()),
        pa.field("n", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that is not as it should be."""

    id: str
    window_start: datetime
    window_end: datetime
    kind: str
    subject: str
    measured: float
    bound: float
    n: int

    def payload(self) -> bytes:
        """The alert as a message."""
        return json.dumps(asdict(self), default=datetime.isoformat, ensure_ascii=False).encode()


def alert_id(kind: str, subject: str, window_start: datetime, window_end: datetime) -> str:
    """The same for the same subject in the same window, whenever it is found (and wherever: see `alerts`)."""
    micros = (round(one.timestamp() * 1e6) for one in (window_start, window_end))
    return hashlib.sha256("\n".join((kind, subject, *map(str, micros))).encode()).hexdigest()[:16]


class Teller:
    """Tells every alert once: writes it down, and publishes it if there is a broker.

    What the broker does not take waits for the next time; `complain` says so, once for each cause.
    """

    def __init__(
        self, folder: Path, *, address: Address | None, topic: str, client_id: str, complain: Callable[[str], None]
    ) -> None:
        self.told = 0
        self._folder = folder
        self._address = address
        self._topic = topic
        self._wishes = Wishes(client_id=client_id)
        self._complain = complain
        self._complaint = ""
        self._known = OrderedDict.fromkeys(_finished(folder))
        self._waiting: deque[Alert] = deque(maxlen=MOST_WAITING)
        self._again_s = 0.0

    def tell(self, found: Iterable[Alert], *, query: str, batch: int) -> None:
        """Tell those that were not told before; `query` and `batch` say who found them."""
        new = [one for one in found if one.id not in self._known]
        if new:
            rows = pa.Table.from_pylist([asdict(one) for one in new], schema=SCHEMA)
            write_batch(rows, self._folder, query=query, batch=batch, time="window_start")
        self._waiting += new
        if self._waiting and self._address is not None and monotonic() >= self._again_s:
            self._publish(self._address)
        self.told += len(new)
        self._known |= dict.fromkeys(one.id for one in new)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def _publish(self, address: Address) -> None:
        try:
            with BrokerSession(address, self._wishes) as session:
                session.publish([(self._topic, one.payload()) for one in self._waiting])
        except BrokerError as problem:
            self._again_s = monotonic() + PAUSE_S
            if str(problem) != self._complaint:
                self._complaint = str(problem)
                self._complain(f"alerts wait: {problem}")
        else:
            self._complaint = ""
            self._waiting.clear()


def _finished(folder: Path) -> list[str]:
    """The alerts in the table, but those of each query's last batch: it may come again, and was perhaps not told."""
    files = sorted(folder.glob("day=*/[!.]*.parquet"), key=lambda path: path.stem)
    last = {path.stem.rpartition("-")[0]: path.stem for path in files}.values()
    done = [str(path) for path in files if path.stem not in last]
    return ds.dataset(done, schema=SCHEMA).to_table(columns=["id"]).column("id").to_pylist() if done else []
