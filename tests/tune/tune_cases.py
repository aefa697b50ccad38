"""Scenarios and problems by chance for the tests of `tune`, and CVXPY as the reference for optima."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from firelane.scenario import from_data
from firelane.scenario.model import Need, Scenario

CONCAVE = ("log", "linear", "saturating", "piecewise")


def random_need(rng: np.random.Generator, kinds: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """A need as plain data, with one of these utilities."""
    kind = str(rng.choice(kinds))
    need: dict[str, Any] = {"utility": kind, "weight": float(rng.uniform(0.1, 10)), **more}
    if kind in ("saturating", "step"):
        need["knee"] = float(rng.uniform(0.05, 1))
    if kind == "piecewise":
        pieces = int(rng.integers(1, 5))
        x = [0.0, *np.sort(rng.uniform(0.05, 0.95, pieces - 1)).tolist(), 1.0]
        slopes = np.sort(rng.uniform(0.05, 3, pieces))[::-1]
        u = np.concatenate(([0.0], np.cumsum(slopes * np.diff(x))))
        need["points"] = [list(pair) for pair in zip(x, u.tolist(), strict=True)]
    return need


def random_scenario(
    seed: int,
    *,
    load: float = 1.7,
    kinds: tuple[str, ...] = ("log",),
    subscribers: int = 4,
    subscriptions: int = 6,
    topics: int = 12,
    overlaps: bool = False,
    bounds: bool = False,
    **more: Any,
) -> Scenario:
    """Subscribers over two links, one shared and one each; `load` is the mean before drops."""
    rng = np.random.default_rng(seed)
    names = [f"site/{i % 3}/{i}" for i in range(topics)]
    size = {name: float(rng.lognormal(5, 1)) for name in names}
    rate = {name: float(rng.lognormal(1, 1)) for name in names}
    filters = names + (["site/0/#", "site/+/1", "#"] if overlaps else [])
    people = {}
    for n in range(subscribers):
        chosen = rng.choice(len(filters), min(subscriptions, len(filters)), replace=False)
        wants = {}
        for i in chosen:
            bound = {"min_share": float(rng.uniform(0, 0.3))} if bounds and rng.random() < 0.3 else {}
            wants[filters[i]] = random_need(rng, kinds, **bound)
        people[f"s{n}"] = {"link": "own" if n % 2 else "shared", "subscribes": wants}
    mean_bps = 8 * sum(size[t] * rate[t] for t in names) * subscriptions / topics / load
    links = {
        "own": {"bandwidth": mean_bps, "overhead": 0, "pace": 1, "each": True, "loss": float(rng.choice([0, 0.2]))},
        "shared": {"bandwidth": mean_bps * ((subscribers + 1) // 2), "overhead": 0, "pace": 1},
    }
    return from_data(
        {
            "name": "random",
            "links": links,
            "topics": {name: {"size": size[name]} for name in names},
            "publishers": {"p": {"publishes": rate}},
            "subscribers": people,
            **more,
        }
    )


def best_value(needs: list[Need], flow: Any, *, load: Any, least: Any, gain: float, allowed: float) -> float:
    """Eq. 16 for one link by CVXPY: the most utility; a step counts as its concave envelope."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cvxpy as cp

        share = cp.Variable(len(load))
        terms = [_curve(cp, need, gain * share[f]) for need, f in zip(needs, flow, strict=True)]
        limits = [np.asarray(load) @ share <= allowed, share >= least, share <= 1]
        problem = cp.Problem(cp.Maximize(cp.sum(cp.hstack(terms))), limits)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        return float(problem.value)


def _curve(cp: Any, need: Need, success: Any) -> Any:
    if need.utility == "log":
        return need.weight * cp.log(1 + success)
    if need.utility == "linear":
        return need.weight * success
    if need.utility == "saturating":
        assert need.knee is not None
        return need.weight * (1 - cp.exp(-success / need.knee)) / (1 - np.exp(-1 / need.knee))
    if need.utility == "step":
        assert need.knee is not None
        return need.weight * cp.minimum(success / need.knee, 1)
    assert need.points is not None
    pieces = [
        u0 + (u1 - u0) / (x1 - x0) * (success - x0)
        for (x0, u0), (x1, u1) in zip(need.points, need.points[1:], strict=False)
    ]
    return need.weight * cp.min(cp.hstack(pieces))
