"""What people see of an identified plant: its equation, how well it fits, the gains for it, and a picture."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from firelane.plots import COLOURS, figure, save_figure
from firelane.sense.design import Design
from firelane.sense.identification import Plant
from firelane.sense.series import Series


def equation(plant: Plant) -> str:
    """Eq. 6 with its numbers."""
    loads = [f"{a:+.3f} U(t-{i})" for i, a in enumerate(plant.a, 1)]
    pushes = [f"{b:+.3f} ln γ(t-{i})" for i, b in enumerate(plant.b, 1)]
    return f"U(t) = {plant.constant:.3f} {' '.join(loads + pushes)}"


def show_plant(plant: Plant, design: Design | None, samples: int, console: Console) -> None:
    """A few lines: the plant, its fit, and what gains it asks for, if these were designed."""
    console.print(f"order {plant.order}, from {samples} samples of {plant.period_s:g} s", soft_wrap=True)
    console.print(equation(plant), soft_wrap=True)
    console.print(
        f"R² {plant.fit:.2f} one sample ahead, {plant.simulated_fit:.2f} from γ alone; in the long run the load "
        f"changes by {plant.gain:.2f} for each e-fold of γ",
        soft_wrap=True,
    )
    if design is None:
        console.print("gains: not designed; pip install 'firelane[identify]'", soft_wrap=True)
        return
    gains = design.gains
    console.print(
        f"gains: K_P {gains.proportional:.2f}, K_I {gains.integral:.2f}, smoothing {gains.smoothing:g}; a step settles "
        f"in {design.settling_samples} samples and overshoots by {design.overshoot:.0%}, largest pole "
        f"{max(map(abs, design.poles)):.2f}",
        soft_wrap=True,
    )


def draw_plant(series: Series, plant: Plant, path: Path) -> Path:
    """The load as it was and as the plant has it from gamma alone, and gamma below."""
    drawn, (above, below) = figure(10, 5.2, rows=2)
    minutes = (series.times_s - series.times_s[0]) / 60
    above.plot(minutes, series.load, color=COLOURS[0], linewidth=1, label="measured")
    above.plot(
        minutes, plant.simulate(series.gamma, series.load), color=COLOURS[1], linewidth=1.2, label="from γ alone"
    )
    above.set_ylabel("load")
    above.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    below.step(minutes, series.gamma, where="post", color=COLOURS[6], linewidth=1)
    below.set_ylabel("γ")
    below.set_xlabel("minutes")
    drawn.suptitle(
        f"A plant of order {plant.order} explains {plant.simulated_fit:.0%} of how the load varies", fontweight="bold"
    )
    return save_figure(drawn, path)
