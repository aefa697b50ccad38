"""Subscribing to much: few packets, each of which the exchange or router looks at once."""

from firelane.mqtt.packets import Subscribe, Subscription, Unsubscribe
from firelane.overlay.asking import FILTER_BYTES_A_PACKET, FILTERS_A_PACKET, asking


def some(count, name="t/{}"):
    return [Subscription(filter=name.format(number), qos=1) for number in range(count)]


def test_filters_of_one_need_share_packets():
    urgent = {"weight": "9"}
    new = [(one, urgent if number % 2 else None) for number, one in enumerate(some(2 * FILTERS_A_PACKET))]
    packets = asking(new, [f"u/{number}" for number in range(FILTERS_A_PACKET + 1)])
    assert [type(one) for one in packets] == [Subscribe, Subscribe, Unsubscribe, Unsubscribe]
    assert [one.properties for one in packets[:2]] == [{}, {"user_property": [("weight", "9")]}]
    assert [one for packet in packets[:2] for one in packet.subscriptions] == [
        one for wanted in (None, urgent) for one, need in new if need is wanted
    ]


def test_packets_are_small_also_where_filters_are_long():
    packets = asking([(one, None) for one in some(10, "t" * (FILTER_BYTES_A_PACKET // 3) + "/{}")], [])
    assert [len(one.subscriptions) for one in packets] == [2] * 5


def test_nothing_is_said_where_nothing_is_new_or_gone():
    assert asking([], []) == []
