"""Who gets a stream of sensors as it is, and who gets one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firelane.exchange.delivering.routes import Copy, Route
from firelane.exchange.sensors.coarser import Coarser
from firelane.exchange.sensors.stream import Split, Stream
from firelane.scenario.precision import WORTH_IT, kept_share

if TYPE_CHECKING:
    from firelane.exchange.sensors.streams import Streams

LEAST_HELD = 50  # sensors that a stream of somebody's own counts for, as it takes room and time with one, too


def split_up(streams: Streams, stream: Stream, route: Route) -> list[Copy]:
    """Split a route; returns the copies of those who had a stream of their own and now get it as it is.

    On a paced link a plan may want one coarser at any time, so who bears something gets a stream of its own there from
    the start, and elsewhere if it is worth it.
    """
    bounds = {copy: _bound(stream, copy) for copy in route.copies}
    direct, coarse, left = [], [], []
    here = {copy.session for copy in route.copies}
    for session in [one for one in stream.coarse if one not in here]:
        over = stream.coarse.pop(session)
        over.let_go()
        stream.suppressed += over.suppressed
    for copy, bound in bounds.items():
        coarser = _own(streams, stream, copy, bound) if bound is not None else None
        _note_share(stream, copy, bound if coarser is not None else None)
        if coarser is not None:
            coarse.append(coarser)
            continue
        direct.append(copy)
        if stream.coarse.pop(copy.session, None) is not None:
            left.append(copy)
    stream.split = Split(route, stream.delta, Route(route.text, route.seen, tuple(direct), route.groups), coarse)
    return left


def _bound(stream: Stream, copy: Copy) -> float | None:
    """What the stream that a session gets of its own keeps to; None if it gets it as it is."""
    deltas = [lane.delta for lane in copy.lanes]
    tolerances = [lane.need.tolerance for lane in copy.lanes]
    if stream.offer.discrete or None in deltas or None in tolerances:
        return None
    bound = min(one for one in deltas if one is not None)
    widened = bound > min(one for one in tolerances if one is not None)
    # A publisher that can afford it is more precise than it must be: that is for all who need what it has promised.
    fine = stream.delta if widened else max(stream.delta, stream.tightest or 0.0)
    if bound >= WORTH_IT * fine:
        return bound
    link = copy.session.link
    return stream.delta if link is not None and link.paced else None


def _own(streams: Streams, stream: Stream, copy: Copy, bound: float) -> Coarser | None:
    coarser = stream.coarse.get(copy.session)
    if coarser is None:
        if max(len(stream), LEAST_HELD) > streams.room:
            streams.crowded += 1
            streams.tell_once(
                "crowded",
                f"{stream.topic}: there is no room for streams of their own for all who bear more; they get it as it "
                "is (raise exchange.limits.stream_sensors)",
            )
            return None
        coarser = stream.coarse[copy.session] = Coarser(stream, bound)
    coarser.recoding.aim(bound)
    coarser.carry(copy)
    return coarser


def _note_share(stream: Stream, copy: Copy, bound: float | None) -> None:
    """Note what is left of a subscription's updates, if its delta is wider than it asked for."""
    tolerances = [lane.need.tolerance for lane in copy.lanes if lane.need.tolerance is not None]
    asked = max(stream.delta, min(tolerances, default=stream.delta))
    share = 1.0 if bound is None or bound <= asked else float(kept_share(bound / asked))
    for lane in copy.lanes:
        lane.share = share
