"""The registry while ZooKeeper, or a broker, is killed, paused or away."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from firelane.overlay.registry import Assignment, Disconnected, Registry, TopicState, TreeState, Wish, parse_registry
from live.zookeeper import ensemble, zookeeper

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

PATIENCE_S = 60.0
LEADING = Path(__file__).with_name("leading.py")
FILTERS = {"site/+/alarm": Wish(qos=1, keeps=True)}


def run(story):
    asyncio.run(asyncio.wait_for(story, 3 * PATIENCE_S))


def _is(true):
    try:
        return true()
    except KeyError:  # it is not even there
        return False


async def until(true):
    end = time.monotonic() + PATIENCE_S
    while not _is(true):
        assert time.monotonic() < end, "it has not become true"
        await asyncio.sleep(0.02)


def registry(*servers, session_s=4.0):
    hosts = ",".join(server.address for server in servers)
    return Registry(parse_registry(f"zookeeper://{hosts}", session_s=session_s), wait_s=PATIENCE_S)


class Site:
    """An edge that publishes and subscribes, and another broker that looks on."""

    def __init__(self, edge, onlooker):
        self.edge, self.onlooker = edge, onlooker
        self.edges, self.topics, self.routed, self.states = {}, {}, {}, []
        edge.on_state(self.states.append)
        edge.announce_edge("north", 1, "127.0.0.1:9")
        edge.want(FILTERS)
        edge.endpoints({"a": 1}, {"b": 2})
        edge.watch_topic("a", self.routed.__setitem__)
        onlooker.on_edges(self.edges.update)
        onlooker.on_topics(self.topics.update)

    def state(self, topic):
        """What the other knows of a topic; it may be gone meanwhile."""
        return self.topics.get(topic) or TopicState()

    async def known(self, counts=(1, 2)):
        """Until all that the edge has declared is known to the other."""
        await self.edge.settled()
        await until(lambda: self.edges.get("north") and self.edges["north"].here and "a" in self.routed)
        published, subscribed = counts
        await until(lambda: self.state("a").pub == {"north": published})
        await until(lambda: self.state("b").sub == {"north": subscribed})
        assert self.edges["north"].filters == FILTERS

    async def away(self, away_s):
        """Nothing is forgotten, and what is declared meanwhile waits."""
        await until(lambda: TreeState.SUSPENDED in self.states and self.onlooker.state is not TreeState.CONNECTED)
        self.edge.endpoints({"a": 5}, {"b": 7})
        await asyncio.sleep(away_s)
        assert self.edges["north"].here
        assert self.topics["a"].pub == {"north": 1}
        with pytest.raises(Disconnected, match="does not answer now"):
            await self.onlooker.status()


def test_a_killed_server_comes_back_and_everything_is_as_declared(tmp_path):
    async def story():
        with zookeeper(tmp_path) as server:
            async with registry(server) as edge, registry(server) as onlooker:
                site = Site(edge, onlooker)
                await site.known()
                for counts in ((5, 7), (5, 7)):
                    site.states.clear()
                    server.kill()
                    if counts != (site.topics["a"].pub["north"], site.topics["b"].sub["north"]):
                        await site.away(0.5)
                    await asyncio.to_thread(server.start)
                    await until(lambda: TreeState.CONNECTED in site.states)
                    await site.known(counts)

    run(story())


def test_one_of_three_servers_is_killed_and_nobody_loses_a_session(tmp_path):
    async def story():
        with ensemble(tmp_path) as servers:
            async with registry(*servers) as edge, registry(*servers) as onlooker:
                site = Site(edge, onlooker)
                await site.known()
                port = edge.tree._client._connection._socket.getpeername()[1]
                serving = next(server for server in servers if server.port == port)
                session = edge.tree.session
                serving.kill()
                edge.endpoints({"a": 3}, {"b": 4})
                await site.known((3, 4))
                assert edge.tree.session == session
                assert TreeState.EXPIRED not in site.states
                await asyncio.to_thread(serving.start)

    run(story())


def test_all_of_zookeeper_is_away_for_seconds_and_comes_back(tmp_path):
    async def story():
        with ensemble(tmp_path) as servers:
            async with registry(*servers, session_s=2) as edge, registry(*servers, session_s=2) as onlooker:
                site = Site(edge, onlooker)
                await site.known()
                for server in servers:
                    server.kill()
                await site.away(4)
                for server in servers:
                    server.launch()
                for server in servers:
                    await asyncio.to_thread(server.wait)
                await site.known((5, 7))

    run(story())


def test_a_server_that_hangs_for_longer_than_a_session(tmp_path):
    async def story():
        with zookeeper(tmp_path) as server:
            async with registry(server, session_s=2) as edge, registry(server, session_s=2) as onlooker:
                site = Site(edge, onlooker)
                await site.known()
                server.pause()
                try:
                    await site.away(3)
                finally:
                    server.resume()
                await site.known((5, 7))

    run(story())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is how it gives up
def test_a_client_library_that_gives_up_is_started_anew(tmp_path):
    async def story():
        with zookeeper(tmp_path) as server:
            async with registry(server) as edge, registry(server) as onlooker:
                site = Site(edge, onlooker)
                await site.known()
                client = edge.tree._client
                client._connection._read_socket = None  # its thread ends with a TypeError
                await until(lambda: edge.tree._client is not client)
                edge.endpoints({"a": 5}, {"b": 7})
                await site.known((5, 7))
                assert TreeState.EXPIRED in site.states

    run(story())


class Process:
    """A router in a process of its own, which can be paused."""

    def __init__(self, process):
        self.process = process

    async def says(self):
        return (await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), PATIENCE_S)).strip()

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()


@contextmanager
def router(server, name):
    command = [sys.executable, str(LEADING), f"zookeeper://{server.address}", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Process(process)
        finally:
            process.kill()


def test_a_paused_leader_assigns_nothing_when_it_comes_back(tmp_path):
    async def story():
        with zookeeper(tmp_path) as server, router(server, "r1") as paused:
            assert (await paused.says()).startswith("leads ")
            paused.tell("a")
            _, epoch = (await paused.says()).split()
            async with registry(server) as other:
                elected, routers, edges = [], {}, {}
                other.on_routers(routers.update)
                other.on_edges(edges.update)
                other.announce_router("r2", 1, "127.0.0.1:2")
                other.announce_edge("south", 1)
                other.endpoints({"a": 1}, {})
                await until(lambda: routers.get("r1") and edges["edge-of-r1"].here)
                other.campaign(lambda *one: elected.append(one))
                paused.process.send_signal(signal.SIGSTOP)
                await until(lambda: elected)
                assert elected[0][1] > int(epoch)
                await until(lambda: routers["r1"] is None and not edges["edge-of-r1"].here)
                done = await other.assign({"a": "r2"}, elected[0][1])
                paused.tell("a")
                paused.process.send_signal(signal.SIGCONT)
                said = {await paused.says()}
                while not said & {"StaleLeader", "Disconnected"}:
                    said.add(await paused.says())
                assert not any(line.startswith("assigned") for line in said)
                await until(lambda: routers["r1"] is not None and edges["edge-of-r1"].here)
                paused.tell("a")
                said = await paused.says()
                while said.startswith("leads no more"):
                    said = await paused.says()
                assert said == "StaleLeader"
                topic = (await other.status()).topics["a"]
                assert topic.assignment == Assignment(router="r2", epoch=done.epoch)

    run(story())


def test_ten_thousand_endpoints_cost_few_requests_and_few_watches(tmp_path):
    """Per endpoint a leaf below two containers; watches do not grow with endpoints, only with topics watched."""
    number = 10_000
    names = [f"city/cell/{one}" for one in range(number)]

    async def story():
        with zookeeper(tmp_path) as server:
            async with registry(server, session_s=8) as edge, registry(server, session_s=8) as leader:
                topics = {}
                leader.on_topics(topics.update)
                leader.announce_router("r1", 1, "127.0.0.1:1")
                elected = []
                leader.campaign(lambda *one: elected.append(one))
                edge.announce_edge("north", 1)
                await edge.settled()
                await until(lambda: elected)
                nodes, watches, packets = (
                    server.count(f"{one}") for one in ("znode_count", "watch_count", "packets_received")
                )
                begun = time.perf_counter()
                edge.endpoints(dict.fromkeys(names, 1), {})
                await edge.settled()
                registered_s = time.perf_counter() - begun
                asked = server.count("packets_received") - packets
                await until(lambda: len(topics) == number and all(one.pub for one in topics.values()))
                known_s = time.perf_counter() - begun
                assert server.count("znode_count") - nodes == 3 * number
                assert server.count("watch_count") == watches
                assert asked < number / 10
                for name in names[:1000]:
                    edge.watch_topic(name, lambda *_: None)
                await until(lambda: server.count("watch_count") == watches + 1000)
                assert edge.watches == 1000
                begun = time.perf_counter()
                done = await leader.assign(dict.fromkeys(names, "r1"), elected[0][1])
                assigned_s = time.perf_counter() - begun
                assert not done.missing
                await until(lambda: all(one.assignment for one in topics.values()))
                for name in names[:1000]:
                    edge.unwatch_topic(name)
                await until(lambda: server.count("watch_count") == watches)
                print(
                    f"{number} endpoints: {registered_s:.2f} s, {asked} requests; known to the leader {known_s:.2f} s;"
                )
                print(f"assigned {assigned_s:.2f} s; {3 * number} nodes, {watches} watches without those on topics")

    run(story())
