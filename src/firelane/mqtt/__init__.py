"""MQTT without input or output: topic names and filters, packets and their bytes."""

from firelane.mqtt.topics import filter_problem, plain_topics, topic_problem
from firelane.mqtt.tree import FilterTree, TopicTree, numbered

__all__ = ["FilterTree", "TopicTree", "filter_problem", "numbered", "plain_topics", "topic_problem"]
