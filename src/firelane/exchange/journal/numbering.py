"""Under which boot an exchange numbers the messages that other sites know by their numbers, and how far it may be.

Numbers grow for as long as the log lasts, whatever the clock says: the log itself holds a mark ahead of them. Where it
is lost, or only in memory, nothing of it can be sent again, and numbers begin anew under another boot.
"""

from __future__ import annotations

import json

from firelane.exchange.journal.retained import OVERLAY_NUMBERS, RetainedMessages
from firelane.mqtt.packets import Publish

STEP = 1_000_000  # numbers that are reserved at once: some ten seconds at the most that an exchange can take


class Numbering:
    """Of one exchange. `boot` is one for the life of its log."""

    def __init__(self, retained: RetainedMessages, new_boot: int) -> None:
        known_boot, self._reserved = _read(retained)
        self.boot = known_boot or new_boot
        self._begun = False

    def marks(self, last: int) -> list[Publish]:
        """What is to be published at the start and now and then, so that no number is given twice; mostly nothing."""
        if self._begun and last + STEP // 2 < self._reserved:
            return []
        self._begun, self._reserved = True, last + STEP
        payload = json.dumps([self.boot, self._reserved]).encode()
        return [Publish(topic=OVERLAY_NUMBERS, payload=payload, qos=0, retain=True)]


def reserved(retained: RetainedMessages) -> int:
    """The highest number that may have been given to a message before; 0 if nothing is known."""
    return _read(retained)[1]


def _read(retained: RetainedMessages) -> tuple[int, int]:
    kept = retained.get(OVERLAY_NUMBERS.encode())
    if kept is None:
        return 0, 0
    boot, number = json.loads(kept.payload)
    return boot, number
