"""The brokers as processes: each started fresh on a free port in a folder of its own, and ended by its number."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import numpy as np
import numpy.typing as npt

from firelane.errors import FirelaneError

from . import wire
from .clients import HOST, DeliveryError, connected

START_S = 20.0
LINK_BPS = 40e9

MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
sys_interval 0
log_dest none
"""

AMQTT = """\
listeners:
  default: {{type: tcp, bind: "127.0.0.1:{port}"}}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin: {{allow_anonymous: true}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A name and the command that serves MQTT on a port, with its files in a folder."""

    name: str
    command: Callable[[int, Path], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a broker listens, and its process."""

    port: int
    pid: int

    def memory_bytes(self) -> int:
        """Resident memory of the process and its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in (self.pid, *children))
        return pages * os.sysconf("SC_PAGESIZE")

    def core_s(self) -> npt.NDArray[np.float64]:
        """How long its threads have run, and how long they were kept waiting by others on their core."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        spent: npt.NDArray[np.float64] = (
            np.sum([np.fromstring(one.read_text(), sep=" ")[:2] for one in threads], axis=0) / 1e9
        )
        return spent


def mosquitto() -> Broker:
    """The peer in C. Debian keeps it where only root looks."""
    program = _found("mosquitto", "/usr/sbin", "/usr/local/sbin")
    if program is None:
        raise FirelaneError("benchmark brokers compares with mosquitto, which is not installed; "
                            "on Debian: apt install mosquitto")  # fmt: skip
    return Broker(name="mosquitto", command=lambda port, folder: [program, "-c", _written(MOSQUITTO, port, folder)])


def amqtt() -> Broker | None:
    """The peer in Python, or None. It insists on an old websockets, so it may live in an environment of its own."""
    program = _found("amqtt", str(Path(sys.executable).parent))
    if program is None:
        return None
    return Broker(name="amqtt", command=lambda port, folder: [program, "-c", _written(AMQTT, port, folder)])


def relay() -> Broker:
    """What any broker could reach at most under this load."""
    script = str(Path(__file__).with_name("relay.py"))
    return Broker(name="bare relay", command=lambda port, _: [sys.executable, script, str(port)])


def firelane(*settings: str) -> Broker:
    """Ours, as users start it, with settings as `--set` takes them."""
    options = [word for one in settings for word in ("--set", one)]
    return Broker(name="Firelane", command=lambda port, folder: [*_serve(port, folder), *options])


def unscheduled() -> Broker:
    """Ours without links or a plan, as the peer of what schedules."""
    return Broker(name="the same without a plan", command=_serve)


def scheduled() -> Broker:
    """Ours with the clients of the load on one paced link that is never full, in nine classes by turns."""
    subscribers = {f"subscriber-{n}": "site/#" for n in range(10)} | {"subscriber": "#"}
    scenario = {
        "name": "scheduled",
        "links": {"wide": {"bandwidth": LINK_BPS}},
        "topics": {"site/room": {"size": 64}},
        "publishers": {"p": {"publishes": {"site/room": 1}}},
        "subscribers": {name: {"link": "wide", "subscribes": {one: {}}} for name, one in subscribers.items()},
    }
    plan = {
        "format": 1,
        "flows": [{"id": n, "subscriber": one, "priority": n % 9, "drop_rate": 0} for n, one in enumerate(subscribers)],
        "subscriptions": [{"subscriber": s, "filter": f, "flow": n} for n, (s, f) in enumerate(subscribers.items())],
    }

    def command(port: int, folder: Path) -> list[str]:
        files = {folder / "scenario.yaml": scenario, folder / "plan.json": plan}
        for file, content in files.items():
            file.write_text(json.dumps(content))  # which is YAML too
        wanted, kept = map(str, files)
        return [*_serve(port, folder), wanted, "--plan", kept]

    return Broker(name="Firelane, scheduled", command=command)


def _serve(port: int, folder: Path) -> list[str]:
    ports = ["--mqtt-port", str(port), "--http-port", "0"]
    return [sys.executable, "-m", "firelane.cli", "serve", *ports, "--data-dir", str(folder / "data")]


@contextmanager
def running(broker: Broker, cores: set[int]) -> Iterator[Running]:
    """The broker on these cores, once it lets a client in."""
    with TemporaryDirectory(prefix="firelane-bench-") as name:
        port = _free_port()
        log = Path(name) / "log"
        with log.open("wb") as output, pinned(cores):  # which the child inherits, and all its threads
            process = subprocess.Popen(broker.command(port, Path(name)), stdout=output, stderr=output, cwd=name)
        try:
            _wait_until_ready(broker, process, port, log)
            yield Running(port=port, pid=process.pid)
        finally:
            _end(process)


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """This thread on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cores() -> tuple[set[int], set[int]]:
    """One for the broker, and if there is another one for the load."""
    allowed = sorted(os.sched_getaffinity(0))
    return {allowed[0]}, {allowed[1 % len(allowed)]}


def _wait_until_ready(broker: Broker, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    started = perf_counter()
    while process.poll() is None and perf_counter() < started + START_S:
        try:
            connected(port, wire.connect("first")).close()
        except (OSError, DeliveryError):
            sleep(0.01)
        else:
            return
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    raise FirelaneError(f"{broker.name} did not start: {' '.join(last) or 'it said nothing'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _found(program: str, *folders: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path=os.pathsep.join(folders))


def _written(configuration: str, port: int, folder: Path) -> str:
    path = folder / "configuration"
    path.write_text(configuration.format(port=port))
    return str(path)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])
