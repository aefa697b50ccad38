"""What the kernel says of connections, summed over the links they are on."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from itertools import count
from types import SimpleNamespace

import pytest
import trustme
import uvloop
from thin_link import a_link, on_one_link
from websockets.asyncio.client import connect

from firelane.exchange.lanes.link import Link
from firelane.exchange.run import running
from firelane.exchange.sockets.kernel import INFO_BYTES, MOST_AT_ONCE, MOST_OWN, Kernel, parsed
from firelane.scenario.model import Scenario
from firelane.scenario.settings import ExchangeSettings, Tls, WebSocket

CONNECT, CONNACK = bytes.fromhex("100f00044d51545404020000") + b"\0\3ann", bytes.fromhex("20020000")
PINGREQ, PINGRESP = bytes.fromhex("c000"), bytes.fromhex("d000")
# Where Linux has each field: include/uapi/linux/tcp.h.
PLACES = {
    "unacked": (24, "I"), "rtt_us": (68, "I"), "cwnd": (80, "I"), "acked_bytes": (120, "Q"),
    "notsent_bytes": (144, "I"), "min_rtt_us": (148, "I"), "segments": (156, "I"), "busy_us": (168, "Q"),
    "rwnd_limited_us": (176, "Q"), "sent_bytes": (200, "Q"), "again_bytes": (208, "Q"),
}  # fmt: skip


def raw(app_limited=False, **fields):
    """As the kernel would say it."""
    info = bytearray(232)
    info[7] = app_limited | 0b110  # two other flags are in the same byte
    for name, value in fields.items():
        place, kind = PLACES[name]
        struct.pack_into(f"={kind}", info, place, value)
    return bytes(info)


class Connected:
    """A connection of which the kernel says what a test wants."""

    def __init__(self, link, **fields):
        self.link = link
        self.fields = {"rtt_us": 1000, "min_rtt_us": 1000, "cwnd": 10, **fields}

    def tcp_info(self):
        return raw(**self.fields)

    def passes(self, sent, acked=None, segments=None, **now):
        """More is sent and acknowledged, busy for a quarter of a second."""
        fields = self.fields
        more = {
            "sent_bytes": sent, "acked_bytes": sent if acked is None else acked, "busy_us": 250_000,
            "segments": -(sent // -1448) if segments is None else segments,
            "again_bytes": now.pop("again", 0), "rwnd_limited_us": now.pop("rwnd_limited_us", 0),
        }  # fmt: skip
        self.fields = {**fields, **now, **{name: fields.get(name, 0) + value for name, value in more.items()}}
        self.link.sent_bytes += sent


def a_live_link(*, name="thin", **fields):
    return Link(name, a_link(**fields), most=100, most_bytes=10**6)


def watched(*connections):
    kernel = Kernel(SimpleNamespace(drivers=dict.fromkeys(connections)))
    kernel.look(10.0)
    return kernel


def seen(kernel):
    ((_, one),) = kernel.look(10.25)
    return one


# ------------------------------------------------------------------------------------------------ what is read


def test_every_field_is_read_from_its_place():
    fields = {name: number + 1 for number, name in enumerate(PLACES)}
    assert parsed(raw(**fields))._asdict() | {"flags": 0} == {**fields, "flags": 0}
    assert parsed(raw(app_limited=True)).flags & 1
    assert not parsed(raw()).flags & 1
    assert INFO_BYTES == 216


def test_a_kernel_that_knows_less_is_understood():
    short = raw(acked_bytes=5, rtt_us=9, cwnd=1, sent_bytes=7)[:136]
    info = parsed(short)
    assert (info.acked_bytes, info.rtt_us, info.sent_bytes) == (5, 9, 0)
    assert info.grown_s == 0  # nobody knows the shortest round trip


@pytest.mark.parametrize("unknown", [0, 0xFFFF_FFFF])
def test_round_trips_have_not_grown_if_the_shortest_is_not_known(unknown):
    assert parsed(raw(rtt_us=9000, min_rtt_us=unknown)).grown_s == 0


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({"cwnd": 10, "unacked": 10}, True),
        ({"cwnd": 10, "unacked": 3, "notsent_bytes": 1}, True),
        ({"cwnd": 10, "unacked": 3}, False),
        ({"cwnd": 10, "unacked": 10, "app_limited": True}, False),
    ],
)
def test_the_network_holds_a_connection_up_if_there_is_more_to_send(fields, held):
    assert parsed(raw(**fields)).held is held


# ------------------------------------------------------------------------------------------------ what is summed


def test_acknowledged_bytes_count_with_the_headers_of_their_segments():
    link = a_live_link(overhead_bytes=None)
    ann, ben = Connected(link), Connected(link)
    kernel = watched(ann, ben)
    ann.passes(14_480)
    ben.passes(1000, acked=500, segments=10)
    one = seen(kernel)
    assert one.window_s == 0.25
    assert one.paced_bytes == 15_480
    assert one.acked_bytes == pytest.approx(14_980 * (1 + 66 * 20 / 15_480))


def test_where_a_message_counts_for_a_fixed_size_so_does_what_is_acknowledged():
    link = a_live_link(overhead_bytes=0.0)
    ann = Connected(link)
    kernel = watched(ann)
    ann.passes(12_000, acked=6000, again=2000)
    link.sent_bytes -= 4000  # of 10 000 bytes that were sent for the first time, the payloads were 8000
    assert seen(kernel).acked_bytes == pytest.approx(6000 * 0.8)


@pytest.mark.parametrize("overhead_bytes", [0.0, None])
def test_what_goes_over_udp_is_believed_to_get_through_as_tcp_beside_it_does(overhead_bytes):
    """A kernel says nothing of datagrams; if they counted as lost, any link with a few of them would look too slow."""
    link = a_live_link(overhead_bytes=overhead_bytes)
    ann = Connected(link)
    kernel = watched(ann)
    ann.passes(1000, acked=600)
    alone = seen(kernel).acked_bytes
    kernel = watched(ann)
    ann.passes(1000, acked=600)
    link.sent_bytes += 5000
    link.untold_bytes += 5000
    one = seen(kernel)
    assert one.paced_bytes == 6000
    assert one.acked_bytes == pytest.approx(alone + 5000)


def test_an_old_kernel_does_not_count_segments():
    link = a_live_link(overhead_bytes=None)
    ann = Connected(link)
    kernel = watched(ann)
    ann.passes(1448)
    for name in ("segments", "sent_bytes", "busy_us"):
        ann.fields[name] = 0
    assert seen(kernel).acked_bytes == pytest.approx(1448 + 66)


def test_round_trips_and_what_is_held_up_are_means_over_what_was_acknowledged():
    link = a_live_link()
    ann, ben = Connected(link), Connected(link, min_rtt_us=3000)
    kernel = watched(ann, ben)
    ann.passes(3000, rtt_us=21_000, unacked=10)
    ben.passes(1000, rtt_us=3000)
    one = seen(kernel)
    assert one.grown_s == pytest.approx(0.015)
    assert one.shortest_s == pytest.approx(0.0015)
    assert one.held == 0.75


def test_a_slow_client_is_counted_as_carried_but_says_nothing_of_the_link():
    link = a_live_link()
    ann, slow = Connected(link), Connected(link)
    kernel = watched(ann, slow)
    ann.passes(1000)
    slow.passes(9000, rtt_us=500_000, unacked=10, rwnd_limited_us=200_000)
    one = seen(kernel)
    assert (one.grown_s, one.held) == (0, 0)
    assert one.acked_bytes == one.paced_bytes == 10_000


def test_who_has_just_come_is_counted_from_the_next_look_on():
    link = a_live_link()
    ann, ben = Connected(link), Connected(link, acked_bytes=5000, sent_bytes=5000)
    kernel = watched(ann)
    kernel._server.drivers[ben] = None
    ann.passes(1000)
    assert seen(kernel).acked_bytes == 1000
    ben.passes(700)
    ((_, later),) = kernel.look(10.5)
    assert later.acked_bytes == 700


def test_a_connection_that_is_gone_does_no_harm():
    link = a_live_link()
    ann, gone = Connected(link), Connected(link)
    kernel = watched(ann, gone)
    gone.tcp_info = lambda: None
    ann.passes(1000)
    assert seen(kernel).acked_bytes == 1000


def test_many_connections_take_turns_and_all_that_passes_is_counted_once():
    link = a_live_link(overhead_bytes=None)
    many = [Connected(link) for _ in range(3 * MOST_AT_ONCE)]
    asked = []
    for one in many:
        one.tcp_info = lambda one=one: asked.append(one) or raw(**one.fields)
    kernel = watched(*many)
    looks = []
    for look in range(1, 10):
        for one in many:
            one.passes(1448)
        looks.append([(seen.window_s, seen.paced_bytes, seen.acked_bytes) for _, seen in kernel.look(10 + look / 4)])
        assert len(asked) == (look + 1) * MOST_AT_ONCE
    in_a_round = 3 * len(many)  # segments
    later = (0.75, in_a_round * 1448, pytest.approx(in_a_round * 1514))
    assert looks[3:] == [[], [], [later], [], [], [later]]


def test_connections_that_are_gone_are_forgotten():
    link = a_live_link()
    kernel = watched(*(Connected(link) for _ in range(10)))
    kernel._server.drivers = dict.fromkeys([Connected(link)])
    kernel.look(11.0)
    assert len(kernel._infos) == 1


def test_it_is_known_whether_something_waited_all_the_while_and_what_was_dropped():
    link = a_live_link()
    kernel = watched(Connected(link))
    link.queued, link.withheld = 1, 5
    ((_, first),) = kernel.look(10.25)
    link.withheld = 7
    ((_, second),) = kernel.look(10.5)
    assert (first.waiting, first.withheld) == (False, 5)
    assert (second.waiting, second.withheld) == (True, 2)


def test_own_links_are_looked_at_while_something_waits_or_they_are_narrow_and_not_too_many_of_them():
    idle, busy, narrow = (a_live_link(each=True) for _ in range(3))
    unpaced = a_live_link(bandwidth_bps=None)
    busy.queued = 1
    narrow.bandwidth_bps /= 2
    kernel = watched(*(Connected(one) for one in (idle, busy, narrow, unpaced)), Connected(None))
    assert [one for one, _ in kernel.look(11.0)] == [busy, narrow]
    many = [a_live_link(each=True) for _ in range(2 * MOST_OWN)]
    for one in many:
        one.queued = 1
    assert len(watched(*map(Connected, many)).look(11.0)) == MOST_OWN


# ------------------------------------------------------------------------------------------------ a real kernel


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux tells")
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_what_a_real_kernel_says_is_what_was_sent_over_tcp_tls_and_websocket(loop, tmp_path):
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(pem := str(tmp_path / "pem"))
    settings = ExchangeSettings(websocket=WebSocket(port=0), tls=Tls(port=0, certificate=pem, key=pem))
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    scenario = Scenario(name="thin", exchange=settings, **on_one_link("ann", link=a_link(overhead_bytes=None)))

    clock = count(1)

    async def story():
        async with running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=tmp_path, tell=print) as exchange:
            over_tcp = await plainly(exchange, "mqtt", None)
            over_tls = await plainly(exchange, "mqtts", trusting)
            uri = exchange.addresses["ws"] + "/mqtt"
            async with connect(uri, subprotocols=["mqtt"]) as web:
                await web.send(CONNECT)
                await web.recv()
                return over_tcp, over_tls, await counted(exchange, web.send, web.recv)

    async def plainly(exchange, scheme, tls):
        port = int(exchange.addresses[scheme].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(CONNECT)
        await reader.readexactly(len(CONNACK))
        acked_bytes = await counted(exchange, writer.write, lambda: reader.readexactly(len(PINGRESP)))
        writer.close()
        await writer.wait_closed()
        return acked_bytes

    async def counted(exchange, send, receive):
        await asyncio.sleep(0.1)  # until all is acknowledged
        exchange.seen_kernel(float(next(clock)))
        for _ in range(10):
            sending = send(PINGREQ)
            if sending is not None:
                await sending
            await receive()
        await asyncio.sleep(0.1)
        ((link, one),) = exchange.seen_kernel(float(next(clock)))
        assert (link.name, one.window_s, one.paced_bytes) == ("thin", 1.0, 10 * (2 + 66))
        assert 0 < one.shortest_s < 1
        return one.acked_bytes

    with asyncio.Runner(loop_factory=loop) as runner:
        over_tcp, over_tls, over_web = runner.run(story())
    assert over_tcp == 10 * (2 + 66)
    assert over_tls == 10 * (2 + 22 + 66)  # each in a record of TLS 1.3
    assert over_web == 10 * (2 + 2 + 66)  # each in a frame with a head of two bytes
