"""The report of the FireDeX reproduction, in Markdown: every number in it is taken from the results."""

from __future__ import annotations

from typing import Any

from firelane.reproduce.firedex.beyond import KEPT
from firelane.reproduce.firedex.experiments import FACTORS, POLICIES, SUBSCRIBERS, SWITCHES
from firelane.reproduce.firedex.headlines import ERRORS, PAPER, POINTS, RELATIVE
from firelane.reproduce.firedex.live_report import kept_promises, live_section
from firelane.reproduce.firedex.runs import CLASSES, SETTLES
from firelane.reproduce.wording import NOTHING, paragraphs, percent, seconds, table

Results = dict[str, Any]


def report(results: Results) -> str:
    """The whole report."""
    parts = [
        _opening(results),
        _headlines(results),
        _figure_5(results["figure_5"]),
        _figure_6(results["figure_6"]),
        _figures_7_and_8(results),
        _figure_9(results),
        _figure_10(results["figure_10"]),
        live_section(results["live"]) if "live" in results else "",
        _ours(results["delay_adjusted"]),
        _readings(results["readings"]),
    ]
    return paragraphs(*parts) + "\n"


def _opening(results: Results) -> str:
    seeds, quick = results["seeds"], results["quick"]
    options = f"{' --quick' if quick else ''}{' --live' if 'live' in results else ''}"
    command = f"firelane reproduce firedex{options} --seed {results['seed']}"
    return paragraphs(
        "# FireDeX, run again",
        f"Figures 5 to 10 of the FireDeX paper (Middleware 2018) and the numbers of its section 5, by `{command}`, "
        f"with Firelane {results['firelane']}, in {results['seconds']:.0f} s.",
        f"Every configuration has {results['runs']} runs (paper: 10), each on a scenario drawn anew (seeds "
        f"{seeds[0]} to {seeds[-1]}) and of {results['publications']:,} publications (paper: "
        f"6,500,000){'; of fewer with many subscribers in Figures 5 and 6, to be quick' if quick else ''}: "
        f"{results['simulated_events'] / 1e6:,.0f} million simulated events. ± is one standard error over the runs. "
        "Class 0 is the highest. The first tenth of a run is not counted.",
        _short_run(results["figures_7_and_8"]) if quick else "",
        "*Utility rate* is the utility of all subscriptions together over the highest possible. The paper's text "
        "has the mean of each subscription's own ratio instead; both are given, as `sums / mean of ratios`.",
    )


def _short_run(found: Results) -> str:
    """What a quick run gets wrong, and by how much."""
    queued, waits = _largest_of(found, "class_still_queued")
    off, where = _largest_of(found, "success_minus_fluid")
    return (
        f"**This is a short run**: {percent(found['plain']['still_queued'], error=False)} of all messages are still "
        f"queued at the end of the plain switch of Figure 7 and {percent(queued, error=False)} in {waits}, whose mean "
        "delay comes out too short; success is off its fluid limit by "
        f"{percent(off, signed=True).removesuffix(' %')} points at most, in {where}."
    )


def _largest_of(found: Results, name: str) -> tuple[Results, str]:
    """The largest such number of Figures 7 and 8, and where it is."""
    rows = [(one, k, switch) for switch in SWITCHES for k, one in enumerate(found[switch][name])]
    value, klass, switch = max(rows, key=lambda row: abs(row[0]["mean"] or 0.0))
    return value, f"class {klass} with “{switch}”"


def _headlines(results: Results) -> str:
    rows = results["headlines"]
    failed = [row for row in rows if not row["holds"]]
    return paragraphs(
        "## In short",
        table(
            ("Figure", "What", "Paper", "Here", "Holds", "Beside it, ours and not counted"),
            (
                [row[name] for name in ("figure", "what", "paper_text", "here_text", "verdict", "beside")]
                for row in rows
            ),
        ),
        f"{len(rows) - len(failed)} of {len(rows)} hold: gains and success within {100 * POINTS:.0f} points, delays "
        f"and the size of differences within {percent(RELATIVE)}; “within error” is beyond that or beyond a limit by "
        f"no more than {ERRORS} standard errors explain, and “cannot tell” is where {ERRORS} standard errors exceed "
        "half the paper's difference.",
        f"**Live**: {kept_promises(results['live'])}" if "live" in results else "",
        _what_it_shows(rows, results["figure_5"]["shared"]),
        "### What does not come out again, and why" if failed else "",
        "\n".join(
            f"* Figure {row['figure']}, {row['what']}: {row['paper_text']} in the paper, {row['here_text']} here; "
            f"{row['why']}"
            for row in failed
        ),
    )


def _what_it_shows(rows: list[Results], shared: Results) -> str:
    """What follows from the differences of Figure 5 that come out again, if any do."""
    cases = dict(zip(("5a", "5b", "5c"), shared.values(), strict=True))
    same = [row for row in rows if row["figure"] in cases and row["holds"]]
    if not same:
        return ""
    found = " and ".join(f"Figure {row['figure']} ({row['paper_text']}, here {row['here_text']})" for row in same)
    otherwise = " and ".join(seconds(cases[row["figure"]]["difference_s"]["equation_5"][8]) for row in same)
    return (
        f"**What this shows.** The paper's own distance between formula and simulation comes out again in {found} if "
        "Eq. 5 takes a whole class for one exponential server, every subscriber has a link of its own (on one "
        f"shared link: {otherwise}) and Table 2 is read as below. That is strong evidence for these three readings; "
        "and it says that the distance is an error of Eq. 5, not chance: our formula, which keeps the mixture of "
        "message sizes within a class, has next to none on the same runs."
    )


# ----------------------------------------------------------------------------------------- Fig. 5 and 6


def _figure_5(found: Results) -> str:
    names = (
        "", "links", "load, paper", "load, ours", "of those compared", "class 8 simulated", "our formula", "Eq. 5",
        "paper's difference", "our difference", "Eq. 5's", "worst class, ours", "worst class, Eq. 5",
    )  # fmt: skip
    rows = [
        (f"5{letter}", links, *_figure_5_row(letter, load, case))
        for links, cases in found.items()
        for letter, (load, case) in zip("abc", cases.items(), strict=True)
    ]
    own, shared = found["own"]["high"], found["shared"]["high"]
    return paragraphs(
        "## Figure 5: predicted and simulated delay at three loads",
        "![Figure 5](figure-5.png)",
        table(names, rows),
        "5a and 5b have no drop rates, 5c has exponential ones that bring the load to 0.9. Differences are formula "
        "minus simulation at class 8; the worst class is the one with the largest relative difference.",
        f"In 5b not every draw of Table 2 is stable: {own['unstable_links']} of {own['links']} own links and "
        f"{shared['unstable_links']} of {shared['links']} shared ones have load 1 or more and so no mean delay; "
        f"{own['unsettled_links']} and {shared['unsettled_links']} more have {SETTLES} or more, where a queue does "
        "not settle within a run. They are left out.",
        "On own links a subscriber gets one copy of a publication, arrivals are independent, and our formula is "
        "Cobham's; the paper's Eq. 5 takes a class for one exponential and is off by up to "
        f"{_worst(found['own'], 'equation_5')}. On one shared link the copies of a publication arrive together: Eq. "
        f"5 is off by up to {_worst(found['shared'], 'equation_5')}, Cobham by "
        f"{_worst(found['shared'], 'independent')}, our formula by {_worst(found['shared'], 'ours')}.",
    )


def _figure_5_row(letter: str, load: str, case: Results) -> tuple[str, ...]:
    both = ("ours", "equation_5")
    return (
        f"{PAPER[f'load, {load}']:g}",
        f"{case['offered_load']['mean']:.2f}",
        NOTHING if case["compared_load"] is None else f"{case['compared_load']:.2f}",
        seconds(case["simulated_s"][8]),
        *(seconds(case["predicted_s"][name][8], error=False) for name in both),
        seconds(PAPER[f"5{letter} difference, class 8"]),
        *(seconds(case["difference_s"][name][8]) for name in both),
        *(percent(case["largest_relative_difference"][name], signed=True) for name in both),
    )


def _worst(cases: Results, formula: str) -> str:
    found = [case["largest_relative_difference"][formula] for case in cases.values()]
    number = max(range(len(found)), key=lambda n: abs(found[n]["mean"] or 0.0))
    worst = found[number]
    return f"{percent(worst, signed=True)} (5{'abc'[number]}, class {worst['class']})"


def _figure_6(found: Results) -> str:
    names = ("subscribers", "publications a run", "own links, ours", "Eq. 5", "one shared link, ours", "Eq. 5")
    rows = [
        (
            str(many),
            f"{found['own'][str(many)]['publications']:,}",
            *(
                _with_class(found[links][str(many)]["largest_difference_s"][formula])
                for links in ("own", "shared")
                for formula in ("ours", "equation_5")
            ),
        )
        for many in SUBSCRIBERS
    ]
    return paragraphs(
        "## Figure 6: more and more subscribers",
        "![Figure 6](figure-6.png)",
        "Load 1.7, exponential drop rates, 8 Mbit/s for each subscriber. The largest difference, formula minus "
        f"simulation, over the classes (paper: never above {seconds(PAPER['6 largest difference'])}):",
        table(names, rows),
        "With own links the number of subscribers does not matter. On a shared link that grows with them every "
        "message is served faster, but waits for more copies of its own publication"
        f"{_beyond_limit(found['shared'])}.",
    )


def _beyond_limit(shared: Results) -> str:
    """Whether one shared link could be what the paper simulated."""
    off = [case["largest_difference_s"]["equation_5"]["mean"] or 0.0 for case in shared.values()]
    if max(map(abs, off)) <= PAPER["6 largest difference"]:
        return ""
    return "; there Eq. 5 exceeds the paper's limit, which again speaks for own links"


def _with_class(entry: Results) -> str:
    return NOTHING if entry["mean"] is None else f"{seconds(entry)} (class {entry['class']})"


# ----------------------------------------------------------------------------------------- Fig. 7 and 8


def _figures_7_and_8(results: Results) -> str:
    found = results["figures_7_and_8"]
    plain, shared = found["plain"], found["plain, one shared link"]
    switches = [found[name] for name in ("plain", "priorities", "priorities and drop rates")]
    names = (
        "class", "delivered: plain", "priorities", "and drop rates", "mean delay: plain", "priorities", "and drop rates"
    )  # fmt: skip
    rows = [
        (
            str(klass),
            *(percent(switch["success"][klass]) for switch in switches),
            *(seconds(switch["delay_s"][klass]) for switch in switches),
        )
        for klass in range(CLASSES)
    ]
    said_s = PAPER["8 with drop rates, class 8"]
    return paragraphs(
        "## Figures 7 and 8: what priorities and drop rates bring",
        "![Figure 7](figure-7.png)",
        "![Figure 8](figure-8.png)",
        "Bandwidth-adjusted priorities, exponential drop rates, a buffer of 2000 messages; for the plain switch "
        "the classes are those that the subscriptions would have had.",
        table(names, rows),
        f"On average the plain switch delivers {percent(plain['mean_success'])} (paper: "
        f"{percent(PAPER['7 plain, mean success'])}) in {seconds(plain['mean_delay_s'])} (paper: "
        f"{seconds(PAPER['8 plain, mean delay'])}). One shared link of 80 Mbit/s with the same buffer takes "
        f"{seconds(shared['mean_delay_s'])}, so the paper's delay speaks for own links of 8 Mbit/s, used here and "
        "in Figure 9.",
        f"The paper's {seconds(said_s)} at class 8 with drop rates do not come out: ours is "
        f"{seconds(found['priorities and drop rates']['delay_s'][8])}. By our formula {seconds(said_s)} need a load "
        f"of {results['load_for_paper_delay']:.3f}, where Eq. 12 with the tolerance of Table 2 makes it 0.9.",
    )


# ---------------------------------------------------------------------------------------- Fig. 9 and 10


def _figure_9(results: Results) -> str:
    found = results["figure_9"]
    rates = [
        (name, *(_both(each[source]) for source in ("simulated", "fluid"))) for name, each in found["rates"].items()
    ]
    names = (
        "gain", "paper", "ours, sums", "ours, mean of ratios", "fluid limit, sums / mean of ratios",
        "if everything arrived", "most the link allows",
    )  # fmt: skip
    gains = [(name, *_gain_row(found, name)) for name in found["gains"]]
    return paragraphs(
        "## Figure 9: which priorities are worth most",
        "![Figure 9](figure-9.png)",
        table(("priorities (+ drop rates)", "simulated", "fluid limit of `predict`"), rates),
        f"No plan can exceed {percent(found['bound']['without_headroom'])} of the highest utility on these links, "
        f"or {percent(found['bound']['with_headroom'])} with 10 % headroom (both by sums). Without drop rates "
        "`delay-adjusted` orders own links just as `bandwidth-adjusted` does.",
        table(names, gains),
        _why_not(results),
        "By the mean of ratios, as the paper's text has it, bandwidth-adjusted priorities gain "
        f"{percent(found['gains']['bandwidth-adjusted over none']['mean_of_ratios'], signed=True)} over none, since "
        "it counts a subscription of little weight as much as one of great weight; the paper's gains are those of "
        "sums.",
    )


def _gain_row(found: Results, name: str) -> tuple[str, ...]:
    gain = found["gains"][name]
    shown = (
        percent(PAPER[f"9 {name}"], signed=True),
        percent(gain["rate"], signed=True),
        percent(gain["mean_of_ratios"], signed=True),
        _both(found["fluid_gains"][name], signed=True),
    )
    ceiling = found["ceilings"].get(f"over {name.rpartition(' over ')[2]}")
    if ceiling is None:
        return (*shown, NOTHING, NOTHING)
    return (*shown, percent(ceiling["everything"]["rate"], signed=True), percent(ceiling["bound"], signed=True))


def _why_not(results: Results) -> str:
    found = results["figure_9"]
    over_ranked, over_none = (percent(PAPER[f"9 with drop rates over {what}"], signed=True) for what in _BASES)
    plain = found["rates"]["none"]["simulated"]["rate"]
    everything = found["ceilings"]["over none"]["everything"]
    ranked = found["ceilings"]["over bandwidth-adjusted"]
    lost = found["gains"]["with drop rates over bandwidth-adjusted"]["rate"]
    return (
        f"**Why {over_ranked} and {over_none} cannot follow from Eq. 8.** Its utility is a log(1 + x) of the "
        "delivered share x. The plain switch delivers "
        f"{percent(results['figures_7_and_8']['plain']['mean_success'])} and achieves {percent(plain)} of the "
        f"highest utility with it. If every single message arrived, the gain would be 1 / {plain['mean']:.3f} - 1, "
        f"that is {percent(everything['rate'], signed=True)} by sums and "
        f"{percent(everything['mean_of_ratios'], signed=True)} by the mean of ratios, so no policy whatever gains "
        f"{over_none}. Over bandwidth-adjusted priorities it would be "
        f"{percent(ranked['everything']['rate'], signed=True)}, and what the link can carry allows "
        f"{percent(ranked['bound'], signed=True)}, so none gains {over_ranked}. Optimised drop rates change utility "
        f"by {percent(lost, signed=True)} against priorities alone, as they leave a tenth of the link free; what "
        "that buys is delay (Figure 8). Were x messages a second instead of a share, Eq. 8 would be flatter still, "
        f"and {percent(found['if success counts messages'], signed=True)} the most over none."
    )


_BASES = ("bandwidth-adjusted", "none")


def _figure_10(found: Results) -> str:
    rows = [
        (
            f"{factor:g}",
            *(_both(found[str(factor)][policy], error=False) for policy in POLICIES),
            percent(found[str(factor)]["bound"], error=False),
            percent(found[str(factor)]["optimised_of_bound"]["least"], decimals=2),
        )
        for factor in FACTORS
    ]
    best = {rate: sum(_leads(found[str(factor)], rate) for factor in FACTORS) for rate in ("rate", "mean_of_ratios")}
    return paragraphs(
        "## Figure 10: which drop rates are worth most",
        "![Figure 10](figure-10.png)",
        "By formula, with bandwidth-adjusted priorities; the weights of asynchronous events are multiplied by the "
        "factor.",
        table(("factor", *POLICIES, "upper bound", "optimised / bound, least of the runs"), rows),
        f"By sums the optimised drop rates are best at {best['rate']} of {len(FACTORS)} factors (paper: at all); by "
        f"the mean of ratios, which they do not maximise, at {best['mean_of_ratios']}.",
    )


def _leads(policies: Results, rate: str) -> bool:
    best = policies["optimised"][rate]["mean"]
    return all(best >= policies[policy][rate]["mean"] for policy in POLICIES)


def _both(rates: Results, *, error: bool = True, signed: bool = False) -> str:
    return " / ".join(percent(rates[rate], error=error, signed=signed) for rate in ("rate", "mean_of_ratios"))


# -------------------------------------------------------------------------------------- ours, readings


def _ours(found: Results) -> str:
    names = (
        "seed", "value-weighted delay, bandwidth-adjusted", "delay-adjusted", "reduction, simulated", "by formula",
        "message-weighted reduction", "utility rate, bandwidth-adjusted", "delay-adjusted",
    )  # fmt: skip
    same = all(row["same_flows_and_drop_rates"] for one in found.values() for row in one["seeds"])
    least = min(one["of_bound"]["least"] for one in found.values())
    return paragraphs(
        "## What is ours",
        "**`delay-adjusted` against `bandwidth-adjusted` priorities**, both with optimised drop rates, on one "
        "shared link, simulated with fan-out. Flows and drop rates are "
        f"{'the same' if same else '**not** the same'} under both; only the classes differ. Weights are those of "
        "the subscriptions' utilities.",
        table(names, (_seed_row(row) for row in found["shared"]["seeds"])),
        _reduction("On one shared link", found["shared"]),
        _reduction("On own links", found["own"]),
        f"**Optimised drop rates** reach at least {percent(least, decimals=2)} of the upper bound, which gives "
        "every subscription a flow of its own, in every run on own links and on a shared one.",
    )


def _seed_row(row: Results) -> tuple[str, ...]:
    simulated = row["simulated"]
    methods = ("bandwidth-adjusted", "delay-adjusted")
    reductions = (
        simulated["value_weighted"]["reduction"],
        row["predicted"]["value_weighted"]["reduction"],
        simulated["message_weighted"]["reduction"],
    )
    return (
        str(row["seed"]),
        *(seconds(simulated["value_weighted"][f"{method}_s"]) for method in methods),
        *(percent(one, signed=True, decimals=1) for one in reductions),
        *(percent(row["utility_rate"][method], decimals=2) for method in methods),
    )


def _reduction(where: str, one: Results) -> str:
    value, message = (one["reduction"]["simulated"][kind] for kind in ("value_weighted", "message_weighted"))
    return (
        f"{where} the value-weighted delay falls on {one['reduced_on']} of {len(one['seeds'])} seeds, by "
        f"{percent(value['least'])} to {percent(value['most'])}, on average by {percent(value)}; the "
        f"message-weighted delay changes by {percent(-message['most'], signed=True, decimals=1)} to "
        f"{percent(-message['least'], signed=True, decimals=1)}."
    )


def _readings(found: Results) -> str:
    paper = [PAPER[f"load, {name}"] for name in ("medium", "high", "overload")]
    rows, off = [], {}
    for text, loads in found.items():
        means = [one["mean"] for one in loads.values()]
        off[text] = max(abs(ours / theirs - 1) for ours, theirs in zip(means, paper, strict=True))
        shown = f"**{text} (kept)**" if text == KEPT else text
        rows.append((shown, *(f"{load:.2f}" for load in means), percent(off[text])))
    closest = min(off, key=lambda text: off[text])
    return paragraphs(
        "## Readings of Table 2 that were tried",
        "In the text we have of it the table has lost a column; it does not say what a rate and a bandwidth are of. "
        "The load of a link before drops, mean over the seeds, against the paper's "
        f"{' / '.join(f'{load:g}' for load in paper)}:",
        table(("reading", "(21, 15)", "(42, 24)", "(70, 42)", "furthest off"), rows),
        f"Closest is the reading {'that was kept' if closest == KEPT else f'“{closest}”'}. Its 62 % are fitted, as "
        "the paper does not say who advertises what; sizes are bytes, and 80 Mbit/s are 8 Mbit/s for each of ten "
        "subscribers, as section 5.2.2 has it.",
    )
