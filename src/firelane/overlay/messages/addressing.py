"""A message as it is sent to one edge only: to a topic of that edge, with its own among its properties."""

from __future__ import annotations

from typing import Any

from firelane.exchange.protocol.subscribing import MOST_LEVELS
from firelane.mqtt.topics import topic_problem
from firelane.overlay.messages.actions import Copy
from firelane.overlay.messages.notes import TO
from firelane.overlay.messages.stamp import Stamp, StampError, stamped

TOPIC = "firelane-topic"  # the user property with the topic of what is sent to one edge


def addressed(edge: str, copy: Copy, stamp: Stamp) -> tuple[str, dict[str, Any]]:
    """The topic to publish a message to, and its properties."""
    properties = stamped(copy.properties, stamp)
    properties["user_property"].append((TOPIC, copy.topic))
    return f"{TO}{edge}", properties


def named(properties: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The topic of a message that was sent to one edge, which is among its properties, and the others.

    Nobody has looked at it on the way: it may be none that a message can have, or one of an exchange's own.
    """
    others = properties.get("user_property", ())
    found = [text for name, text in others if name == TOPIC]
    if not found:
        raise StampError("a message for this edge that does not say of which topic it is")
    topic = found[-1]
    if not topic or topic.startswith("$") or topic.count("/") >= MOST_LEVELS or topic_problem(topic):
        raise StampError("a message for this edge whose topic is none that sites send each other")
    rest = [one for one in others if one[0] != TOPIC]
    left = {name: value for name, value in properties.items() if name != "user_property"}
    return topic, left | ({"user_property": rest} if rest else {})
