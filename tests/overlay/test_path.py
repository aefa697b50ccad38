"""An edge's connection to a router that is narrow, strict or slow."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, closing

import pytest
from sites import sites, until

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connack, Kind, Publish, Subscription
from firelane.overlay.paths import line as lines
from firelane.overlay.paths import path as paths
from firelane.overlay.paths.line import Line, Sent
from firelane.overlay.paths.path import Credentials, Path
from firelane.overlay.registry import Wish

SLOW_HZ, PORTION_BYTES = 20, 10_000


def run(main):
    async def limited():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


@asynccontextmanager
async def slow_peer(*, answers=True):
    """Takes 200 kB a second and no more, and answers pings when it comes to them."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    listener.bind(("127.0.0.1", 0))

    async def serve(reader, writer):
        writers.append(writer)
        await reader.read(2)
        writer.write(encode(Connack(session_present=False, reason=0), V5))
        tail = b""
        while portion := await reader.read(PORTION_BYTES):
            if tail.endswith(b"\xc0") or b"\xc0\x00" in portion:
                writer.write(bytes((Kind.PINGRESP << 4, 0)) if answers else b"")
            tail = portion
            await asyncio.sleep(1 / SLOW_HZ)

    writers = []
    server = await asyncio.start_server(serve, sock=listener, limit=PORTION_BYTES)
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.1)


@asynccontextmanager
async def connected(locator):
    problems = []
    path = Path("a", locator, Credentials(), got=lambda packet: None, up=lambda: None, down=problems.append)
    task = asyncio.create_task(path.run())
    try:
        await until(lambda: path.connected)
        yield path, problems
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_a_large_message_on_a_thin_uplink_does_not_make_a_router_seem_dead(monkeypatch):
    monkeypatch.setattr(lines, "SILENT_S", 1.0)

    async def main():
        async with slow_peer() as locator, connected(locator) as (path, problems):
            assert path.publish("t", bytes(800_000), 0, {}) is Sent.YES  # four seconds of it
            await asyncio.sleep(4.0)
            assert problems == []
            assert path.connected

    run(main)


def test_a_peer_that_reads_and_never_answers_is_dead(monkeypatch):
    monkeypatch.setattr(lines, "SILENT_S", 1.0)

    async def main():
        async with slow_peer(answers=False) as locator, connected(locator) as (_, problems):
            await until(lambda: problems)
            assert "said nothing" in problems[0]

    run(main)


def test_a_router_that_gives_few_subscriptions_still_carries_the_rest(tmp_path):
    async def main():
        async with sites(tmp_path, edges=(), routers=()) as here:
            await here.start("router", "r1", limits={"subscriptions": 10})
            await here.start("edge", "a")
            await here.start("edge", "b")
            heard = []
            async with here.client("b") as ben, here.client("a") as ann:
                for n in range(30):
                    await ben.subscribe(f"t/{n}", lambda topic, payload: heard.append(topic), qos=1)
                await until(lambda: all(here.brokers["a"]._interest.of(f"t/{n}") for n in range(30)))
                for n in range(30):
                    await ann.publish(f"t/{n}", b"x", qos=1)
                await until(lambda: len(set(heard)) == 30, 30.0)
            assert here.brokers["b"].statistics()["filters_refused"] >= 20
            assert sum("refuses filters" in line for line in here.lines) == 1

    run(main)


@pytest.mark.parametrize("qos", [0, 1])
def test_a_message_that_is_too_large_for_routers_is_counted_and_not_kept_for_ever(tmp_path, qos):
    async def main():
        async with sites(tmp_path, edges=(), routers=()) as here:
            await here.start("router", "r1", limits={"packet": "10 kB"})
            await here.start("edge", "a")
            await here.start("edge", "b")
            heard = []
            async with here.client("b") as ben, here.client("a") as ann:
                await ben.subscribe("t", lambda topic, payload: heard.append(len(payload)), qos=1)
                await until(lambda: here.brokers["a"]._interest.of("t"))
                await until(lambda: all(here.brokers["a"].statistics()["routers"].values()))
                for size in (100, 50_000, 200):
                    await ann.publish("t", bytes(size), qos=qos)
                await until(lambda: heard == [100, 200])
                said = here.brokers["a"].statistics()
                await until(lambda: here.brokers["a"].statistics()["kept"] == 0)
            assert said["dropped"]["too large"] == 1
            assert said["routers"] == {"r1": True}

    run(main)


REFUSED = "refused by a router (0x87)"


@asynccontextmanager
async def strict_router(folder, denied):
    """Edges a and b at a router where nobody may publish to some topics."""
    async with sites(folder, edges=(), routers=()) as here:
        rules = [{"who": "*", "filter": denied, "deny": ["publish"]}]
        rules += [{"who": "*", "filter": one, "allow": ["publish", "subscribe"]} for one in ("#", "$overlay/#")]
        await here.start("router", "r1", access=rules)
        await here.start("edge", "a")
        await here.start("edge", "b")
        await here.joined()
        async with here.client("b") as ben, here.client("a") as ann:
            yield here, ann, ben


def said_of_refusals(here, edge):
    return [line for line in here.lines if line.startswith(f"{edge}: ") and "refuses what this edge sends" in line]


def test_messages_that_a_router_refuses_are_counted_and_told_once_and_kept(tmp_path):
    async def main():
        async with strict_router(tmp_path, "secret/#") as (here, ann, ben):
            heard, a = [], here.brokers["a"]
            await ben.subscribe("#", lambda topic, payload: heard.append(topic), qos=1)
            await until(lambda: a._interest.of("secret/1"))
            for n in range(3):
                await ann.publish(f"secret/{n}", b"x", qos=1)
            await ann.publish("open", b"x", qos=1)
            await until(lambda: heard == ["open"])
            await until(lambda: a.statistics()["dropped"].get(REFUSED, 0) >= 3)
            await until(lambda: a.statistics()["kept"] == 3)
            (line,) = said_of_refusals(here, "a")
            assert "check access there" in line
            assert said_of_refusals(here, "b") == []

    run(main)


def test_a_router_that_takes_no_notes_of_edges_is_told_of(tmp_path):
    """Or all that edges acknowledge would be lost, and nobody would know why everything is sent for ever."""

    async def main():
        async with strict_router(tmp_path, "$overlay/for/+") as (here, ann, ben):
            heard = []
            await ben.subscribe("t", lambda topic, payload: heard.append(topic), qos=1)
            await until(lambda: here.brokers["a"]._interest.of("t"))
            await ann.publish("t", b"x", qos=1)
            await until(lambda: heard and said_of_refusals(here, "b"))
            assert here.brokers["b"].statistics()["dropped"] == {REFUSED: 1}
            (line,) = said_of_refusals(here, "b")
            assert "$overlay/for/#" in line

    run(main)


def test_only_the_first_note_on_a_connection_is_to_be_acknowledged(transport, monkeypatch):
    async def main():
        path = Path("a", "nowhere:1", Credentials(), got=print, up=print, down=print)
        path._line = line_on(transport)
        sent = []
        monkeypatch.setattr(path._line, "publish", lambda packet: sent.append((packet.topic, packet.qos)) or Sent.YES)
        for edge in ("b", "c", "b"):
            path.note(edge, b"{}")
        assert sent == [("$overlay/for/b", 1), ("$overlay/for/c", 0), ("$overlay/for/b", 0)]

    run(main)


@pytest.mark.parametrize(("reason", "refused"), [(0x00, []), (0x10, []), (0x87, [0x87]), (0x97, [0x97])])
def test_what_a_router_refuses_is_no_success_and_frees_its_number_all_the_same(transport, reason, refused):
    async def main():
        said = []
        line = Line(print, print, not_taken=said.append)
        line.connection_made(transport)
        line.data_received(encode(Connack(session_present=False, reason=0, properties={"receive_maximum": 1}), V5))
        line.publish(Publish(topic="t", payload=b"1", qos=1))
        line.publish(Publish(topic="t", payload=b"2", qos=1))
        line.data_received(encode(Ack(kind=Kind.PUBACK, packet_id=1, reason=reason), V5))
        line._flush()
        assert said == refused
        assert transport.written.endswith(b"2")

    run(main)


def test_filters_are_asked_for_in_packets_of_a_bounded_size():
    wishes = {f"{n:04}/" + "x" * 5000: Wish(qos=1) for n in range(50)} | {f"{n}": Wish(qos=0) for n in range(1200)}
    packets = paths._asking(wishes, [*wishes])
    assert max(len(encode(one, V5)) for one in packets) < 32_000
    asked = [one for packet in packets[: len(packets) // 2] for one in packet.subscriptions]
    assert [one.filter for one in asked] == [*wishes]
    assert all(isinstance(one, Subscription) for one in asked)
    assert [one for packet in packets[len(packets) // 2 :] for one in packet.filters] == [*wishes]


class Counted(asyncio.Transport):
    """Takes everything and gives nothing to the network; its socket is connected to nobody."""

    def __init__(self):
        super().__init__({"socket": socket.socket()})
        self.calls, self.written, self.closing = 0, b"", False

    def write(self, data):
        self.calls += 1
        self.written += data

    def is_closing(self):
        return self.closing

    def get_write_buffer_size(self):
        return len(self.written)

    def close(self):
        self.get_extra_info("socket").close()


@pytest.fixture
def transport():
    with closing(Counted()) as counted:
        yield counted


def line_on(transport):
    line = Line(lambda packet: None, lambda reasons: None)
    line.connection_made(transport)
    line.data_received(encode(Connack(session_present=False, reason=0), V5))
    assert line.open
    return line


def test_what_is_said_in_one_turn_goes_out_together_and_in_order(transport):
    async def main():
        line = line_on(transport)
        messages = [Publish(topic="t", payload=b"%d" % n, qos=n % 2) for n in range(200)]
        assert all(line.publish(one) is Sent.YES for one in messages)
        await asyncio.sleep(0)
        assert transport.calls == 1
        assert transport.written == b"".join(encode(one, V5) for one in messages)

    run(main)


def test_what_is_said_in_one_turn_is_bounded(transport):
    async def main():
        line = line_on(transport)
        sent = [line.publish(Publish(topic="t", payload=bytes(10_000))) for _ in range(1000)]
        assert sent.count(Sent.YES) * 10_000 < lines.MOST_UNSENT_BYTES + 20_000
        assert len(transport.written) > lines.MOST_UNSENT_BYTES - lines.MOST_TOGETHER_BYTES - 20_000
        assert sent[-1] is Sent.FULL

    run(main)


def test_whether_it_lives_is_asked_at_once_behind_what_was_said(transport):
    async def main():
        line = line_on(transport)
        line.publish(message := Publish(topic="t", payload=b"x"))
        line._ask_whether_it_lives()
        assert transport.written == encode(message, V5) + b"\xc0\x00"
        await asyncio.sleep(0)
        assert transport.calls == 1

    run(main)


def test_what_was_said_before_it_was_closed_is_not_written_after_that(transport):
    async def main():
        line = line_on(transport)
        line.publish(Publish(topic="t", payload=b"x"))
        line.ask([])
        transport.closing = True
        await asyncio.sleep(0)
        assert transport.calls == 0

    run(main)


def test_an_edge_of_which_nothing_is_wanted_is_asked_for_nothing(transport):
    """An empty write keeps some event loops busy."""

    async def main():
        line_on(transport).ask([])
        await asyncio.sleep(0)
        assert transport.calls == 0

    run(main)
