"""What an edge says of a router that it cannot reach or that does not keep it, in words that help."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme
from sites import sites, until

from firelane.errors import why_of
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connack, Disconnect
from firelane.overlay.paths import path as paths
from firelane.overlay.paths.path import Credentials, Path

HOST = "127.0.0.1"


def run(main):
    async def limited():
        async with asyncio.timeout(40):
            return await main()

    return asyncio.run(limited())


@asynccontextmanager
async def peer(*said, tls=None):
    """Says this to whoever says something, then hangs up."""
    came, writers = [], []

    async def serve(reader, writer):
        writers.append(writer)
        came.append(asyncio.get_running_loop().time())
        await reader.read(2)
        writer.write(b"".join(encode(one, V5) for one in said))
        await asyncio.sleep(0.01)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0, ssl=tls)
    try:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}", came
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.05)


async def first_problem(locator, credentials=None):
    problems = []
    path = Path("ann", locator, credentials or Credentials(), got=print, up=lambda: None, down=problems.append)
    task = asyncio.create_task(path.run())
    await until(lambda: problems)
    task.cancel()
    await asyncio.wait([task])
    return problems[0]


def problem_with(*said, tls=None, credentials=None):
    async def main():
        async with peer(*said, tls=tls) as (locator, _):
            return await first_problem(locator, credentials)

    return run(main)


ENTERED = Connack(session_present=False, reason=0)
TAKEN_OVER = Disconnect(reason=0x8E)


def test_another_edge_of_the_same_name_is_told_of():
    said = problem_with(ENTERED, TAKEN_OVER)
    assert said == "another edge uses the name ann here; start one of them with another --name"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([ENTERED, Disconnect(reason=0x8B)], "it ended the connection: server shutting down"),
        ([ENTERED], "the connection was lost"),
        ([], "the connection was lost; is it TLS there? (exchange.overlay.tls)"),
        (
            [Connack(reason=0x87)],
            "it refuses this edge: not authorized; this edge shows no user, set exchange.overlay.user",
        ),
        ([Connack(reason=0x89)], "it refuses this edge: server busy"),
    ],
)
def test_why_a_router_does_not_keep_an_edge_is_told_in_words(said, told):
    assert problem_with(*said) == told


def test_who_shows_a_user_is_to_look_at_it():
    said = problem_with(Connack(reason=0x86), credentials=Credentials(user="ann"))
    assert said == "it refuses this edge: bad user name or password; check user, password and access there"


def test_where_nobody_listens_the_connection_is_refused_and_no_more_is_said():
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    assert run(lambda: first_problem(f"{HOST}:{port}")) == "connection refused"


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (HOST, "its certificate is not trusted (unable to get local issuer certificate); set exchange.overlay.ca"),
        ("elsewhere.example", "its certificate is of another host (IP address mismatch, certificate is not valid for "
                              "'127.0.0.1'); correct its --locator"),
    ],
)  # fmt: skip
def test_a_certificate_that_is_not_good_is_told_of_in_words(host, told):
    authority, other = trustme.CA(), trustme.CA()
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(theirs)
    ours = ssl.create_default_context()
    (other if host == HOST else authority).configure_trust(ours)
    assert problem_with(ENTERED, tls=theirs, credentials=Credentials(tls=ours)) == told


def test_who_wants_tls_where_there_is_none_is_told_what_to_look_at():
    said = problem_with(ENTERED, credentials=Credentials(tls=ssl.create_default_context()))
    assert said.endswith("; is it without TLS there? (exchange.overlay.tls)")
    assert "_ssl.c" not in said


def test_who_is_thrown_out_again_and_again_comes_ever_more_slowly(monkeypatch):
    monkeypatch.setattr(paths, "TAKEN_OVER_PAUSE_S", 1.0)

    async def attempts(*said):
        async with peer(*said) as (locator, came):
            path = Path("ann", locator, Credentials(), got=print, up=lambda: None, down=lambda problem: None)
            task = asyncio.create_task(path.run())
            await asyncio.sleep(2.5)
            task.cancel()
            await asyncio.wait([task])
            return len(came)

    async def both():
        return await asyncio.gather(attempts(ENTERED), attempts(ENTERED, TAKEN_OVER))

    ended, taken_over = run(both)
    # After 0.05-0.1, 0.1-0.2 and 0.2-0.4 s, then each 0.25-0.5 s: at most 4 + 2.2 / 0.25; with 0.05 s each, 40.
    assert 4 <= ended <= 13
    assert 3 <= taken_over <= 6  # every 0.5 to 1 s


def test_two_edges_of_one_name_are_told_of_each_other(tmp_path):
    async def main():
        async with sites(tmp_path, edges=("a",), routers=("r1",)) as here:
            told = []
            locator = here.exchanges["r1"].addresses["mqtt"].removeprefix("mqtt://")
            path = Path("a", locator, Credentials(), got=print, up=lambda: None, down=told.append)
            task = asyncio.create_task(path.run())
            await until(lambda: any("another edge uses the name a here" in line for line in here.lines))
            await until(lambda: told)
            task.cancel()
            await asyncio.wait([task])
            assert told[0].startswith("another edge uses the name a here")

    run(main)


def test_the_systems_words_come_without_what_python_adds():
    assert why_of(OSError(111, "Connect call failed ('127.0.0.1', 1)")) == "connection refused"
    assert why_of(socket.gaierror(-2, "Name or service not known")) == "Name or service not known"
    assert why_of(ValueError("label too long")) == "label too long"
