"""What a message between sites carries beside itself: where it came in, its number there, and under which assignment.

It travels as one user property of PUBLISH, so any MQTT 5 broker passes it on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firelane.overlay.messages.strange import StrangeError
from firelane.overlay.registry.documents import LARGEST
from firelane.overlay.registry.names import is_broker_name

NAME = "firelane-overlay"
FORMAT = "1"
NO_STAMP = "no stamp of another site"


class StampError(StrangeError):
    """A message between sites that does not say where it is from."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Numbers of an edge grow while its log lasts, which is a boot; `after` is the one before on the same topic, and
    `first` that of a retained message when it was published, if it is told again."""

    origin: str
    boot: int
    number: int
    after: int  # of QoS 1 and 2; 0 if the origin knows of none
    epoch: int
    qos: int
    retain: bool = False
    first: int = 0

    def text(self) -> str:
        """As it travels."""
        flags = self.qos | self.retain << 2
        text = f"{FORMAT} {self.boot:x} {self.number:x} {self.after:x} {self.epoch:x} {flags:x} {self.origin}"
        return f"{text} {self.first:x}" if self.first else text


def stamped(properties: dict[str, Any], stamp: Stamp) -> dict[str, Any]:
    """The properties of a message with its stamp."""
    others = [one for one in properties.get("user_property", ()) if one[0] != NAME]  # a client may write anything
    return {**properties, "user_property": [*others, (NAME, stamp.text())]}


def taken_off(properties: dict[str, Any]) -> tuple[Stamp, dict[str, Any]]:
    """The stamp of a message and its other properties; StampError if there is none, or no good one."""
    others = properties.get("user_property", ())
    found = [text for name, text in others if name == NAME]
    if len(found) != 1:
        raise StampError("not one stamp", f"a message with {len(found)} stamps of other sites instead of one")
    rest = [one for one in others if one[0] != NAME]
    left = {**properties, "user_property": rest}
    if not rest:
        del left["user_property"]
    return _read(found[0]), left


def _read(text: str) -> Stamp:
    try:
        form, *numbers, origin = text.split(" ", 6)
        boot, number, after, epoch, flags = (int(one, 16) for one in numbers)
        origin, _, first = origin.partition(" ")  # names of brokers have no spaces
        told = int(first or "0", 16)
    except ValueError:
        raise StampError(NO_STAMP, f"'{text[:60]}' is {NO_STAMP}") from None
    counts = boot, number, after, epoch, told
    sound = is_broker_name(origin) and min(counts) >= 0 and max(counts) <= LARGEST
    if form != FORMAT or not sound or not 0 <= flags <= 6 or flags & 3 == 3 or after >= max(number, 1):
        raise StampError(NO_STAMP, f"'{text[:60]}' is {NO_STAMP}")
    return Stamp(origin, boot, number, after, epoch, flags & 3, bool(flags >> 2), told)
