"""The totals of the exchange in Prometheus' text format. No labels by client or topic: their number has no bound."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from firelane import __version__
from firelane.control import Control
from firelane.exchange.broker import Broker
from firelane.exchange.clients.connection import MQTT_SN, Phase
from firelane.exchange.lanes.link import Link
from firelane.exchange.log import Log
from firelane.exchange.measuring.counts import Counts
from firelane.exchange.run import Exchange
from firelane.exchange.sensors.streams import REFUSED
from firelane.web.exchange import by_reason

PREFIX = "firelane_"
_STATM = Path("/proc/self/statm")
_OPEN_FILES = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric: a counter if its name ends in `_total`, else a gauge; a value for each value of its label, if any."""

    name: str
    help: str
    values: Mapping[str, float]
    label: str = ""


def text(several: Iterable[Family]) -> str:
    """As Prometheus reads it."""
    return "".join(line + "\n" for family in several for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    name = PREFIX + family.name
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
    for key, value in family.values.items():
        yield f'{name}{{{family.label}="{key}"}} {value}' if family.label else f"{name} {value}"


def families(exchange: Exchange, control: Control) -> Iterator[Family]:
    """Everything that is measured. Only connections and sessions are walked over: milliseconds for ten thousand."""
    yield _by("build_info", "Always 1; the label says which version runs.", "version", {__version__: 1})
    yield from _clients(exchange.broker)
    yield from _messages(exchange.broker)
    yield from _deliveries(exchange.broker)
    yield from _streams(exchange.broker)
    yield from _lanes(exchange.broker)
    yield from _control(control)
    yield from _log(exchange.log)
    yield from _process()


def _one(name: str, about: str, value: float) -> Family:
    return Family(name=name, help=about, values={"": value})


def _by(name: str, about: str, label: str, values: Mapping[str, float]) -> Family:
    return Family(name=name, help=about, values=values, label=label)


def _clients(broker: Broker) -> Iterator[Family]:
    counts = broker.counts
    spoken = [one.protocol for one in broker.connections if one.phase is Phase.OPEN]
    protocols = {one: spoken.count(one) for one in ("3.1.1", "5", MQTT_SN)}
    yield _by("connected_clients", "Clients that are connected, by version of MQTT.", "protocol", protocols)
    yield _one("connections", "Open MQTT connections, of clients let in or not.", len(broker.connections))
    yield _one("connections_opened_total", "MQTT connections that were opened.", counts.connections_opened)
    yield _one("connections_accepted_total", "Clients that were let in.", counts.connections_accepted)
    yield _one("connections_refused_total", "Clients that were not let in.", counts.connections_refused)
    yield _one("protocol_errors_total", "Connections closed because the client broke MQTT.", counts.protocol_errors)
    yield _one("sessions", "Sessions, of clients that are connected or away.", len(broker.sessions))
    yield _one(
        "sessions_expired_total", "Sessions that ended because their client stayed away.", counts.sessions_expired
    )
    yield _one("subscriptions", "Subscriptions of all sessions.", broker.routes.count)
    yield _one("shared_subscriptions", "Subscriptions that are members of a shared group.", broker.routes.shared_count)


def _messages(broker: Broker) -> Iterator[Family]:
    counts, retained = broker.counts, broker.retained
    both_bytes = {"in": counts.bytes_received, "out": counts.bytes_sent}
    both_packets = {"in": counts.packets_received, "out": counts.packets_sent}
    yield _one("retained_messages", "Retained messages.", len(retained))
    yield _one("retained_bytes", "What they take in memory, about.", retained.bytes)
    yield _one("retained_refused_total", "Messages not retained, for want of room.", counts.retained_refused)
    yield _one("publications_received_total", "Messages that clients published.", counts.publish_received)
    yield _one("publications_received_bytes_total", "Bytes of their payloads.", counts.publish_bytes_received)
    yield _one("publications_refused_total", "Messages refused: no right, or no room.", counts.publish_refused)
    yield _by("mqtt_bytes_total", "Bytes of MQTT, by direction.", "direction", both_bytes)
    yield _by("mqtt_packets_total", "MQTT packets, by direction.", "direction", both_packets)
    yield from _datagrams(counts)


def _datagrams(counts: Counts) -> Iterator[Family]:
    """Of the listener for MQTT-SN."""
    both = {"in": counts.datagrams_received, "out": counts.datagrams_sent}
    unused = {"malformed": counts.datagrams_malformed, "ignored": counts.datagrams_ignored}
    yield _by("datagrams_total", "Datagrams of MQTT-SN, by direction.", "direction", both)
    yield _by("datagrams_unused_total", "Of those that came: no MQTT-SN, or of no use.", "reason", unused)
    yield _one("datagrams_again_total", "Of those sent: again, for want of an answer.", counts.datagrams_again)


def _streams(broker: Broker) -> Iterator[Family]:
    streams = broker.streams
    sensors = sum(map(len, streams.followed.values()))
    own = sum(len(one.coarse) for one in streams.followed.values())
    refused = {reason: streams.refused[reason] for reason in REFUSED}
    yield _one("streams", "Streams of sensors that are followed.", len(streams.followed))
    yield _one("stream_sensors", "Their sensors.", sensors)
    yield _one("streams_recoded", "Subscriptions that get a stream of their own.", own)
    yield _one("streams_unfollowed_total", "Offers for which there was no room.", streams.unfollowed)
    yield _one("streams_crowded_total", "Subscriptions without one of their own for want of room.", streams.crowded)
    yield _by("stream_refused_total", "What was said of streams and not heeded.", "of", refused)
    yield _one("suppressed_updates_total", "Updates that a subscription need not be sent.", broker.counts.suppressed)


def _deliveries(broker: Broker) -> Iterator[Family]:
    """Copies of messages to subscribers: due = delivered + dropped + owed, always, so `owed` need not be counted."""
    deliveries = broker.deliveries()
    due, delivered, dropped = deliveries.due, deliveries.delivered, deliveries.dropped
    owed = due - delivered - sum(dropped)
    yield _one("deliveries_due_total", "Copies of messages that subscribers were to get.", due)
    yield _one("deliveries_delivered_total", "Copies sent; QoS 1 and 2: acknowledged.", delivered)
    yield _by("deliveries_dropped_total", "Copies given up, by reason.", "reason", by_reason(dropped))
    yield _one("deliveries_owed", "Copies that wait or are on their way.", owed)


def _lanes(broker: Broker) -> Iterator[Family]:
    """Links that are shared, and delays by class."""
    counts, plan = broker.counts, broker.treatment.plan
    links = {link.name: link for link in broker.links.shared()}
    classes = range(broker.links.scenario.priorities)
    timed = {str(klass): counts.timed[klass] for klass in classes}
    waited = {str(klass): counts.delays_s[klass] for klass in classes}
    yield _one("plan_version", "Version of the plan in force, 0 without.", 0 if plan is None else plan.version)
    yield _by("link_sent_bytes_total", "Wire bytes of a shared link.", "link", _of(links, "sent_bytes"))
    paced = {name: link for name, link in links.items() if link.paced}
    configured = {name: link.described.bandwidth_bps or 0.0 for name, link in paced.items()}
    known = _of(paced, "bandwidth_bps")
    yield _by("link_configured_bits_per_second", "What a shared link is said to carry.", "link", configured)
    yield _by("link_known_bits_per_second", "What it is known to carry.", "link", known)
    yield _by("link_queued_messages", "Messages that wait for a shared link.", "link", _of(links, "queued"))
    yield _by("delays_total", "Deliveries whose delay was measured, by class.", "priority", timed)
    yield _by("delay_seconds_total", "The sum of these delays.", "priority", waited)


def _control(control: Control) -> Iterator[Family]:
    kinds = {str(kind): count for kind, count in control.decisions.by_kind.items()}
    verdicts = {str(verdict): count for verdict, count in control.decisions.by_verdict.items()}
    errors = {"utility": control.error.utility, "delay": control.error.delay}
    forecasts = asdict(control.outlook.record)
    yield _by("decisions_total", "Decisions of the control loop, by what led to them.", "kind", kinds)
    yield _by("verdicts_total", "What became of them.", "verdict", verdicts)
    yield _by("model_error", "How far off predictions usually are, relative.", "of", errors)
    yield _by("forecasts", "Forecasts of the load, and how they did.", "outcome", forecasts)


def _of(links: dict[str, Link], what: str) -> dict[str, float]:
    return {name: getattr(link, what) for name, link in links.items()}


def _log(log: Log) -> Iterator[Family]:
    yield _one("log_bytes", "Size of the log.", log.bytes)
    yield _one("log_live_bytes", "The part of it that is still needed.", log.live_bytes)
    yield _one("log_limit_bytes", "Needed bytes at which new messages of QoS 1 and 2 are refused.", log.cap_bytes)
    yield _one("log_uncommitted_bytes", "Written, but not known to be on disk yet.", log.appended - log.committed)
    yield _one("log_failed", "1 while the log cannot be written.", int(log.failed is not None))


def _process() -> Iterator[Family]:
    yield _one("process_cpu_seconds_total", "Processor time used.", time.process_time())
    if _STATM.exists():  # Linux
        pages = int(_STATM.read_text().split()[1])
        yield _one("process_resident_memory_bytes", "Memory in use.", pages * os.sysconf("SC_PAGE_SIZE"))
        yield _one("process_open_fds", "Open files, connections among them.", len(os.listdir(_OPEN_FILES)))
