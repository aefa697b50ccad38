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

MAGIC, _FORMAT = b"FS", 2
_HEADER = struct.Struct(">2sBBHHHIIIdd")
_HEARTBEAT, _TIMED, _DISCRETE, _REPEAT, _TRAIL = 1, 2, 4, 8, 16
_WHOLE, _GONE, _MODEL = 0x80, 0x40, 0x0F
_ROW = np.dtype([("sensor", ">u2"), ("sequence", ">u4"), ("kind", "u1"), ("value", ">f8")])
_TIMED_ROW = np.dtype([*_ROW.descr, ("time_s", ">f8")])
_STATE_BYTES = 8 * (FIELDS - LEVEL)  # time and value stand in the row itself
_STEP = np.dtype([("sensor", ">u2"), ("sequence", ">u4")])
MOST_TRAIL = 8  # steps of a trail
_TRAIL_BYTES = 1 + MOST_TRAIL * _STEP.itemsize  # their number goes before them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trail:
    """The last updates that went in messages before: which sensors', and their sequences."""

    sensor: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    sequence: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.sensor)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """One message of a stream: some updates of its sensors, perhaps none, and the precision now in force."""

    boot: int  # another one: the publisher has begun anew
    number: int  # of the messages of this boot, from 0
    sensors: int  # of the stream
    time_s: float  # when it was made, by the publisher's clock
    delta: float  # 0 for discrete sensors
    total: int  # updates of all sensors so far, which is the sum of their sequences, mod 2^32
    updates: Updates
    heartbeat: bool = False
    discrete: bool = False
    repeat: bool = False  # it is none of the messages that are numbered: the last of them has this number
    gone: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # sensors that are no longer read
    trail: Trail | None = None


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
    flags |= _TRAIL * (batch.trail is not None)
    delta = 0.0 if batch.discrete else batch.delta
    numbers = batch.sensors, batch.boot, batch.number, batch.total % WRAP, batch.time_s, delta
    header = _HEADER.pack(MAGIC, _FORMAT, flags, updates.version, len(rows), *numbers)
    states = updates.state[:, LEVEL:].astype(">f8").tobytes()
    return header + rows.tobytes() + states + _encoded_trail(batch.trail)


def _encoded_trail(trail: Trail | None) -> bytes:
    if trail is None:
        return b""
    steps = np.zeros(len(trail), _STEP)
    steps["sensor"], steps["sequence"] = trail.sensor, trail.sequence
    return bytes([len(trail)]) + steps.tobytes()


def decode(payload: bytes) -> Batch:
    """The batch in a message; UpdateError says what is wrong with one that is none."""
    if len(payload) < 3 or payload[:2] != MAGIC:
        raise UpdateError("this is no message of a stream of sensors; is something else published on its topic?")
    if payload[2] != _FORMAT:
        raise UpdateError(
            f"this message has format {payload[2]}, known is {_FORMAT}; use the same release at both ends"
        )
    if len(payload) < _HEADER.size:
        raise UpdateError("this message of a stream is cut short; leave it out")
    _, _, flags, version, count, sensors, boot, number, total, time_s, delta = _HEADER.unpack_from(payload)
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
    trail_at = states_at + wholes * _STATE_BYTES
    if len(payload) != trail_at + _trail_bytes(payload, flags, trail_at):
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
        total=total,
        updates=updates,
        heartbeat=bool(flags & _HEARTBEAT),
        discrete=discrete,
        repeat=bool(flags & _REPEAT),
        gone=missing[missing < sensors],
        trail=_decoded_trail(payload, trail_at, sensors) if flags & _TRAIL else None,
    )


def _trail_bytes(payload: bytes, flags: int, start: int) -> int:
    """How long a message's trail is, by what it says."""
    if not flags & _TRAIL:
        return 0
    return 1 + payload[start] * _STEP.itemsize if start < len(payload) else 1


def _decoded_trail(payload: bytes, start: int, sensors: int) -> Trail:
    steps = np.frombuffer(payload, _STEP, payload[start], start + 1)
    steps = steps[steps["sensor"] < sensors]
    return Trail(sensor=steps["sensor"].astype(np.int64), sequence=steps["sequence"].astype(np.int64))


def gone_portions(gone: Ints, most_bytes: int) -> Iterator[Ints]:
    """Sensors that are gone in portions of which each fits a message of so many bytes; at least one, if empty."""
    most = min(max(1, (most_bytes - _HEADER.size - _TRAIL_BYTES) // _ROW.itemsize), MOST_ROWS)
    for start in range(0, max(len(gone), 1), most):
        yield gone[start : start + most]


def portions(updates: Updates, most_bytes: int) -> Iterator[Updates]:
    """Updates in portions of which each fits a message of so many bytes; at least one row is in each."""
    row_bytes = np.where(updates.whole, _TIMED_ROW.itemsize + _STATE_BYTES, _TIMED_ROW.itemsize)
    beside = _HEADER.size + _TRAIL_BYTES
    ends = beside + np.cumsum(row_bytes)
    if len(updates) == 0 or (ends[-1] <= most_bytes and len(updates) <= MOST_ROWS):
        yield updates
        return
    rows: Ints = np.arange(len(updates))
    start, before = 0, 0
    while start < len(rows):
        end = int(np.searchsorted(ends, most_bytes + before, side="right"))
        end = min(max(end, start + 1), start + MOST_ROWS)
        yield updates.pick(rows[start:end])
        start, before = end, int(ends[end - 1]) - beside
