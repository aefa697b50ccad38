"""What a link means for the sockets of the clients on it."""

import asyncio
import socket
from dataclasses import replace

import pytest
import uvloop
from thin_link import a_link, on_one_link

from firelane.exchange.run import running
from firelane.exchange.sockets.server import HIGH_WATER_BYTES, SEGMENT_BYTES, TCP_NOTSENT_LOWAT
from firelane.scenario.model import Scenario

CONNECT, CONNACK = bytes.fromhex("100f00044d51545404020000") + b"\0\3ann", bytes.fromhex("20020000")
PINGREQ, PINGRESP = bytes.fromhex("c000"), bytes.fromhex("d000")


async def exchanged(reader, writer, sent, expected):
    writer.write(sent)
    assert await asyncio.wait_for(reader.readexactly(len(expected)), 10) == expected


def limits(exchange):
    (driver,) = exchange.server.drivers
    unsent = driver._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT)
    return unsent, driver._transport.get_write_buffer_limits()[1]


def test_no_queue_forms_behind_a_paced_link_and_one_that_is_no_longer_paced_is_as_any_other(tmp_path):
    scenario = Scenario(name="thin", **on_one_link("ann"))

    async def story():
        async with running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=tmp_path, tell=print) as exchange:
            port = int(exchange.addresses["mqtt"].rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await exchanged(reader, writer, CONNECT, CONNACK)
            paced = limits(exchange)
            exchange.reload(replace(scenario, links={"thin": a_link(bandwidth_bps=None)}))
            await exchanged(reader, writer, PINGREQ, PINGRESP)
            writer.close()
            return paced, limits(exchange)

    assert asyncio.run(story()) == ((SEGMENT_BYTES, SEGMENT_BYTES), (0, HIGH_WATER_BYTES))


def test_clients_are_let_go_and_everything_is_closed_also_if_something_beside_the_exchange_fails(tmp_path):
    """A loop that is closed with a listener or a timer still open may hang for good."""

    async def story():
        with pytest.raises(ExceptionGroup, match="unhandled"):  # noqa: PT012
            async with running(
                Scenario(name="thin"), host="127.0.0.1", mqtt_port=0, data_dir=tmp_path, tell=print
            ) as exchange:
                port = int(exchange.addresses["mqtt"].rpartition(":")[2])
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await exchanged(reader, writer, CONNECT, CONNACK)
                raise RuntimeError("beside")
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())
