"""A building on fire as its thermometers see it: one zone of hot gas per room, doors and windows between them.

Physics, in the order of the code, each as its handbook formula:

* The fire releases alpha t^2, up to what its fuel allows, and burns out exponentially after that (NFPA 92: slow to
  ultra-fast fires have alpha from 0.0029 to 0.19 kW/s^2).
* No fire burns more than its air allows: 3.0 MJ for each kg (Huggett 1980). All of it heats the room, gas and walls.
* Through an opening, warm gas leaves and as much cold comes in: Cd/3 A rho sqrt(g H drho/rho) kg/s (Brown and Solvason
  1962), which for a fully developed fire is Kawagoe's 0.5 A sqrt(H). It radiates through it too, as a black body.
* Walls take h A dT with h = sqrt(k rho c / t) (McCaffrey, Quintiere and Harkleroad 1981), for gypsum board.
* Windows break when the gas beside them is at 200 to 450 C, drawn for each.
* A thermometer sees a share of the room's rise that falls towards the floor, lags a few seconds behind, and is noisy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firelane.arrays import Floats, Ints
from firelane.compiled import compiled
from firelane.errors import FirelaneError
from firelane.sense.trace import MOST_CELLS, Trace

AMBIENT_K = 293.15
ZERO_C_K = 273.15
AIR_K_KG_M3 = 353.0  # density times temperature of air at one atmosphere
CP_KJ_KGK = 1.01
AIR_KJ_KG = 3000.0
STEFAN_BOLTZMANN = 5.67e-11  # kW/m2 K4
GYPSUM = 0.18  # k rho c of the walls, (kW/m2 K)^2 s
DISCHARGE = 0.6
CRACKS_KG_S = 0.05  # what leaks in and out of a room with its door shut
GRAVITY = 9.81
INNER_STEP_S = 0.1
OUTSIDE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """How large the building is and how it is watched; everything else is drawn by the seed."""

    rooms: int = 6
    sensors: int = 4  # in each room, from the ceiling down
    seconds: float = 600.0
    step_s: float = 1.0
    noise: float = 0.1  # standard deviation of a reading, C
    seed: int = 1

    def __post_init__(self) -> None:
        cells = self.rooms * self.sensors * (self.seconds / self.step_s)
        if not self.step_s <= self.seconds:
            raise FirelaneError(f"a trace of {self.seconds:g} s has no step of {self.step_s:g} s; make it longer")
        if cells > MOST_CELLS:
            raise FirelaneError(f"{cells:,.0f} readings are more than {MOST_CELLS:,}; ask for a smaller building")


def fire_trace(fire: Fire) -> Trace:
    """The temperatures of all thermometers, in C, from ignition on."""
    draw = np.random.default_rng(fire.seed)
    gas_k = _gas(fire, draw)
    readings = _thermometers(fire, gas_k, draw)
    names = tuple(f"T{room}_{place}" for room in range(1, fire.rooms + 1) for place in range(1, fire.sensors + 1))
    return Trace(names=names, times_s=np.arange(len(readings), dtype=np.float64) * fire.step_s, values=readings)


def _gas(fire: Fire, draw: np.random.Generator) -> Floats:
    """The temperature of the gas in every room at every step, in K."""
    rooms = fire.rooms
    floor_m2, height_m = draw.uniform(9.0, 30.0, rooms), draw.uniform(2.4, 3.0, rooms)
    side, beside, area_m2, tall_m, breaks_k = _openings(rooms, draw)
    steps = int(fire.seconds / fire.step_s) + 1
    inner = max(1, round(fire.step_s / INNER_STEP_S))
    return _burn(
        steps,
        fire.step_s / inner,
        inner,
        floor_m2 * height_m,
        2 * floor_m2 + 4 * np.sqrt(floor_m2) * height_m,
        int(draw.integers(rooms)),
        0.0029 * 64 ** draw.random(),
        draw.uniform(800.0, 4000.0),
        draw.uniform(300.0, 900.0),
        side,
        beside,
        area_m2,
        tall_m,
        breaks_k,
    )


def _openings(rooms: int, draw: np.random.Generator) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    """Doors from room to room, ajar to wide open, each room joined to an earlier one; and a window for every room."""
    to = np.array([draw.integers(max(0, room - 3), room) for room in range(1, rooms)], dtype=np.int64)
    side = np.concatenate([np.arange(1, rooms), np.arange(rooms)])
    beside = np.concatenate([to, np.full(rooms, OUTSIDE)])
    doors, windows = 2.0 * draw.uniform(0.05, 0.9, rooms - 1), draw.uniform(0.8, 3.0, rooms)
    area_m2 = np.concatenate([doors, windows])
    tall_m = np.concatenate([np.full(rooms - 1, 2.0), np.full(rooms, 1.2)])
    breaks_k = np.concatenate([np.zeros(rooms - 1), ZERO_C_K + draw.uniform(200.0, 450.0, rooms)])
    return side, beside, area_m2, tall_m, breaks_k


@compiled
def _burn(
    steps: int,
    dt: float,
    inner: int,
    volume_m3: Floats,
    wall_m2: Floats,
    origin: int,
    alpha: float,
    most_kw: float,
    burns_s: float,
    side: Ints,
    beside: Ints,
    area_m2: Floats,
    tall_m: Floats,
    breaks_k: Floats,
) -> Floats:
    rooms = len(volume_m3)
    gas = np.full(rooms, AMBIENT_K)
    heat = np.zeros(rooms)  # kW into the gas
    is_open = breaks_k == 0.0
    result = np.empty((steps, rooms))
    for step in range(steps):
        result[step] = gas
        for part in range(inner):
            t = (step * inner + part) * dt
            air = CRACKS_KG_S
            for room in range(rooms):
                rise = gas[room] - AMBIENT_K
                heat[room] = -np.sqrt(GYPSUM / max(t, 1.0)) * wall_m2[room] * rise - CRACKS_KG_S * CP_KJ_KGK * rise
            for opening in range(len(side)):
                one, other = side[opening], beside[opening]
                if gas[one] > breaks_k[opening]:
                    is_open[opening] = True
                if not is_open[opening]:
                    continue
                there = AMBIENT_K if other == OUTSIDE else gas[other]
                dense, thin = AIR_K_KG_M3 / min(gas[one], there), AIR_K_KG_M3 / max(gas[one], there)
                mean = (dense + thin) / 2
                speed = np.sqrt(GRAVITY * tall_m[opening] * (dense - thin) / mean)
                flow = DISCHARGE / 3 * area_m2[opening] * mean * speed
                radiated = STEFAN_BOLTZMANN * area_m2[opening] * (gas[one] ** 4 - there**4)
                passed = flow * CP_KJ_KGK * (gas[one] - there) + radiated
                heat[one] -= passed
                if other != OUTSIDE:
                    heat[other] += passed
                if origin in (one, other):
                    air += flow
            grown_s = np.sqrt(most_kw / alpha)
            wanted = alpha * t * t if t < grown_s else most_kw * np.exp(-max(0.0, t - grown_s - burns_s) / 120.0)
            heat[origin] += min(wanted, AIR_KJ_KG * air)
            for room in range(rooms):
                mass = AIR_K_KG_M3 / gas[room] * volume_m3[room]
                gas[room] = max(AMBIENT_K, gas[room] + dt * heat[room] / (mass * CP_KJ_KGK))
    return result


def _thermometers(fire: Fire, gas_k: Floats, draw: np.random.Generator) -> Floats:
    count = fire.rooms * fire.sensors
    share = np.tile(np.linspace(1.0, 0.4, fire.sensors), fire.rooms) * draw.uniform(0.9, 1.0, count)
    keeps = np.exp(-fire.step_s / draw.uniform(1.0, 8.0, count))
    seen = _lagging(np.repeat(gas_k, fire.sensors, axis=1) - AMBIENT_K, share, keeps)
    return AMBIENT_K - ZERO_C_K + seen + fire.noise * draw.standard_normal(seen.shape)


@compiled
def _lagging(rise: Floats, share: Floats, keeps: Floats) -> Floats:
    """What thermometers show of a rise when they forget `keeps` of their error from step to step."""
    seen = np.zeros_like(rise)
    for step in range(1, len(rise)):
        for one in range(rise.shape[1]):
            goal = share[one] * rise[step, one]
            seen[step, one] = goal + keeps[one] * (seen[step - 1, one] - goal)
    return seen
