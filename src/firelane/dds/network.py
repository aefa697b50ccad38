"""Where a participant finds others: by which interface, by multicast or a list of peers, and when it gives them up."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from xml.sax.saxutils import quoteattr

from firelane.errors import FirelaneError

LAST_DOMAIN = 230  # beyond it the standard's port numbers do not fit 16 bits
SHORTEST_LEASE_S, LONGEST_LEASE_S = 0.5, 3600.0
SIGNS_OF_LIFE = 4  # announcements in a lease: over a lossy link others are found, and kept, by those that arrive
MOST_HERE = 64  # participants of a domain on one machine, if multicast does not find them
ASK_AFTER_MS, ASK_AGAIN_MS = 10, 100  # for what is missing: the library waits longer, which adds up (docs/dds.md)
UNCONFIRMED_BYTES = 4_000_000  # what a reliable writer keeps for readers that have not confirmed it
LARGEST_SAMPLE_BYTES = 1_000_000


class DdsError(FirelaneError):
    """DDS cannot be used as asked: an interface, a peer, a name or a size that will not do."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"DDS: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """How participants find each other and when they believe each other dead.

    `interface` is a name or an IPv4 address. Without `multicast` only this machine and `peers` are looked for. A
    participant that has not been heard of for `lease_s` is gone. `loss` is the share of its own packets that a
    participant throws away instead of sending, for experiments.
    """

    interface: str = "127.0.0.1"
    multicast: bool = False
    peers: tuple[str, ...] = ()
    lease_s: float = 10.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not SHORTEST_LEASE_S <= self.lease_s <= LONGEST_LEASE_S:
            raise DdsError(f"lease_s must be between {SHORTEST_LEASE_S:g} and {LONGEST_LEASE_S:g}, not {self.lease_s}")
        if not (math.isfinite(self.loss) and 0 <= self.loss <= 1):
            raise DdsError(f"loss must be a share between 0 and 1, not {self.loss}")

    def configuration(self, domain: int) -> str:
        """The same for Cyclone DDS; DdsError if there is no such interface or peer here."""
        if not 0 <= domain <= LAST_DOMAIN:
            raise DdsError(f"there is no domain {domain}; choose one between 0 and {LAST_DOMAIN}")
        peers = "".join(f"<Peer address={quoteattr(_address(peer))}/>" for peer in self.peers)
        return (
            '<CycloneDDS><Domain id="any"><General>'
            f"<Interfaces><NetworkInterface {_interface(self.interface)}/></Interfaces>"
            f"<AllowMulticast>{str(self.multicast).lower()}</AllowMulticast></General>"
            # Domains of one process are told apart by numbers of their own; this is the number on the network.
            f"<Discovery><ExternalDomainId>{domain}</ExternalDomainId>"
            f'<Peers addlocalhost="true">{peers}</Peers>'
            f"<MaxAutoParticipantIndex>{MOST_HERE}</MaxAutoParticipantIndex>"
            f"<LeaseDuration>{self.lease_s:g} s</LeaseDuration>"
            f"<SPDPInterval>{self.lease_s / SIGNS_OF_LIFE:g} s</SPDPInterval></Discovery>"
            f"<Internal><MaxSampleSize>{LARGEST_SAMPLE_BYTES} B</MaxSampleSize>"
            f"<NackDelay>{ASK_AFTER_MS} ms</NackDelay><AutoReschedNackDelay>{ASK_AGAIN_MS} ms</AutoReschedNackDelay>"
            f"<Watermarks><WhcHigh>{UNCONFIRMED_BYTES} B</WhcHigh><WhcHighInit>{UNCONFIRMED_BYTES} B</WhcHighInit>"
            "<WhcAdaptive>false</WhcAdaptive></Watermarks>"
            f"<Test><XmitLossiness>{round(self.loss * 1000)}</XmitLossiness></Test></Internal>"
            "</Domain></CycloneDDS>"
        )


LOOPBACK = Network()


def _interface(wanted: str) -> str:
    """The attribute that selects an interface; the library would say on stderr only what is wrong with it."""
    try:
        address = str(IPv4Address(wanted))
    except AddressValueError:
        known = [name for _, name in socket.if_nameindex()]
        if wanted not in known:
            raise DdsError(f'there is no network interface "{wanted}"; choose from: {", ".join(known)}') from None
        return f"name={quoteattr(wanted)}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as problem:
            raise DdsError(f"no network interface has the address {address} ({problem.strerror})") from None
    return f"address={quoteattr(address)}"


def _address(peer: str) -> str:
    """The numeric address of a peer: an unknown name makes the library end the process."""
    try:
        found = socket.getaddrinfo(peer, None, socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as problem:
        raise DdsError(f'the peer "{peer}" cannot be found ({problem}); give its IPv4 address') from None
    return str(found[0][4][0])
