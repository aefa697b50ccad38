"""Two network namespaces joined by a cable, so that an experiment has a network of its own; only root can make them."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from firelane.errors import FirelaneError

NAMESPACES = Path("/run/netns")  # where ip keeps them
SEARCH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin:/usr/local/sbin"
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
CLONE_NEWNET = 0x40000000
TIMEOUT_S = 30.0


class NetworkError(FirelaneError):
    """The network that an experiment needs cannot be made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end of the cable: the namespace, its device (of the same name in both) and its address."""

    namespace: str
    device: str
    address: str

    def command(self, *words: str) -> list[str]:
        """The command that runs those words on this side."""
        return [program("ip"), "netns", "exec", self.namespace, *words]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread on this side: the sockets that it makes stay there."""
        with entered(self.namespace):
            yield


@contextmanager
def two_sides() -> Iterator[tuple[Side, Side]]:
    """Two namespaces and a cable between them, gone afterwards; NetworkError if that is not possible."""
    if os.geteuid() != 0:
        raise NetworkError("this experiment makes network namespaces, which only root can; run it as root")
    word = secrets.token_hex(4)
    near = Side(namespace=f"near-{word}", device="near", address="10.98.0.1")
    far = Side(namespace=f"far-{word}", device="far", address="10.98.0.2")
    with ExitStack() as stack:
        for side in (near, far):
            run("ip", "netns", "add", side.namespace)
            stack.callback(run, "ip", "netns", "delete", side.namespace)  # and with it its devices
            run("ip", "-n", side.namespace, "link", "set", "lo", "up")
        ends = [("name", side.device, "netns", side.namespace) for side in (near, far)]
        run("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for side in (near, far):
            run("ip", "-n", side.namespace, "address", "add", f"{side.address}/24", "dev", side.device)
            # As a cable would have it, no packet is larger than Ethernet's: else one loss takes many with it.
            run("ip", "-n", side.namespace, "link", "set", "dev", side.device, "gso_max_segs", "1")
            run("ip", "-n", side.namespace, "link", "set", side.device, "up")
        yield near, far


def program(name: str) -> str:
    """Where a program of the system is."""
    found = shutil.which(name, path=SEARCH)
    if found is None:
        raise NetworkError(f"{name} is not installed; on Debian: apt-get install {PACKAGES.get(name, name)}")
    return found


def run(name: str, *words: str) -> str:
    """What a program of the system says; NetworkError with its complaint if it fails."""
    try:
        done = subprocess.run([program(name), *words], check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.CalledProcessError as failed:
        said = (failed.stderr.strip().splitlines() or [f"status {failed.returncode}"])[0]
        raise NetworkError(f"`{name} {' '.join(words)}` failed: {said}; does this kernel have what it takes?") from None
    except subprocess.TimeoutExpired:
        raise NetworkError(f"`{name} {' '.join(words)}` did not end within {TIMEOUT_S:g} s") from None
    return done.stdout


@contextmanager
def entered(namespace: str) -> Iterator[None]:
    """This thread in a network namespace: the sockets that it makes stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(NAMESPACES / namespace, os.O_RDONLY)
        try:
            _set(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _set(home)
    finally:
        os.close(home)


def _set(handle: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(handle, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
