"""Real brokers for tests: Debian's mosquitto and Firelane's exchange, each a process of its own on a free port."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path

import pytest

HOST = "127.0.0.1"
START_S, STOP_S = 60, 10
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PORTS = cycle(random.sample(range(20_000 + 1_000 * WORKER, 21_000 + 1_000 * WORKER), 1_000))
MOSQUITTO = {
    "allow_anonymous": True,
    "sys_interval": 1,
    "set_tcp_nodelay": True,
    "max_inflight_messages": 100,
    "max_queued_messages": 100_000,
    "max_packet_size": 1_000_000,
}


class Broker:
    """A broker that can be stopped, killed and started again on the port it had and with the data it kept."""

    name: str
    host = HOST

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.data_dir = folder / "data"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.output = folder / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(self.command(), stdout=output, stderr=subprocess.STDOUT)

    def wait(self) -> None:
        """Until it serves."""
        deadline = time.monotonic() + START_S
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{self.output.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ask it to end, as an operator would; insist when it does not."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        self.kill()

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        if self.process.poll() is None:
            self.stop()
        self.start()


class Mosquitto(Broker):
    name = "mosquitto"

    def __init__(self, folder: Path, program: str, config: dict[str, object]) -> None:
        super().__init__(folder, free_port())
        self.program = program
        lines = [f"listener {self.port} {HOST}", f"persistence_location {self.data_dir}/"]
        if os.geteuid() == 0:
            lines.append("user root")  # it would give up the right to write its data otherwise
        for key, value in (MOSQUITTO | config).items():
            lines.append(f"{key} {str(value).lower() if isinstance(value, bool) else value}")
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return [self.program, "-c", str(self.folder / "mosquitto.conf")]

    def ready(self) -> bool:
        return accepts(self.port)


class Firelane(Broker):
    name = "firelane"

    def __init__(self, folder: Path, serve_args: tuple[str, ...]) -> None:
        super().__init__(folder, 0)
        self.http_port = 0
        self.serve_args = serve_args

    def command(self) -> list[str]:
        ports = ["--mqtt-port", str(self.port), "--http-port", str(self.http_port)]
        serve = [sys.executable, "-u", "-m", "firelane.cli", "serve", *ports]
        return [*serve, "--data-dir", str(self.data_dir), *self.serve_args]

    def ready(self) -> bool:
        said = self.output.read_text()
        mqtt, http = (re.search(rf"{scheme}://{re.escape(HOST)}:(\d+)", said) for scheme in ("mqtt", "http"))
        if mqtt and http:
            self.port, self.http_port = int(mqtt[1]), int(http[1])
        return bool(mqtt and http)


def free_port() -> int:
    """Of a range the kernel gives nobody by itself, so that no connection takes it before the broker does.

    Tests that run side by side have each a part of the range, and a port comes again only after a thousand others.
    """
    while True:
        with suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, next(PORTS)))
            return probe.getsockname()[1]


def accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


@contextmanager
def running(broker: Broker):
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def mosquitto(tmp_path: Path, **config: object):
    """Mosquitto with these lines in its configuration; without it tests fail under CI and are skipped elsewhere."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("mosquitto is not installed")
    return running(Mosquitto(tmp_path, program, config))


def firelane(tmp_path: Path, *serve_args: str):
    """Firelane's exchange, from the source under test."""
    return running(Firelane(tmp_path, serve_args))
