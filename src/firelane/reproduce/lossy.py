"""A link that loses a share of its packets at random, for experiments with real traffic of any protocol.

A rule of nftables drops packets where they come in from the cable, so the sender never knows. It draws for every packet
by itself, from the kernel's random numbers, which nobody can seed: a run is repeated in distribution only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from firelane.reproduce.namespaces import NetworkError, Side, program, run, two_sides

FINE = 1_000_000  # steps between no loss and all


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """IP packets that came to the end of the cable, and how many of them were lost there."""

    packets: int
    lost: int


class LossyLink:
    """Two sides; what goes from `near` to `far` is lost with one probability, what goes back with another."""

    def __init__(self, near: Side, far: Side) -> None:
        self.near = near
        self.far = far

    def lose(self, share: float, *, back: float = 0.0) -> None:
        """Lose that share of the packets from near to far from now on, and another share of those back."""
        for side, wanted in ((self.far, share), (self.near, back)):
            if not 0 <= wanted <= 1:
                raise NetworkError(f"a share of lost packets is between 0 and 1, not {wanted}")
            _nft(side, _rules(side.device, wanted))

    def crossed(self) -> Crossing:
        """What went from near to far since the share was last set."""
        return _counted(self.far)

    def crossed_back(self) -> Crossing:
        """What went from far to near since the share was last set."""
        return _counted(self.near)


@contextmanager
def lossy_link(share: float = 0.0, *, back: float = 0.0) -> Iterator[LossyLink]:
    """A link of its own for an experiment, gone afterwards; NetworkError without root, nftables or a kernel for it."""
    with two_sides() as (near, far):
        link = LossyLink(near, far)
        link.lose(share, back=back)
        yield link


def _rules(device: str, share: float) -> str:
    """Replaces what was there in one step; only IP, as a lost ARP would cost all packets of a second."""
    steps = round(share * FINE)
    rules = ["counter"] + [f"numgen random mod {FINE} <= {steps - 1} counter drop"] * (steps > 0)
    return "\n".join(
        [
            "add table netdev firelane",
            "delete table netdev firelane",
            "add table netdev firelane",
            f'add chain netdev firelane loss {{ type filter hook ingress device "{device}" priority 0; }}',
            *(f"add rule netdev firelane loss meta protocol ip {rule}" for rule in rules),
        ]
    )


def _counted(side: Side) -> Crossing:
    listed = json.loads(_nft(side, "--json", "list", "table", "netdev", "firelane"))["nftables"]
    rules = [one["rule"]["expr"] for one in listed if "rule" in one]
    counts = [part["counter"]["packets"] for rule in rules for part in rule if "counter" in part]
    return Crossing(packets=counts[0], lost=sum(counts[1:]))


def _nft(side: Side, *words: str) -> str:
    return run("ip", "netns", "exec", side.namespace, program("nft"), *words)
