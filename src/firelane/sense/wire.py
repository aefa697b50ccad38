"""Updates of a stream's sensors as bytes, the same for every transport (docs/reference/sense.md, field by field)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from firelane.arrays import Ints
from firelane.sense.state import FIELDS, LEVEL, TIME, VALUE
from firelane.sense.trace import LEAST_DELTA, MOST_VALUE
from firelane.sense.updates import UpdateError, Updates

CONTENT_TYPE = "application/x-firelane-updates"
MOST_SENSORS = 65_535  # of a stream
MOST_ROWS = 65_535  # of a message
WRAP = 2**32  # boots and numbers of batches are 32 bits wide

MAGIC, _FORMAT = b"FS", 1
_HEADER = struct.Struct(">2sBBHHHIIdd")
_HEARTBEAT, _TIMED, _DISCRETE, _REPEAT = 1, 2, 4, 8
_WHOLE, _GONE, _MODEL = 0x80, 0x40, 0x0F
_ROW = np.dtype([("sensor", ">u2"), ("sequence", ">u4"), ("kind", "u1"), ("value", ">f8")])
_TIMED_ROW = np.dtype([*_ROW.descr, ("time_s", ">f8")])
_STATE_BYTES = 8 * (FIELDS - LEVEL)  # time and value stand in the row itself


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """One message of a stream: some updates of its sensors, perhaps none, and the precision now in force."""

    boot: int  # another one: the publisher has begun anew
    number: int  # of the messages of this boot, from 0
    sensors: int  # of the stream
    time_s: float  # when it was made, by the publisher's clock
    delta: float  # 0 for discrete sensors
    updates: Updates
    heartbeat: bool = False
    discrete: bool = False
    repeat: bool = False  # it is none of the messages that are numbered: the last of them has this number
    gone: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # sensors that are no longer read


def encode(batch: Batch) -> bytes:
    """A batch as bytes."""
    updates, count = batch.updates, len(batch.updates)
    timed = bool((updates.time_s != batch.time_s).any())
    rows = np.zeros(count + len(batch.gone), _TIMED_ROW if timed else _ROW)
    there = rows[:count]
    there["sensor"], there["sequence"], there["value"] = updates.sensor, updates.sequence, updates.value
    there["kind"] = updates.model | np.where(updates.whole, _WHOLE, 0)
    if timed:
        there["time_s"] = updates.time_s
    rows[count:]["sensor"], rows[count:]["kind"] = batch.gone, _GONE
    flags = _HEARTBEAT * batch.heartbeat | _TIMED * timed | _DISCRETE * batch.discrete | _REPEAT * batch.repeat
    delta = 0.0 if batch.discrete else batch.delta
    header = _HEADER.pack(
        MAGIC, _FORMAT, flags, updates.version, len(rows), batch.sensors, batch.boot, batch.number, batch.time_s, delta
    )
    return header + rows.tobytes() + updates.state[:, LEVEL:].astype(">f8").tobytes()


def decode(payload: bytes) -> Batch:
    """The batch in a message; UpdateError says what is wrong with one that is none."""
    if len(payload) < _HEADER.size or payload[:2] != MAGIC:
        raise UpdateError("this is no message of a stream of sensors; is something else published on its topic?")
    _, form, flags, version, count, sensors, boot, number, time_s, delta = _HEADER.unpack_from(payload)
    if form != _FORMAT:
        raise UpdateError(f"this message has format {form}, known is {_FORMAT}; use the same release at both ends")
    discrete = bool(flags & _DISCRETE)
    if not (abs(time_s) <= MOST_VALUE and (discrete or LEAST_DELTA <= delta <= MOST_VALUE)):
        raise UpdateError("this message has a delta or a time that is none; leave it out")
    kind = _TIMED_ROW if flags & _TIMED else _ROW
    states_at = _HEADER.size + count * kind.itemsize
    if len(payload) < states_at:
        raise UpdateError("this message of a stream is cut short; leave it out")
    rows = np.frombuffer(payload, kind, count, _HEADER.size)
    gone = (rows["kind"] & _GONE) != 0
    missing, rows = rows["sensor"][gone].astype(np.int64), rows[~gone]
    whole = (rows["kind"] & _WHOLE) != 0
    wholes = int(np.count_nonzero(whole))
    if len(payload) != states_at + wholes * _STATE_BYTES:
        raise UpdateError("this message of a stream is not as long as it says; leave it out")
    times_s = rows["time_s"].astype(np.float64) if flags & _TIMED else np.full(len(rows), time_s)
    updates = Updates(
        sensor=rows["sensor"].astype(np.int64),
        sequence=rows["sequence"].astype(np.int64),
        time_s=times_s,
        value=rows["value"].astype(np.float64),
        delta=np.full(len(rows), LEAST_DELTA if discrete else delta),
        model=(rows["kind"] & _MODEL).astype(np.int64),
        whole=whole,
        state=np.empty((wholes, FIELDS)),
        version=version,
    )
    updates.state[:, TIME], updates.state[:, VALUE] = updates.time_s[whole], updates.value[whole]
    updates.state[:, LEVEL:] = np.frombuffer(payload, ">f8", wholes * (FIELDS - LEVEL), states_at).reshape(
        -1, FIELDS - LEVEL
    )
    return Batch(
        boot=boot,
        number=number,
        sensors=sensors,
        time_s=time_s,
        delta=delta,
        updates=updates,
        heartbeat=bool(flags & _HEARTBEAT),
        discrete=discrete,
        repeat=bool(flags & _REPEAT),
        gone=missing[missing < sensors],
    )


def gone_portions(gone: Ints, most_bytes: int) -> Iterator[Ints]:
    """Sensors that are gone in portions of which each fits a message of so many bytes; at least one, if empty."""
    most = min(max(1, (most_bytes - _HEADER.size) // _ROW.itemsize), MOST_ROWS)
    for start in range(0, max(len(gone), 1), most):
        yield gone[start : start + most]


def portions(updates: Updates, most_bytes: int) -> Iterator[Updates]:
    """Updates in portions of which each fits a message of so many bytes; at least one row is in each."""
    row_bytes = np.where(updates.whole, _TIMED_ROW.itemsize + _STATE_BYTES, _TIMED_ROW.itemsize)
    ends = _HEADER.size + np.cumsum(row_bytes)
    if len(updates) == 0 or (ends[-1] <= most_bytes and len(updates) <= MOST_ROWS):
        yield updates
        return
    rows: Ints = np.arange(len(updates))
    start, before = 0, 0
    while start < len(rows):
        end = int(np.searchsorted(ends, most_bytes + before, side="right"))
        end = min(max(end, start + 1), start + MOST_ROWS)
        yield updates.pick(rows[start:end])
        start, before = end, int(ends[end - 1]) - _HEADER.size
