"""Places in network namespaces of their own, joined by a wide area network with delay and loss that can be cut.

Where the kernel has netem, places hang on a bridge whose ports delay and lose packets. Elsewhere each has a TUN device,
and a process (`relay`) hands IP packets from one to the other. Either way TCP and UDP suffer alike. Delay and loss are
those of one crossing, from place to place.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import struct
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from firelane.reproduce.namespaces import NetworkError, entered, run

RELAY = Path(__file__).with_name("relay.py")
DEVICE = "wan"  # of each place
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKETS = 10_000  # that may be under way on a port of the bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace and its address; None is where the tests themselves are."""

    address: str = "127.0.0.1"
    namespace: str | None = None

    def command(self, words: list[str]) -> list[str]:
        """The command that runs those words there; its process is theirs."""
        return words if self.namespace is None else ["ip", "netns", "exec", self.namespace, *words]

    @contextmanager
    def inside(self):
        """This thread is there: the sockets that it makes stay there."""
        if self.namespace is None:
            yield
        else:
            with entered(self.namespace):
                yield

    def crossed_bytes(self) -> int:
        """What has gone to other places and has come from them so far."""
        (shown,) = json.loads(run("ip", "-n", self.namespace, "-s", "-j", "link", "show", "dev", DEVICE))
        return shown["stats64"]["rx"]["bytes"] + shown["stats64"]["tx"]["bytes"]


HOME = Place()


class Bridged:
    """A namespace with a bridge on whose ports the kernel delays and loses packets."""

    def __init__(self, stack: ExitStack, places: dict[str, Place], word: str) -> None:
        self.places = places
        self.middle = f"middle-{word}"
        _namespace(stack, self.middle)
        self._ip("link", "add", "bridge", "type", "bridge")
        self._ip("link", "set", "bridge", "up")
        for name, place in places.items():
            ends = ["name", DEVICE, "netns", place.namespace], ["name", f"to-{name}", "netns", self.middle]
            run("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
            run("ip", "-n", place.namespace, "link", "set", "dev", DEVICE, "gso_max_segs", "1")  # one loss, one packet
            self._ip("link", "set", f"to-{name}", "master", "bridge")
            self._ip("link", "set", f"to-{name}", "up")

    def _ip(self, *words: str) -> None:
        run("ip", "-n", self.middle, *words)

    def quality(self, delay_s: float, loss: float) -> None:
        for name in self.places if delay_s or loss else ():
            how = ("netem", "limit", str(PACKETS), "delay", f"{delay_s * 1000:g}ms", "loss", f"{loss * 100:g}%")
            run("tc", "-n", self.middle, "qdisc", "replace", "dev", f"to-{name}", "root", *how)

    def cut(self, name: str) -> None:
        self._ip("link", "set", f"to-{name}", "nomaster")

    def mend(self, name: str) -> None:
        self._ip("link", "set", f"to-{name}", "master", "bridge")


class Relayed:
    """A process that hands packets on."""

    def __init__(self, stack: ExitStack, places: dict[str, Place], word: str) -> None:
        self.places = places
        handles = {_tun(stack, place.namespace): place.address for place in places.values()}
        command = [sys.executable, str(RELAY), str(int(word, 16)), *(f"{one}={to}" for one, to in handles.items())]
        ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = stack.enter_context(subprocess.Popen(command, **ends, pass_fds=list(handles), text=True))
        stack.callback(self._process.kill)

    def _tell(self, *words: str) -> str:
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def quality(self, delay_s: float, loss: float) -> None:
        self._tell("quality", str(delay_s), str(loss))

    def cut(self, name: str) -> None:
        self._tell("cut", self.places[name].address)

    def mend(self, name: str) -> None:
        self._tell("mend", self.places[name].address)


@contextmanager
def wan(*names: str, delay_s: float = 0.0, loss: float = 0.0, join: type[Bridged | Relayed] | None = None):
    """The places by name and the network between them, gone afterwards; without root or devices the test is skipped."""
    if os.geteuid() != 0:
        pytest.skip("only root can make network namespaces")
    word = secrets.token_hex(4)
    places = {
        name: Place(address=f"10.97.{number}.1", namespace=f"{name}-{word}") for number, name in enumerate(names, 1)
    }
    with ExitStack() as stack:
        try:
            for place in places.values():
                _namespace(stack, place.namespace)
            network = (join or (Bridged if has_netem() else Relayed))(stack, places, word)
            for place in places.values():
                run("ip", "-n", place.namespace, "address", "add", f"{place.address}/16", "dev", DEVICE)
                run("ip", "-n", place.namespace, "link", "set", DEVICE, "up")
            network.quality(delay_s, loss)
        except (NetworkError, OSError) as problem:
            pytest.skip(f"no network can be made here: {problem}")
        yield network


def has_netem() -> bool:
    """Whether the kernel delays packets itself."""
    with ExitStack() as stack:
        probe = f"probe-{secrets.token_hex(4)}"
        _namespace(stack, probe)
        try:
            run("tc", "-n", probe, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
        except NetworkError:
            return False
        return True


def _namespace(stack: ExitStack, name: str) -> None:
    run("ip", "netns", "add", name)
    stack.callback(run, "ip", "netns", "delete", name)  # and with it its devices
    run("ip", "-n", name, "link", "set", "lo", "up")


def _tun(stack: ExitStack, namespace: str) -> int:
    """A device there, by the handle at which its packets are read and written."""
    with entered(namespace):
        handle = os.open("/dev/net/tun", os.O_RDWR)
        stack.callback(os.close, handle)
        fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    return handle
