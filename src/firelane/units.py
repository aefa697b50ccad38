"""Quantities as people write them ("8 Mbps", "2 ms", "1 %") as plain numbers in SI units."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

_NUMBER_AND_UNIT = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\s\d]*)\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One kind of quantity: its name for messages, an example, and its units in terms of the base."""

    name: str
    example: str
    units: dict[str, float]
    least: float = 1e-9  # of what is not zero: beyond these, arithmetic breaks before sense does
    most: float = 1e15
    above_zero: bool = False

    def parse(self, value: object) -> float:
        """The value in base units; a ValueError says what was wrong and what to write instead."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError(f"{_shown(value)} is not a {self.name}; {self._remedy}")
        number = _scaled(self.name, value) if isinstance(value, str) else _as_float(value)
        if number is None or not math.isfinite(number):
            raise ValueError(f"{_shown(value)} is not a {self.name}; {self._remedy}")
        if number < 0 or (self.above_zero and number == 0) or number > self.most == 1:
            raise ValueError(f"{_shown(value)} is out of range for a {self.name}; {self._remedy}")
        if number != 0 and not self.least <= number <= self.most:
            extent = f"stay between {self.least:g} and {self.most:g}"
            raise ValueError(f"{_shown(value)} is too {'small' if number < 1 else 'large'} for a {self.name}; {extent}")
        return number

    @property
    def _remedy(self) -> str:
        limits = "from 0 to 1" if self.most == 1 else "more than 0" if self.above_zero else "0 or more"
        return f'write e.g. "{self.example}" ({limits})'


_SI_BITS = {"bps": 1.0, "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}
_SI_BITS |= {unit.replace("bps", "bit/s"): scale for unit, scale in _SI_BITS.items()}

BANDWIDTH = Quantity(name="bandwidth", example="8 Mbps", units=_SI_BITS, above_zero=True)
DURATION = Quantity(
    name="duration",
    example="2 ms",
    units={"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0},
)
SIZE = Quantity(
    name="size",
    example="120 B",
    units={"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3},
)
LENGTH = Quantity(name="length", example="250 m", units={"m": 1.0, "km": 1e3}, above_zero=True)
RATE = Quantity(
    name="rate",
    example="6 Hz",
    units={"mHz": 1e-3, "Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600},
)
SHARE = Quantity(name="share", example="1 %", units={"%": 0.01}, most=1.0)
WEIGHT = Quantity(name="weight", example="4", units={})

_QUANTITIES = {q.name: q for q in (BANDWIDTH, DURATION, SIZE, LENGTH, RATE, SHARE, WEIGHT)}


@lru_cache(maxsize=65536)
def _scaled(quantity_name: str, text: str) -> float | None:
    match = _NUMBER_AND_UNIT.match(text)
    if match is None:
        return None
    number, unit = match.groups()
    scale = _QUANTITIES[quantity_name].units.get(unit) if unit else 1.0
    return None if scale is None else float(number) * scale


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    text = str(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return f'"{text[:40]}..."' if len(text) > 43 else f'"{text}"'


def si(value: float, unit: str, digits: int = 3) -> str:
    """A number with the SI prefix a person would use: si(0.0021, "s") == "2.1 ms"."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ")):
        if abs(value) >= scale * 0.9995:
            return f"{value / scale:.{digits}g} {prefix}{unit}"
    return f"{value * 1e9:.{digits}g} n{unit}"
