"""What the parts of a scenario share when they are read: unknown keys refused, quantities with units."""

from __future__ import annotations

from pydantic import BeforeValidator, ConfigDict

from firelane.units import Quantity

STRICT: ConfigDict = {"extra": "forbid"}


def optional(quantity: Quantity) -> BeforeValidator:
    """Reads the quantity, or nothing."""
    return BeforeValidator(lambda value: None if value is None else quantity.parse(value))
