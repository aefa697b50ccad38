"""From a broker into the log: real brokers, lost acknowledgements, full logs, kills. No Spark."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connack, Connect, Disconnect, Kind, Publish, Suback, Subscribe
from firelane.mqtt.reasons import Reason
from firelane.pipeline.mqtt import notes
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.blocks import Message
from firelane.pipeline.mqtt.collector import Collector
from firelane.pipeline.mqtt.log import Log
from firelane.pipeline.mqtt.segments import messages
from firelane.pipeline.mqtt.session import BrokerError, BrokerSession, TakenOverError, Wishes
from live.brokers import firelane, free_port, mosquitto

WISHES = Wishes(client_id="watch", filters=("t/#",), expiry_s=600)
CAP = 100_000_000


def record(number):
    return f'{{"record_id":"00aa-{number:012d}","weight":1.0}}'.encode()


def address_of(broker):
    return Address(host=broker.host, port=broker.port)


def publish(broker, payloads, topic="t/x"):
    with BrokerSession(address_of(broker), Wishes(client_id="publisher")) as session:
        session.publish([(topic, one) for one in payloads])


def until(what, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kept(folder):
    state = notes.state(folder)
    return between(folder, state["start"], state["position"])


def between(folder, start, end):
    return [one for batch in messages(folder, start, end) for one in batch.column("payload").to_pylist()]


@contextmanager
def collecting(folder, address, wishes=WISHES, cap_bytes=CAP, readers=("spark",)):
    collector = Collector(Log.taken(folder, cap_bytes=cap_bytes), address, wishes, readers=readers)
    try:
        yield collector
    finally:
        collector.close()


@pytest.fixture(params=["mosquitto", "firelane"])
def broker(request, tmp_path):
    place = tmp_path / "broker"
    place.mkdir()
    with mosquitto(place) if request.param == "mosquitto" else firelane(place) as started:
        yield started


@pytest.mark.slow
def test_what_is_published_is_in_the_log_and_what_came_while_away_too(broker, tmp_path):
    folder = tmp_path / "log"
    with collecting(folder, address_of(broker)):
        publish(broker, [record(n) for n in range(100)])
        until(lambda: len(kept(folder)) == 100)
    publish(broker, [record(n) for n in range(100, 200)])
    with collecting(folder, address_of(broker)):
        until(lambda: len(kept(folder)) >= 200)
    assert kept(folder) == [record(n) for n in range(200)]


@pytest.mark.slow
def test_what_was_kept_but_not_acknowledged_comes_again_and_is_not_kept_again(broker, tmp_path):
    folder = tmp_path / "log"
    with BrokerSession(address_of(broker), WISHES):
        pass
    publish(broker, [record(n) for n in range(10)])
    log = Log.taken(folder, cap_bytes=CAP)
    with BrokerSession(address_of(broker), WISHES) as session:
        got = []
        while len(got) < 10:
            got += session.receive(5.0)
        log.append([Message(topic=one.topic, payload=one.payload) for one in got[:7]], 0)
        session.acknowledge(got[:3])  # and those of the other four are lost
    log.close()
    with collecting(folder, address_of(broker)):
        until(lambda: len(kept(folder)) >= 10)
        until(lambda: notes.state(folder).get("repeated") == 4)
    assert kept(folder) == [record(n) for n in range(10)]


@pytest.mark.slow
def test_a_full_log_holds_the_broker_back_and_loses_nothing(broker, tmp_path):
    folder, size = tmp_path / "log", 2000
    payloads = [record(n) + b" " * size for n in range(400)]
    with collecting(folder, address_of(broker), cap_bytes=200_000):
        sender = threading.Thread(target=publish, args=(broker, payloads))
        sender.start()
        until(lambda: notes.state(folder).get("full"))
        time.sleep(1.0)
        position = notes.state(folder)["position"]
        assert position < 200_000 + 2 * 65_536  # one read of the socket at most beyond the cap
        got, read = [], 0
        while len(got) < 400:
            end = notes.state(folder)["position"]
            got += between(folder, read, end)
            read = end
            notes.done(folder, "spark", read)
            time.sleep(0.05)
        sender.join()
    assert sorted(got) == payloads


@pytest.mark.slow
def test_a_broker_that_goes_away_and_comes_back_is_found_again(tmp_path):
    (tmp_path / "broker").mkdir()
    with mosquitto(tmp_path / "broker", persistence=True) as broker:
        folder = tmp_path / "log"
        with collecting(folder, address_of(broker)) as collector:
            publish(broker, [record(1)])
            until(lambda: kept(folder) == [record(1)])
            broker.stop()
            until(lambda: notes.state(folder)["connected"] is False)
            assert "mqtt://" in notes.state(folder)["problem"]
            broker.start()
            until(lambda: notes.state(folder)["connected"])
            publish(broker, [record(2)])
            until(lambda: kept(folder) == [record(1), record(2)])
            collector.check()


@pytest.mark.slow
@pytest.mark.parametrize("broker", ["firelane"], indirect=True)  # mosquitto does not say why it hangs up
def test_of_two_clients_with_the_same_name_the_first_gives_way_for_good(broker, tmp_path):
    first = collecting(tmp_path / "one", address_of(broker))
    second = collecting(tmp_path / "two", address_of(broker))
    with first as one, second as two:
        until(lambda: not one._thread.is_alive())
        with pytest.raises(TakenOverError, match="taken over"):
            one.check()
        time.sleep(1.0)
        two.check()


COLLECT = """
import sys, time
from pathlib import Path
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.blocks import Message
from firelane.pipeline.mqtt.collector import Collector
from firelane.pipeline.mqtt.log import Log
from firelane.pipeline.mqtt.session import Wishes

log = Log.taken(Path(sys.argv[1]), cap_bytes=100_000_000)
wishes = Wishes(client_id="watch", filters=("t/#",), expiry_s=600)
collector = Collector(log, Address(host="127.0.0.1", port=int(sys.argv[2])), wishes, readers=("spark",))
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_collector_killed_at_any_instant_loses_and_doubles_nothing(broker, tmp_path):
    folder, chance, count = tmp_path / "log", random.Random(3), 6000
    command = [sys.executable, "-c", COLLECT, str(folder), str(broker.port)]
    with BrokerSession(address_of(broker), WISHES):
        pass
    sender = threading.Thread(target=publish, args=(broker, [record(n) for n in range(count)]))
    sender.start()
    kills = 0
    while sender.is_alive() or kills < 4:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as collector:
            collector.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.4))
            collector.kill()
        kills += 1
    with collecting(folder, address_of(broker)):
        until(lambda: len(kept(folder)) >= count)
    assert kept(folder) == [record(n) for n in range(count)]


def test_nobody_there_is_one_line():
    port = free_port()
    with pytest.raises(BrokerError, match=rf"^mqtt://127.0.0.1:{port}: connection refused$"):
        BrokerSession(Address(host="127.0.0.1", port=port), WISHES)


def test_a_host_that_does_not_exist_is_one_line():
    with pytest.raises(BrokerError, match=r"^mqtt://no.such.host.invalid:1883: .+$"):
        BrokerSession(Address(host="no.such.host.invalid"), WISHES)


@contextmanager
def scripted(*answers):
    """A broker that answers each packet as it is told."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                buffer = bytearray()
                for answer in answers:
                    while (place := frame(buffer, 0, 10**6)) is None or place[1] > len(buffer):
                        buffer += connection.recv(65536)
                    packet = decode(buffer[0], bytes(buffer[place[0] : place[1]]), V5)
                    del buffer[: place[1]]
                    got.append(packet)
                    connection.sendall(answer if isinstance(answer, bytes) else encode(answer, V5))
                connection.recv(65536)

        got = []
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address(host="127.0.0.1", port=server.getsockname()[1]), got
        thread.join(5)


def suback(*reasons):
    return Suback(kind=Kind.SUBACK, packet_id=1, reasons=list(reasons))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([Connack(reason=Reason.NOT_AUTHORIZED)], "does not let watch in (not authorized)"),
        ([Connack(), suback(0x87)], "refuses the subscription to t/# (not authorized)"),
        ([Connack(), suback(0)], "grants t/# only with QoS 0"),
        ([b"\x00\x00"], "does not speak MQTT 5"),
        ([Connack(), Disconnect(reason=Reason.SERVER_BUSY)], "hung up on watch (server busy)"),
    ],
)
def test_a_broker_that_does_not_do_as_asked_is_told_in_one_line(answers, said):
    with scripted(*answers) as (address, _), pytest.raises(BrokerError) as problem:
        BrokerSession(address, WISHES)
    assert str(problem.value).startswith(f"{address}: ")
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_the_session_is_durable_and_asks_for_quality_of_service_1():
    with scripted(Connack(session_present=True), suback(1)) as (address, got):
        session = BrokerSession(address, WISHES)
        assert session.resumed
        session.close()
    connect, subscribe = got
    assert isinstance(connect, Connect)
    assert not connect.clean_start
    assert connect.properties["session_expiry_interval"] == 600
    assert isinstance(subscribe, Subscribe)
    assert [(one.filter, one.qos) for one in subscribe.subscriptions] == [("t/#", 1)]
    assert subscribe.subscriptions[0].retain_handling == 1  # what is retained does not come with every connection


def test_nothing_is_acknowledged_before_it_is_asked_for():
    sent = b"".join(encode(Publish(topic="t/x", payload=b"x", qos=1, packet_id=n), V5) for n in (5, 6, 7))
    with (
        scripted(Connack(), encode(suback(1), V5) + sent, b"", b"", b"") as (address, got),
        BrokerSession(address, WISHES) as session,
    ):
        messages = session.receive(5.0)
        assert [one.packet_id for one in messages] == [5, 6, 7]
        time.sleep(0.1)
        assert len(got) == 2
        session.acknowledge(messages)
        until(lambda: len(got) == 5)
    assert [(type(one), one.packet_id) for one in got[2:]] == [(Ack, 5), (Ack, 6), (Ack, 7)]


def test_a_client_that_is_thrown_out_by_its_double_is_told_so():
    out = encode(suback(1), V5) + encode(Disconnect(reason=Reason.SESSION_TAKEN_OVER), V5)
    with scripted(Connack(), out) as (address, _), pytest.raises(TakenOverError, match="taken over"):
        BrokerSession(address, WISHES)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://localhost", Address(host="localhost", port=1883)),
        ("mqtt://10.0.0.1:1999", Address(host="10.0.0.1", port=1999)),
        ("mqtts://b.example", Address(host="b.example", port=8883, tls=True)),
        ("mqtt://ann:p%40ss@b", Address(host="b", port=1883, user="ann", password="p@ss")),
        ("mqtt://[::1]:1884", Address(host="::1", port=1884)),
    ],
)
def test_addresses_are_read_from_urls(url, expected):
    assert Address.parse(url) == expected


@pytest.mark.parametrize("url", ["http://x", "mqtt://", "mqtt://x:port", "mqtt://x/y", "x", "mqtt://u:secret@x:0x1"])
def test_what_is_no_address_is_told_without_its_password(url):
    with pytest.raises(Exception, match="is no broker") as problem:
        Address.parse(url)
    assert "secret" not in str(problem.value)
