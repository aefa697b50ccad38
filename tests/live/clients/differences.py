"""Where the two brokers, or a broker and the specification's first choice, legitimately differ, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from live.clients.client import MQTT_5, MQTT_311


class As(Enum):
    EXPECTED = "the broker does what the script expects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a broker shows instead of what the script expects."""

    why: str
    mosquitto: Any = As.EXPECTED
    firelane: Any = As.EXPECTED

    def of(self, broker: str, expected: Any) -> Any:
        own = {"mosquitto": self.mosquitto, "firelane": self.firelane}[broker]
        return expected if own is As.EXPECTED else own


# (script, what is observed, version) -> the difference
DIFFERENCES: dict[tuple[str, str, int], Difference] = {
    **{
        ("passwords_are_asked_for", who, version): Difference(
            mosquitto=code, why="mosquitto says not authorised; the specification has a code for a bad password"
        )
        for who in ("wrong password", "other's password", "unknown user")
        for version, code in ((MQTT_311, 5), (MQTT_5, 0x87))
    },
    **{
        ("a_forbidden_subscription_brings_nothing", "closed", version): Difference(
            mosquitto=[1], why="mosquitto's access file grants any subscription and holds the messages back"
        )
        for version in (MQTT_311, MQTT_5)
    },
    **{
        ("a_group_is_not_greeted_with_retained", "greetings", version): Difference(
            mosquitto=1, why="mosquitto 2.0.11 sends retained messages to shared subscriptions too"
        )
        for version in (MQTT_311, MQTT_5)
    },
    ("the_second_with_an_id_takes_over", "first is told", MQTT_5): Difference(
        mosquitto=None, why="mosquitto 2.0.11 closes the first connection without a DISCONNECT (MQTT-3.1.4-3)"
    ),
    ("receive_maximum_holds_the_broker_back", "more after one acknowledgement", MQTT_5): Difference(
        mosquitto=3, why="mosquitto 2.0.11 refills the whole window at every acknowledgement (MQTT-3.3.4-9)"
    ),
    ("qos_0_may_pass_a_full_window", "passes", MQTT_5): Difference(
        firelane=False, why="Firelane holds back everything for a client whose window is full, which is allowed"
    ),
    ("the_broker_can_shorten_the_keep_alive", "asked 30", MQTT_5): Difference(
        firelane=600, why="Firelane's `keep_alive` is for every client; mosquitto's `max_keepalive` only an upper bound"
    ),
    ("a_will_does_not_outwait_its_session", "wills", MQTT_5): Difference(
        mosquitto=0, why="mosquitto 2.0.11 waits for the delay although the session has ended (section 3.1.3.2.2)"
    ),
    **{
        (script, name, MQTT_5): Difference(
            mosquitto=copies, why="mosquitto sends one copy per subscription to MQTT 5 clients, which is allowed"
        )
        for script, name, copies in (
            ("overlapping_filters_of_one_packet", "copies", 2),
            ("overlapping_filters_deliver_at_the_highest_qos", "copies", 3),
            ("a_message_carries_the_identifiers_of_what_it_matched", "copies", [3, 3, 3, 1, 1, 1, 1, 1, 1]),
        )
    },
}


def expected_of(broker: str, script: str, version: int, expected: dict[str, Any]) -> dict[str, Any]:
    """What the script expects, with what is known to be different at this broker."""
    return {
        name: DIFFERENCES[script, name, version].of(broker, value) if (script, name, version) in DIFFERENCES else value
        for name, value in expected.items()
    }
