"""$SYS: the exchange about itself, on the topics that mosquitto uses, so that its dashboards work here too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from firelane.exchange.journal.retained import Kept
from firelane.exchange.lanes.message import Message
from firelane.exchange.protocol.publishing import publish

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

ROOT = "$SYS/broker/"
_LOADS = {
    "messages/received": "packets_received",
    "messages/sent": "packets_sent",
    "publish/received": "publish_received",
    "publish/sent": "delivered",
    "publish/dropped": "dropped",
    "bytes/received": "bytes_received",
    "bytes/sent": "bytes_sent",
    "sockets": "connections_opened",
    "connections": "connections_accepted",
}
_SPANS = {"1min": 60.0, "5min": 300.0, "15min": 900.0}


class SystemTopics:
    """Publishes counts, and loads as moving averages per minute; what has not changed is not sent again."""

    def __init__(self, broker: Broker, version: str, now: float, memory: Callable[[], int]) -> None:
        self._broker = broker
        self._memory = memory
        self._most_memory = 0
        self._version = version
        self._started_at = self._last_at = now
        self._before: dict[str, float] = {}
        self._loads: dict[str, float] = {}
        self._sent: dict[str, str] = {}

    def publish(self, now: float) -> None:
        """Tell all who asked what has changed."""
        totals = self._totals()
        self._update_loads(totals, now - self._last_at)
        self._last_at, self._before = now, totals
        for name, value in {**self._values(totals, now), **self._load_values()}.items():
            if self._sent.get(name) != value:
                self._sent[name] = value
                self._publish(name, value, now)

    def _publish(self, name: str, value: str, now: float) -> None:
        broker = self._broker
        message: Message = broker.new_message((ROOT + name).encode(), value.encode(), 0, False, None)
        broker.retained.keep(Kept(message))  # not in the log: it would be wrong after a restart
        publish(broker, message, now)

    def _totals(self) -> dict[str, float]:
        counts = self._broker.counts
        deliveries = self._broker.deliveries()
        return {
            "packets_received": counts.packets_received,
            "packets_sent": counts.packets_sent,
            "publish_received": counts.publish_received,
            "delivered": deliveries.delivered,
            "dropped": sum(deliveries.dropped),
            "bytes_received": counts.bytes_received,
            "bytes_sent": counts.bytes_sent,
            "connections_opened": counts.connections_opened,
            "connections_accepted": counts.connections_accepted,
        }

    def _values(self, totals: dict[str, float], now: float) -> dict[str, str]:
        broker = self._broker
        counts, sessions = broker.counts, len(broker.sessions)
        memory = self._memory()
        self._most_memory = max(self._most_memory, memory)
        whole = {
            "clients/total": sessions,
            "clients/connected": counts.connected,
            "clients/disconnected": sessions - counts.connected,
            "clients/inactive": sessions - counts.connected,
            "clients/active": counts.connected,
            "clients/maximum": counts.most_connected,
            "clients/expired": counts.sessions_expired,
            "subscriptions/count": broker.routes.count,
            "shared_subscriptions/count": broker.routes.shared_count,
            "retained messages/count": len(broker.retained),
            "store/messages/count": len(broker.retained) + sum(one.owed for one in broker.sessions.values()),
            "store/messages/bytes": broker.retained.bytes,
            "messages/stored": len(broker.retained) + sum(one.owed for one in broker.sessions.values()),
            "messages/received": totals["packets_received"],
            "messages/sent": totals["packets_sent"],
            "publish/messages/received": totals["publish_received"],
            "publish/messages/sent": totals["delivered"],
            "publish/messages/dropped": totals["dropped"],
            "publish/bytes/received": counts.publish_bytes_received,
            "publish/bytes/sent": counts.bytes_sent,
            "bytes/received": totals["bytes_received"],
            "bytes/sent": totals["bytes_sent"],
            "heap/current": memory,
            "heap/maximum": self._most_memory,
        }
        values = {name: f"{value:.0f}" for name, value in whole.items()}
        values["version"] = f"firelane version {self._version}"
        values["uptime"] = f"{now - self._started_at:.0f} seconds"
        return values

    def _update_loads(self, totals: dict[str, float], elapsed_s: float) -> None:
        if elapsed_s <= 0:
            return
        for name, total in _LOADS.items():
            per_minute = (totals[total] - self._before.get(total, 0.0)) * 60 / elapsed_s
            for span, seconds in _SPANS.items():
                weight = math.exp(-elapsed_s / seconds)
                key = f"load/{name}/{span}"
                self._loads[key] = per_minute + weight * (self._loads.get(key, 0.0) - per_minute)

    def _load_values(self) -> dict[str, str]:
        return {name: f"{value:.2f}" for name, value in self._loads.items()}
