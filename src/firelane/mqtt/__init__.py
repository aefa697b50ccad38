"""MQTT without input or output: topic names and filters (wire formats join them later)."""

from firelane.mqtt.topics import filter_problem, topic_problem
from firelane.mqtt.tree import TopicTree

__all__ = ["TopicTree", "filter_problem", "topic_problem"]
