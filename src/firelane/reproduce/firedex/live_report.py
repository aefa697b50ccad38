"""The section "Live" of the FireDeX report: promised, simulated and live side by side."""

from __future__ import annotations

from typing import Any

from firelane.reproduce.firedex.live import (
    DELAY_S,
    DELAY_SHARE,
    DELAY_SPREADS,
    DRAWN,
    DRAWS,
    POINTS,
    SHOWN_AS,
)
from firelane.reproduce.wording import NOTHING, paragraphs, percent, seconds, table

Results = dict[str, Any]


def live_section(live: Results) -> str:
    """The whole section."""
    return paragraphs(
        "## Live: Figures 7 to 9 with real clients",
        _set_up(live),
        _promises(live),
        _rankings(live["configurations"]),
        _switches(live["configurations"]),
        _disagreements(live["configurations"]),
        _machine(live["configurations"]),
    )


def _set_up(live: Results) -> str:
    factor = 1 / live["scale"]
    return (
        "With `--live`: the same configurations on `firelane serve`, a process of its own, and a connection for each "
        f"of ten publishers and ten subscribers. Links of {live['link_bps'] / 1e6:g} Mbit/s and 1/{factor:g} of "
        "the paper's rates, so that two cores do: shares and utility stay what they are, delays on a link that keeps "
        f"up are {factor:g} times the paper's. A buffer of {live['buffer']} messages, so that what a full link drops "
        f"settles in the first {percent(live['warm_up'])} of a run, which are not counted. Every configuration gets "
        f"the same {live['publications']:,} publications in {live['seconds']:g} s, drawn beforehand: of {DRAWN} "
        "schedules the one whose load on every link is closest to the scenario's (here "
        f"{live['load']['offered']:.3f} on average, expected {live['load']['expected']:.3f}). *Live* is what the "
        "exchange says over REST; *simulated* is what simulated links do with the same publications, mean of "
        f"{DRAWS} draws of what drop rates take; *chance* is the standard deviation of a simulated run of this "
        f"length, over the {DRAWN} schedules."
    )


def _promises(live: Results) -> str:
    found = live["drop_methods"]
    rows = [(drops, *_utility_row(one), "yes" if one["holds"] else "**no**") for drops, one in found.items()]
    names = ("drop method", "promised", "simulated", "live", "live - promised, points", "chance, points", "within 2")
    return paragraphs(
        f"**Is the promise kept?** Under bandwidth-adjusted priorities {kept_promises(live)}",
        table(names, rows),
    )


def kept_promises(live: Results) -> str:
    """For how many drop methods the utility rate is what was promised."""
    found = live["drop_methods"].values()
    kept = sum(one["holds"] for one in found)
    return (
        f"the utility rate is within {100 * POINTS:.0f} points of what `tune` promised for {kept} of {len(found)} "
        "drop methods, with real clients on paced links."
    )


def _utility_row(one: Results) -> tuple[str, ...]:
    shares = (percent(one[name], decimals=1) for name in ("promised", "simulated", "live"))
    return (*shares, f"{100 * (one['live'] - one['promised']):+.1f}", f"{100 * one['chance']:.1f}")


def _rankings(found: Results) -> str:
    names = ("configuration", "promised", "simulated", "live", "live - promised, points", "chance, points")
    return paragraphs(
        "### Figure 9 live: utility rate",
        "![Figure 9 live](live-9.png)",
        table(names, ((name, *_utility_row(one["utility"]["rate"])) for name, one in found.items())),
    )


def _switches(found: Results) -> str:
    rows = []
    for switch, name in SHOWN_AS.items():
        for klass, row in enumerate(found[name]["classes"]):
            success, delay = row["success"], row["delay_s"]
            shares = [percent(success[source], decimals=1) for source in ("predicted", "simulated", "live")]
            times = [_delay(delay[source]) for source in ("predicted", "simulated", "live")]
            agrees = None if found[name]["disturbed"] else delay["agrees"]
            rows.append((switch, str(klass), *shares, *times, _verdict(agrees)))
    names = (
        "", "class", "success predicted", "simulated", "live", "mean delay predicted", "simulated", "live", "agrees",
    )  # fmt: skip
    return paragraphs(
        "### Figures 7 and 8 live: success and delay per class",
        "![Figure 7 live](live-7.png)",
        "![Figure 8 live](live-8.png)",
        table(names, rows),
        f"A delay agrees when it is within {percent(DELAY_SHARE)}, {seconds(DELAY_S)} or {DELAY_SPREADS} standard "
        "deviations of the draws of the simulation of the same publications. Predicted delays are those of the long "
        "run, for classes that keep up.",
    )


def _delay(value: float | None) -> str:
    return NOTHING if value is None else seconds(float(f"{value:.3g}"))


def _verdict(agrees: bool | None) -> str:
    return NOTHING if agrees is None else "yes" if agrees else "**no**"


def _disagreements(found: Results) -> str:
    """Which delays are not those of the simulation, over all configurations that were not disturbed."""
    judged = [
        (name, klass, row["delay_s"])
        for name, one in found.items()
        for klass, row in enumerate(one["classes"])
        if row["delay_s"]["agrees"] is not None and not one["disturbed"]
    ]
    off = [(name, klass, one) for name, klass, one in judged if not one["agrees"]]
    said = f"Of all {len(judged)} classes with deliveries, {len(judged) - len(off)} have the simulated delay"
    if not off:
        return said + "."
    listed = "; ".join(
        f"{name}, class {klass}: {_delay(one['live'])} for {_delay(one['simulated'])}" for name, klass, one in off
    )
    return (
        f"{said}. Not so {listed}. What may explain it, but was not tested by taking it away: when the exchange is "
        "held up for more than 5 ms, by the machine or by its own work once a second, its links do not make up for the "
        "rest, and delays near saturation grow several times as fast as bandwidth shrinks."
    )


def _machine(found: Results) -> str:
    shares = [one["processor_share"] for one in found.values() if one["processor_share"] is not None]
    busy = f"The exchange took {percent(min(shares))} to {percent(max(shares))} of one core. " if shares else ""
    late = max(one["late_p99_s"] for one in found.values())
    again = sum(one["attempts"] - 1 for one in found.values())
    disturbed = [name for name, one in found.items() if one["disturbed"]]
    void = f"**The delays of {', '.join(disturbed)} mean nothing**: the machine was too busy. " if disturbed else ""
    return (
        f"{void}{busy}One in a hundred publications was sent {seconds(float(f'{late:.2g}'))} late or later in the "
        f"worst run; runs were repeated {again} times as the machine was busy. In every run due = delivered + dropped "
        "+ queued, and clients received exactly what the exchange says it delivered."
    )
