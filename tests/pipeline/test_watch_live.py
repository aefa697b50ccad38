"""`watch` on live brokers: as fast as it must be, through kills, and in time to be of use."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import pyarrow.dataset as ds
import pytest
from flood import record

from child_processes import children, running
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerSession, Wishes
from firelane.scenario import load
from firelane.tune import tune
from live.brokers import firelane, mosquitto

TOPICS = {"mosquitto": "$firelane/telemetry/deliveries", "firelane": "records"}  # an exchange's are its own
WINDOW_S = 5.0


@contextmanager
def brokers(name, tmp_path):
    (tmp_path / "broker").mkdir()
    with mosquitto(tmp_path / "broker") if name == "mosquitto" else firelane(tmp_path / "broker") as broker:
        yield Address(host=broker.host, port=broker.port), TOPICS[name]


def flooding(address, topic, first, count, rate_hz, path):
    script = Path(__file__).with_name("flood.py")
    given = [address.port, topic, first, count, rate_hz, path]
    return subprocess.Popen([sys.executable, str(script), *map(str, given)])


def close_windows(address, topic, number, ahead_s=55):
    """A record of nearly a minute ahead, after which all windows of now are complete."""
    last = json.dumps(record(number, time.time_ns() // 1000 + ahead_s * 1_000_000))
    with BrokerSession(address, Wishes(client_id="last")) as session:
        session.publish([(topic, last.encode())])


def sent(*paths):
    """What was published, counted by window and subscriber."""
    lines = [line.split() for path in paths for line in path.read_text().splitlines()]
    numbers = [int(number) for number, _ in lines]
    assert len(set(numbers)) == len(numbers)
    return Counter((int(at) // 1_000_000 // int(WINDOW_S), f"s{int(number) % 10}") for number, at in lines)


def measured(output):
    """What the Metrics say, counted alike."""
    counts = Counter()
    if not (output / "metrics").exists():
        return counts
    for one in ds.dataset(output / "metrics", partitioning="hive").to_table().to_pylist():
        key = (round(one["window_start"].timestamp()) // int(WINDOW_S), one["subscriber"])
        assert key not in counts  # every window is there once
        counts[key] = round(one["offered_hz"] * WINDOW_S)
    return counts


def until(what, seconds):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        pytest.param("firelane", 10, marks=pytest.mark.slow),
        pytest.param("firelane", 60, marks=pytest.mark.soak),
        pytest.param("mosquitto", 60, marks=pytest.mark.soak),
    ],
)
def test_five_thousand_messages_a_second_all_arrive(spark, tmp_path, name, seconds):
    from firelane.pipeline.watch.run import Tally
    from firelane.pipeline.watch.watching import Watch, watching

    count, output, tally = 5000 * seconds, tmp_path / "out", Tally()
    with brokers(name, tmp_path) as (address, topic):
        watch = Watch(source=address, output=output, topic=topic, window_s=WINDOW_S, late_s=WINDOW_S)
        with watching(spark, watch, complain=pytest.fail) as running:
            until(lambda: running.queries[0].lastProgress, 60)
            with flooding(address, topic, 0, count, 5000, tmp_path / "sent") as flood:
                assert flood.wait(10 * seconds) == 0
            over_s = time.monotonic()
            close_windows(address, topic, count)
            until(lambda: sum(measured(output).values()) >= count, 120)
            tally.look(running)
    times = [int(line.split()[1]) for line in (tmp_path / "sent").read_text().splitlines()]
    rate_hz = count / (max(times) - min(times)) * 1e6
    print(f"{name}: {rate_hz:.0f} messages/s, all counted {time.monotonic() - over_s:.1f} s after the last")
    assert measured(output) == sent(tmp_path / "sent")
    assert tally.late == 0


@contextmanager
def watching_process(address, output):
    """`firelane pipeline watch` in a process of its own, killed if it is still there in the end."""
    command = [sys.executable, "-m", "firelane.cli", "pipeline", "watch", str(address), "-o", str(output)]
    options = ["--window", f"{WINDOW_S}s", "--late", "20s", "--for", "900", "--json", "--master", "local[2]"]
    with (output.parent / "watch.txt").open("ab") as said:
        process = subprocess.Popen([*command, *options], stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def collects_since(output, began_s):
    """Whether the log has been written to since then."""
    state = output / ".watch" / "log" / "state"
    return state.exists() and state.stat().st_mtime > began_s


def descendants(pid):
    found = set()
    for one in children(pid):
        found |= {one} | descendants(one)
    return found


@pytest.mark.parametrize("kills", [pytest.param(1, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.soak)])
def test_a_watch_killed_at_any_instant_loses_and_doubles_no_record(tmp_path, kills):
    chance, output, paths = random.Random(11), tmp_path / "out", [tmp_path / f"sent-{n}" for n in range(kills + 1)]
    with brokers("mosquitto", tmp_path) as (address, topic):
        for number, path in enumerate(paths):
            began_s = time.time()
            with watching_process(address, output) as process:
                until(lambda began_s=began_s: collects_since(output, began_s), 120)
                with flooding(address, topic, number * 100_000, 5000, 700, path) as flood:
                    time.sleep(chance.uniform(0.5, 9.0))
                    family = descendants(process.pid)
                    if number < kills:
                        process.kill()
                        process.wait()
                        until(lambda family=family: not any(map(running, family)), 60)
                    assert flood.wait(60) == 0
                if number == kills:
                    close_windows(address, topic, 99_999_999)
                    until(lambda: sum(measured(output).values()) >= sum(sent(*paths).values()), 180)
                    process.terminate()
                    assert process.wait(60) == 0
                    until(lambda family=family: not any(map(running, family)), 60)
    assert measured(output) == sent(*paths)


THIN = """
name: thin
links:
  thin: {bandwidth: 80 kbps, buffer: 100}
topics:
  a: {size: 100 B}
publishers:
  p: {publishes: {a: 20 Hz}}
subscribers:
  post: {link: thin, subscribes: {a: {max_delay: 200 ms}}}
exchange:
  telemetry: {topics: true, files: false, sampling: 100 %}
"""


class Client:
    """A paho client that keeps what it gets, and when."""

    def __init__(self, broker, name, topic_filter=None):
        self.got = []
        self.paho = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        self.paho.on_message = lambda client, data, message: self.got.append((time.monotonic(), message.payload))
        self.paho.connect(broker.host, broker.port)
        self.paho.loop_start()
        if topic_filter is not None:
            self.paho.subscribe(topic_filter, 1)

    def publish(self, rate_hz, seconds, done):
        """Publish at a steady rate with QoS 0, until it is done."""
        began_s, count = time.monotonic(), 0
        while not done():
            assert time.monotonic() - began_s < seconds
            while count < (time.monotonic() - began_s) * rate_hz:
                self.paho.publish("a", b"x" * 100)
                count += 1
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.paho.disconnect()
        self.paho.loop_stop()


@pytest.mark.parametrize(
    "within_s",
    [
        pytest.param(40, marks=pytest.mark.slow, id="in time"),  # beside other tests
        pytest.param(10, marks=pytest.mark.soak, id="within ten seconds"),
    ],
)
def test_an_overload_is_reported(spark, tmp_path, within_s):
    from firelane.pipeline.watch.watching import Watch, watching

    scenario, plan = tmp_path / "thin.yaml", tmp_path / "plan.json"
    scenario.write_text(THIN)
    tune(load(scenario), priorities="none", drops="none").save(plan)
    with firelane(tmp_path, str(scenario), "--plan", str(plan)) as broker:
        address = Address(host=broker.host, port=broker.port)
        watch = Watch(source=address, output=tmp_path / "out", scenario=load(scenario))
        with (
            Client(broker, "post", "a"),
            Client(broker, "ann", "$firelane/alerts") as ann,
            Client(broker, "p") as publisher,
            watching(spark, watch, complain=pytest.fail) as running,
        ):

            def told(*kinds):
                alerts = [(at_s, json.loads(payload)) for at_s, payload in ann.got]
                return {one["kind"]: (at_s, one) for at_s, one in reversed(alerts) if one["kind"] in kinds}

            alerting = running.queries[1]
            publisher.publish(20, 120, lambda: alerting.lastProgress and alerting.lastProgress["batchId"] >= 8)
            assert told("load", "bound") == {}
            began_s = time.monotonic()
            publisher.publish(150, 60, lambda: len(told("load", "bound")) == 2)
            found = told("load", "bound")
            print({kind: (at_s - began_s, one) for kind, (at_s, one) in found.items()})
            print([(one["batchId"], one["durationMs"]) for one in alerting.recentProgress])
    assert found["load"][0] - began_s < within_s
    assert found["bound"][0] - began_s < within_s
    assert found["load"][1]["subject"] == "thin"
    assert 1 < found["load"][1]["measured"] < 4
    assert found["bound"][1]["subject"] == "post a max_delay"
