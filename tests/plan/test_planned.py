"""From a scenario to a plan: what it decides on cases that can be worked out by hand, and what it says of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planned_case import TEXT

from category_cases import some_scenario
from firelane.errors import FirelaneError
from firelane.plan import plan
from firelane.plan.cost import NO_BOUND
from firelane.predict import predict
from firelane.scenario import Category, from_text, load
from firelane.scenario.plan import plan_from_data


def mg1_priority(load_first, load_second, service_s):
    """Mean delay of the first of two classes with fixed service times (Cobham)."""
    residual = (load_first + load_second) * service_s / 2
    return residual / (1 - load_first) + service_s


def test_the_category_with_a_bound_goes_first_and_the_other_is_dropped_to_what_it_bears():
    result = plan(from_text(TEXT))
    assert result.order == ["urgent", "bulk"]
    assert result.drops == {"urgent": 0, "bulk": pytest.approx(0.1)}
    assert result.found.proven
    expected = mg1_priority(0.48, 0.9 * 0.48, 0.008)
    assert result.after["urgent"]["delay_mean_s"] == pytest.approx(expected)
    assert result.after["bulk"]["loss"] == pytest.approx(0.1)
    assert result.found.cost.to_data() == pytest.approx(
        {"violated": 0, "late": 2 * expected / 0.03, "dropped": 0.1}, abs=1e-6
    )


def test_before_is_one_class_for_all():
    result = plan(from_text(TEXT))
    residual = 0.96 * 0.008 / 2
    assert result.before["urgent"]["delay_mean_s"] == pytest.approx(residual / 0.04 + 0.008)
    assert result.before["bulk"] == pytest.approx({"delay_mean_s": residual / 0.04 + 0.008, "loss": 0}, abs=1e-9)


def test_the_plan_is_one_like_any_other_and_a_prediction_of_it_says_what_was_promised():
    scenario = from_text(TEXT)
    made = plan(scenario).to_plan()
    again = plan_from_data(made.to_data())
    assert again.flow_priority.tolist() == [0, 1]
    assert again.scenario_digest == scenario.digest()
    metrics = predict(scenario, again)
    promised = again.promised["after"]["urgent"]["delay_mean_s"]
    assert metrics.column("delay_mean_s")[0] == pytest.approx(promised)
    assert again.why


def test_it_is_told_which_requirement_forced_which_step():
    why = "\n".join(plan(from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 16.5 ms"))).why)
    assert "doing nothing misses 1 bound: urgent max_delay 16.5 ms (104 ms)" in why
    assert "urgent before bulk: the other way round urgent max_delay 16.5 ms" in why
    assert "bulk is dropped by 10 % (it bears 10 %): without that weight x delay/bound would be" in why


def test_what_conflicts_is_named_with_the_nearest_plan():
    assert mg1_priority(0.48, 0.9 * 0.48, 0.008) > 0.015  # though bulk is dropped by all it bears
    result = plan(from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 15 ms")))
    assert result.conflict == ["urgent max_delay 15 ms", "urgent max_loss 0 %", "bulk max_loss 10 %"]
    assert [result.wanted.name(one) for one, _ in result.missed] == ["bulk max_loss 10 %"]
    assert "1 bound missed: bulk max_loss 10 % (90 %)" in result.why


def test_the_nearest_plan_drops_no_more_than_the_other_bounds_need():
    data = plan(from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 15 ms"))).to_data()
    enough = ((0.015 - 0.008) * 0.52 / 0.004 - 0.48) / 0.48  # of bulk may stay, solved for the delay of the first class
    assert data["nearest"]["drops"] == {"urgent": 0, "bulk": pytest.approx(1 - enough, abs=0.005)}
    assert data["nearest"]["granted"] == {"bulk max_loss 10 %": pytest.approx(1 - enough, abs=0.005)}
    assert any(line.startswith("nearer to what is required would be to drop bulk by") for line in data["why"])
    assert plan(from_text(TEXT)).to_data()["nearest"] is None


def test_a_category_that_bears_no_loss_is_never_dropped_however_tight_it_gets():
    result = plan(from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 9 ms")))
    assert result.found.cost.violated > 0
    assert result.drops["urgent"] == 0


def test_nothing_is_done_where_nothing_is_gained():
    result = plan(from_text(TEXT.replace("max_delay: 30 ms, ", "")))
    assert result.order == []
    assert not any(result.drops.values())
    assert "nothing is done" in result.why[1]
    assert result.to_plan().flow_priority.tolist() == [0, 0]


def test_what_has_no_bound_on_loss_gives_way_only_as_far_as_links_need():
    text = TEXT.replace("  bulk: {max_loss: 10 %}\n", "")
    assert plan(from_text(text)).drops["bulk"] == pytest.approx((0.96 - 0.95) / 0.48, abs=2e-3)
    roomy = plan(from_text(text.replace("1 Mbps", "2 Mbps")))
    assert roomy.drops["bulk"] == 0
    assert roomy.order == ["urgent", "bulk"]


def test_a_tight_bound_makes_it_give_way_further():
    text = TEXT.replace("  bulk: {max_loss: 10 %}\n", "").replace("max_delay: 30 ms", "max_delay: 14 ms")
    result = plan(from_text(text))
    assert result.found.cost.violated == 0
    assert result.drops["bulk"] > 0.3


def test_the_papers_scenario_gives_the_papers_plan_when_told_what_its_categories_bear():
    """Listing 2: RT before ST before TS before AN, and drops of all that streaming (2 %) and analytics (5 %) bear."""
    scenario = load("planemqx")
    link = replace(scenario.links["post"], bandwidth_bps=10e6)
    bears = {
        "real-time": Category(weight=4, max_delay_s=0.02, max_loss=0.0),
        "streaming": Category(weight=3, max_delay_s=0.05, max_loss=0.02),
        "transactional": Category(weight=2, max_delay_s=0.5, max_loss=0.0),
        "analytics": Category(weight=1, max_delay_s=1.0, max_loss=0.05),
    }
    result = plan(replace(scenario, links={"post": link}, categories=bears))
    assert result.order == ["real-time", "streaming", "transactional", "analytics"]
    assert result.drops == pytest.approx({"real-time": 0, "streaming": 0.02, "transactional": 0, "analytics": 0.05})
    assert result.found.cost.violated == 0


def test_an_unknown_planner_is_refused():
    with pytest.raises(FirelaneError, match='planner: "magic" is not known; write one of search, enhsp'):
        plan(from_text(TEXT), planner="magic")


def test_percentiles_need_a_data_set():
    text = TEXT.replace("max_delay: 30 ms", "max_delay_p95: 30 ms")
    with pytest.raises(FirelaneError, match=r"categories\.urgent\.max_delay_p95: a prediction has no percentiles"):
        plan(from_text(text))


@pytest.mark.slow
def test_the_planner_decides_the_same_on_the_coarse_grid(tmp_path):
    ours = plan(from_text(TEXT))
    theirs = plan(from_text(TEXT), planner="enhsp", pddl_folder=tmp_path)
    assert theirs.order == ours.order
    assert theirs.drops == ours.drops
    assert (tmp_path / "domain.pddl").exists()


def test_nothing_is_lost_of_what_a_reader_of_the_document_needs():
    data = plan(from_text(TEXT)).to_data()
    assert {"planner", "cost", "proven_optimal", "order", "drops", "before", "after", "seconds"} <= set(data)
    assert data["lower_bound"] == data["cost"]
    assert np.isfinite(data["seconds"])


def test_links_without_a_bandwidth_need_no_plan():
    result = plan(from_text(TEXT.replace("{bandwidth: 1 Mbps, overhead: 0, pace: 1}", "{}")))
    assert result.found.proven
    assert result.order == []
    assert result.after["urgent"] == {"delay_mean_s": 0, "loss": 0}


def test_where_nothing_is_required_that_is_said():
    result = plan(from_text(TEXT.split("categories:\n")[0]))
    assert result.order == []
    assert "nothing is required" in result.why[1]


def test_too_few_flows_for_the_categories_of_a_subscriber_are_noted():
    text = TEXT.replace("headroom", "flows: 1\nheadroom").replace("weight: 2}}", "weight: 2}, b: {category: bulk}}")
    assert any("some subscribers need 2 flows" in line for line in plan(from_text(text)).why)


def test_where_filters_of_different_categories_overlap_no_lower_bound_is_claimed():
    found = [plan(some_scenario(seed, categories=4, overlaps=True, subscribers=12, topics=8)) for seed in range(6)]
    unproven = [one for one in found if not one.found.proven]
    assert all(one.found.lower_bound == NO_BOUND for one in unproven)
    assert all("not proved, as filters" in one.why[0] for one in unproven)
    assert [one for one in found if one.found.proven]


@pytest.mark.parametrize(("spare", "drop"), [(0.1, 0.025), (0.003, 0.08), (0.0, 0.1)])
def test_with_something_to_spare_less_is_dropped(spare, drop):
    """By 5 % of headroom at least 1 - 0.47/0.48 of the bulk; by Cobham each percent less costs 0.037 ms of delay."""
    result = plan(from_text(TEXT), spare=spare)
    assert result.order == ["urgent", "bulk"]
    assert result.drops == {"urgent": 0, "bulk": pytest.approx(drop)}
    assert result.after["urgent"]["delay_mean_s"] == pytest.approx(mg1_priority(0.48, (1 - drop) * 0.48, 0.008))
    assert any("less is dropped" in line for line in result.why) == (spare > 0)


def test_what_is_proved_with_something_to_spare_is_the_plan_that_drops_more():
    best, spared = plan(from_text(TEXT)), plan(from_text(TEXT), spare=0.1)
    assert best.found.proven
    assert not spared.found.proven
    assert spared.found.lower_bound == best.found.cost < spared.found.cost
    assert spared.why[0] == best.why[0]  # what less is dropped than


def test_nothing_is_said_of_dropping_less_where_that_cannot_be():
    scenario = from_text(TEXT.replace("bulk: {max_loss: 10 %}", "bulk: {max_loss: 0 %}"))
    result = plan(scenario, spare=0.1)
    assert result.order
    assert result.found.proven
    assert not any("less is dropped" in line for line in result.why)


def test_with_something_to_spare_no_further_bound_is_missed():
    expected = mg1_priority(0.48, 0.93 * 0.48, 0.008)  # so that 7 % have to be dropped
    text = TEXT.replace("max_delay: 30 ms", f"max_delay: {1e3 * expected:.6f} ms")
    result = plan(from_text(text), spare=0.5)
    assert result.found.cost.violated == 0
    assert result.drops["bulk"] == pytest.approx(0.07, abs=0.005)


def test_what_cannot_all_be_met_is_not_missed_more_often_for_dropping_less():
    scenario = from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 14.5 ms"))
    tight, loose = plan(scenario), plan(scenario, spare=0.5)
    assert tight.found.cost.violated == loose.found.cost.violated == 1
    assert loose.drops["bulk"] < tight.drops["bulk"]
