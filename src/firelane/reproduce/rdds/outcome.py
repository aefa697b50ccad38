"""What a run comes to: numbers a second, means with their errors, and what is read off a transient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

TARGET = 0.7
NEAR = 0.05  # of the target
SMOOTHED = 3  # samples
Results = dict[str, Any]


def loads(run: Results) -> list[float]:
    """The load of each sample."""
    return [one["load"] for one in run["samples"]]


def in_tens(each: Sequence[float]) -> list[float]:
    """Means of ten; what is left over is left out."""
    whole = len(each) // 10 * 10
    return [float(one) for one in np.asarray(each[:whole]).reshape(-1, 10).mean(axis=1)]


def point(run: Results, cores: float) -> Results:
    """What a run of the first experiment comes to, a second."""
    samples = run["samples"]
    total = {name: sum(one[name] for one in samples) for name in samples[0] if samples[0][name] is not None}
    seconds, readings = total["at"], total["readings"]
    user_s, system_s, models_s = total["user_s"], total["system_s"], total["models_s"]
    per_core = 1 / seconds / cores
    return {
        "participants": run["participants"],
        "sent_hz": total["sent"] / seconds,
        "received_hz": total["received"] / seconds,
        "messages_hz": (total["sent"] + total["received"]) / seconds,
        "offered_hz": (run["participants"] + 1) * run["sensors"] / run["interval_s"],
        "suppressed": 1 - total["updates"] / readings,
        "load": mean(loads(run)),
        "kernel": system_s * per_core,
        "models": models_s * per_core,
        "rest": (user_s - models_s) * per_core,
        "overflowed": run["overflowed"],
        "missed": max(0, run["missed"]),
        "skipped": run["skipped"],
        "own_sent": run["own_sent"],
        "own_received": run["own_received"],
        "exchange_load": run["exchange_load"],
    }


def transient(samples: Sequence[Results], surge: int, slow: int) -> Results:
    """Figure 13 and what is read off it."""
    load = np.array([one["load"] for one in samples])
    delta = np.array([one["delta"] for one in samples])
    target = np.array([one["target"] for one in samples])
    lowered = next((place for place in range(slow, len(samples)) if target[place] < TARGET - NEAR), None)
    found: Results = {
        "load": load.tolist(),
        "delta": delta.tolist(),
        "target": target.tolist(),
        "waits": [one["waits"] for one in samples],
        "surge": surge,
        "slow": slow,
        "settled_in": settling(load[surge:slow], TARGET),
        "load_after_surge": mean(load[surge + 5 : slow].tolist()),
        "delta_before": float(delta[:surge][-10:].mean()),
        "delta_after_surge": float(delta[surge + 5 : slow].mean()),
        "lowered_at": lowered,
    }
    if lowered is not None and len(samples) - lowered > 2 * SMOOTHED:
        last = slice((lowered + len(samples)) // 2, None)
        found |= {
            "lowered_to": float(target[last].mean()),
            "load_at_last": mean(load[last].tolist()),
            "delta_at_last": float(delta[last].mean()),
        }
    return found


def settling(load: Sequence[float] | np.ndarray[Any, Any], target: float) -> int | None:
    """Samples until the load, as a mean of three, comes within 0.05 of the target; None if it does not."""
    smooth = np.convolve(np.asarray(load, np.float64), np.full(SMOOTHED, 1 / SMOOTHED), mode="valid")
    near = np.flatnonzero(np.abs(smooth - target) <= NEAR)
    return int(near[0]) + 1 if len(near) else None


def mean(values: Sequence[float]) -> Results:
    """A mean and its standard error."""
    many = len(values)
    spread = float(np.std(values, ddof=1)) / math.sqrt(many) if many > 1 else None
    return {"mean": float(np.mean(values)), "standard_error": spread}
