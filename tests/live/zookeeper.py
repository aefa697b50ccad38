"""Real ZooKeeper servers for tests: Debian's, one or three, each a process of its own on free ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from live.brokers import Broker, free_port, running
from live.wan import HOME, Place

JAR = Path("/usr/share/java/zookeeper.jar")
TICK_MS = 500  # sessions last for two of them at least
JAVA = ["-Xmx128m", "-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
PROPERTIES = {
    "zookeeper.admin.enableServer": "false",
    "zookeeper.4lw.commands.whitelist": "*",
    "znode.container.checkIntervalMs": "500",  # a minute by default
    "znode.container.maxPerMinute": "1000000",  # 10 000 by default
}
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


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

    def configure(self, peers: list[Zookeeper]) -> None:
        lines = [
            f"tickTime={TICK_MS}",
            "initLimit=20",
            "syncLimit=10",
            f"dataDir={self.data_dir}",
            f"clientPort={self.port}",
            f"clientPortAddress={self.place.address}",
            "maxClientCnxns=0",
        ]
        if len(peers) > 1:
            lines += [
                f"server.{one.number}={one.place.address}:{one.peer_ports[0]}:{one.peer_ports[1]}" for one in peers
            ]
            (self.data_dir / "myid").write_text(f"{self.number}\n")
        (self.folder / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        settings = [f"-D{name}={value}" for name, value in PROPERTIES.items()]
        path = f"/etc/zookeeper/conf:{JAR}"
        java = [self.java, *JAVA, *settings, "-cp", path, MAIN, str(self.folder / "zoo.cfg")]
        return self.place.command(java)

    def ready(self) -> bool:
        return self.mode() is not None

    def ask(self, word: str) -> str:
        """The answer to one of ZooKeeper's four-letter words."""
        with self.place.inside():
            asking = socket.create_connection((self.place.address, self.port), timeout=5)
        with asking as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()

    def mode(self) -> str | None:
        """What it is among its peers, once it serves."""
        with suppress(OSError):
            for line in self.ask("srvr").splitlines():
                if line.startswith("Mode: "):
                    return line.removeprefix("Mode: ")
        return None

    def count(self, what: str) -> int:
        """A number that `mntr` tells, e.g. `znode_count`."""
        told = dict(line.split("\t", 1) for line in self.ask("mntr").splitlines() if "\t" in line)
        return int(told[f"zk_{what}"])

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Nothing is lost by it, and it takes no time."""
        self.kill()


def _java() -> str:
    java = shutil.which("java")
    if java is None or not JAR.exists():
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
