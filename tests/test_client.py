"""The MQTT client by itself: addresses, and a broker that answers nonsense or not at all."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from firelane import client
from firelane.client import Client, ClientError, address


@pytest.mark.parametrize(
    ("url", "found"),
    [("mqtt://site", ("site", 1883, False)), ("mqtts://site", ("site", 8883, True)),
     ("mqtt://[::1]:99", ("::1", 99, False)), ("mqtt://10.0.0.1:1", ("10.0.0.1", 1, False))],
)  # fmt: skip
def test_addresses_are_taken_apart(url, found):
    assert address(url) == found


@pytest.mark.parametrize("url", ["", "site", "http://site", "mqtt://", "mqtt://site:port", "mqtt://site:99999"])
def test_what_is_no_address_is_told_in_a_line(url):
    with pytest.raises(ClientError, match="write mqtt"):
        address(url)


def served(reply: bytes | None, run=asyncio.run):
    """Runs a client against somebody who accepts connections and says this, or nothing and hangs up."""

    async def serve(reader, writer):
        await reader.read(100)
        if reply is not None:
            writer.write(reply)
            await writer.drain()
            await reader.read(100)
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(20), Client(f"mqtt://127.0.0.1:{port}"):
                pass
        finally:
            server.close()
            await asyncio.sleep(0.1)  # for both ends to hang up

    run(main())


@pytest.mark.parametrize("reply", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x20\x03\x00\x87\x00", b"\xff" * 50])
def test_a_broker_that_does_not_let_anybody_in_is_told_in_a_line(reply, monkeypatch):
    monkeypatch.setattr(client, "ANSWER_S", 2.0)
    with pytest.raises(ClientError, match=r"broker") as raised:
        served(reply)
    assert "\n" not in str(raised.value)


def test_it_works_on_the_loop_of_uvloop_too():
    """Its transports are none of asyncio's classes."""
    served(b"\x20\x03\x00\x00\x00", uvloop.run)
