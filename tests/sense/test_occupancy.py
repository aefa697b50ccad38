"""The subscriber's predictor against queues that simpy simulates, message by message."""

from __future__ import annotations

import math

import numpy as np
import pytest
import simpy

from firelane.errors import FirelaneError
from firelane.sense.occupancy import OccupancyPredictor

SERVICE_S = 0.05
WINDOW_S = 120.0
WANTED = 5.0
HZ_AT_FULL_LOAD = 30.0  # what the publisher sends at load 1: too much for the subscriber


class Printed:
    """Eq. 8-9 as the paper prints them: W is taken for given."""

    def __init__(self) -> None:
        self.load, self.count, self.done, self.delays_s = 0.4, 0, 0, 0.0

    def arrived(self) -> None:
        self.count += 1

    def processed(self, delay_s: float) -> None:
        self.done += 1
        self.delays_s += delay_s

    def predict(self, now_s: float) -> float:
        waits_s, rate_hz = self.delays_s / self.done, self.count / WINDOW_S
        self.load = min(max(WANTED / waits_s * self.load / rate_hz, 0.05), 1.0)
        self.count, self.done, self.delays_s = 0, 0, 0.0
        return self.load


def simulate(ask, *, windows: int, service, room: int = 10_000, slower_at: int = 10**9, batch: int = 1, seed: int = 1):
    """A publisher that keeps to the load it is asked for, one server behind a buffer; rate and mean in system."""
    env, draw = simpy.Environment(), np.random.default_rng(seed)
    queue = simpy.Store(env)
    inside, rates, means, area, since, count = 0, [], [], 0.0, 0.0, 0

    def change(by: int) -> None:
        nonlocal inside, area, since
        area, since = area + inside * (env.now - since), env.now
        inside += by

    def publisher():
        nonlocal count
        while True:
            yield env.timeout(draw.exponential(batch / (HZ_AT_FULL_LOAD * ask.load)))
            for _ in range(batch):
                count += 1
                ask.arrived()
                if inside < room:
                    change(+1)
                    queue.put(env.now)

    def subscriber():
        while True:
            came_s = yield queue.get()
            yield env.timeout(service(draw) * (2 if env.now > slower_at * WINDOW_S else 1))
            change(-1)
            ask.processed(env.now - came_s)

    env.process(publisher())
    env.process(subscriber())
    for window in range(1, windows + 1):
        env.run(until=window * WINDOW_S)
        change(0)
        rates.append(count / WINDOW_S)
        means.append(area / WINDOW_S)
        area, count = 0.0, 0
        ask.predict(env.now)
    return np.array(rates), np.array(means)


def exponential(draw) -> float:
    return draw.exponential(SERVICE_S)


def predictor(**changed) -> OccupancyPredictor:
    return OccupancyPredictor(**({"buffer": 10, "occupancy": 0.5, "now_s": 0.0, "most": 1.0} | changed))


def test_an_exponential_server_gets_what_theory_says_from_the_second_window_on():
    """M/M/1 holds 5 at rho = 5/6."""
    rates, means = simulate(predictor(), windows=24, service=exponential)
    assert rates[2:].mean() * SERVICE_S == pytest.approx(5 / 6, rel=0.04)
    assert means[8:].mean() == pytest.approx(WANTED, rel=0.3)  # what piled up in the first window is gone


def test_a_regular_server_may_be_busier():
    """M/D/1 holds rho + rho^2 / (2 - 2 rho), which is 5 at rho = 0.9028..., by Pollaczek and Khinchine."""
    rho = 6 - math.sqrt(36 - 10)
    assert rho + rho**2 / (2 - 2 * rho) == pytest.approx(5.0)
    rates, _ = simulate(predictor(), windows=16, service=lambda draw: SERVICE_S)
    assert rates[3:].mean() * SERVICE_S == pytest.approx(rho, rel=0.04)


def test_batches_leave_less_room():
    """M^X/M/1 with batches of 4 holds rho (1 + 3/2) / (1 - rho): 5 at rho = 2/3."""
    rates, _ = simulate(predictor(), windows=24, service=exponential, batch=4)
    assert rates[6:].mean() * SERVICE_S == pytest.approx(2 / 3, rel=0.06)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_when_processing_takes_twice_as_long_the_next_window_has_the_load_that_fits(seed):
    """As at the 80th sample of the paper's Fig. 13; the buffer of 40 overflows in between."""
    ask = predictor(buffer=40, occupancy=0.125)
    rates, means = simulate(ask, windows=14, service=exponential, room=40, slower_at=6, seed=seed)
    assert means[6] > 20
    assert rates[8:].mean() * 2 * SERVICE_S == pytest.approx(5 / 6, rel=0.06)
    assert means[8:].mean() < 10


def test_the_step_as_printed_swings_between_idle_and_overload():
    """For M/M/1 it is rho' = L* (1 - rho): a cycle, not the 5/6 in its middle."""
    rates, _ = simulate(Printed(), windows=16, service=exponential, room=10)
    rho = rates[4:] * SERVICE_S
    assert rho.max() > 1.3
    assert rho.min() < 0.75
    assert np.abs(np.diff(rho)).mean() > 0.4
    ours, _ = simulate(predictor(), windows=16, service=exponential, room=10)
    assert np.abs(np.diff(ours[4:] * SERVICE_S)).mean() < 0.1


def test_one_window_by_hand():
    """1000 messages in 100 s, 0.5 s each: 10 + 1/0.5 = 12 a second can be processed, 5/6 of them are wanted."""
    ask = predictor(window_s=100.0, most=0.7)
    ask.arrived(1000)
    ask.processed(0.5, 1000)
    assert ask.predict(99.0) == 0.7
    assert ask.predict(100.0) == pytest.approx(0.7 * 10 / 10)
    ask.arrived(2000)
    ask.processed(0.5, 1000)
    assert ask.predict(200.0, in_force=0.6) == pytest.approx(0.6 / 2)


def test_what_says_nothing_leaves_the_load_as_it_was():
    ask = predictor(window_s=100.0, most=0.7)
    assert ask.predict(100.0) == 0.7  # nothing came
    ask.arrived(1000)
    assert ask.predict(200.0) == 0.7  # nothing was processed
    ask.arrived(19)
    ask.processed(90.0, 19)
    assert ask.predict(300.0) == 0.7  # too little came
    for wrong in (math.nan, -1.0, math.inf):
        ask.processed(wrong, 1000)
    ask.arrived(1000)
    assert ask.predict(400.0) == 0.7


def test_a_subscriber_that_gets_hardly_anything_done_asks_for_less():
    """1000 messages in 100 s and four of them done after 50 s each: 0.04 + 0.02 a second are possible."""
    ask = predictor(window_s=100.0, most=0.7, floor=0.001)
    ask.arrived(1000)
    ask.processed(50.0, 4)
    assert ask.predict(100.0) == pytest.approx(0.7 * 0.06 * 5 / 6 / 10)


def test_the_load_stays_between_the_floor_and_the_most():
    ask = predictor(window_s=100.0, most=0.7, floor=0.1)
    ask.arrived(100_000)
    ask.processed(50.0, 100)
    assert ask.predict(100.0) == 0.1
    ask.arrived(100)
    ask.processed(0.001, 100)
    assert ask.predict(200.0) == 0.7


def test_a_clock_that_was_set_back_begins_a_new_window():
    ask = predictor(window_s=100.0, now_s=1000.0, most=0.7)
    ask.arrived(100_000)
    ask.processed(50.0, 100)
    assert ask.predict(5.0) == 0.7
    assert not ask.due(104.0)
    assert ask.due(105.0)


@pytest.mark.parametrize(
    "wrong", [{"buffer": 0}, {"occupancy": 0.0}, {"occupancy": 1.1}, {"floor": 0.0}, {"most": 0.01}, {"window_s": 0.0}]
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(FirelaneError, match="occupancy"):
        predictor(**wrong)
