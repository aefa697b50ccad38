"""Plans for what is live by a data set that was made with the configured scenario."""

from dataclasses import replace

import pytest
from planned_case import TEXT
from sweep_data import swept

from fake_exchange import observed, treated
from firelane.control import decide
from firelane.errors import FirelaneError, ScenarioError
from firelane.plan import plan
from firelane.scenario import from_text

CONTROL = "exchange: {{control: {{planner: plan, data: {}}}}}\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    return swept(from_text(TEXT), folder, drops=("bulk=0,0.05,0.1,0.3",), rates="0.5,1", simulated=False)


def configured(data):
    return from_text(TEXT + CONTROL.format(data))


def at(scenario, times):
    """The scenario as an exchange sees it, with so many times its rates."""
    scene = observed(scenario)
    return replace(scene, topics=tuple(one._replace(rate_hz=one.rate_hz * times) for one in scene.topics))


def test_at_the_configured_rates_it_is_the_plan_of_the_data_set(data):
    scenario = configured(data)
    found, expected = decide(at(scenario, 1.03), scenario).plan, plan(from_text(TEXT), data=data)
    assert expected.drops == {"urgent": 0, "bulk": 0.1}
    assert treated(found)["ann", "a"] == (0, 0.0)
    assert treated(found)["ben", "b"] == (1, 0.1)
    assert any("predicted points" in line for line in found.why)


def test_the_points_nearest_to_what_is_live_count(data):
    scenario = configured(data)
    why = decide(at(scenario, 0.6), scenario).plan.why
    assert any("nothing at 0.6 times the rates; what is next to it, 0.5, is used" in line for line in why)


@pytest.mark.parametrize(
    ("times", "path", "named"),
    [(1.2, None, "outside what was swept"), (1.0, "nowhere", "there is no such data set")],
)
def test_what_cannot_be_known_is_told(data, times, path, named):
    scenario = configured(path or data)
    with pytest.raises(FirelaneError, match=named):
        decide(at(scenario, times), scenario)


def test_a_data_set_needs_the_scenario_it_was_made_with(data):
    whole = configured(data)
    scenario = replace(whole, topics={}, publishers={})
    with pytest.raises(FirelaneError, match="who publishes what"):
        decide(at(whole, 1.0), scenario)


def test_a_data_set_is_of_no_use_to_the_other_planner():
    with pytest.raises(ScenarioError, match="planner: plan"):
        from_text(TEXT + CONTROL.format("x").replace("planner: plan, ", ""))
