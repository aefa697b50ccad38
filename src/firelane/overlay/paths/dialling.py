"""A connection to somebody who may be out of reach: asked for again sooner than the kernel would.

Of a first packet that is lost the kernel sends another after 1 s: a network that carries again would not be noticed for
as long. So another attempt begins every 0.25 s while earlier ones still wait, and the first that is answered is taken.
"""

from __future__ import annotations

import asyncio
import socket
from itertools import count

AGAIN_S = 0.25

Place = tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]  # family and address


async def dialled(host: str, port: int, within_s: float) -> socket.socket:
    """The socket; a TimeoutError if nobody answers in time, an OSError if all that is there refuses."""
    loop = asyncio.get_running_loop()
    opened: list[socket.socket] = []
    chosen = None
    try:
        async with asyncio.timeout(within_s):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            ends = await _race([(family, address) for family, _, _, _, address in found], opened)
        connected = [one for one in ends if isinstance(one, socket.socket)]
        if not connected:
            raise next(one for one in ends if isinstance(one, OSError))
        connected[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chosen = connected[0]
    finally:
        for one in opened:  # whatever has happened, also at the last moment
            if one is not chosen:
                one.close()
    return connected[0]


async def _race(places: list[Place], opened: list[socket.socket]) -> list[socket.socket | OSError]:
    """How the attempts ended that ended first: one of them well, or the last place has refused."""
    left = list(places)
    waiting: dict[asyncio.Task[socket.socket | OSError], Place] = {}
    async with asyncio.TaskGroup() as group:
        for turn in count():
            place = left[turn % len(left)]
            waiting[group.create_task(_attempt(place, opened))] = place
            ended, _ = await asyncio.wait(waiting, timeout=AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
            refused = [waiting.pop(one) for one in ended]
            left = [one for one in left if one not in refused]
            ends = [one.result() for one in ended]
            if not left or any(isinstance(one, socket.socket) for one in ends):
                for one in waiting:
                    one.cancel()
                return ends
    raise AssertionError("turns do not end")


async def _attempt(place: Place, opened: list[socket.socket]) -> socket.socket | OSError:
    family, address = place
    try:
        one = socket.socket(family, socket.SOCK_STREAM)  # a host without IPv6, or out of file descriptors, has none
        opened.append(one)
        one.setblocking(False)
        await asyncio.get_running_loop().sock_connect(one, address)
    except OSError as problem:
        return problem
    return one
