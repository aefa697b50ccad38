"""Alerts are told, whatever happens in between, and written down once."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pyarrow.dataset as ds
import pytest

from firelane.errors import FirelaneError
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerError, BrokerSession, Wishes
from firelane.pipeline.watch import telling
from firelane.pipeline.watch.telling import Alert, Teller, alert_id
from live.brokers import firelane, free_port

START = datetime(2026, 5, 9, 7, 15, 30, tzinfo=UTC)
ADDRESS = Address(host="127.0.0.1")


def alert(subject, measured=2.0):
    end = START + timedelta(seconds=4)
    name = alert_id("load", subject, START, end)
    return Alert(
        id=name, window_start=START, window_end=end, kind="load", subject=subject, measured=measured, bound=1.0, n=50
    )


@pytest.fixture
def complaints():
    return []


class Broker:
    """Takes messages, as long as it is there, from one session at a time."""

    def __init__(self):
        self.there = True
        self.got = []
        self.patience = 1_000_000
        self._taken = threading.Lock()

    def session(self, address, wishes):
        if not self.there:
            raise BrokerError(address, "connection refused")
        return self

    def __enter__(self):
        assert self._taken.acquire(blocking=False), "two sessions with the same name"
        return self

    def __exit__(self, *_):
        self._taken.release()

    def publish(self, messages):
        for _, payload in messages:
            time.sleep(0)  # others' turn
            if len(self.got) == self.patience:
                raise BrokerError(ADDRESS, "hung up")
            self.got.append(json.loads(payload)["subject"])


@pytest.fixture
def broker(monkeypatch):
    broker = Broker()
    monkeypatch.setattr(telling, "BrokerSession", broker.session)
    monkeypatch.setattr(telling, "PAUSE_S", 0.0)
    return broker


def teller(folder, complaints, address=None, topic="$firelane/alerts"):
    return Teller(
        folder / "alerts",
        folder / "waiting.parquet",
        address=address,
        topic=topic,
        client_id="watch-alerts",
        complain=complaints.append,
    )


def subjects(folder):
    return sorted(ds.dataset(folder / "alerts", partitioning="hive").to_table().column("subject").to_pylist())


def test_an_alert_is_written_once_however_often_it_is_found(tmp_path, complaints):
    one = teller(tmp_path, complaints)
    one.tell([alert("a")], query="alerts", batch=1)
    one.tell([alert("a", measured=3.0), alert("b")], query="alerts", batch=2)
    assert subjects(tmp_path) == ["a", "b"]
    assert one.found == 2


def test_after_a_restart_what_was_found_is_known(tmp_path, complaints):
    before = teller(tmp_path, complaints)
    before.tell([alert("a")], query="alerts", batch=1)
    before.tell([alert("b")], query="alerts", batch=2)
    after = teller(tmp_path, complaints)
    after.tell([alert("a"), alert("b")], query="alerts", batch=2)
    assert after.found == 0
    assert subjects(tmp_path) == ["a", "b"]


def test_a_batch_that_comes_again_with_other_alerts_adds_them(tmp_path, complaints):
    teller(tmp_path, complaints).tell([alert("a"), alert("b")], query="drift", batch=1)
    teller(tmp_path, complaints).tell([alert("b"), alert("c")], query="drift", batch=1)
    assert subjects(tmp_path) == ["a", "b", "c"]


def test_alerts_that_a_broker_did_not_take_are_told_after_a_crash_each_once(tmp_path, complaints, broker):
    broker.there = False
    before = teller(tmp_path, complaints, ADDRESS)
    for batch, name in enumerate("abc"):
        before.tell([alert(name)], query="alerts", batch=batch)
    broker.there = True
    after = teller(tmp_path, complaints, ADDRESS)
    assert after.waiting == 3
    after.tell([alert("c"), alert("d")], query="alerts", batch=3)
    assert broker.got == ["a", "b", "c", "d"]
    teller(tmp_path, complaints, ADDRESS).flush()
    assert broker.got == ["a", "b", "c", "d"]


def test_a_crash_before_an_alert_is_in_the_table_does_not_lose_it(tmp_path, complaints, broker, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError("crash")

    before = teller(tmp_path, complaints, ADDRESS)
    with monkeypatch.context() as patched:
        patched.setattr(telling, "write_batch", crash)
        with pytest.raises(RuntimeError, match="crash"):
            before.tell([alert("a")], query="alerts", batch=1)
    after = teller(tmp_path, complaints, ADDRESS)
    after.flush()
    assert broker.got == ["a"]
    after.tell([alert("a")], query="alerts", batch=1)  # Spark runs the batch again
    assert set(broker.got) == set(subjects(tmp_path)) == {"a"}


def test_a_broker_that_hangs_up_is_told_all_again(tmp_path, complaints, broker):
    broker.patience = 1
    one = teller(tmp_path, complaints, ADDRESS)
    one.tell([alert("a"), alert("b")], query="alerts", batch=1)
    assert (broker.got, one.waiting) == (["a"], 2)
    broker.patience = 1000
    one.flush()
    assert (set(broker.got), one.waiting) == ({"a", "b"}, 0)


def test_what_waits_is_told_without_anything_new_when_it_is_time_to_ask_again(
    tmp_path, complaints, broker, monkeypatch
):
    broker.there = False
    one = teller(tmp_path, complaints, ADDRESS)
    one.tell([alert("a")], query="alerts", batch=1)
    one.retry()
    assert (broker.got, one.waiting) == ([], 1)
    broker.there = True
    one.retry()
    assert (broker.got, one.waiting) == (["a"], 0)

    monkeypatch.setattr(telling, "PAUSE_S", 1000.0)
    broker.there = False
    one.tell([alert("b")], query="alerts", batch=2)
    broker.there = True
    one.retry()
    assert (broker.got, one.waiting) == (["a"], 1)


def test_two_queries_tell_at_the_same_time(tmp_path, complaints, broker):
    one = teller(tmp_path, complaints, ADDRESS)

    def tell(query):
        for batch in range(30):
            one.tell([alert(f"{query} {batch} {n}") for n in range(5)], query=query, batch=batch)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(tell, ["alerts", "drift"]))
    assert one.found == 300
    assert sorted(broker.got) == subjects(tmp_path)
    assert len(set(broker.got)) == 300


def test_when_too_many_wait_the_oldest_are_left_out_which_is_said_once_and_counted(
    tmp_path, complaints, broker, monkeypatch
):
    monkeypatch.setattr(telling, "MOST_WAITING", 3)
    broker.there = False
    one = teller(tmp_path, complaints, ADDRESS)
    for batch, name in enumerate("abcde"):
        one.tell([alert(name)], query="alerts", batch=batch)
    assert (one.found, one.waiting, one.dropped) == (5, 3, 2)
    assert complaints[1:] == ["over 3 alerts wait: the oldest are not told, and only in the table"]
    broker.there = True
    one.flush()
    assert broker.got == ["c", "d", "e"]
    assert subjects(tmp_path) == ["a", "b", "c", "d", "e"]


def test_without_a_broker_nothing_waits(tmp_path, complaints):
    one = teller(tmp_path, complaints)
    one.tell([alert("a")], query="alerts", batch=1)
    assert one.waiting == 0
    assert not (tmp_path / "waiting.parquet").exists()


@pytest.mark.parametrize("place", ["waiting.parquet", "alerts/day=2026-05-09/alerts-0000000001.parquet"])
def test_alerts_that_cannot_be_read_are_one_line(tmp_path, complaints, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_bytes(b"half")
    with pytest.raises(FirelaneError, match=f"^{tmp_path / place}: not a whole Parquet file; "):
        teller(tmp_path, complaints, ADDRESS)


def test_what_a_broker_does_not_take_waits_and_is_complained_of_once(tmp_path, complaints, monkeypatch):
    monkeypatch.setattr(telling, "PAUSE_S", 0.0)
    port = free_port()
    one = teller(tmp_path, complaints, Address(host="127.0.0.1", port=port))
    one.tell([alert("a")], query="alerts", batch=1)
    one.tell([], query="alerts", batch=2)
    assert complaints == [f"alerts wait: mqtt://127.0.0.1:{port}: connection refused"]
    assert subjects(tmp_path) == ["a"]


@pytest.mark.slow
def test_alerts_reach_those_who_listen_as_the_contract_says(tmp_path, complaints):
    with firelane(tmp_path) as broker:
        address = Address(host=broker.host, port=broker.port)
        listener = BrokerSession(address, Wishes(client_id="ann", filters=("$firelane/alerts",)))
        one = teller(tmp_path, complaints, address)
        one.tell([alert("a"), alert("b")], query="alerts", batch=1)
        one.tell([alert("a")], query="alerts", batch=2)
        got = []
        while len(got) < 2:
            got += listener.receive(5.0)
        assert listener.receive(0.5) == []
        listener.close()
    assert complaints == []
    assert {message.qos for message in got} == {1}
    first = json.loads(got[0].payload)
    assert list(first) == ["id", "window_start", "window_end", "kind", "subject", "measured", "bound", "n"]
    assert first["window_start"] == "2026-05-09T07:15:30+00:00"
    assert [json.loads(message.payload)["subject"] for message in got] == ["a", "b"]
