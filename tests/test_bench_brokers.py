"""The load that brokers are measured with: it counts right, and a broker that fails gets no number."""

from __future__ import annotations

import json
import select
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from firelane import bench
from firelane.cli import main
from firelane.errors import FirelaneError
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.packets import V3, Publish

brokers = bench.load_script("brokers")
processes, clients, load, wire = brokers.processes, brokers.clients, brokers.load, brokers.wire
FOLDER = Path(brokers.__file__).parent
SHORT = brokers.Length(rounds=1, flow_s=0.1, delays_s=0.2, clients=40)
QOS_0, FAN_OUT, QOS_1, _, DELAYS, CROWD = brokers.jobs()


def relay_that(does: str) -> Any:
    """A relay that does something to the packets before it forwards them; `self.calls` counts those with any."""
    code = f"""
import sys, time; sys.path.insert(0, {str(FOLDER)!r})
from relay import Relay
class Odd(Relay):
    calls = 0
    def forward(self, packets):
        self.calls += bool(packets)
        size = 2 + packets[1] if packets else 1
        {does}
        super().forward(packets)
Odd(int(sys.argv[1])).run()
"""
    return processes.Broker(name="odd relay", command=lambda port, _: [sys.executable, "-c", code, str(port)])


def faulty_relay(fault: str) -> Any:
    """Does it once, in the midst of the run."""
    return relay_that(f"if self.calls == 20: {fault}")


@pytest.mark.parametrize("job", [QOS_0, FAN_OUT, QOS_1, DELAYS, CROWD], ids=lambda job: next(iter(job.units)))
def test_every_job_has_its_numbers_against_a_relay(job):
    (numbers,) = brokers.measured(job, [processes.relay()], SHORT)
    assert set(numbers) == set(job.units)
    assert min(numbers.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("job", [QOS_0, FAN_OUT, QOS_1, DELAYS, CROWD], ids=lambda job: next(iter(job.units)))
def test_every_job_has_its_numbers_against_mosquitto(job):
    (numbers,) = brokers.measured(job, [processes.mosquitto()], SHORT)
    assert set(numbers) == set(job.units)
    assert min(numbers.values()) > 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("packets = packets[size:]", "lost, doubled or disordered"),
        ("packets += packets[-size:]", "lost, doubled or disordered"),
        ("packets = packets[size : 2 * size] + packets[:size] + packets[2 * size :]", "lost, doubled or disordered"),
        ("packets = b'1' + packets[1:]", "another kind or size"),
        ("packets = packets[1:]", "another kind or size"),
        ("self.listener.close(); sys.exit()", "(closed the connection|reset by peer|Broken pipe)"),
    ],
    ids=["lost", "doubled", "disordered", "another kind", "torn", "gone"],
)
def test_a_broken_stream_gets_no_number(fault, words):
    with pytest.raises(clients.DeliveryError, match=f"^odd relay, QoS 0, 1 to 1: .*{words}"):
        brokers.measured(QOS_0, [faulty_relay(fault)], SHORT)


@pytest.mark.parametrize("job", [QOS_0, QOS_1], ids=["QoS 0", "QoS 1"])
def test_a_lost_message_with_nothing_after_it_gets_no_number(job, monkeypatch):
    monkeypatch.setattr(clients, "PATIENCE_S", 1)
    fault = "packets = packets[:-size]; self._subscribers, kept = [], self._subscribers; kept[0].sendall(packets)"
    with pytest.raises(clients.DeliveryError, match=r"nothing more came, \d+ messages still under way"):
        brokers.measured(job, [faulty_relay(fault)], SHORT)


def test_one_message_lost_among_single_ones_gets_no_delay():
    with pytest.raises(clients.DeliveryError, match="lost, doubled or disordered"):
        brokers.measured(DELAYS, [faulty_relay("return")], SHORT)


def test_a_missing_acknowledgement_gets_no_number(monkeypatch):
    monkeypatch.setattr(clients, "PATIENCE_S", 1)
    fault = "self._acknowledge = lambda link, packets, size: Relay._acknowledge(self, link, packets[:-size], size)"
    with pytest.raises(clients.DeliveryError, match="nothing more came"):
        brokers.measured(QOS_1, [faulty_relay(fault)], SHORT)


def test_rates_and_delays_are_those_of_a_relay_that_takes_its_time():
    """It holds each message for 10 ms: with one under way at a time, at most 51 come in half a second."""
    slow = relay_that("time.sleep(0.01)")
    one_by_one = replace(QOS_0, run=partial(brokers.flow, "QoS 0, 1 to 1", window=1))
    (rate,) = brokers.measured(one_by_one, [slow], replace(SHORT, flow_s=0.5))[0].values()
    assert 0 < rate <= 102
    middle, late, typical = brokers.measured(DELAYS, [slow], replace(SHORT, delays_s=0.01))[0].values()
    assert 0.01 <= middle <= typical == late  # all of it is in one part


def test_two_brokers_side_by_side_have_their_own_delays():
    slow, quick = brokers.measured(DELAYS, [relay_that("time.sleep(0.01)"), processes.relay()], SHORT)
    assert min(slow.values()) > 0.01 > quick["delay of 2,000 messages/s, 100 to 1, median"] > 0


def test_no_more_is_under_way_than_the_window_allows():
    """What the relay sends back is not read, so all counts as under way."""
    with processes.running(processes.relay(), processes.cores()[0]) as process:
        publisher = clients.Publisher(process.port, 0, "site/room-000", ring=load.RING)
        subscriber = clients.Subscriber(process.port, "deaf", "site/#", publishers=1, ring=load.RING)
        with publisher.link, subscriber.link, select.epoll() as poll:
            loop = load._Flow(poll, [publisher], [subscriber], 100)
            for _ in range(10):
                loop._refill()
            assert publisher.sent == 100


def test_rings_are_packets_that_the_codec_reads():
    ring = wire.ring(7, "site/room-007", 1, 300)
    at, packets = 0, []
    while at < len(ring):
        start, end = frame(ring, at, 1000)
        packets.append(decode(ring[at], bytes(ring[start:end]), V3))
        at = end
    assert len(packets) == 300
    stamp = (7).to_bytes(2, "little") + (299).to_bytes(2, "little")
    assert packets[299] == Publish(topic="site/room-007", qos=1, packet_id=300, payload=stamp + bytes(60))
    assert [one.packet_id for one in packets] == list(range(1, 301))


def test_pubacks_carry_their_identifiers():
    assert wire.pubacks(np.array([1, 258], ">u2")) == bytes((0x40, 2, 0, 1, 0x40, 2, 1, 2))


def test_a_broker_that_cannot_start_says_why():
    command = [sys.executable, "-c", "import sys; sys.exit('no way')"]
    broker = processes.Broker(name="broken", command=lambda *_: command)
    with (
        pytest.raises(FirelaneError, match="broken did not start: no way"),
        processes.running(broker, processes.cores()[0]),
    ):
        pass


@pytest.mark.parametrize("together", [False, True])
def test_ours_and_mosquitto_alternate_and_the_others_come_once(monkeypatch, together):
    order, numbers = [], iter([10.0, 40.0, 1.0, 20.0, 30.0, 10.0, 50.0])

    def measured(job, group, length):
        order.extend(broker.name for broker in group)
        return [{"rate": next(numbers)} for _ in group]

    monkeypatch.setattr(brokers, "measured", measured)
    ours, peer, other = (processes.Broker(name=name, command=list) for name in ("ours", "peer", "other"))
    job = brokers.Job(units={"rate": "messages/s"}, run=dict, together=together)
    (measure,) = brokers.in_turns(job, ours, peer, [other], replace(SHORT, rounds=3))
    assert order == ["peer", "ours", "other", "peer", "ours", "peer", "ours"]
    assert measure.ours == 40.0
    assert measure.peers == {"peer": 10.0, "other": 1.0}
    assert measure.turns == {"peer": [4.0, 1.5, 5.0], "other": [40.0]}
    assert measure.ratios == {"peer": 4.0, "other": 40.0}


def test_the_table_shows_how_far_the_pairs_went_apart(capsys):
    bench.show([bench.Measure(name="x", ours=3.0, unit="B", peers={"p": 1.0}, turns={"p": [4.0, 1.5, 5.0]})])
    assert "4 × (1.5 to 5)" in capsys.readouterr().out


def test_a_missing_mosquitto_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(processes.shutil, "which", lambda *_, **__: None)
    done = CliRunner().invoke(main, ["bench", "brokers", "--quick"])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        "firelane: benchmark brokers compares with mosquitto, which is not installed; on Debian: apt install mosquitto"
    )


@pytest.mark.slow
def test_a_quick_run_has_every_measure_and_every_peer():
    """amqtt may be missing, and then it says so."""
    done = CliRunner().invoke(main, ["bench", "brokers", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    storage, *found = json.loads(done.stdout)
    assert "fdatasync" in storage["name"]
    jobs = [*brokers.jobs(), *brokers.scheduling_jobs()]
    assert [one["name"] for one in found] == [f"brokers, {name}" for job in jobs for name in job.units]
    others = {"mosquitto", "bare relay"} | ({"amqtt"} if processes.amqtt() else set())
    for one in found:
        peers = {processes.unscheduled().name} if "scheduled" in one["name"] else others
        assert set(one) == {"name", "ours", "peers", "ratios", "unit"}
        assert set(one["peers"]) == peers
        assert one["ratios"] == pytest.approx({peer: one["ours"] / one["peers"][peer] for peer in peers})
    assert ("amqtt is not on the PATH" in done.stderr) == (processes.amqtt() is None)
