"""Streams as partitions of DDS, so that a stream's updates only travel to those who asked for it.

A writer's partition is its stream's name; a reader's may have * for any characters, which is wider than MQTT's + and #
by a little. What has a meaning of its own in partitions is written as in web addresses: a * as %2A.
"""

from __future__ import annotations

from urllib.parse import quote

from firelane.dds.network import DdsError
from firelane.mqtt.topics import filter_problem, topic_problem

LONGEST_NAME = 1000
UNCHANGED = "/$ @:+,;=&"


def partition_of(stream: str) -> str:
    """The partition of a stream's writer; DdsError for a name that will not do."""
    problem = topic_problem(stream)
    if problem:
        raise DdsError(f'"{stream}" is not the name of a stream: {problem}')
    return _short(quote(stream, safe=UNCHANGED))


def partitions_for(pattern: str) -> tuple[str, ...]:
    """The partitions of a reader that wants the streams that an MQTT filter matches, and perhaps gets some more."""
    problem = filter_problem(pattern)
    if problem:
        raise DdsError(f'"{pattern}" is not a filter of streams: {problem}')
    levels = ["*" if level in ("+", "#") else quote(level, safe=UNCHANGED) for level in pattern.split("/")]
    if pattern.endswith("/#"):  # which matches the level above as well
        return _short("/".join(levels[:-1])), _short("/".join(levels))
    return (_short("/".join(levels)),)


def _short(partition: str) -> str:
    if len(partition) > LONGEST_NAME:
        raise DdsError(f'"{partition[:40]}..." is too long for DDS; names may have at most {LONGEST_NAME} characters')
    return partition
