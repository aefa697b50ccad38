"""The FireDeX reproduction, small: its files, the claims that hold, and those that are ours."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from firelane.predict import predict
from firelane.reproduce import firedex
from firelane.reproduce.firedex.beyond import KEPT, delay_adjusted, readings
from firelane.reproduce.firedex.experiments import (
    FACTORS,
    FORMULAS,
    POLICIES,
    RANKINGS,
    all_cases,
    figure_5_case,
    figure_10,
    load_for_delay,
    ranked_case,
)
from firelane.reproduce.firedex.headlines import PAPER, RELATIVE, _difference, _meets_the_end
from firelane.reproduce.firedex.report import report
from firelane.reproduce.firedex.runs import SETTLES, Case, Effort, class_delay_s, class_success, over_runs, simulate_all
from firelane.reproduce.wording import entry, percent, seconds
from firelane.tune import tune, upper_bound

SMALL = Effort(runs=2, publications=400_000, most_copies=700_000)
TEN_SEEDS = range(1, 11)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    output = tmp_path_factory.mktemp("firedex")
    return output, firedex.reproduce(output, quick=True, seed=1, effort=SMALL)


@pytest.mark.slow
def test_every_figure_the_results_and_the_report_are_written(reproduced):
    output, results = reproduced
    names = {path.name for path in output.iterdir()}
    assert names == {*(f"figure-{n}.png" for n in range(5, 11)), "results.json", "report.md"}
    assert all((output / name).read_bytes().startswith(b"\x89PNG") for name in names if name.endswith(".png"))
    text = (output / "results.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(results))
    assert "NaN" not in text
    assert "Infinity" not in text


@pytest.mark.slow
def test_the_results_say_how_they_were_made(reproduced):
    _, results = reproduced
    assert results["seeds"] == [1, 2]
    assert results["runs"] == 2
    assert results["publications"] == SMALL.publications
    assert len(results["cases"]) == len(set(all_cases()))
    for case in results["cases"]:
        assert case["scenario_seeds"] == [1, 2]
        assert len(set(case["simulation_seeds"])) == 2
        assert 0 < case["publications"] <= SMALL.publications
    entry = results["figure_5"]["own"]["medium"]["simulated_s"][8]
    assert entry["runs"] == 2
    assert entry["standard_error"] > 0


@pytest.mark.slow
def test_every_number_of_the_paper_has_ours_beside_it_and_a_reason_where_they_differ(reproduced):
    _, results = reproduced
    figures = {row["figure"] for row in results["headlines"]}
    assert figures == {"5a", "5b", "5c", "6", "7", "8", "9", "10"}
    said = [row["paper"] for row in results["headlines"]]
    for key, value in PAPER.items():
        assert key.startswith("load") or value in said, key
    assert all(row["why"] for row in results["headlines"] if not row["holds"])


@pytest.mark.slow
def test_the_report_names_every_figure_and_what_does_not_come_out(reproduced):
    output, results = reproduced
    text = (output / "report.md").read_text()
    assert all(f"(figure-{n}.png)" in text for n in range(5, 11))
    for row in results["headlines"]:
        assert row["what"] in text
        assert row["why"] in text
    assert "647 ms" in text
    assert "+94 %" in text
    assert not re.search(r"\b(nan|None|inf)\b", text)


@pytest.mark.slow
def test_the_report_gives_both_definitions_of_the_utility_rate(reproduced):
    output, results = reproduced
    text = (output / "report.md").read_text()
    for name, rates in results["figure_9"]["rates"].items():
        both = (percent(rates["simulated"][rate]) for rate in ("rate", "mean_of_ratios"))
        assert f"| {name} | {' / '.join(both)} |" in text


@pytest.mark.slow
def test_a_quick_report_says_what_is_still_queued_and_no_report_prints_minus_nothing(reproduced):
    output, results = reproduced
    text = (output / "report.md").read_text()
    queued = results["figures_7_and_8"]["plain"]["still_queued"]
    assert f"**This is a short run**: {percent(queued, error=False)} of all messages are still queued" in text
    assert not re.search(r"-0(\.0*)?( ±[^|]*)? (%|ms|s)\b", text)
    assert "This is a short run" not in report({**results, "quick": False})


@pytest.mark.slow
def test_the_differences_of_figure_5_are_those_of_equation_5_with_ours_beside(reproduced):
    _, results = reproduced
    rows = {row["figure"]: row for row in results["headlines"]}
    for letter, case in zip("abc", results["figure_5"]["own"].values(), strict=True):
        assert rows[f"5{letter}"]["here"] == case["difference_s"]["equation_5"][8]["mean"]
        assert seconds(case["difference_s"]["ours"][8]) in rows[f"5{letter}"]["beside"]
    sizes = [abs(case["largest_difference_s"]["equation_5"]["mean"]) for case in results["figure_6"]["own"].values()]
    assert abs(rows["6"]["here"]) == max(sizes)


def test_a_difference_holds_only_if_it_is_as_large_as_the_papers_and_known_well_enough():
    def verdict(mean, error):
        return _difference("5c difference, class 8", entry(mean, error), why="because")["verdict"]

    assert verdict(-8.24e-3 * 1.1, 0.0) == "yes"
    assert verdict(0.15e-3, 0.1e-3) == "**no**"  # as good as none: not what the paper saw
    assert verdict(-21e-3, 1e-3) == "**no**"
    assert verdict(-10.5e-3, 1.2e-3) == "within error"
    assert verdict(-8.24e-3, 3e-3) == "cannot tell"
    assert verdict(None, None) == "**no**"


def test_it_is_not_the_simulation_only_where_the_fluid_limit_agrees():
    def why(seen):
        rows = {"success": seen, "fluid_success": entry(0.223, 0.029), "class_still_queued": entry(0.05, 0.01)}
        return _meets_the_end({name: [one] * 9 for name, one in rows.items()})

    assert "it is not the simulation" in why(entry(0.218, 0.028))
    assert "it is not the simulation" not in why(entry(0.167, 0.02))
    assert "5.0 ± 1.0 % still queued" in why(entry(0.167, 0.02))


def test_equation_5_differs_from_the_exact_formula_by_what_the_paper_reports():
    """Own links without a limit to the buffer are M/G/1 with priorities, where Cobham's formula is exact.

    Eq. 5 falls short of it by the paper's 0.35 and 8.24 ms within 15 %; in 5b it depends on the links compared,
    and the paper's 13.98 ms lie between those of links below load 0.94 and below 0.98.
    """
    found = {load: figure_5_runs(load) for load in ("medium", "high", "overload")}
    assert -lowest_class_off_s(found["medium"], SETTLES) == pytest.approx(PAPER["5a difference, class 8"], rel=RELATIVE)
    assert -lowest_class_off_s(found["overload"], SETTLES) == pytest.approx(
        PAPER["5c difference, class 8"], rel=RELATIVE
    )
    few, many = (-lowest_class_off_s(found["high"], below) for below in (0.94, SETTLES))
    assert few < PAPER["5b difference, class 8"] < many


def figure_5_runs(load):
    case = figure_5_case(load, shared=False)
    return simulate_all([case], TEN_SEEDS, Effort(runs=10, publications=1_000))[case]


def lowest_class_off_s(runs, below):
    rows = [[class_delay_s(run, run.predicted[name], below=below)[8] for name in FORMULAS[1:]] for run in runs]
    return float(np.nanmean([equation_5 - cobham for cobham, equation_5 in rows]))


@pytest.mark.slow
def test_simulated_utility_rates_are_those_of_the_fluid_limit(reproduced):
    """Within 1.5 points, as the runs are short."""
    _, results = reproduced
    for name, rates in results["figure_9"]["rates"].items():
        for rate in ("rate", "mean_of_ratios"):
            assert rates["simulated"][rate]["mean"] == pytest.approx(rates["fluid"][rate]["mean"], abs=0.015), name


def fluid_rate(network, plan):
    """Utility rate if every own link serves its classes in order until it is full; independent of `predict`."""
    topic = network.stream_topic[np.argsort(network.claim_subscription)]
    load = network.topic_rate_hz[topic] * network.topic_mean_bytes[topic] * 8 / 8e6
    klass, lane = plan.per_subscription(network)[1], network.subscription_lane
    weight = np.array([need.weight for need in network.needs])
    share = np.empty(len(klass))
    for mine in (lane == one for one in np.unique(lane)):
        room = 1.0
        for one in range(9):
            inside = mine & (klass == one)
            wanted = load[inside].sum()
            share[inside] = min(1.0, room / wanted) if wanted else 1.0
            room = max(0.0, room - wanted)
    return float(weight @ np.log2(1 + share) / weight.sum())


def test_priorities_gain_in_the_fluid_limit_what_the_paper_says_within_five_points():
    rates = {name: [] for name in ("none", "information", "bandwidth-adjusted")}
    for seed in TEN_SEEDS:
        network = Case().routes(seed)
        for name, found in rates.items():
            plan = tune(network, priorities=name, drops="none")
            found.append(fluid_rate(network, plan))
            assert found[-1] == pytest.approx(predict(network, plan).utility()["rate"], abs=1e-6)
    best = np.array(rates.pop("bandwidth-adjusted"))
    over_none, over_information = (float(np.mean(best / rates[name] - 1)) for name in ("none", "information"))
    assert over_information == pytest.approx(0.08, abs=0.02)
    assert over_none == pytest.approx(0.33, abs=0.03)
    assert over_information == pytest.approx(PAPER["9 bandwidth-adjusted over information"], abs=0.05)
    assert over_none == pytest.approx(PAPER["9 bandwidth-adjusted over none"], abs=0.05)


@pytest.mark.slow
def test_no_policy_can_gain_what_the_paper_says_of_drop_rates(reproduced):
    """A share x delivered evenly achieves log2(1 + x) of the highest utility, whatever the weights (Eq. 8)."""
    _, results = reproduced
    plain = results["figures_7_and_8"]["plain"]["mean_success"]["mean"]
    ceiling = results["figure_9"]["ceilings"]["over none"]["everything"]["rate"]["mean"]
    assert ceiling == pytest.approx(1 / math.log2(1 + plain) - 1, rel=0.01)
    assert ceiling < PAPER["9 with drop rates over none"]
    ranked = results["figure_9"]["ceilings"]["over bandwidth-adjusted"]["everything"]["rate"]["mean"]
    assert ranked < PAPER["9 with drop rates over bandwidth-adjusted"]


@pytest.mark.slow
def test_no_ranking_exceeds_the_upper_bound(reproduced):
    _, results = reproduced
    found = results["figure_9"]
    for name, rates in found["rates"].items():
        bound = found["bound"]["without_headroom" if RANKINGS[name].drops == "none" else "with_headroom"]
        assert rates["fluid"]["rate"]["mean"] <= bound["mean"] * (1 + 1e-9), name


@pytest.mark.slow
def test_the_plain_switch_delivers_one_over_load(reproduced):
    """The fluid limit of one full FIFO queue; short by no more than what is still queued, and noise of 1 point."""
    _, results = reproduced
    load = results["figure_6"]["own"]["10"]["offered_load"]["mean"]
    plain = results["figures_7_and_8"]["plain"]
    assert plain["mean_success"]["mean"] == pytest.approx(1 / load, abs=plain["still_queued"]["mean"] + 0.01)


@pytest.mark.slow
def test_delay_adjusted_reduces_value_weighted_delay_on_each_of_ten_seeds():
    """Design: 21 to 42 % in simulation with fan-out, same flows, drop rates and utility."""
    cases = [ranked_case(priorities, shared=True) for priorities in ("bandwidth-adjusted", "delay-adjusted")]
    effort = Effort(runs=10, publications=200_000)
    runs = simulate_all(cases, TEN_SEEDS, effort)
    own = {ranked_case(case.priorities, shared=False): found for case, found in runs.items()}
    found = delay_adjusted(runs | own)["shared"]
    reductions = [row["simulated"]["value_weighted"]["reduction"] for row in found["seeds"]]
    assert [row["seed"] for row in found["seeds"]] == list(TEN_SEEDS)
    assert all(row["same_flows_and_drop_rates"] for row in found["seeds"])
    assert min(reductions) > 0.1, reductions
    assert np.mean(reductions) > 0.2, reductions
    for row in found["seeds"]:
        assert row["utility_rate"]["delay-adjusted"] == pytest.approx(
            row["utility_rate"]["bandwidth-adjusted"], rel=0.01
        )


@pytest.mark.parametrize("shared", [False, True])
def test_optimised_drop_rates_are_within_one_percent_of_the_upper_bound(shared):
    for seed in range(1, 6):
        network = Case(shared=shared).routes(seed)
        for priorities in ("bandwidth-adjusted", "delay-adjusted"):
            plan = tune(network, priorities=priorities, drops="optimised")
            utility = predict(network, plan).utility()["achieved"]
            bound = upper_bound(network)
            assert 0.99 * bound <= utility <= bound * (1 + 1e-9)


def test_optimised_drop_rates_are_best_at_every_factor():
    found = figure_10([1, 2])
    for factor in FACTORS:
        policies = found[str(factor)]
        best = policies["optimised"]["rate"]["mean"]
        assert all(best >= policies[policy]["rate"]["mean"] for policy in POLICIES), factor
        assert best <= policies["bound"]["mean"] * (1 + 1e-9)


def test_the_load_for_a_delay_is_where_bandwidth_adjusted_priorities_give_it():
    wanted_s = PAPER["8 with drop rates, class 8"]
    load = load_for_delay(wanted_s, [1])
    network = Case(buffer=None).routes(1)
    plan = tune(network, priorities="bandwidth-adjusted", drops="exponential", headroom=1 - load)
    assert predict(network, plan).classes()[8]["delay_mean_s"] == pytest.approx(wanted_s, rel=0.01)


def test_the_kept_reading_of_table_2_gives_the_papers_loads_and_the_others_do_not():
    paper = [PAPER[f"load, {name}"] for name in ("medium", "high", "overload")]
    found = readings([1, 2, 3])
    off = {
        text: max(abs(loads[name]["mean"] / load - 1) for name, load in zip(loads, paper, strict=True))
        for text, loads in found.items()
    }
    assert off[KEPT] < 0.1
    assert min(off, key=lambda text: off[text]) == KEPT


def test_class_means_agree_with_the_metrics_own():
    case = Case(drops="exponential")
    run = simulate_all([case], [7], Effort(runs=1, publications=20_000))[case][0]
    rows = run.simulated.classes()
    delay, success = class_delay_s(run, run.simulated), class_success(run, run.simulated)
    assert delay.tolist() == pytest.approx([row["delay_mean_s"] for row in rows])
    assert success.tolist() == pytest.approx([row["success"] for row in rows])


def test_links_that_do_not_settle_are_left_out():
    runs = figure_5_runs("high")
    assert not all((run.carried_load < SETTLES).all() for run in runs)
    for run in runs:
        settled, delay_s = run.carried_load < SETTLES, class_delay_s(run, run.predicted["independent"])
        lowest = run.predicted["independent"].column("delay_mean_s")[settled & (run.klass == 8)]
        assert lowest.min() <= delay_s[8] <= lowest.max()


def test_a_run_of_many_subscribers_is_shortened_to_the_copies_allowed():
    effort = Effort(runs=1, publications=1_000_000, most_copies=560_000)
    assert Case(subscribers=100, buffer=None).publications(effort) == 10_000
    assert Case(subscribers=1, buffer=None).publications(effort) == 1_000_000
    assert Case(subscribers=100).publications(effort) == 1_000_000  # a limited buffer has to fill


def test_plans_that_are_compared_see_the_same_publications_and_other_systems_do_not():
    assert Case(priorities="none").simulation_seed(1) == Case(drops="optimised").simulation_seed(1)
    assert Case().simulation_seed(1) != Case().simulation_seed(2)
    assert Case().simulation_seed(1) != Case(shared=True).simulation_seed(1)


def test_runs_without_a_value_are_left_out_of_its_mean():
    assert over_runs([1.0, math.nan, 3.0]) == {"mean": 2.0, "standard_error": 1.0, "runs": 2}
    assert over_runs([math.nan]) == {"mean": None, "standard_error": None, "runs": 0}
    assert over_runs([2.0]) == {"mean": 2.0, "standard_error": None, "runs": 1}
