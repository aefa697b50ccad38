"""The HTTP server itself: addresses, ends, slow clients; and `firelane serve` as a process."""

import asyncio
import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from fastapi import FastAPI
from web_side import HOST, PATIENCE_S, asked

from firelane.errors import ServeError
from firelane.web import server
from firelane.web.app import make_app
from live.brokers import firelane


def serve(*arguments, folder):
    command = [sys.executable, "-m", "firelane.cli", "serve", "--data-dir", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


async def quiet_app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def endless_app(scope, receive, send):
    await asyncio.sleep(3600)


async def closed_by_server(reader):
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read() == b""
        except ConnectionResetError:
            return True


def test_a_port_that_is_taken_is_one_line_and_exit_1(tmp_path):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        done = serve("--mqtt-port", "0", "--http-port", str(port), folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    why = "address already in use; choose another --http-port"
    assert line == f"firelane: cannot listen on 127.0.0.1 port {port}: {why}"


def test_serve_says_one_line_and_ends_in_order_with_idle_and_unfinished_requests_open(tmp_path):
    with firelane(tmp_path) as broker:
        with httpx.Client(base_url=f"http://{HOST}:{broker.http_port}") as client:
            assert client.get("/readyz").text == "ready\n"
            assert client.get("/openapi.json").json()["info"]["title"] == "Firelane"
            with socket.create_connection((HOST, broker.http_port)) as unfinished:
                unfinished.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
                os.kill(broker.process.pid, signal.SIGTERM)
                assert broker.process.wait(PATIENCE_S) == 0
        (line,) = broker.output.read_text().splitlines()
        assert line.startswith(f"firelane is ready on mqtt://{HOST}:{broker.port}, http://{HOST}:{broker.http_port};")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_port_0_is_any_free_one_and_the_url_says_which(host):
    async def main():
        async with server.serving(quiet_app, host, 0) as url, httpx.AsyncClient() as client:
            assert url.startswith(f"http://{host}:")
            assert (await client.get(url)).status_code == 204
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)

    asyncio.run(main())


def test_an_address_that_is_not_of_this_machine_is_one_line():
    async def main():
        async with server.serving(quiet_app, "192.0.2.1", 0):
            pass

    with pytest.raises(ServeError, match=r"cannot listen on 192\.0\.2\.1 port 0: .*; choose another --host"):
        asyncio.run(main())


def test_signals_are_left_to_those_who_run_it():
    async def main():
        before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
        async with server.serving(quiet_app, HOST, 0):
            assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before

    asyncio.run(main())


def test_an_answer_that_never_ends_does_not_hold_up_the_end(caplog):
    async def main():
        async with server.serving(endless_app, HOST, 0) as url:
            reader, writer = await asyncio.open_connection(HOST, httpx.URL(url).port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(0.1)
        assert await closed_by_server(reader)
        writer.close()

    async def in_time():
        async with asyncio.timeout(PATIENCE_S):
            await main()

    asyncio.run(in_time())
    assert caplog.text == ""


@pytest.mark.parametrize("asked_before", [False, True])
@pytest.mark.parametrize("said", [b"", b"GET / HT", b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal"])
def test_a_client_that_never_gets_to_its_request_is_let_go(monkeypatch, said, asked_before):
    monkeypatch.setattr(server, "REQUEST_WITHIN_S", 0.2)

    async def reading_app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await quiet_app(scope, receive, send)

    async def main():
        async with server.serving(reading_app, HOST, 0) as url:
            reader, writer = await asyncio.open_connection(HOST, httpx.URL(url).port)
            if asked_before:
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            assert await closed_by_server(reader)
            writer.close()

    asyncio.run(main())


def test_the_time_for_a_request_begins_anew_after_every_answer(monkeypatch):
    begun = []

    def begin(connection):
        begun.append(connection)

    monkeypatch.setattr(server.HttpConnection, "_await_request", begin)

    async def main():
        async with server.serving(quiet_app, HOST, 0) as url, httpx.AsyncClient() as client:
            for _ in range(3):
                await client.get(url)

    asyncio.run(main())
    assert len(begun) == 4
    assert len(set(begun)) == 1


def test_connections_beyond_the_limit_are_closed_and_those_before_are_served(monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)

    async def main():
        async with server.serving(quiet_app, HOST, 0) as url:
            port = httpx.URL(url).port
            several = [await asyncio.open_connection(HOST, port) for _ in range(4)]
            assert await closed_by_server(several[3][0])
            several[0][1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await several[0][0].readline()).startswith(b"HTTP/1.1 204")
            for _, writer in several:
                writer.close()

    asyncio.run(main())


def test_a_bug_is_a_problem_for_the_client_and_a_traceback_for_us(side, caplog):
    app: FastAPI = make_app(side.exchange)

    @app.get("/bug")
    async def bug():
        raise RuntimeError("private")

    async def main():
        async with server.serving(app, HOST, 0) as url, httpx.AsyncClient() as client:
            return await client.get(f"{url}/bug")

    answer = asyncio.run(main())
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "private" not in answer.text
    assert [str(one.exc_info[1]) for one in caplog.records if one.exc_info] == ["private"]


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("POST", "/api/v1/clients", 405)])
def test_what_is_not_there_is_a_problem_too(side, method, path, status):
    answer = asked(make_app(side.exchange), method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert path in answer.json()["detail"]
