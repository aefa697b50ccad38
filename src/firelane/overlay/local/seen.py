"""How far each other site's retained messages were known to an edge before it was started.

They are told once more after a start. Of a topic that is retained at several sites, one that was known before is older
than what was kept then, though no clock says so.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from math import inf

from firelane.exchange.journal.retained import OVERLAY_SEEN, RetainedMessages
from firelane.mqtt.packets import Publish
from firelane.overlay.messages.stamp import Stamp

WRITTEN_EVERY_S = 1.0
MOST_SITES = 2000  # those that have said nothing for longest are forgotten


class Seen:
    """Of one edge: the highest number of a retained message, and its boot, by the site where it was published."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}
        self._now: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._written_at = 0.0
        self._news = False

    def read(self, retained: RetainedMessages) -> None:
        """What is known from before."""
        kept = retained.get(OVERLAY_SEEN.encode())
        if kept is not None:
            self._before = {origin: (boot, number) for origin, (boot, number) in json.loads(kept.payload).items()}
        self._now = OrderedDict(self._before)

    def came(self, stamp: Stamp, *, replaces: bool = False) -> None:
        """A retained message has come, perhaps in the place of one from another site: then it matters."""
        if replaces:
            self._written_at = -inf
        number = stamp.first or stamp.number
        known = self._now.pop(stamp.origin, None)
        if known is not None and known[0] == stamp.boot and known[1] >= number:
            self._now[stamp.origin] = known
            return
        self._now[stamp.origin] = stamp.boot, number
        self._news = True
        if len(self._now) > MOST_SITES:
            self._now.popitem(last=False)

    def before(self, stamp: Stamp) -> bool:
        """Whether a message was known before this edge was started."""
        boot, number = self._before.get(stamp.origin, (0, 0))
        return boot == stamp.boot and (stamp.first or stamp.number) <= number

    def marks(self, now: float = inf) -> list[Publish]:
        """What is to be written down now; mostly nothing. Without a time, as this is the end."""
        if not self._news or now < self._written_at + WRITTEN_EVERY_S:
            return []
        self._news, self._written_at = False, now
        return [Publish(topic=OVERLAY_SEEN, payload=json.dumps(self._now).encode(), qos=0, retain=True)]
