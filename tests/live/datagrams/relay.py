"""A link between clients and an exchange that loses datagrams, each with the same probability."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random


class _Side(asyncio.DatagramProtocol):
    def __init__(self, take) -> None:
        self._take = take

    def datagram_received(self, data, addr) -> None:
        self._take(data, addr)


class Relay:
    """Listens at `port`; `lost` and `passed` count datagrams of both directions. `loss` may change at any time."""

    def __init__(self, target: int, loss: float, seed: int) -> None:
        self.loss = loss
        self.lost = self.passed = 0
        self.port = 0
        self._target = ("127.0.0.1", target)
        self._random = Random(seed)
        self._front: asyncio.DatagramTransport | None = None
        self._behind: dict[tuple[str, int], asyncio.Future] = {}

    def _loses(self) -> bool:
        lost = self._random.random() < self.loss
        self.lost += lost
        self.passed += not lost
        return lost

    def _from_client(self, data, address) -> None:
        if not self._loses():
            asyncio.get_running_loop().create_task(self._forward(data, address))

    async def _forward(self, data, address) -> None:
        if address not in self._behind:
            loop = asyncio.get_running_loop()
            self._behind[address] = loop.create_future()
            transport, _ = await loop.create_datagram_endpoint(
                lambda: _Side(lambda data, _: self._to_client(data, address)), remote_addr=self._target
            )
            self._behind[address].set_result(transport)
        (await self._behind[address]).sendto(data)

    def _to_client(self, data, address) -> None:
        if not self._loses():
            self._front.sendto(data, address)


@asynccontextmanager
async def losing(target: int, loss: float, seed: int):
    relay = Relay(target, loss, seed)
    relay._front, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Side(relay._from_client), local_addr=("127.0.0.1", 0)
    )
    relay.port = relay._front.get_extra_info("sockname")[1]
    try:
        yield relay
    finally:
        relay._front.close()
        for one in relay._behind.values():
            one.result().close()
