"""Routers and edges as processes of their own, with a real ZooKeeper, that can be killed, paused and started again.

On a wide area network (`live.wan`) every edge is at the place of its name, routers and ZooKeeper are at `cloud`.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

from live.brokers import Broker, free_port
from live.overlay.history import Epochs
from live.wan import HOME
from live.zookeeper import ensemble, zookeeper

SETTINGS = ("exchange.anonymous=always", "exchange.system_interval=0", "exchange.telemetry.files=false")
RECORDED = str(Path(__file__).with_name("recorded.py"))


class Member(Broker):
    """A router or an edge."""

    def __init__(self, folder, role, name, registry, place, planted=""):
        folder.mkdir()
        super().__init__(folder, free_port())
        self.http_port = free_port()
        self.role, self.name, self.registry, self.place = role, name, registry, place
        self.planted = planted  # a mistake of edges
        self.record = folder / "accepted.jsonl"

    def command(self):
        settings = [part for one in SETTINGS for part in ("--set", one)]
        where = ["--mqtt-port", str(self.port), "--http-port", str(self.http_port), "--data-dir", str(self.data_dir)]
        if self.place is not HOME:
            where += ["--host", "0.0.0.0", "--locator", f"{self.place.address}:{self.port}"]
        joins = ["--registry", self.registry, "--name", self.name]
        program = [RECORDED, str(self.record), self.planted] if self.role == "edge" else ["-m", "firelane.cli"]
        return self.place.command([sys.executable, "-u", *program, self.role, *joins, *where, *settings])

    def ready(self):
        return b"is ready" in self.output.read_bytes()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def state(self):
        """What it says of the overlay."""
        return self._ask("overlay")

    def has_subscription(self, client, topic_filter):
        """Whether a client of it has subscribed to that."""
        asked = urllib.parse.urlencode({"client_id": client, "filter": topic_filter})
        return bool(self._ask(f"subscriptions?{asked}")["items"])

    def _ask(self, what):
        url = f"http://127.0.0.1:{self.http_port}/api/v1/{what}"
        with self.place.inside(), urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)

    def epochs(self):
        """What it accepted and refused, in order, over all its lives."""
        return Epochs.read(self.name, self.record)


class Cluster:
    def __init__(self, folder, servers, routers, edges, network=None, planted=""):
        self.servers, self.network = servers, network
        places = {} if network is None else network.places
        hosts = ",".join(server.address for server in servers)
        make = {"router": routers, "edge": edges}
        self.members = {
            name: Member(
                folder / name,
                role,
                name,
                f"zookeeper://{hosts}",
                places.get(name) or places.get("cloud") or HOME,
                planted,
            )
            for role, names in make.items()
            for name in names
        }
        self.routers = [self.members[name] for name in routers]
        self.edges = [self.members[name] for name in edges]

    def __getitem__(self, name):
        return self.members[name]

    def joined(self):
        """Whether every edge is connected to every router and knows the other edges."""
        for edge in self.edges:
            own = edge.state()["own"]
            if sorted(own["routers"]) != sorted(one.name for one in self.routers) or not all(own["routers"].values()):
                return False
            if len(own["edges"]) != len(self.edges) - 1 or not all(own["edges"].values()):
                return False
        return True

    def said(self):
        """What everybody says of itself, and has printed last."""
        lines = []
        for one in self.members.values():
            try:
                lines.append(f"{one.name}: {json.dumps(one.state()['own'])}")
            except OSError as error:
                lines.append(f"{one.name}: {error}")
            lines += [f"  {line}" for line in one.output.read_text().splitlines()[-8:]]
        return "\n".join(lines)

    def wanted(self, topic_filter, by):
        """Whether everybody knows that clients of an edge want this."""
        asked = [router.has_subscription(f"edge:{by}", topic_filter) for router in self.routers]
        known = [edge.has_subscription("$overlay", topic_filter) for edge in self.edges if edge.name != by]
        return all(asked + known)

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
def cluster(folder, *, routers=("r1", "r2"), edges=("a", "b"), servers=1, network=None, planted=""):
    """All of them, started and joined."""
    cloud = HOME if network is None else network.places["cloud"]
    start = zookeeper(folder / "zk", cloud) if servers == 1 else ensemble(folder / "zk", servers, cloud)
    with start as place:
        whole = Cluster(folder, [place] if servers == 1 else list(place), routers, edges, network, planted)
        try:
            for one in whole.members.values():
                one.launch()
            for one in whole.members.values():
                one.wait()
            until(whole.joined)
            until(lambda: whole.leader, within_s=120.0)  # who makes machine code for that first, if it is not there yet
            yield whole
        finally:
            for one in whole.members.values():
                if one.process is not None:
                    one.kill()
