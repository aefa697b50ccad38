"""`firelane serve` as its operator sees it: one line when ready, one line when not, signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from firelane.mqtt.packets import V3, V5, Kind
from live.brokers import firelane
from live.wire import Wire

pytestmark = pytest.mark.slow


def serve(*arguments: str, timeout: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "firelane.cli", "serve", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, **environment}
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_it_says_one_line_when_ready_and_nothing_else(tmp_path):
    with firelane(tmp_path) as broker:
        (line,) = broker.output.read_text().splitlines()
        assert line.startswith("firelane is ready on mqtt://127.0.0.1:")
        assert str(broker.data_dir) in line


def test_memory_durability_is_said_in_the_ready_line(tmp_path):
    with firelane(tmp_path, "--set", "exchange.durability=memory") as broker:
        assert "nothing survives a restart" in broker.output.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_tells_its_clients_and_ends_in_order(tmp_path, number):
    with firelane(tmp_path) as broker, Wire(broker.port, V5) as new, Wire(broker.port, V3) as old:
        new.connect()
        old.connect()
        broker.process.send_signal(number)
        assert new.expect(Kind.DISCONNECT).reason == 0x8B
        new.expect_closed()
        old.expect_closed()
        assert broker.process.wait(10) == 0


def test_a_port_in_use_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        line = refused(serve("--mqtt-port", port, "--http-port", "0", "--data-dir", str(tmp_path)))
        assert port in line
        assert line.endswith("address already in use; choose another --mqtt-port")


def test_an_unwritable_data_dir_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    line = refused(serve("--mqtt-port", "0", "--http-port", "0", "--data-dir", str(tmp_path / "file" / "data")))
    assert "choose another folder" in line


def test_a_data_dir_in_use_is_one_line(tmp_path):
    with firelane(tmp_path) as broker:
        line = refused(serve("--mqtt-port", "0", "--http-port", "0", "--data-dir", str(broker.data_dir)))
        assert "in use by another exchange" in line


def test_a_bad_certificate_is_one_line(tmp_path):
    (tmp_path / "bad.pem").write_text("nonsense")
    tls = f"exchange.tls={{port: 0, certificate: {tmp_path}/bad.pem, key: {tmp_path}/bad.pem}}"
    arguments = ("--mqtt-port", "0", "--http-port", "0", "--data-dir", str(tmp_path / "d"), "--set")
    assert "PEM certificate" in refused(serve(*arguments, tls))
    assert "No such file" in refused(serve(*arguments, tls.replace("bad.pem", "none.pem")))


def test_a_bad_setting_is_one_line_that_names_where_it_came_from(tmp_path):
    assert "--set" in refused(serve("--data-dir", str(tmp_path), "--set", "exchange.keep_alive=soon"))
    environment = {"FIRELANE_EXCHANGE__LIMITS__QUEUE": "many"}
    assert "FIRELANE_EXCHANGE__LIMITS__QUEUE" in refused(serve("--data-dir", str(tmp_path), **environment))


def test_the_environment_and_the_command_line_set_things(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRELANE_EXCHANGE__KEEP_ALIVE", "33 s")
    with firelane(tmp_path, "--set", "exchange.limits.inflight=7") as broker, Wire(broker.port) as wire:
        properties = wire.connect().properties
        assert properties["server_keep_alive"] == 33
        assert properties["receive_maximum"] == 7


def wait_until(true, what: str) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_hangup_signal_reloads_access_rules_while_clients_stay(tmp_path):
    scenario = tmp_path / "site.yaml"
    rules = "name: site\nexchange:\n  access:\n    - {who: '*', filter: '#', allow: [publish, subscribe]}\n"
    scenario.write_text(rules)
    with firelane(tmp_path, str(scenario)) as broker, Wire(broker.port) as wire:
        wire.connect()
        assert wire.subscribe("open/#", qos=1).reasons == [1]
        scenario.write_text(
            rules.replace("access:\n", "access:\n    - {who: '*', filter: open/b, deny: [subscribe]}\n")
        )
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "settings reloaded" in broker.output.read_text(), "settings were not reloaded")
        wire.publish("open/b", b"hidden", qos=1)
        wire.publish("open/a", b"seen", qos=1)
        assert wire.expect(Kind.PUBLISH).payload == b"seen"
        scenario.write_text("name: site\nexchange: {keep_alive: soon}\n")
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "settings not reloaded" in broker.output.read_text(), "a bad file was not reported")
        scenario.write_text(rules + "  durability: memory\n")
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "restart is needed for durability" in broker.output.read_text(), "no word of a restart")
        wire.publish("open/a", b"still here", qos=1)
        assert wire.expect(Kind.PUBLISH).payload == b"still here"


def test_a_torn_log_is_cut_and_reported(tmp_path):
    with firelane(tmp_path) as broker:
        with Wire(broker.port) as wire:
            wire.connect("keeper", clean_start=False, properties={"session_expiry_interval": 1000})
            wire.subscribe("t", qos=1)
        with Wire(broker.port) as wire:
            wire.connect()
            wire.publish("t", b"kept", qos=1)
        broker.kill()
        (log,) = (broker.data_dir / "log").glob("*.log")
        with log.open("ab") as file:
            file.write(b"\x40\0\0\0torn")
        broker.start()
        assert "8 bytes that were never confirmed" in broker.output.read_text()
        with Wire(broker.port) as wire:
            assert wire.connect("keeper", clean_start=False).session_present
            assert wire.expect(Kind.PUBLISH).payload == b"kept"
