"""Alerts are told once, whatever happens in between."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow.dataset as ds
import pytest

from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerSession, Wishes
from firelane.pipeline.watch import telling
from firelane.pipeline.watch.telling import Alert, Teller, alert_id
from live.brokers import firelane, free_port

START = datetime(2026, 5, 9, 7, 15, 30, tzinfo=UTC)


def alert(subject, measured=2.0):
    end = START + timedelta(seconds=4)
    name = alert_id("load", subject, START, end)
    return Alert(
        id=name, window_start=START, window_end=end, kind="load", subject=subject, measured=measured, bound=1.0, n=50
    )


@pytest.fixture
def complaints():
    return []


def teller(folder, complaints, address=None, topic="$firelane/alerts"):
    return Teller(folder, address=address, topic=topic, client_id="watch-alerts", complain=complaints.append)


def subjects(folder):
    return sorted(ds.dataset(folder, partitioning="hive").to_table().column("subject").to_pylist())


def test_an_alert_is_written_once_however_often_it_is_found(tmp_path, complaints):
    one = teller(tmp_path, complaints)
    one.tell([alert("a")], query="alerts", batch=1)
    one.tell([alert("a", measured=3.0), alert("b")], query="alerts", batch=2)
    assert subjects(tmp_path) == ["a", "b"]
    assert one.told == 2


def test_after_a_restart_what_was_told_is_known_but_for_the_last_batch_which_may_come_again(tmp_path, complaints):
    before = teller(tmp_path, complaints)
    before.tell([alert("a")], query="alerts", batch=1)
    before.tell([alert("b")], query="alerts", batch=2)
    after = teller(tmp_path, complaints)
    after.tell([alert("a"), alert("b")], query="alerts", batch=2)
    assert after.told == 1
    assert subjects(tmp_path) == ["a", "b"]


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
        one = teller(tmp_path / "alerts", complaints, address)
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
