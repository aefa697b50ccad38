"""What is exchanged, by whom, over what, and what it is worth."""

from firelane.scenario.load import from_data, from_text, load, shipped_scenarios
from firelane.scenario.model import Broker, Category, Link, Need, Publisher, Scenario, Subscriber, Topic, wire_bytes

__all__ = [
    "Broker",
    "Category",
    "Link",
    "Need",
    "Publisher",
    "Scenario",
    "Subscriber",
    "Topic",
    "from_data",
    "from_text",
    "load",
    "shipped_scenarios",
    "wire_bytes",
]
