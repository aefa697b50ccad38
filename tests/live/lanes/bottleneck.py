"""A real bottleneck: two network namespaces joined by a link on which the broker's side sends no faster than a rate.

Publishers reach the broker within its own namespace, past the bottleneck. A socket stays in the namespace in which it
was made, so one process can hold both ends of every message and needs one clock only. Sending is shaped by tbf with
room for two packets at a time; what does not fit waits in a queue of `queue_s` and is lost beyond it, as on a router.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from firelane.reproduce.namespaces import SEARCH, entered
from live.brokers import Broker, Firelane, Mosquitto, running
from live.lanes.clients import Place

NEAR, FAR = "10.99.0.1", "10.99.0.2"
BURST_BYTES = 3200  # two packets of Ethernet: with room for one, every late timer of tbf would cost it some of its rate
QUEUE_S = 0.1
CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")  # of the namespace one is in


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The two namespaces, by name: the broker's and the subscribers'."""

    near: str
    far: str

    def places(self, broker: Broker) -> tuple[Place, Place]:
        """Where publishers and where subscribers find a broker that runs on the near side."""
        return (
            Place(port=broker.port, inside=partial(entered, self.near)),
            Place(port=broker.port, host=NEAR, inside=partial(entered, self.far)),
        )

    def mosquitto(self, folder: Path, **config: object):
        """Mosquitto on the near side."""
        program = shutil.which("mosquitto", path=SEARCH)
        if program is None:
            _cannot("mosquitto is not installed", installable=True)
        return running(_NearMosquitto(self.near, folder, program, config))

    def firelane(self, folder: Path, *serve_args: str):
        """Firelane's exchange on the near side, which knows nothing of the bottleneck but what its scenario says."""
        arguments = ("--host", "0.0.0.0", "--set", "exchange.anonymous=always", *serve_args)
        return running(_NearFirelane(self.near, folder, arguments))

    def change(self, rate_bps: float, *, queue_bytes: float) -> None:
        """Send at another rate from now on; what waits beyond the queue is lost."""
        _shape(self.near, "near", rate_bps, queue_bytes * 8 / rate_bps)

    def sent_bytes(self) -> int:
        """What has gone through the bottleneck so far, headers included."""
        said = _run("tc", "-n", self.near, "-s", "qdisc", "show", "dev", "near", "root")
        return int(re.search(r"Sent (\d+) bytes", said)[1])


class _NearMosquitto(Mosquitto):
    def __init__(self, namespace: str, folder: Path, program: str, config: dict[str, object]) -> None:
        super().__init__(folder, program, config)
        self.namespace = namespace
        file = folder / "mosquitto.conf"
        file.write_text(re.sub(r"(?m)^listener (\d+) .*$", r"listener \1 0.0.0.0", file.read_text()))

    def command(self) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *super().command()]

    def ready(self) -> bool:
        with entered(self.namespace):
            return super().ready()


class _NearFirelane(Firelane):
    def __init__(self, namespace: str, folder: Path, serve_args: tuple[str, ...]) -> None:
        super().__init__(folder, serve_args)
        self.namespace = namespace

    def command(self) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *super().command()]

    def ready(self) -> bool:
        said = self.output.read_text()
        mqtt, http = (re.search(rf"{scheme}://0\.0\.0\.0:(\d+)", said) for scheme in ("mqtt", "http"))
        if mqtt and http:
            self.port, self.http_port = int(mqtt[1]), int(http[1])
        return bool(mqtt and http)


@contextmanager
def bottleneck(rate_bps: float, *, queue_s: float = QUEUE_S) -> Iterator[Bottleneck]:
    """Two namespaces and the link between them, gone afterwards; without root or tbf the test is skipped."""
    _check_possible()
    word = secrets.token_hex(4)
    one = Bottleneck(near=f"near-{word}", far=f"far-{word}")
    with ExitStack() as stack:
        for namespace in (one.near, one.far):
            _run("ip", "netns", "add", namespace)
            stack.callback(_run, "ip", "netns", "delete", namespace)  # and with it its devices
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
            _as_on_most_machines(namespace)
        _run("ip", "link", "add", "near", "netns", one.near, "type", "veth", "peer", "name", "far", "netns", one.far)
        for namespace, device, address in ((one.near, "near", NEAR), (one.far, "far", FAR)):
            _run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", device)
            _run("ip", "-n", namespace, "link", "set", device, "up")
        _shape(one.near, "near", rate_bps, queue_s)
        yield one


def _as_on_most_machines(namespace: str) -> None:
    """TCP that fills queues until they overflow: cubic, or reno where a namespace may not choose that."""
    with entered(namespace):
        try:
            CONGESTION_CONTROL.write_text("cubic")
        except OSError:
            CONGESTION_CONTROL.write_text("reno")


def _shape(namespace: str, device: str, rate_bps: float, queue_s: float) -> None:
    limit = round(rate_bps / 8 * queue_s)
    qdisc = ("tbf", "rate", f"{round(rate_bps)}bit", "burst", str(BURST_BYTES), "limit", str(limit))
    _run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *qdisc)


def _check_possible() -> None:
    for program in ("ip", "tc"):
        if shutil.which(program, path=SEARCH) is None:
            _cannot(f"{program} is not installed (Debian: iproute2)", installable=True)
    if os.geteuid() != 0:
        _cannot("only root can make network namespaces")
    probe = f"probe-{secrets.token_hex(4)}"
    try:
        _run("ip", "netns", "add", probe)
    except subprocess.CalledProcessError as problem:
        _cannot(f"no network namespaces here: {problem.stderr.strip()}")
    try:
        _run("ip", "-n", probe, "link", "add", "probe", "type", "veth", "peer", "name", "other")
        _shape(probe, "probe", 1e6, QUEUE_S)
    except subprocess.CalledProcessError as problem:
        _cannot(f"this kernel has no veth or no tbf: {problem.stderr.strip()}")
    finally:
        _run("ip", "netns", "delete", probe)


def _cannot(reason: str, *, installable: bool = False) -> None:
    (pytest.fail if installable and os.environ.get("CI") else pytest.skip)(reason)


def _run(*command: str) -> str:
    environment = {**os.environ, "PATH": SEARCH}
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=environment).stdout
