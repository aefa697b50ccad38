"""The last message of every topic that was published to be kept (MQTT 5, section 3.3.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from firelane.exchange.clients.session import Session, Subscription
from firelane.exchange.lanes.message import Message, user_property
from firelane.mqtt import TopicTree
from firelane.mqtt.fields import Reader, variable
from firelane.mqtt.packets import Kind
from firelane.mqtt.properties import read_properties
from firelane.sense.offer import GRANT

OVERLAY_HAD = "$overlay/had/"  # what has come from other sites, see firelane.overlay.local.had
OVERLAY_NUMBERS = "$overlay/numbers"  # see firelane.exchange.journal.numbering
OVERLAY_SEEN = "$overlay/seen"  # see firelane.overlay.local.seen
ORIGIN = "firelane-origin"  # the user property of a retained message from another site: which one, and its number there
# What an edge writes down for itself: little, and without it messages come twice.
MARKS = (OVERLAY_HAD.encode(), OVERLAY_NUMBERS.encode(), OVERLAY_SEEN.encode())
OWN = (b"$SYS/", GRANT.encode(), *MARKS)  # topics on which only the exchange itself speaks
_SAID = user_property(ORIGIN, "")[:-2]  # up to its value


def without_origin(properties: dict[str, Any]) -> dict[str, Any]:
    """What a client publishes is of this site, though it may have copied its properties from what it got."""
    said = properties.get("user_property", ())
    if not any(name == ORIGIN for name, _ in said):
        return properties
    return {**properties, "user_property": [one for one in said if one[0] != ORIGIN]}


def origin_of(message: Message) -> str | None:
    """What a retained message says of the site that it came from; None if it was published here."""
    encoded = message.properties
    if _SAID not in encoded:  # nearly all; a client may write these bytes too, as correlation data
        return None
    read = read_properties(Reader(variable(len(encoded)) + encoded), Kind.PUBLISH, most_repeated=len(encoded))
    return dict(read.get("user_property", ())).get(ORIGIN)


@dataclass(slots=True)
class Kept:
    """A retained message and where the log has it (0: nowhere)."""

    message: Message
    location: int = 0
    size_bytes: int = 0


class RetainedMessages:
    """Messages by topic, found by filter."""

    def __init__(self, may_receive: Callable[[Session, str], bool]) -> None:
        self._may_receive = may_receive
        self._kept: dict[bytes, Kept] = {}
        self._tree: TopicTree[bytes] = TopicTree()
        self.bytes = 0
        self.own = 0  # of the exchange about itself, which no limit concerns

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._kept.values())

    def keep(self, kept: Kept) -> Kept | None:
        """Put a message in the place of its topic's last, which is returned."""
        topic = kept.message.topic
        before = self._kept.get(topic)
        self._kept[topic] = kept
        self.bytes += kept.message.size_bytes
        if before is None:
            self.own += topic.startswith(OWN)
            self._tree.add(topic.decode(), topic)
        else:
            self.bytes -= before.message.size_bytes
        return before

    def clear(self, topic: bytes) -> Kept | None:
        """Forget a topic's message."""
        kept = self._kept.pop(topic, None)
        if kept is not None:
            self._tree.remove(topic.decode())
            self.own -= topic.startswith(OWN)
            self.bytes -= kept.message.size_bytes
        return kept

    def find(self, topic: bytes) -> Kept | None:
        """A topic's message with its place in the log."""
        return self._kept.get(topic)

    def get(self, topic: bytes) -> Message | None:
        """A topic's message."""
        kept = self._kept.get(topic)
        return None if kept is None else kept.message

    def matching(self, topic_filter: str) -> Iterator[Kept]:
        """The messages whose topics a filter matches, one by one; those that come meanwhile may be missed."""
        return (self._kept[topic] for topic in self._tree.steps(topic_filter) if topic is not None)

    def steps(self, topic_filter: str) -> Iterator[bytes | None]:
        """The topics that a filter matches, and None for every step that finds nothing."""
        return self._tree.steps(topic_filter)

    def topics(self, wanted: Subscription) -> Iterator[bytes | None]:
        """The topics that a subscription matches, and None for every step that finds nothing."""
        for topic in self._tree.steps(wanted.topics):
            hidden = topic is not None and wanted.partly and not self._may_receive(wanted.session, topic.decode())
            yield None if hidden else topic
