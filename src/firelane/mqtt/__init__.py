"""MQTT without input or output: packets and their wire format, topic names and filters."""

from firelane.mqtt.topics import filter_problem, topic_problem
from firelane.mqtt.tree import TopicTree

__all__ = ["TopicTree", "filter_problem", "topic_problem"]
