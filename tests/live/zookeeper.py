"""Real ZooKeeper servers for tests: Debian's, one or three, each a process of its own on free ports."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from firelane.reproduce.zookeeper import Zookeeper as Server
from firelane.reproduce.zookeeper import command, configuration, installed
from live.brokers import Broker, free_port, running
from live.wan import HOME, Place


class Zookeeper(Broker):
    """A server that can be killed, paused and started again with what it kept."""

    name = "zookeeper"

    def __init__(self, folder: Path, java: str, number: int = 1, place: Place = HOME) -> None:
        super().__init__(folder, free_port())
        self.place = place
        self.java = java
        self.number = number
        self.peer_ports = free_port(), free_port()

    @property
    def address(self) -> str:
        return f"{self.place.address}:{self.port}"

    @property
    def server(self) -> Server:
        return Server(port=self.port, host=self.place.address)

    def configure(self, peers: list[Zookeeper]) -> None:
        several = {one.number: ":".join(map(str, (one.place.address, *one.peer_ports))) for one in peers}
        if len(peers) > 1:
            (self.data_dir / "myid").write_text(f"{self.number}\n")
        text = configuration(
            self.data_dir, self.port, host=self.place.address, peers=several if len(peers) > 1 else None
        )
        (self.folder / "zoo.cfg").write_text(text)

    def command(self) -> list[str]:
        return self.place.command(command(self.java, self.folder / "zoo.cfg"))

    def ready(self) -> bool:
        return self.mode() is not None

    def mode(self) -> str | None:
        """What it is among its peers, once it serves."""
        with self.place.inside():
            return self.server.mode()

    def count(self, what: str) -> int:
        """A number that `mntr` tells, e.g. `znode_count`."""
        with self.place.inside():
            return int(self.server.monitored()[what])

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Nothing is lost by it, and it takes no time."""
        self.kill()


def _java() -> str:
    java = installed()
    if java is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("ZooKeeper is not installed")
    return java


@contextmanager
def zookeeper(folder: Path, place: Place = HOME):
    """One server; without ZooKeeper tests fail under CI and are skipped elsewhere."""
    server = Zookeeper(folder, _java(), place=place)
    server.configure([server])
    with running(server):
        yield server


@contextmanager
def ensemble(folder: Path, size: int = 3, place: Place = HOME):
    """Servers that decide by majority."""
    java = _java()
    servers = [Zookeeper(folder / str(number), java, number, place) for number in range(1, size + 1)]
    for server in servers:
        server.configure(servers)
    with ExitStack() as stack:
        for server in servers[: size // 2]:
            server.launch()  # they serve only when they are enough
            stack.callback(server.kill)
        for server in servers[size // 2 :]:
            stack.enter_context(running(server))
        for server in servers:
            server.wait()
        yield servers
