"""How soon somebody who was out of reach is reached; first packets are lost as when a network is cut."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from threading import Timer

import pytest

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connack
from firelane.overlay.paths.dialling import AGAIN_S, dialled
from firelane.overlay.paths.path import Credentials, Path
from firelane.overlay.registry.client import _Handler

KERNEL_S = 1.0  # after which Linux sends a first packet again


class Deaf:
    """A listener whose kernel takes no first packets, as its queue is full, until it is told to hear."""

    def __init__(self, stack):
        self.socket = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        self.port = self.socket.getsockname()[1]
        stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
        self._stack = stack

    def hear(self):
        self.socket.listen(100)


@contextmanager
def deaf():
    with ExitStack() as stack:
        yield Deaf(stack)


def test_who_is_back_is_reached_sooner_than_the_kernel_would():
    async def main(there):
        asyncio.get_running_loop().call_later(0.1, there.hear)
        began_s = time.monotonic()
        (await dialled("127.0.0.1", there.port, 5.0)).close()
        return time.monotonic() - began_s

    with deaf() as there:
        took_s = asyncio.run(main(there))
    assert 0.1 < took_s < 0.1 + AGAIN_S + 0.3 < KERNEL_S


def test_who_does_not_answer_in_time_is_given_up_and_nothing_is_left_open():
    async def main(there):
        with pytest.raises(TimeoutError):
            await dialled("127.0.0.1", there.port, 3 * AGAIN_S)
        assert len(asyncio.all_tasks()) == 1

    with deaf() as there, pytest.MonkeyPatch.context() as patch:
        made, open_socket = [], socket.socket

        def noted(*given):
            made.append(open_socket(*given))
            return made[-1]

        patch.setattr("firelane.overlay.paths.dialling.socket.socket", noted)
        asyncio.run(main(there))
    assert len(made) >= 3
    assert all(one.fileno() == -1 for one in made)


def test_who_refuses_is_told_at_once():
    async def main():
        began_s = time.monotonic()
        with pytest.raises(ConnectionRefusedError):
            await dialled("127.0.0.1", port, 5.0)
        return time.monotonic() - began_s

    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert asyncio.run(main()) < AGAIN_S


def test_of_several_addresses_one_that_refuses_does_not_keep_from_the_next(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]

        async def main():
            async def found(*_, **__):
                hosts = ("127.0.0.2", "127.0.0.1")
                return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)) for host in hosts]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
            one = await dialled("somewhere", port, 5.0)
            with one:
                return one.getpeername()

        assert asyncio.run(main()) == ("127.0.0.1", port)


def test_on_a_host_without_ipv6_a_name_that_has_such_an_address_too_is_reached_by_the_other(monkeypatch):
    class WithoutIPv6(socket.socket):
        def __init__(self, family=-1, *rest, **named):
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *rest, **named)

    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]

        async def main():
            async def found(*_, **__):
                six, four = (socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))
                return [(family, socket.SOCK_STREAM, 0, "", address) for family, address in (six, four)]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
            monkeypatch.setattr("firelane.overlay.paths.dialling.socket.socket", WithoutIPv6)
            with await dialled("somewhere", port, 5.0) as one:
                return one.getpeername()

        assert asyncio.run(main()) == ("127.0.0.1", port)


def test_a_path_without_file_descriptors_says_so_and_is_there_when_there_are_some(monkeypatch):
    tries, problems = count(), []

    class OutOfThem(socket.socket):
        def __init__(self, *given, **named):
            if next(tries) < 3:
                raise OSError(errno.EMFILE, "Too many open files")
            super().__init__(*given, **named)

    async def answer(reader, writer):
        await reader.read(2)
        writer.write(encode(Connack(session_present=False, reason=0), V5))
        await reader.read()
        writer.transport.abort()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        locator = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setattr("firelane.overlay.paths.dialling.socket.socket", OutOfThem)
        up = asyncio.Event()
        path = Path("a", locator, Credentials(), got=lambda packet: None, up=up.set, down=problems.append)
        async with server, asyncio.timeout(10), asyncio.TaskGroup() as group:
            task = group.create_task(path.run())
            await up.wait()
            task.cancel()
        await asyncio.sleep(0.05)  # both ends are closed at the loop's next turns

    asyncio.run(main())
    assert problems == ["too many open files"] * 3


def test_a_registry_that_is_back_is_reached_as_soon():
    with deaf() as there:
        Timer(0.1, there.hear).start()
        began_s = time.monotonic()
        _Handler().create_connection(("127.0.0.1", there.port), timeout=5.0).close()
        assert time.monotonic() - began_s < 0.1 + AGAIN_S + 0.3


def test_who_gives_up_just_when_it_is_answered_leaves_nothing_open():
    """Also without a search for garbage, which a process that serves hardly makes."""

    async def main(port):
        for turns in range(12):
            task = asyncio.create_task(dialled("127.0.0.1", port, 5.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                (await task).close()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as there:
        gc.collect()
        gc.disable()
        try:
            before = len(os.listdir("/proc/self/fd"))
            asyncio.run(main(there.getsockname()[1]))
            assert len(os.listdir("/proc/self/fd")) == before
        finally:
            gc.enable()
