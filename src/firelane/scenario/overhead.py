"""What MQTT and the layers below add to payloads on the wire (`overhead: auto`), of one message and of many topics."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from firelane.arrays import Floats

# Ethernet 14, IP 20, TCP with time stamps 32; then packet type, topic length and an empty MQTT 5 property list.
TCP_IP_ETHERNET_BYTES = 66
MQTT_FIXED_BYTES = 1 + 2 + 1
SEGMENT_BYTES = 1448  # of data, with time stamps
LONGER = (128, 16_384, 2_097_152)  # packets from which on the length field has a byte more


def auto_overhead_bytes(payload_bytes: float, name_bytes: int) -> float:
    """What is added to a payload under a topic of so many bytes: headers for every segment."""
    remaining = name_bytes + 3 + payload_bytes
    length_field = 1 if remaining < 128 else 2 if remaining < 16_384 else 3 if remaining < 2_097_152 else 4
    segments = -((1 + length_field + remaining) // -SEGMENT_BYTES)
    return name_bytes + MQTT_FIXED_BYTES + length_field + TCP_IP_ETHERNET_BYTES * segments


def overheads_bytes(payload_bytes: Floats, name_bytes: Floats) -> Floats:
    """The same of many."""
    remaining = name_bytes + 3 + payload_bytes
    length_field = 1 + sum((remaining >= least for least in LONGER), np.zeros(len(remaining)))
    segments = -((1 + length_field + remaining) // -SEGMENT_BYTES)
    return name_bytes + MQTT_FIXED_BYTES + length_field + TCP_IP_ETHERNET_BYTES * segments


def mean_overheads_bytes(mean_bytes: Floats, name_bytes: Floats) -> Floats:
    """The mean for exponential sizes, which is not that of the mean size.

    A longer length field and a further segment each come with a chance of their own: the packet exceeds k segments with
    chance exp(-(1448 k - head) / mean), a geometric series in k.
    """

    def chance_of_more(payload_bytes: Floats) -> Floats:
        return np.exp(-np.maximum(payload_bytes, 0.0) / np.maximum(mean_bytes, 1e-9))

    length_field = 1 + sum((chance_of_more(least - name_bytes - 3) for least in LONGER), np.zeros(len(name_bytes)))
    head = 1 + length_field + name_bytes + 3
    first, rest = head // SEGMENT_BYTES, SEGMENT_BYTES - head % SEGMENT_BYTES
    segments = 1 + first + chance_of_more(rest) / (1 - chance_of_more(np.full(len(head), SEGMENT_BYTES)))
    return name_bytes + MQTT_FIXED_BYTES + length_field + TCP_IP_ETHERNET_BYTES * segments


def name_bytes(names: Iterable[str]) -> Floats:
    """How long topics' names are."""
    return np.array([len(name.encode()) for name in names], np.float64)
