"""What lies on disk is there after a kill, a torn end is cut and said, a full disk refuses but loses nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firelane.mqtt.packets import V3, Kind, Publish
from firelane.mqtt.reasons import Reason
from live.brokers import Firelane, firelane, running
from live.wire import Wire

pytestmark = pytest.mark.slow

LASTING = {"session_expiry_interval": 3600}


def test_subscriptions_and_retained_messages_are_there_after_a_kill(tmp_path):
    with firelane(tmp_path) as broker:
        with Wire(broker.port) as client:
            client.connect("keeper", properties=LASTING)
            client.subscribe("a/+", "$share/group/b/#", qos=2)
            client.subscribe("gone")
            client.unsubscribe("gone")
            client.publish("kept/0", b"in passing", retain=True)
            for qos in (1, 2):
                client.publish(f"kept/{qos}", b"for good", qos=qos, retain=True)
                client.publish(f"cleared/{qos}", b"for now", qos=qos, retain=True)
                client.publish(f"cleared/{qos}", b"", qos=qos, retain=True)
            broker.kill()
        broker.start()
        with Wire(broker.port) as client:
            assert client.connect("keeper", clean_start=False, properties=LASTING).session_present
            for topic in ("a/x", "b/x", "gone"):
                client.publish(topic, topic.encode(), qos=1)
            assert {client.take().payload for _ in range(2)} == {b"a/x", b"b/x"}
            client.subscribe("kept/#", "cleared/#", qos=2)
            kept = {one.topic: one.payload for one in client.take_all()}
            assert kept == {"kept/0": b"in passing", "kept/1": b"for good", "kept/2": b"for good"}


def test_a_torn_end_of_the_log_is_cut_and_said(tmp_path):
    with firelane(tmp_path) as broker:
        with Wire(broker.port) as client:
            client.connect("keeper", properties=LASTING)
            client.subscribe("a", qos=1)
        with Wire(broker.port) as client:
            client.connect()
            client.publish("a", b"whole", qos=1)
        broker.kill()
        newest = max((broker.data_dir / "log").glob("*.log"))
        with newest.open("ab") as file:
            file.write(b"\x40\0\0\0 torn in the middle of")
        broker.start()
        said = broker.output.read_text()
        assert "the log ended in 26 bytes" in said
        assert str(newest.with_suffix(".cut")) in said
        with Wire(broker.port) as client:
            client.connect("keeper", clean_start=False, properties=LASTING)
            assert client.take().payload == b"whole"


class OnSmallDisk(Firelane):
    """Its data lies on a disk of a megabyte that only it can see."""

    def command(self) -> list[str]:
        mount = 'mount -t tmpfs -o size=1m small "$0" && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, str(self.data_dir), *super().command()]

    def on_disk(self, name: str) -> Path:
        """A path on that disk, from outside."""
        return Path(f"/proc/{self.process.pid}/root{self.data_dir}/{name}")


@pytest.fixture
def small(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    with running(OnSmallDisk(tmp_path, ())) as broker:
        broker.on_disk("ballast").write_bytes(bytes(500_000))
        yield broker


def test_on_a_full_disk_qos_1_is_refused_qos_0_goes_on_and_nothing_is_lost(small):
    clients = [Wire(small.port) for _ in range(3)]
    away, watcher, publisher = clients
    away.connect("away", properties=LASTING)
    away.subscribe("a", qos=1)
    away.disconnect(session_expiry_interval=3600)
    for client in (watcher, publisher):
        client.connect()
    watcher.subscribe("b")

    accepted, held = fill(publisher)
    assert accepted > 10
    with Wire(small.port) as late, Wire(small.port, V3) as plain:
        late.connect()
        assert late.publish("a", b"late", qos=1).reason == Reason.QUOTA_EXCEEDED
        assert late.publish("a", b"late", qos=2).reason == Reason.QUOTA_EXCEEDED
        late.publish("b", b"still here")
        assert watcher.take().payload == b"still here"
        plain.connect()
        plain.send(Publish(topic="a", payload=b"plain", qos=1, packet_id=1))  # MQTT 3.1.1 cannot be told no

        small.on_disk("ballast").unlink()
        for _ in range(held):
            assert publisher.expect(Kind.PUBACK).reason == 0
        assert plain.expect(Kind.PUBACK).packet_id == 1
        assert late.publish("a", b"again", qos=1).reason == 0
    said = small.output.read_text()
    assert "the log cannot be written" in said
    assert "the log can be written again" in said
    with Wire(small.port) as away:
        away.connect("away", clean_start=False, properties=LASTING)
        numbers = [away.take().payload[:10] for _ in range(accepted + held)]
        assert numbers == [b"%010d" % number for number in range(accepted + held)]
        assert sorted(away.take().payload for _ in range(2)) == [b"again", b"plain"]
    for client in clients:
        client.drop()


def fill(publisher: Wire) -> tuple[int, int]:
    """Publish until no more is accepted; how many were, and how many wait for an answer."""
    publisher.patience_s = 2.0
    for number in range(1000):
        try:
            answer = publisher.publish("a", b"%010d" % number + bytes(10_000), qos=1)
        except TimeoutError:
            publisher.patience_s = 10.0
            return number, 1
        if answer.reason == Reason.QUOTA_EXCEEDED:
            return number, 0
    raise AssertionError("the disk was never full")
