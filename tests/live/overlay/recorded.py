"""`firelane edge` as it is, that also writes down what it accepts: a line for each message from another site and for
each assignment it is told, with the epoch. The first argument is the file, the second a planted mistake, or nothing."""

from __future__ import annotations

import json
import sys

from firelane.overlay import edge
from firelane.overlay.messages.actions import Tell
from firelane.overlay.messages.receiving import Receiving

FILE, PLANTED = sys.argv.pop(1), sys.argv.pop(1)


class Recorded(Receiving):
    def __init__(self, *given):
        super().__init__(*given)
        self._lines = open(FILE, "a", buffering=1)  # noqa: SIM115

    def topic_node_listener(self, topic, assignment):
        super().topic_node_listener(topic, assignment)
        if assignment is not None:
            self._write(topic, assignment.epoch, "told")

    def arrived(self, topic, payload, properties, stamp, router, now):
        actions = super().arrived(topic, payload, properties, stamp, router, now)
        refused = any(isinstance(one, Tell) and one.note.outdated for one in actions)
        self._write(topic, stamp.epoch, "refused" if refused else "accepted")
        return actions

    def _write(self, *what):
        self._lines.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    from planted import MISTAKES

    from firelane.cli import main

    if PLANTED:
        MISTAKES[PLANTED]()
    edge.Receiving = Recorded
    main()
