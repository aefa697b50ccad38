"""How reports write: paragraphs, tables, and numbers with their standard errors.

An *entry* is `{"mean", "standard_error"}`, either of which may be None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NOTHING = "-"
Entry = Mapping[str, Any]


def entry(mean: float | None, standard_error: float | None = None) -> dict[str, float | None]:
    """A number that did not come from `over_runs`."""
    return {"mean": mean, "standard_error": standard_error}


def paragraphs(*texts: str) -> str:
    """The texts, one empty line apart; empty ones are left out."""
    return "\n\n".join(text for text in texts if text)


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def percent(
    value: Entry | float | None, *, error: bool = True, signed: bool = False, decimals: int | None = None
) -> str:
    """`58.2 ± 0.3 %`; of a bare number, `58 %`."""
    if not isinstance(value, Mapping):
        value, decimals = entry(value), decimals or 0
    if value["mean"] is None:
        return NOTHING
    decimals = 1 if decimals is None else decimals
    spread = value["standard_error"] if error else None
    after = "" if spread is None else f" ± {100 * spread:.{decimals}f}"
    return f"{_fixed(100 * value['mean'], decimals, signed=signed)}{after} %"


def seconds(value: Entry | float, *, error: bool = True) -> str:
    """`12.7 ± 5.8 ms`, or in seconds from one second on, to two digits of the standard error."""
    if not isinstance(value, Mapping):
        value = entry(value)
    mean, spread = value["mean"], value["standard_error"] if error else None
    if mean is None:
        return NOTHING
    scale, unit = (1.0, "s") if abs(mean) >= 1 else (1e3, "ms")
    if not spread:
        return f"{float(f'{scale * mean:.4g}'):g} {unit}"
    decimals = max(0, 1 - math.floor(math.log10(scale * spread)))
    return f"{_fixed(scale * mean, decimals)} ± {scale * spread:.{decimals}f} {unit}"


def _fixed(value: float, decimals: int, *, signed: bool = False) -> str:
    """So many decimals; what rounds to nothing has no sign."""
    rounded = round(value, decimals) + 0.0  # -0.0 + 0.0 is 0.0
    return f"{rounded:{'+' if signed and rounded else ''}.{decimals}f}"
