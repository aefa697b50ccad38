"""What several verbs are told: options that are the same everywhere, numbers, and quantities with units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from firelane.units import Quantity

YEAR_S = 366 * 86_400  # the longest window
SENSOR_MODELS = ("last-value", "kalman", "auto")


class Number(click.FloatRange):
    """A number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Not-a-number is in no range, though it compares as if it were in all."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


scenario = click.argument("scenario", metavar="SCENARIO")
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, for machines.")
per_subscription = click.option(
    "--per-subscription", is_flag=True, help="A row per subscription, however many (tables show up to 25 unasked)."
)
seed = click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
sensor_model = click.option("--model", type=click.Choice(SENSOR_MODELS), default="auto", show_default=True)
delta = click.option(
    "--delta",
    type=Number(min=0, min_open=True),
    default=0.5,
    show_default=True,
    help="Subscribers are less than this off.",
)
sensors = click.option("--sensors", metavar="PATTERN", default="*", show_default=True, help="Those named so, as 'TC*'.")


def share(text: str, option: str) -> float:
    """A share, as 10 %."""
    from firelane.units import SHARE

    return _parsed(SHARE, text, option)


def window_s(text: str) -> float:
    """In a second there is one window at most, as tables of loads name it by whole seconds."""
    return duration_s(text, "--window", least_s=1.0)


def duration_s(text: str, option: str, *, least_s: float) -> float:
    """A duration of a year at most, as 60s."""
    from firelane.units import DURATION

    seconds = _parsed(DURATION, text, option)
    if not least_s <= seconds <= YEAR_S:
        raise click.BadParameter(f"write from {least_s:g} s to {YEAR_S} s, a year", param_hint=option)
    return seconds


def whole_seconds(text: str, option: str) -> int:
    """A duration of a second or more, without fractions of it."""
    seconds = duration_s(text, option, least_s=1.0)
    if seconds != int(seconds):
        raise click.BadParameter("write whole seconds, e.g. 60s", param_hint=option)
    return int(seconds)


def length_m(text: str, option: str) -> float:
    """A length, as 250m."""
    from firelane.units import LENGTH

    return _parsed(LENGTH, text, option)


def _parsed(quantity: Quantity, text: str, option: str) -> float:
    try:
        return quantity.parse(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint=option) from None


def numbers(text: str, count: int, option: str) -> list[float]:
    """So many numbers, with commas between them."""
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = []
    if len(found) != count or not all(map(math.isfinite, found)):
        raise click.BadParameter(f"write {count} numbers with commas between them", param_hint=option)
    return found
