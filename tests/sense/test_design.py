"""The gains that are shipped: derived again, and simulated apart from what derives them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from emulated import PERIOD_S, Emulated, readings

from firelane.errors import FirelaneError
from firelane.sense.design import MARGIN, SHIPPED_PLANT, design
from firelane.sense.identification import Plant, identify
from firelane.sense.precision import SHIPPED, Gains
from firelane.sense.series import Series, excite


def step(plant: Plant, gains: Gains, *, target: float = 0.7, samples: int = 40):
    """The loop's equations as they stand in the paper, one by one: the load after a step of the target by 1."""
    load, error, past_load, past_push, push = [], 0.0, [0.0] * plant.order, [0.0] * plant.order, 0.0
    for _ in range(samples):
        now = sum(a * u for a, u in zip(plant.a, past_load, strict=True))
        now += sum(b * x for b, x in zip(plant.b, past_push, strict=True))
        load.append(now)
        before, error = error, gains.smoothing * error + (1 - gains.smoothing) * (now - 1) / target
        push += (gains.proportional + gains.integral) * error - gains.proportional * before
        past_load, past_push = [now, *past_load[:-1]], [push, *past_push[:-1]]
    return np.array(load)


def scaled(plant: Plant, factor: float) -> Plant:
    return Plant(
        a=plant.a, b=tuple(factor * b for b in plant.b), constant=0.0, period_s=5.0, fit=1.0, simulated_fit=1.0
    )


def test_the_shipped_gains_follow_from_the_shipped_plant():
    made = design(SHIPPED_PLANT)
    assert made.gains.proportional == pytest.approx(SHIPPED.proportional, abs=0.02)
    assert made.gains.integral == pytest.approx(SHIPPED.integral, rel=0.05)
    assert made.gains.smoothing == SHIPPED.smoothing


def test_with_the_shipped_gains_a_step_settles_in_five_samples_without_overshoot():
    load = step(SHIPPED_PLANT, SHIPPED)
    assert np.abs(load[5:] - 1).max() < 1 / 6  # 0.05 of the paper's step by 0.3
    assert load.max() < 1.1


@pytest.mark.parametrize("seed", range(6))
def test_what_design_promises_is_what_its_loop_does(seed):
    draw = np.random.default_rng(seed)
    plant = Plant(
        a=(float(draw.uniform(0, 0.7)),),
        b=(float(draw.uniform(-2, -0.3)),),
        constant=0.0,
        period_s=5.0,
        fit=1.0,
        simulated_fit=1.0,
    )
    made = design(plant)
    load = step(plant, made.gains)
    assert max(load.max() - 1, 0) == pytest.approx(made.overshoot, abs=1e-9)
    off = np.flatnonzero(np.abs(load - 1) > 1 / 6)
    assert off[-1] + 1 == made.settling_samples
    # Far out, the slowest mode is all there is: its ratio is the largest pole.
    largest = max(map(abs, made.poles))
    tail = np.abs(step(plant, made.gains, samples=60)[20:50] - 1)
    assert (tail < 3 * largest ** np.arange(20, 50) + 1e-12).all()
    assert np.abs(step(scaled(plant, 0.9 * MARGIN), made.gains, samples=400)[-20:] - 1).max() < 0.05


def test_the_shipped_loop_bears_a_tripled_gain_and_not_much_more():
    """The root locus says where it becomes unstable; so does the simulation."""
    assert np.abs(step(scaled(SHIPPED_PLANT, 0.95 * MARGIN), SHIPPED, samples=400)[-20:] - 1).max() < 0.05
    assert np.abs(step(scaled(SHIPPED_PLANT, 1.15 * MARGIN), SHIPPED, samples=400)[-20:] - 1).max() > 1


def test_the_shipped_plant_is_that_of_models_on_fires():
    """Recorded as a live publisher would: 160 samples of 1000 thermometers around delta 0.35, load 0.7."""
    samples, warm = 200, 40
    pushed = excite(samples, gamma=0.35, swing=1.25, levels=4)
    publisher = Emulated(readings(1000, samples * PERIOD_S, 1), sensors=1000, delta=0.35)
    sent = []
    for gamma in pushed:
        publisher.period()
        sent.append(publisher.sent_hz)
        publisher.bank.delta = gamma
    kept = np.array(sent[warm:])
    load = 0.05 + 0.65 * kept / kept.mean()
    plant = identify(Series(times_s=5.0 * np.arange(len(load)), load=load, gamma=pushed[warm:]))
    assert plant.b[0] == pytest.approx(SHIPPED_PLANT.b[0], abs=0.1)
    assert plant.gain == pytest.approx(SHIPPED_PLANT.gain, abs=0.1)
    assert plant.fit == pytest.approx(SHIPPED_PLANT.fit, abs=0.03)
    load = step(plant, SHIPPED)  # which suits this plant, too, though `design` may prefer another pair by a hair
    assert np.abs(load[5:] - 1).max() < 1 / 6
    assert load.max() < 1.1


@pytest.mark.parametrize(
    ("a", "b", "why"), [((1.1,), (-0.5,), "runs away"), ((0.5,), (0.2,), "more load"), ((0.5,), (0.0,), "more load")]
)
def test_plants_that_cannot_be_are_refused(a, b, why):
    plant = Plant(a=a, b=b, constant=0.0, period_s=5.0, fit=1.0, simulated_fit=1.0)
    with pytest.raises(FirelaneError, match=why):
        design(plant)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "control", None)
    with pytest.raises(FirelaneError, match=r"firelane\[identify\]"):
        design(SHIPPED_PLANT)
