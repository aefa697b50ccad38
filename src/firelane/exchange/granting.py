"""What the exchange says of streams of sensors: to publishers what is granted, and what it lacks itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firelane.exchange.publishing import publish
from firelane.exchange.retained import Kept
from firelane.exchange.stream import Stream
from firelane.sense.offer import GRANT, RESYNC, Grant, Resync, to_json

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
        if stream.lacks and stream.asking.may(now):
            _ask(broker, stream, now)
    while streams.ended:
        topic = streams.ended.pop()
        if streams.find(topic) is None:
            _keep_saying(broker, GRANT + topic, b"", now)


def _grant(broker: Broker, stream: Stream, now: float) -> None:
    """Tell the publisher what its subscribers need, if that has changed."""
    stream.moved = False
    grant = Grant(tolerance=stream.tightest, load=stream.loads.target(now), subscribers=stream.subscribers)
    if grant != stream.grant:
        stream.grant, stream.granted_at = grant, now
        _keep_saying(broker, GRANT + stream.topic, to_json(grant), now)


def _ask(broker: Broker, stream: Stream, now: float) -> None:
    """Ask the publisher for states that are lacking here, of all sensors if it is many."""
    lacking = np.flatnonzero(stream.lacking)
    stream.lacks = len(lacking) > 0
    if not stream.lacks:
        return
    wanted = None if 2 * len(lacking) > len(stream) else tuple(lacking.tolist())
    topic = (RESYNC + stream.topic).encode()
    publish(broker, broker.new_message(topic, to_json(Resync(sensors=wanted)), 0, False, None), now)


def _keep_saying(broker: Broker, topic: str, payload: bytes, now: float) -> None:
    """Say something for those who are there and those who come; it is not in the log, as a restart makes it wrong."""
    message = broker.new_message(topic.encode(), payload, 0, False, None)
    if payload:
        broker.retained.keep(Kept(message))
    else:
        broker.retained.clear(message.topic)
    publish(broker, message, now)
