"""The network that other tests run on does to packets what it says."""

from __future__ import annotations

import socket
import time

import pytest

from live.wan import Bridged, Relayed, wan

PORT = 4000
WAITED_S = 2.0


def socket_at(place):
    with place.inside():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((place.address, PORT))
    made.settimeout(WAITED_S)
    return made


def counted(receiver):
    """How many datagrams come until none does."""
    receiver.settimeout(0.3)
    number = 0
    try:
        while True:
            receiver.recv(100)
            number += 1
    except TimeoutError:
        return number


def test_a_packet_takes_the_delay_in_each_direction():
    with (
        wan("here", "there", delay_s=0.05) as network,
        socket_at(network.places["here"]) as here,
        socket_at(network.places["there"]) as there,
    ):
        begun = time.monotonic()
        here.sendto(b"ping", (network.places["there"].address, PORT))
        data, back = there.recvfrom(100)
        once_s = time.monotonic() - begun
        there.sendto(data, back)
        assert here.recv(100) == b"ping"
        twice_s = time.monotonic() - begun
    assert once_s >= 0.05
    assert twice_s >= 0.1


def test_packets_are_lost_at_random():
    """Of 2000 packets a tenth: 200, give or take five standard deviations of the binomial (13.4)."""
    with (
        wan("here", "there", loss=0.1) as network,
        socket_at(network.places["here"]) as here,
        socket_at(network.places["there"]) as there,
    ):
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        for sent in range(2000):
            here.sendto(b"x", (network.places["there"].address, PORT))
            if sent % 100 == 0:
                time.sleep(0.01)
        assert abs(2000 - counted(there) - 200) < 67


@pytest.mark.parametrize("join", [Bridged, Relayed])
def test_a_place_that_is_cut_off_is_reached_by_nobody_until_that_is_mended(join):
    with (
        wan("a", "b", "c", join=join) as network,
        socket_at(network.places["a"]) as a,
        socket_at(network.places["b"]) as b,
        socket_at(network.places["c"]) as c,
    ):
        to_b, to_c = ((network.places[name].address, PORT) for name in "bc")

        def arrive():
            a.sendto(b"x", to_b)
            c.sendto(b"x", to_b)
            b.sendto(b"x", to_c)
            a.sendto(b"x", to_c)
            return counted(b), counted(c)

        assert arrive() == (2, 2)
        network.cut("b")
        assert arrive() == (0, 1)
        network.mend("b")
        until_s = time.monotonic() + 10
        while arrive() != (2, 2):
            assert time.monotonic() < until_s


def test_what_crosses_is_counted():
    with (
        wan("here", "there") as network,
        socket_at(network.places["here"]) as here,
        socket_at(network.places["there"]),
    ):
        before = network.places["here"].crossed_bytes()
        here.sendto(bytes(1000), (network.places["there"].address, PORT))
        deadline = time.monotonic() + WAITED_S
        while network.places["here"].crossed_bytes() < before + 1000:
            assert time.monotonic() < deadline
        assert network.places["here"].crossed_bytes() < before + 1600
