"""What the exchange says of streams of sensors: to publishers what is granted, and what it lacks itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.exchange.journal.retained import Kept
from firelane.exchange.protocol.publishing import publish
from firelane.exchange.sensors.stream import Stream
from firelane.sense.offer import GRANT, RESYNC, Grant, to_json

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker

GRANT_EVERY_S = 0.5


def tend(broker: Broker, now: float) -> None:
    """Do what is due for all streams: ten times a second."""
    streams = broker.streams
    for stream in list(streams.followed.values()):
        streams.split(stream, broker.routes.find(stream.name), now)
        streams.beat(stream, now)
        if now >= stream.granted_at + GRANT_EVERY_S and (stream.moved or len(stream.loads)):
            _grant(broker, stream, now)
        if stream.lacks:
            _ask(broker, stream, now)
    while streams.ended:
        topic = streams.ended.pop()
        if streams.find(topic) is None:
            _keep_saying(broker, GRANT + topic, b"", now)


def _grant(broker: Broker, stream: Stream, now: float) -> None:
    """Tell the publisher what its subscribers need, if that has changed."""
    stream.moved = False
    grant = Grant(
        tolerance=stream.tightest,
        load=stream.loads.target(now),
        subscribers=stream.subscribers,
        lossy=stream.lossy,
    )
    if grant != stream.grant:
        stream.grant, stream.granted_at = grant, now
        _keep_saying(broker, GRANT + stream.topic, to_json(grant), now)


def _ask(broker: Broker, stream: Stream, now: float) -> None:
    """Ask the publisher for states that are lacking here, if it is time."""
    wanted = stream.asker.to_ask(stream.ledger, stream.bank, now)
    stream.lacks = stream.asker.lacks
    if wanted is not None:
        topic = (RESYNC + stream.topic).encode()
        publish(broker, broker.new_message(topic, to_json(wanted), 0, False, None), now)


def _keep_saying(broker: Broker, topic: str, payload: bytes, now: float) -> None:
    """Say something for those who are there and those who come; it is not in the log, as a restart makes it wrong."""
    message = broker.new_message(topic.encode(), payload, 0, False, None)
    if payload:
        broker.retained.keep(Kept(message))
    else:
        broker.retained.clear(message.topic)
    publish(broker, message, now)
