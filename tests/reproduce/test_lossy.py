"""A lossy link loses the share asked for, packet by packet, in one direction only, and counts it itself."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from math import sqrt

import pytest

from firelane.reproduce import namespaces
from firelane.reproduce.lossy import lossy_link
from firelane.reproduce.namespaces import NAMESPACES, NetworkError
from lossy_rooms import lossy

PACKETS = 3000
BURST = 150  # at a time, so that none is lost for want of room in a socket


def bound(side, kind=socket.SOCK_DGRAM):
    with side.entered():
        made = socket.socket(socket.AF_INET, kind)
        made.bind((side.address, 0))
        made.settimeout(10)
        return made


def arrived(sender, receiver):
    """How many of the packets arrive."""
    found = 0
    for burst in range(PACKETS // BURST):
        for _ in range(BURST):
            sender.sendto(b"x", receiver.getsockname())
        receiver.settimeout(0.02 if burst < PACKETS // BURST - 1 else 0.5)
        with suppress(TimeoutError):
            while True:
                found += len(receiver.recv(10))
    return found


@pytest.mark.slow
def test_the_share_asked_for_is_lost_in_the_direction_asked_for():
    """Within five standard deviations of the binomial distribution: one run in a million fails by chance."""
    with lossy() as link, bound(link.near) as near, bound(link.far) as far:
        for share in (0.0, 0.2, 0.5, 1.0):
            link.lose(share)
            lost = PACKETS - arrived(near, far)
            assert abs(lost - PACKETS * share) <= 5 * sqrt(PACKETS * share * (1 - share))
            assert (link.crossed().packets, link.crossed().lost) == (PACKETS, lost)
        assert link.crossed_back().packets == 0
        assert arrived(far, near) == PACKETS
        assert (link.crossed_back().packets, link.crossed_back().lost) == (PACKETS, 0)
        link.lose(0.0, back=0.5)
        assert arrived(near, far) == PACKETS
        lost = PACKETS - arrived(far, near)
        assert abs(lost - PACKETS / 2) <= 5 * sqrt(PACKETS / 4)
        assert link.crossed_back().lost == lost


@pytest.mark.slow
def test_losses_are_of_single_packets_of_tcp_too():
    """A megabyte arrives whole and in packets of Ethernet's size; else they would be up to 44 times larger."""
    size = 1_000_000
    with lossy() as link, bound(link.far, socket.SOCK_STREAM) as listener:
        listener.listen()
        with link.near.entered():
            sender = socket.create_connection(listener.getsockname(), timeout=20)
        receiver, _ = listener.accept()
        receiver.settimeout(60)
        link.lose(0.05)
        with sender, receiver:
            thread = threading.Thread(target=lambda: (sender.sendall(bytes(size)), sender.shutdown(socket.SHUT_WR)))
            thread.start()
            got = 0
            while piece := receiver.recv(1 << 16):
                got += len(piece)
            thread.join()
        crossed = link.crossed()
        assert got == size
        assert crossed.packets - crossed.lost >= size / 1460
        share = crossed.lost / crossed.packets
        assert abs(share - 0.05) <= 5 * sqrt(0.05 * 0.95 / crossed.packets)


def test_commands_run_on_their_side_and_nothing_stays():
    with lossy() as link:
        places = [NAMESPACES / side.namespace for side in (link.near, link.far)]
        assert all(place.exists() for place in places)
        code = "import socket; print(sorted(name for _, name in socket.if_nameindex()))"
        for side in (link.near, link.far):
            command = side.command(sys.executable, "-c", code)
            said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
            assert f"'{side.device}'" in said
        home = os.readlink("/proc/thread-self/ns/net")
        with suppress(ZeroDivisionError), link.far.entered():
            assert os.readlink("/proc/thread-self/ns/net") != home
            raise ZeroDivisionError
        assert os.readlink("/proc/thread-self/ns/net") == home
        for share in (-0.1, 1.1, float("nan")):
            with pytest.raises(NetworkError, match="between 0 and 1"):
                link.lose(share)
    assert not any(place.exists() for place in places)


def test_without_root_it_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NetworkError, match="only root can; run it as root"), lossy_link():
        pass


def test_missing_programs_are_told_with_their_package(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces, "SEARCH", str(tmp_path))
    with pytest.raises(NetworkError, match="ip is not installed; on Debian: apt-get install iproute2"), lossy_link():
        pass


def test_what_the_kernel_refuses_is_told_in_one_line():
    with lossy(), pytest.raises(NetworkError, match="failed: ") as told:
        namespaces.run("ip", "link", "add", "x", "type", "nonsense")
    assert "\n" not in str(told.value)
