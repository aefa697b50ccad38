"""The time that a message has left is never more than it was sent with."""

from __future__ import annotations

from firelane.exchange.lanes.message import Message
from firelane.mqtt.fields import four_bytes


def test_a_message_passed_on_at_once_has_the_time_it_came_with():
    """At every tenth of these times, or so, (now + 1000) - now is a rounding error more than 1000."""
    for step in range(1000):
        now = 1296.0 + 0.1234567 * step
        message = Message(b"a", b"", 0, False, None, 1)
        message.take_properties({"message_expiry_interval": 1000}, now)
        assert message.own_properties((), 0, now) == b"\x02" + four_bytes(1000)
        assert message.own_properties((), 0, now + 500.5) == b"\x02" + four_bytes(500)
