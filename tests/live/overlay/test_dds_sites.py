"""`firelane edge --dds`, a real ZooKeeper and DDS endpoints, all of them processes."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from dds_domains import some_domain
from firelane.dds import Network
from live.overlay.cluster import Member, cluster, until
from live.wan import HOME, wan

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

DELAY_S, LOSS = 0.02, 0.005  # of each crossing
LOCALS, SIZE_BYTES = 200, 1000
ENDPOINT = Path(__file__).parents[2] / "overlay" / "dds_endpoint.py"


class Application:
    """A DDS reader or writer."""

    def __init__(self, stack, folder, domain, place=HOME, **wanted):
        configuration = folder / f"dds-{domain}.xml"
        configuration.write_text(Network(lease_s=1.0).configuration(domain))
        command = [sys.executable, str(ENDPOINT), str(domain), json.dumps(wanted), str(configuration)]
        ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = stack.enter_context(subprocess.Popen(place.command(command), **ends))
        stack.callback(self.process.kill)
        self.got = []
        Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "sample" in said:
                self.got.append(said["sample"]["number"])

    def send(self, number, name=""):
        self.process.stdin.write(json.dumps({"number": number, "name": name, "matched": 1}) + "\n")
        self.process.stdin.flush()


def bridge(monkeypatch, domains):
    """Edges have bridges to those domains of the machine, or of the network, that they are on."""
    plain = Member.command

    def command(self):
        settings = ("prefix=dds/0", "lease=1s", "interface=127.0.0.1")
        more = [part for one in settings for part in ("--set", f"exchange.overlay.dds.{one}")]
        return plain(self) + (["--dds", str(domains[self.name]), *more] if self.role == "edge" else [])

    monkeypatch.setattr(Member, "command", command)


@pytest.mark.parametrize("servers", [1, 3])
def test_dds_endpoints_at_sites_joined_by_a_wan_find_each_other_and_locals_stay_local(tmp_path, monkeypatch, servers):
    """The same domain at all three sites, which share no network."""
    bridge(monkeypatch, dict.fromkeys("abc", 7))
    with (
        wan("cloud", "a", "b", "c", delay_s=DELAY_S, loss=LOSS) as network,
        cluster(tmp_path, edges=("a", "b", "c"), servers=servers, network=network) as whole,
        ExitStack() as stack,
    ):

        def application(site, topic, **wanted):
            return Application(stack, tmp_path, 7, network.places[site], topic=topic, reliable=True, **wanted)

        readers = [application("b", "far", reads=True), application("c", "far", reads=True)]
        near = application("a", "near", reads=True)
        writers = {topic: application("a", topic) for topic in ("far", "near")}
        until(lambda: told(whole["a"])["read"] == 1)
        until(lambda: whole["a"].state()["registry"]["topics"]["dds/0/far"]["subscribers"] == ["b", "c"])
        before = network.places["a"].crossed_bytes()
        for number in range(LOCALS):
            writers["near"].send(number, name="n" * SIZE_BYTES)
        until(lambda: len(near.got) >= LOCALS)
        assert network.places["a"].crossed_bytes() - before < LOCALS * SIZE_BYTES / 3  # what brokers say meanwhile
        for number in range(100):
            writers["far"].send(number)
        until(lambda: all(len(reader.got) >= 100 for reader in readers))
    assert [reader.got for reader in readers] == [list(range(100))] * 2
    assert near.got == list(range(LOCALS))


def test_dds_endpoints_of_two_sites_find_each_other_and_outlive_a_router_and_an_edge(tmp_path, monkeypatch):
    domains = {name: some_domain() for name in "ab"}
    bridge(monkeypatch, domains)
    with cluster(tmp_path) as whole, ExitStack() as stack:
        reader = Application(stack, tmp_path, domains["b"], topic="t", reads=True, reliable=True)
        writer = Application(stack, tmp_path, domains["a"], topic="t", reliable=True)
        until(lambda: told(whole["a"])["read"] == 1)
        until(lambda: whole["a"].state()["registry"]["topics"]["dds/0/t"]["subscribers"] == ["b"])
        assert told(whole["b"])["readers"] == {"t": 1}
        for n in range(100):
            writer.send(n)
            if n == 50:
                whole["r1"].kill()
        until(lambda: len(reader.got) >= 100)
        whole["b"].kill()
        whole["b"].launch()
        whole["b"].wait()
        until(lambda: told(whole["b"])["readers"] == {"t": 1} and told(whole["a"])["read"] == 1)
        until(lambda: "b" in whole["a"].state()["registry"]["topics"]["dds/0/t"]["subscribers"])
        for n in range(100, 200):
            writer.send(n)
        until(lambda: 199 in reader.got)
        reader.process.kill()
        until(lambda: told(whole["b"])["readers"] == {})
        until(lambda: told(whole["a"])["read"] == 0)
    assert sorted(one for one in reader.got if one < 100) == list(range(100))  # once, though a router was killed
    assert set(reader.got) == set(range(200))


def told(member):
    return member.state()["own"]["dds"]
