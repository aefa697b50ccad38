"""Routers and edges as processes of their own, with a real ZooKeeper, that can be killed, paused and started again."""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress

from live.brokers import Broker, accepts, free_port
from live.zookeeper import ensemble, zookeeper

SETTINGS = ("exchange.anonymous=always", "exchange.system_interval=0", "exchange.telemetry.files=false")


class Member(Broker):
    """A router or an edge."""

    def __init__(self, folder, role, name, registry):
        folder.mkdir()
        super().__init__(folder, free_port())
        self.http_port = free_port()
        self.role, self.name, self.registry = role, name, registry

    def command(self):
        settings = [part for one in SETTINGS for part in ("--set", one)]
        where = ["--mqtt-port", str(self.port), "--http-port", str(self.http_port), "--data-dir", str(self.data_dir)]
        joins = ["--registry", self.registry, "--name", self.name]
        return [sys.executable, "-u", "-m", "firelane.cli", self.role, *joins, *where, *settings]

    def ready(self):
        return b"is ready" in self.output.read_bytes() and accepts(self.port)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def state(self):
        """What it says of the overlay."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/api/v1/overlay", timeout=5) as answer:
            return json.load(answer)


class Cluster:
    def __init__(self, folder, servers, routers, edges):
        self.servers = servers
        hosts = ",".join(server.address for server in servers)
        make = {"router": routers, "edge": edges}
        self.members = {
            name: Member(folder / name, role, name, f"zookeeper://{hosts}")
            for role, names in make.items()
            for name in names
        }
        self.routers = [self.members[name] for name in routers]
        self.edges = [self.members[name] for name in edges]

    def __getitem__(self, name):
        return self.members[name]

    def joined(self):
        """Whether every edge that runs is connected to every router that runs and knows the other edges."""
        for edge in self.edges:
            own = edge.state()["own"]
            if sorted(own["routers"]) != sorted(one.name for one in self.routers) or not all(own["routers"].values()):
                return False
            if len(own["edges"]) != len(self.edges) - 1:
                return False
        return True

    @property
    def leader(self):
        return next(one for one in self.routers if one.state()["own"]["leads"])


def until(true, within_s=30.0):
    end = time.monotonic() + within_s
    while True:
        with suppress(OSError, StopIteration, KeyError):
            if true():
                return
        assert time.monotonic() < end, "it has not become true"
        time.sleep(0.02)


@contextmanager
def cluster(folder, *, routers=("r1", "r2"), edges=("a", "b"), servers=1):
    """All of them, started and joined."""
    with zookeeper(folder / "zookeeper") if servers == 1 else ensemble(folder / "zookeeper", servers) as place:
        whole = Cluster(folder, [place] if servers == 1 else list(place), routers, edges)
        try:
            for one in whole.members.values():
                one.launch()
            for one in whole.members.values():
                one.wait()
            until(whole.joined)
            yield whole
        finally:
            for one in whole.members.values():
                if one.process is not None:
                    one.kill()
