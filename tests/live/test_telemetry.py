"""Records of deliveries and membership, as a served exchange leaves them behind and tells them live."""

from __future__ import annotations

import json
import time

import paho.mqtt.client as paho
import pyarrow.dataset as ds
import pytest

from live.brokers import firelane

pytestmark = pytest.mark.slow

COUNT = 300


class Client:
    """A paho client that keeps what it gets."""

    def __init__(self, broker, name):
        self.got = []
        self.subscribed = []
        self.paho = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        self.paho.on_message = lambda client, data, message: self.got.append(message)
        self.paho.on_subscribe = lambda client, data, packet_id, reasons, properties: self.subscribed.append(packet_id)
        self.paho.connect(broker.host, broker.port)
        self.paho.loop_start()

    def subscribe(self, topic_filter, qos=0):
        self.paho.subscribe(topic_filter, qos)
        until(lambda: self.subscribed)

    def leave(self):
        self.paho.disconnect()
        self.paho.loop_stop()


def until(what, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def table(broker, kind):
    return ds.dataset(broker.data_dir / "telemetry" / kind, partitioning="hive").to_table().to_pylist()


def test_every_delivery_is_in_the_files_once_the_exchange_has_ended(tmp_path):
    with firelane(tmp_path, "--set", "exchange.telemetry.sampling=100%") as broker:
        ann, ben = Client(broker, "ann"), Client(broker, "ben")
        ann.subscribe("a/#", 1)
        for number in range(COUNT):
            ben.paho.publish("a/b", f"{number:100}", qos=number % 2)
        until(lambda: len(ann.got) == COUNT)
        ann.paho.unsubscribe("a/#")
        ann.leave()
        ben.leave()
        began_us = (time.time() - 60) * 1e6
    rows = table(broker, "deliveries")
    assert len(rows) == COUNT
    assert {(one["subscriber"], one["filter"], one["topic"], one["outcome"]) for one in rows} == {
        ("ann", "a/#", "a/b", "delivered")
    }
    assert sum(one["weight"] for one in rows) == COUNT
    assert sum(one["qos"] for one in rows) == COUNT // 2
    assert len({one["record_id"] for one in rows}) == COUNT
    assert all(began_us < one["ingress_us"] < time.time() * 1e6 for one in rows)
    events = [(one["client"], one["filter"], one["event"]) for one in table(broker, "membership")]
    assert events == [("ann", "a/#", "subscribe"), ("ann", "a/#", "unsubscribe")]


def test_records_are_told_live_and_do_not_tell_of_themselves(tmp_path):
    options = ["exchange.telemetry.sampling=100%", "exchange.telemetry.topics=true", "exchange.telemetry.files=false"]
    with firelane(tmp_path, *(word for one in options for word in ("--set", one))) as broker:
        watch, ann, ben = Client(broker, "watch"), Client(broker, "ann"), Client(broker, "ben")
        watch.subscribe("$firelane/telemetry/#")
        ann.subscribe("a")
        for _ in range(COUNT):
            ben.paho.publish("a", b"x", qos=1)

        def records(kind):
            told = [one.payload for one in watch.got if one.topic == f"$firelane/telemetry/{kind}"]
            return [json.loads(line) for payload in told for line in payload.splitlines()]

        until(lambda: len(records("deliveries")) >= COUNT)
        time.sleep(2.5)
        assert [one["topic"] for one in records("deliveries")] == ["a"] * COUNT
        assert ("ann", "a", "subscribe") in [
            (one["client"], one["filter"], one["event"]) for one in records("membership")
        ]
        for one in (watch, ann, ben):
            one.leave()
    assert not (broker.data_dir / "telemetry").exists()


def test_nobody_else_may_speak_on_the_topics_of_the_exchange(tmp_path):
    with firelane(tmp_path) as broker:
        watch, forger = Client(broker, "watch"), Client(broker, "forger")
        watch.subscribe("$firelane/#")
        forger.paho.publish("$firelane/telemetry/deliveries", b"{}", qos=1).wait_for_publish(5)
        forger.paho.publish("$firelane/alerts", b"fire", qos=1).wait_for_publish(5)  # but all may raise an alarm
        until(lambda: watch.got)
        assert [one.topic for one in watch.got] == ["$firelane/alerts"]
        watch.leave()
        forger.leave()
