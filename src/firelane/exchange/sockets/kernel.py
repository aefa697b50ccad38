"""What the kernel says of the connections on paced links: how much was acknowledged, and how long that took.

Linux tells it in `struct tcp_info` (include/uapi/linux/tcp.h), which only ever grew at its end. What an older kernel
does not have reads as zero and is done without; where there is no TCP_INFO at all nothing is known, and links stay as
they are configured. Used are, at these bytes:

      7  bit 0: the last delivery rate was limited by the application      120  acknowledged bytes (64 bits, as below)
     24  segments under way             144  bytes not sent yet            168  time busy, us
     68  smoothed round trip, us        148  shortest round trip, us       176  of this, with the client's window full
     80  congestion window              156  data segments sent            200  bytes sent; 208: sent again
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from firelane.exchange.lanes.link import Link
from firelane.scenario.overhead import SEGMENT_BYTES, TCP_IP_ETHERNET_BYTES

if TYPE_CHECKING:
    from firelane.exchange.clients.connection import Conduit
    from firelane.exchange.sockets.server import Server

MOST_AT_ONCE = 512  # connections of a link that are asked about in a look: a few milliseconds; more take turns
MOST_OWN = 256  # links of single clients that are looked at together
_TCP_INFO = struct.Struct("=7xB16xI40xI8xI36xQ16xII4xI8xQQ16xQQ")
INFO_BYTES = _TCP_INFO.size
UNKNOWN_RTT = 0xFFFF_FFFF
CLOSED = (OSError, ValueError)  # what a socket says that is closed; uvloop's says the latter
_OPTION = getattr(socket, "TCP_INFO", None)  # not everywhere


class Info(NamedTuple):
    """The part of `struct tcp_info` that is used, in its order."""

    flags: int
    unacked: int
    rtt_us: int
    cwnd: int
    acked_bytes: int
    notsent_bytes: int
    min_rtt_us: int
    segments: int
    busy_us: int
    rwnd_limited_us: int
    sent_bytes: int
    again_bytes: int

    @property
    def held(self) -> bool:
        """Whether the kernel would have more to send, but the network takes no more."""
        return not self.flags & 1 and (self.notsent_bytes > 0 or self.unacked >= self.cwnd)

    @property
    def shortest_s(self) -> float:
        """The shortest round trip; where it is not known, the present one."""
        return (self.rtt_us if self.min_rtt_us in (0, UNKNOWN_RTT) else self.min_rtt_us) / 1e6

    @property
    def grown_s(self) -> float:
        """How much longer a round trip takes now."""
        return max(0.0, self.rtt_us / 1e6 - self.shortest_s)


def tcp_info(of: socket.socket) -> bytes | None:
    """What the kernel says of a connection; nothing once it is closed, or where it is no TCP."""
    if _OPTION is None:
        return None
    try:
        return of.getsockopt(socket.IPPROTO_TCP, _OPTION, INFO_BYTES)
    except CLOSED:
        return None


def parsed(raw: bytes) -> Info:
    """What the kernel has told; what it does not have is zero."""
    return Info(*_TCP_INFO.unpack_from(raw.ljust(INFO_BYTES, b"\0")))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenKernel:
    """What became of what a paced link sent over a while. Bytes are wire bytes, as its bandwidth counts them."""

    window_s: float
    paced_bytes: float  # what the exchange let go
    acked_bytes: float  # what came of it
    shortest_s: float  # the shortest round trips, a mean over what was acknowledged
    grown_s: float  # how much longer they take now
    held: float  # of what was acknowledged, the share of connections that the network holds up, not the exchange
    waiting: bool  # whether something waited for the link, at its beginning and at its end
    withheld: int  # messages dropped on purpose, which the link might have carried


class _Sums:
    """Of the connections of one link."""

    def __init__(self) -> None:
        self.acked = self.sent = self.fresh = self.segments = 0
        self.timely = self.held = 0  # acknowledged: of clients that are not too slow themselves; held up by the network
        self.shortest = self.grown = 0.0

    def add(self, before: Info, now: Info) -> None:
        acked = max(0, now.acked_bytes - before.acked_bytes)
        again = now.again_bytes - before.again_bytes
        self.acked += acked
        self.sent += now.sent_bytes - before.sent_bytes
        self.fresh += now.sent_bytes - before.sent_bytes - again
        self.segments += now.segments - before.segments
        if 2 * (now.rwnd_limited_us - before.rwnd_limited_us) > now.busy_us - before.busy_us:
            return  # a slow client is no slow link
        self.timely += acked
        self.held += acked if now.held else 0
        self.shortest += acked * now.shortest_s
        self.grown += acked * now.grown_s

    def wire_bytes(self, link: Link, paced_bytes: int) -> float:
        """What was acknowledged, with headers."""
        if link.overhead_is_fixed:  # as much more as the link counts for what was sent
            return self.acked * paced_bytes / self.fresh if self.fresh > 0 else float(self.acked)
        if self.sent <= 0 or self.segments <= 0:
            return self.acked * (1 + TCP_IP_ETHERNET_BYTES / SEGMENT_BYTES)
        return self.acked * (1 + TCP_IP_ETHERNET_BYTES * self.segments / self.sent)


class _Mark(NamedTuple):
    """How a link stood at some time."""

    time: float
    sent_bytes: int
    untold_bytes: int
    withheld: int
    waiting: bool


class _Round:
    """What connections have said since a mark, as far as they were asked."""

    def __init__(self, mark: _Mark) -> None:
        self.mark = mark
        self.sums = _Sums()
        self.asked = 0


class Kernel:
    """Looks at the connections of paced links; each look is compared with the one before."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._infos: dict[Conduit, Info] = {}
        self._rounds: dict[Link, _Round] = {}

    def look(self, now: float) -> list[tuple[Link, SeenKernel]]:
        """What became of what each paced link has sent, of links whose connections have all been asked about."""
        before, self._rounds = self._rounds, {}
        found = []
        for link, drivers in self._wanted().items():
            mark = _Mark(now, link.sent_bytes, link.untold_bytes, link.withheld, link.queued > 0)
            one = before.get(link) or _Round(mark)
            self._ask(one, drivers)
            if link not in before:
                one = _Round(mark)  # there is nothing yet to compare with
            elif one.asked >= len(drivers) and now > one.mark.time:
                found.append((link, _seen(link, one.mark, mark, one.sums)))
                one = _Round(mark)
            self._rounds[link] = one
        if len(self._infos) > 2 * len(self._server.drivers):  # most are of connections that are gone
            self._infos = {one: self._infos[one] for one in self._server.drivers if one in self._infos}
        return found

    def _wanted(self) -> dict[Link, list[Conduit]]:
        """Shared links, and those of single clients on which something waits or that carry less than they should."""
        wanted: dict[Link, list[Conduit]] = {}
        own = 0
        for driver in self._server.drivers:
            link = driver.link
            if link is None or not link.paced:
                continue
            if link.own:
                if own >= MOST_OWN or not (link.queued or link.narrow):
                    continue
                own += 1
            wanted.setdefault(link, []).append(driver)
        return wanted

    def _ask(self, one: _Round, drivers: list[Conduit]) -> None:
        """Ask about the next connections, and sum up what has changed since they were last asked about."""
        infos = self._infos
        for driver in drivers[one.asked : one.asked + MOST_AT_ONCE]:
            raw = driver.tcp_info()
            if raw is not None:
                info = parsed(raw)
                if driver in infos:
                    one.sums.add(infos[driver], info)
                infos[driver] = info
        one.asked += MOST_AT_ONCE


def _seen(link: Link, before: _Mark, now: _Mark, sums: _Sums) -> SeenKernel:
    untold_bytes = now.untold_bytes - before.untold_bytes  # believed to have got through, as TCP beside it does
    paced_bytes = now.sent_bytes - before.sent_bytes
    timely = max(sums.timely, 1)
    return SeenKernel(
        window_s=now.time - before.time,
        paced_bytes=paced_bytes,
        acked_bytes=sums.wire_bytes(link, paced_bytes - untold_bytes) + untold_bytes,
        shortest_s=sums.shortest / timely,
        grown_s=sums.grown / timely,
        held=sums.held / timely,
        waiting=before.waiting and now.waiting,
        withheld=now.withheld - before.withheld,
    )
