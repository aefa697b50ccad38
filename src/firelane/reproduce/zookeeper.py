"""A ZooKeeper server of an experiment's own: Debian's, a process on this machine that ends with this one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from firelane.errors import FirelaneError

HOST = "127.0.0.1"
JAR = Path("/usr/share/java/zookeeper.jar")
TICK_MS = 500  # sessions last for two of them at least
START_S, ANSWER_S = 60.0, 5.0
JAVA = ["-Xmx128m", "-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
PROPERTIES = {
    "zookeeper.admin.enableServer": "false",
    "zookeeper.4lw.commands.whitelist": "*",
    "znode.container.checkIntervalMs": "500",  # a minute by default
    "znode.container.maxPerMinute": "1000000",  # 10 000 by default
}
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# The server ends when standard input does, so that nothing is left running even if this process is killed.
ATTACHED = ["sh", "-c", '"$@" & read -r _; kill -9 $!', "sh"]


def installed() -> str | None:
    """The Java that can run ZooKeeper; None if one of them is missing."""
    return shutil.which("java") if JAR.exists() else None


def configuration(data_dir: Path, port: int, *, host: str = HOST, peers: Mapping[int, str] | None = None) -> str:
    """The file of a server; `peers` are the address and the two ports of each, by number, if there are several."""
    lines = [
        f"tickTime={TICK_MS}",
        "initLimit=20",
        "syncLimit=10",
        f"dataDir={data_dir}",
        f"clientPort={port}",
        f"clientPortAddress={host}",
        "maxClientCnxns=0",
        *(f"server.{number}={where}" for number, where in (peers or {}).items()),
    ]
    return "\n".join(lines) + "\n"


def command(java: str, file: Path) -> list[str]:
    """What to run for a server of this configuration."""
    settings = [f"-D{name}={value}" for name, value in PROPERTIES.items()]
    return [java, *JAVA, *settings, "-cp", f"/etc/zookeeper/conf:{JAR}", MAIN, str(file)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Zookeeper:
    """Where a server is, and what it says of itself."""

    port: int
    host: str = HOST

    @property
    def address(self) -> str:
        """As brokers want it."""
        return f"zookeeper://{self.host}:{self.port}"

    def ask(self, word: str) -> str:
        """The answer to one of ZooKeeper's four-letter words."""
        with socket.create_connection((self.host, self.port), timeout=ANSWER_S) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()

    def mode(self) -> str | None:
        """What it is among its peers, once it serves."""
        with suppress(OSError):
            for line in self.ask("srvr").splitlines():
                if line.startswith("Mode: "):
                    return line.removeprefix("Mode: ")
        return None

    def monitored(self) -> dict[str, float]:
        """The numbers that `mntr` tells, e.g. `znode_count`."""
        pairs = [line.split("\t", 1) for line in self.ask("mntr").splitlines() if "\t" in line]
        found = {}
        for name, value in pairs:
            with suppress(ValueError):
                found[name.removeprefix("zk_")] = float(value)
        return found

    def forget(self) -> None:
        """Count latencies and packets anew."""
        self.ask("srst")


@contextmanager
def zookeeper(folder: Path) -> Iterator[Zookeeper]:
    """One server that keeps its data in a folder, until the block ends."""
    java = installed()
    if java is None:
        raise FirelaneError("ZooKeeper is not installed; on Debian: apt-get install zookeeper")
    data_dir, file, output = folder / "data", folder / "zoo.cfg", folder / "output.txt"
    data_dir.mkdir(parents=True)
    server = Zookeeper(port=_free_port())
    file.write_text(configuration(data_dir, server.port))
    with output.open("wb") as said:
        process = subprocess.Popen(
            [*ATTACHED, *command(java, file)], stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True
        )
    with process:
        try:
            _wait(server, output)
            yield server
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def _wait(server: Zookeeper, output: Path) -> None:
    give_up = time.monotonic() + START_S
    while server.mode() is None:
        if time.monotonic() > give_up:
            last = output.read_text(errors="replace").splitlines()[-1:] or ["it says nothing"]
            raise FirelaneError(f"ZooKeeper did not start within {START_S:g} s: {last[0]}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
