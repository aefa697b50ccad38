"""Gains for an identified plant: the root locus says how far they can go, a simulated step which are best.

Implements: rdds, section III-C3 (root locus, settling time and overshoot), with python-control.
Differs:    of all pairs whose gain could still be tripled, and that overshoot a step by at most a tenth, the one with
            the least squared error after a step is taken; the paper does not say how it chose its gains.
Symbols:    K_P, K_I -> proportional, integral; a_i, b_i -> a, b.
Checked by: tests/sense/test_design.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firelane.arrays import Floats
from firelane.errors import FirelaneError
from firelane.sense.identification import Plant
from firelane.sense.precision import Gains

MARGIN = 3.0
MOST_OVERSHOOT = 0.1
SETTLED = 1 / 6  # of a step: 0.05 of one by 0.3
ZEROS = tuple(place / 4 for place in range(-2, 4))  # where K_P / (K_P + K_I) may be
LOCUS = np.geomspace(0.01, 30.0, 400)  # the gains K_P + K_I that are tried
STEP_SAMPLES = 40

# 1000 thermometers of generated fires around delta 0.35, as tests/sense/test_design.py records and identifies it.
SHIPPED_PLANT = Plant(
    a=(0.69, 0.05, 0.01),
    b=(-1.28, 1.37, -0.24),
    constant=0.02,
    period_s=5.0,
    fit=0.93,
    simulated_fit=0.83,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Gains, and how the loop behaves with them."""

    gains: Gains
    poles: tuple[complex, ...]
    settling_samples: int  # after a step of the target, to within a sixth of it
    overshoot: float

    def to_data(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        return {
            "proportional": self.gains.proportional,
            "integral": self.gains.integral,
            "smoothing": self.gains.smoothing,
            "largest_pole": max(map(abs, self.poles)),
            "settling_samples": self.settling_samples,
            "overshoot": self.overshoot,
        }


def design(plant: Plant, *, target: float = 0.7, smoothing: float = 0.4) -> Design:
    """The best gains for a plant at a target; needs python-control (`pip install 'firelane[identify]'`)."""
    control = _library()
    if not plant.stable:
        raise FirelaneError("this plant runs away by itself, which no load does; record a longer series")
    if plant.gain >= 0:
        raise FirelaneError("in this plant a larger gamma makes more load; record a longer series, or swing gamma more")
    designs = [one for zero in ZEROS for one in _candidates(control, plant, target, smoothing, zero)]
    if not designs:
        raise FirelaneError("no gains keep this plant's load without overshoot; sample it less often")
    return min(designs, key=lambda one: one[0])[1]


def _library() -> Any:
    try:
        import control
    except ImportError:
        raise FirelaneError("gains are designed with python-control; pip install 'firelane[identify]'") from None
    return control


def _candidates(control: Any, plant: Plant, target: float, smoothing: float, zero: float) -> list[tuple[float, Design]]:
    """For a ratio of K_P to K_I, the gain that could just be tripled and some below it that do not overshoot."""
    loop = open_loop(control, plant, target, smoothing, zero)
    loci = control.root_locus_map(loop, gains=LOCUS).loci
    unstable = np.flatnonzero(np.abs(loci).max(axis=1) >= 1)
    most = LOCUS[unstable[0]] / MARGIN if len(unstable) else LOCUS[-1] / MARGIN
    found = []
    for gain in most * np.linspace(1.0, 0.4, 13):
        closed = control.feedback(gain * loop)
        load = control.step_response(closed, np.arange(STEP_SAMPLES) * plant.period_s).outputs
        if load.max() <= 1 + MOST_OVERSHOOT:
            gains = Gains(proportional=float(gain * zero), integral=float(gain * (1 - zero)), smoothing=smoothing)
            found.append((float(np.sum((1 - load) ** 2)), _design(gains, closed.poles(), load)))
    return found


def open_loop(control: Any, plant: Plant, target: float, smoothing: float, zero: float) -> Any:
    """Controller and plant in line, for K_P + K_I = 1; the load counts as a part of the target."""
    answer = control.tf([-one / target for one in plant.b], [1.0, *(-one for one in plant.a)], plant.period_s)
    rest = 1 - smoothing
    return answer * control.tf([rest, -zero * rest, 0.0], [1.0, -1.0 - smoothing, smoothing], plant.period_s)


def _design(gains: Gains, poles: Any, load: Floats) -> Design:
    off = np.flatnonzero(np.abs(load - 1) > SETTLED)
    return Design(
        gains=gains,
        poles=tuple(complex(one) for one in poles),
        settling_samples=int(off[-1]) + 1 if len(off) else 0,
        overshoot=float(max(load.max() - 1, 0.0)),
    )
