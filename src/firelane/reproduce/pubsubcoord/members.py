"""Edges and routers for experiments: `firelane edge` and `firelane router` in processes of their own."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from firelane.errors import FirelaneError
from firelane.reproduce.zookeeper import Zookeeper, zookeeper
from firelane.served import HOST, Exchange, end, launch, ports_of

Role = Literal["edge", "router"]
SETTINGS = (
    "anonymous=always",
    "durability=memory",
    "system_interval=0",
    "telemetry.files=false",
    "limits.subscriptions=20000",
    "limits.connections=20000",
    "limits.packet=10MB",
)
JOIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Exchange):
    """A broker of the overlay that runs."""

    name: str
    role: Role

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"mqtt://{HOST}:{self.mqtt_port}"

    def own(self) -> dict[str, Any]:
        """What it knows, keeps and has seen."""
        own: dict[str, Any] = json.loads(self.ask("GET", "/api/v1/overlay"))["own"]
        return own

    def received(self) -> int:
        """How many messages were published here so far."""
        (found,) = re.findall(
            r"^firelane_publications_received_total (\S+)$", self.ask("GET", "/metrics").decode(), re.M
        )
        return int(float(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A broker to be started; `locator` is where others reach it, if not where it listens."""

    role: Role
    name: str
    locator: str | None = None
    settings: Sequence[str] = ()  # as after `--set exchange.`


class Cluster:
    """All of them, and ZooKeeper."""

    def __init__(self, server: Zookeeper, members: Sequence[Member]) -> None:
        self.zookeeper = server
        self.members = {one.name: one for one in members}
        self.edges = [one for one in members if one.role == "edge"]
        self.routers = [one for one in members if one.role == "router"]

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    @property
    def leader(self) -> Member:
        """The router that leads."""
        leaders = [one for one in self.routers if one.own()["leads"]]
        if not leaders:
            raise FirelaneError("no router leads")
        return leaders[0]

    def joined(self) -> bool:
        """Whether every edge is connected to every router and knows all other edges, and a router leads."""
        for edge in self.edges:
            own = edge.own()
            if len(own["routers"]) != len(self.routers) or not all(own["routers"].values()):
                return False
            if len(own["edges"]) != len(self.edges) - 1:
                return False
        return any(one.own()["leads"] for one in self.routers)


@contextmanager
def cluster(planned: Sequence[Planned], *, started: Callable[[Member], None] = lambda _: None) -> Iterator[Cluster]:
    """All of them started and joined, with a ZooKeeper of their own, until the block ends.

    `started` is called with each as soon as its ports are known.
    """
    with TemporaryDirectory(prefix="firelane-overlay-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        server = stack.enter_context(zookeeper(folder / "zookeeper"))
        running = [_launched(stack, folder, server, one) for one in planned]
        members = []
        for one, (process, complaints) in zip(planned, running, strict=True):
            members.append(Member(pid=process.pid, name=one.name, role=one.role, **ports_of(process, complaints)))
            started(members[-1])
        yield Cluster(server, members)


def _launched(stack: ExitStack, folder: Path, server: Zookeeper, one: Planned) -> tuple[subprocess.Popen[bytes], Path]:
    complaints = folder / f"{one.name}.txt"
    command = [one.role, "--mqtt-port", "0", "--http-port", "0", "--data-dir", str(folder / one.name)]
    command += ["--registry", server.address, "--name", one.name]
    command += ["--locator", one.locator] if one.locator is not None else []
    command += [word for setting in (*SETTINGS, *one.settings) for word in ("--set", f"exchange.{setting}")]
    stderr = stack.enter_context(complaints.open("wb"))
    process = stack.enter_context(launch(command, stderr))
    stack.callback(end, process)
    return process, complaints


def wait_joined(whole: Cluster, within_s: float = JOIN_S) -> None:
    """Until all know each other."""
    give_up = time.monotonic() + within_s
    while not whole.joined():
        if time.monotonic() > give_up:
            raise FirelaneError(f"the brokers of an experiment did not find each other within {within_s:g} s")
        time.sleep(0.1)
