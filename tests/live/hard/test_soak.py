"""After hours of everything at once: every delivery is accounted for, and the memory is what it was."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import threading
import time
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from live.hard.soaking import Day
from live.hard.witness import MB, Witness, memory_bytes

GROWTH_BYTES = 8 * MB  # of a heap that becomes riddled; what is in it does not grow (docs/soak.md)


@pytest.mark.parametrize(
    "duration_s", [pytest.param(20, marks=pytest.mark.slow), pytest.param(600, marks=pytest.mark.soak)]
)
def test_every_delivery_is_accounted_for_and_memory_stays_flat(broker, duration_s):
    with Witness(broker), Scales(broker) as scales:
        asyncio.run(Day(broker.port, duration_s, seed=6).pass_by())
    thirds = scales.thirds()  # in the first, sessions and what they subscribe to still gather
    print("\nmemory in each third: " + ", ".join(f"{one / MB:.1f} MB" for one in thirds))
    measured = settled_metrics(broker)
    print("".join(f"{name} {value:.0f}\n" for name, value in measured.items() if "deliveries" in name))
    assert measured["deliveries_due_total"] > 1000 * duration_s / 20
    assert accounted(measured) == sum(one["owed"] for one in sessions(broker))
    end_sessions(broker)
    assert accounted(settled_metrics(broker)) == 0
    assert thirds[2] - thirds[1] < GROWTH_BYTES


class Scales:
    """Weighs the broker several times a second."""

    def __init__(self, broker) -> None:
        self._broker = broker
        self._weights: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self._weights.append(memory_bytes(self._broker))

    def thirds(self) -> list[float]:
        third = len(self._weights) // 3
        return [statistics.median(self._weights[at : at + third]) for at in (0, third, 2 * third)]


def accounted(measured: dict[str, float]) -> float:
    """What is due and neither delivered nor dropped."""
    dropped = sum(value for name, value in measured.items() if name.startswith("deliveries_dropped_total"))
    return measured["deliveries_due_total"] - measured["deliveries_delivered_total"] - dropped


def settled_metrics(broker) -> dict[str, float]:
    """The metrics once they change no more."""
    before, deadline = {}, time.monotonic() + 60
    while (now := metrics(broker)) != before:
        assert time.monotonic() < deadline
        before = now
        time.sleep(1.0)
    return now


def metrics(broker) -> dict[str, float]:
    lines = re.findall(r"^firelane_(deliveries\S*) (\S+)$", ask(broker, "/metrics").decode(), re.MULTILINE)
    return {name: float(value) for name, value in lines}


def sessions(broker) -> list[dict]:
    found, offset = [], 0
    while offset is not None:
        page = json.loads(ask(broker, f"/api/v1/sessions?limit=1000&offset={offset}"))
        found += page["items"]
        offset = page["next_offset"]
    return found


def end_sessions(broker) -> None:
    for one in sessions(broker):
        ask(broker, f"/api/v1/sessions?client_id={quote(one['client_id'])}", method="DELETE")


def ask(broker, path: str, method: str = "GET") -> bytes:
    with urlopen(Request(f"http://127.0.0.1:{broker.http_port}{path}", method=method), timeout=30) as answer:
        return answer.read()
