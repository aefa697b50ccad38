"""A wide area network as a process: takes IP packets from the devices of places, loses some, hands on the others later.

Each argument after the seed is `HANDLE=ADDRESS`: an open TUN device and the address of its place. Commands come on
standard input, a line each, and are answered by a line: `cut ADDRESS` and `mend ADDRESS` (nothing goes there or comes
from there), `quality DELAY_S LOSS` (of every packet from now on). It ends with its input.
"""

from __future__ import annotations

import os
import random
import select
import socket
import sys
from collections import deque
from contextlib import suppress
from time import monotonic

LARGEST_BYTES = 65_536
MOST_AT_ONCE = 64  # packets from one place before the next one's turn
MOST_UNDER_WAY = 50_000  # beyond that they are lost, as on any router


class Relay:
    def __init__(self, devices: dict[int, bytes], seed: int) -> None:
        self.devices = devices  # handle -> address
        self.handles = {address: handle for handle, address in devices.items()}
        self.under_way: deque[tuple[float, int, bytes]] = deque()  # when it arrives, where, and what
        self.cut: set[bytes] = set()
        self.delay_s, self.loss = 0.0, 0.0
        self.chance = random.Random(seed)

    def run(self) -> None:
        events = select.epoll()
        for handle in (0, *self.devices):
            os.set_blocking(handle, False)
            events.register(handle, select.EPOLLIN)
        while True:
            wait_s = max(0.0, self.under_way[0][0] - monotonic()) if self.under_way else -1
            for handle, _ in events.poll(wait_s):
                if handle == 0:
                    said = os.read(0, LARGEST_BYTES).decode()
                    if not said:
                        return
                    for line in said.splitlines():
                        print(self.told(*line.split()), flush=True)
                else:
                    self.take(handle)
            self.hand_on()

    def told(self, word: str, *values: str) -> str:
        if word == "quality":
            self.delay_s, self.loss = map(float, values)
        else:
            (self.cut.add if word == "cut" else self.cut.discard)(socket.inet_aton(values[0]))
        return "done"

    def take(self, handle: int) -> None:
        arrives_at = monotonic() + self.delay_s
        with suppress(BlockingIOError):
            for _ in range(MOST_AT_ONCE):
                packet = os.read(handle, LARGEST_BYTES)
                to = packet[16:20]  # of an IPv4 header; others go nowhere
                if packet[0] >> 4 != 4 or to not in self.handles:
                    continue
                if not self._is_lost(self.devices[handle], to):
                    self.under_way.append((arrives_at, self.handles[to], packet))

    def _is_lost(self, origin: bytes, to: bytes) -> bool:
        if origin in self.cut or to in self.cut or len(self.under_way) >= MOST_UNDER_WAY:
            return True
        return self.chance.random() < self.loss

    def hand_on(self) -> None:
        now = monotonic()
        while self.under_way and self.under_way[0][0] <= now:
            _, handle, packet = self.under_way.popleft()
            with suppress(OSError):  # the device is down
                os.write(handle, packet)


if __name__ == "__main__":
    named = (one.partition("=") for one in sys.argv[2:])
    Relay({int(handle): socket.inet_aton(address) for handle, _, address in named}, int(sys.argv[1])).run()
