"""Which messages of QoS 2 have come from other sites: written down in the same breath as the messages themselves.

For every topic and origin a retained message of its own holds the last number and its boot, so that nothing is
delivered again after a crash. Of very many, those that have not changed for longest are forgotten.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from hashlib import blake2b

from firelane.exchange.journal.retained import OVERLAY_HAD, RetainedMessages
from firelane.mqtt.packets import Publish
from firelane.overlay.messages.receiving import Chain
from firelane.overlay.messages.stamp import Stamp

MOST_MARKS = 100_000


class Had:
    """The marks of one edge, those that have not changed for longest first."""

    def __init__(self, most: int = MOST_MARKS) -> None:
        self._most = most
        self._names: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._names)

    def read(self, retained: RetainedMessages) -> dict[Chain, tuple[int, int]]:
        """The last numbers that are known from before and their boots, by origin and topic."""
        found: dict[Chain, tuple[int, int]] = {}
        for kept in retained.matching(f"{OVERLAY_HAD}#"):
            origin, topic, number, *boot = json.loads(kept.message.payload)
            found[origin, topic] = number, boot[0] if boot else 0
        self._names = OrderedDict.fromkeys(_name(*chain) for chain in sorted(found, key=lambda chain: found[chain]))
        return found

    def marks(self, topic: str, stamp: Stamp) -> list[Publish]:
        """What is to be published with a message, so that it is known to have come."""
        name = _name(stamp.origin, topic)
        self._names[name] = None
        self._names.move_to_end(name)
        packets = [_mark(name, json.dumps([stamp.origin, topic, stamp.number, stamp.boot]).encode())]
        while len(self._names) > self._most:
            oldest, _ = self._names.popitem(last=False)
            packets.append(_mark(oldest, b""))
        return packets


def _name(origin: str, topic: str) -> str:
    """Topics may be as long as a topic can be, so a mark's has another name."""
    return blake2b(f"{origin}\0{topic}".encode(), digest_size=16).hexdigest()


def _mark(name: str, payload: bytes) -> Publish:
    return Publish(topic=f"{OVERLAY_HAD}{name}", payload=payload, qos=0, retain=True)
