"""Mistakes that an edge could have, made on purpose; whoever reads histories of clients and edges must find them."""

from __future__ import annotations

from random import Random

from firelane.overlay.messages.keeping import Keeping
from firelane.overlay.messages.receiving import Receiving
from firelane.overlay.messages.sending import Sending


def keeps_nothing():
    """What is sent is as good as there."""
    keep = Keeping.keep
    Keeping.keep = lambda self, kept, edges: keep(self, kept, ())


def remembers_nothing():
    """Whatever comes is new, and as nobody is told that it came, it comes again."""
    arrived = Receiving.arrived

    def as_new(self, topic, payload, properties, stamp, router, now):
        self._chain((stamp.origin, topic), stamp.boot).last = stamp.number - 1
        return arrived(self, topic, payload, properties, stamp, router, now)

    Receiving.arrived = as_new
    Receiving.committed = lambda self, stamp: None


def heeds_no_epoch():
    """Half of all messages go out as if their topics had never been assigned, and are taken."""
    arrived, route, chance = Receiving.arrived, Sending.route, Random("heeds no epoch")

    def taken(self, topic, payload, properties, stamp, router, now):
        self._epochs.pop(topic, None)
        return arrived(self, topic, payload, properties, stamp, router, now)

    def some_as_before(self, topic):
        found = route(self, topic)
        return found._replace(epoch=0) if chance.random() < 0.5 else found

    Receiving.arrived, Sending.route = taken, some_as_before


MISTAKES = {one.__name__: one for one in (keeps_nothing, remembers_nothing, heeds_no_epoch)}
