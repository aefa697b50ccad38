"""What others who watch the exchange say on `$firelane/alerts`: each alert once, in words."""

from __future__ import annotations

import json
from collections import deque

from firelane.errors import printable

MOST_BYTES = 10_000
MOST_REMEMBERED = 1000
LONGEST_WORDS = 200


class Alerts:
    """Knows the identifiers of the last alerts, as they may come more than once."""

    def __init__(self) -> None:
        self._known: deque[str] = deque(maxlen=MOST_REMEMBERED)

    def new(self, payload: bytes) -> str | None:
        """What an alert is about; None if it is known already, or no alert at all."""
        try:
            alert = json.loads(payload) if len(payload) <= MOST_BYTES else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(alert, dict) or not isinstance(alert.get("subject"), str):
            return None
        identity = str(alert.get("id", payload))
        if identity in self._known:
            return None
        self._known.append(identity)
        words = f"{alert.get('kind', 'alert')} of {alert['subject']}"
        if "measured" in alert and "bound" in alert:
            words += f": {alert['measured']} measured, bound {alert['bound']}"
        return printable(words[:LONGEST_WORDS])
