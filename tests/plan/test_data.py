"""Plans by a data set: the best of the points that were swept, and nothing that was not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planned_case import TEXT
from sweep_data import swept

from firelane.errors import FirelaneError
from firelane.plan import plan
from firelane.plan.data import read_data
from firelane.plan.requirements import requirements
from firelane.scenario import from_text
from firelane.scenario.routes import routes

SCENARIO = from_text(TEXT)
DROPS = ("bulk=0,0.05,0.1,0.3",)


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    return swept(SCENARIO, tmp_path_factory.mktemp("predicted"), drops=DROPS, simulated=False)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return swept(SCENARIO, tmp_path_factory.mktemp("simulated"), drops=DROPS, seeds=2)


def test_a_data_set_of_predictions_gives_the_plan_of_predictions(predicted):
    by_data, by_prediction = plan(SCENARIO, data=predicted), plan(SCENARIO)
    assert by_data.order == by_prediction.order
    assert by_data.drops == pytest.approx(by_prediction.drops)
    assert by_data.after["urgent"]["delay_mean_s"] == pytest.approx(by_prediction.after["urgent"]["delay_mean_s"])


def test_a_data_set_of_simulations_gives_about_the_same(simulated):
    by_data = plan(SCENARIO, data=simulated / "sweep")
    assert by_data.order == ["urgent", "bulk"]
    assert by_data.drops == {"urgent": 0, "bulk": 0.1}
    expected = plan(SCENARIO).after["urgent"]["delay_mean_s"]
    assert by_data.after["urgent"]["delay_mean_s"] == pytest.approx(expected, rel=0.1)
    assert any("simulated points" in line for line in by_data.why)


def test_percentiles_come_from_simulations(tmp_path):
    scenario = from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 30 ms, max_delay_p95: 60 ms"))
    data = swept(scenario, tmp_path, drops=DROPS)
    result = plan(scenario, data=data)
    assert result.found.cost.violated == 0
    assert result.after["urgent"]["delay_mean_s"] < result.after["urgent"]["delay_p95_s"] < 0.06


def test_predictions_have_no_percentiles(tmp_path):
    scenario = from_text(TEXT.replace("max_delay: 30 ms", "max_delay_p95: 60 ms"))
    data = swept(scenario, tmp_path, drops=DROPS, simulated=False)
    with pytest.raises(FirelaneError, match="nothing is known of max_delay_p95"):
        plan(scenario, data=data)


def test_points_that_drop_what_bears_no_loss_are_left_out(tmp_path):
    data = swept(SCENARIO, tmp_path, drops=("0,0.1",), simulated=False)
    known = read_data(data, requirements(routes(SCENARIO)))
    assert len(known.rank) == 1 + 2 * 4
    assert len(known.table().costs) == 1 + 2 * 2
    assert plan(SCENARIO, data=data).drops["urgent"] == 0


def test_between_equal_points_the_heavier_category_goes_first(tmp_path):
    text = TEXT.replace("max_delay: 30 ms, ", "").replace("1 Mbps", "990 kbps").replace("weight: 2", "weight: 9")
    scenario = from_text(text.replace("max_loss: 0 %", "max_loss: 10 %"))
    found = plan(scenario, data=swept(scenario, tmp_path, drops=("bulk=0", "urgent=0"), simulated=False))
    assert found.order in ([], ["urgent", "bulk"])
    table = read_data(tmp_path, requirements(routes(scenario))).table()
    assert table.rank.tolist() == [[0, 0], [0, 1], [1, 0]]


def test_seeds_are_added_up(simulated):
    known = read_data(simulated, requirements(routes(SCENARIO)))
    assert len(known.rank) == 1 + 2 * 4
    assert known.loss[1:, 1].max() == pytest.approx(0.3, abs=0.01)


def test_where_there_are_simulations_predictions_do_not_count(tmp_path):
    """A full buffer has a delay that is simulated, and none that is predicted."""
    scenario = from_text(TEXT.replace("bandwidth: 1 Mbps", "bandwidth: 800 kbps, buffer: 20"))
    known = read_data(swept(scenario, tmp_path, drops=("bulk=0",)), requirements(routes(scenario)))
    assert (known.delay_mean_s > 0).all()
    assert known.loss[1:].max() > 0.2


def test_a_simulation_that_ends_while_something_waits_has_lost_nothing(tmp_path):
    """Short runs at high load: a few messages are not delivered when counting ends."""
    scenario = from_text(TEXT.replace("sizes: fixed", "sizes: exponential").replace("max_delay: 30 ms, ", ""))
    data = swept(scenario, tmp_path, drops=DROPS, publications=3000, seeds=3)
    known = read_data(data, requirements(routes(scenario)))
    first = known.rank[:, 0] == 0
    assert known.loss[first, 0].max() > 0
    assert known.loss_error.max() < 0.05
    losses = known.values()[:, [one.kind == "loss" and one.category == 0 for one in known.wanted.bounds]]
    assert (losses[first] == 0).all()


def test_a_loss_beyond_chance_counts(tmp_path):
    scenario = from_text(TEXT.replace("1 Mbps", "800 kbps, buffer: 20").replace("max_delay: 30 ms, ", ""))
    known = read_data(swept(scenario, tmp_path, drops=("bulk=0",)), requirements(routes(scenario)))
    last = known.rank[:, 0] == 1
    assert (known.values()[last, 0] > 0.1).all()


def test_the_nearest_rate_is_used_and_told(tmp_path):
    data = swept(SCENARIO, tmp_path, drops=DROPS, rates="0.5,0.95,1.2", simulated=False)
    assert any("next to it, 0.95, is used" in line for line in plan(SCENARIO, data=data).why)


def test_nothing_beyond_what_was_swept_is_made_up(tmp_path):
    data = swept(SCENARIO, tmp_path, drops=DROPS, rates="0.5,0.9", simulated=False)
    with pytest.raises(FirelaneError, match=r"rate_factor 1 is outside what was swept \(0.5 to 0.9\)"):
        plan(SCENARIO, data=data)


def test_the_data_set_of_another_scenario_is_refused(predicted):
    text = TEXT.replace("max_delay: 30 ms", "max_delay: 15 ms")
    with pytest.raises(FirelaneError, match="another scenario, or another state of it"):
        plan(from_text(text), data=predicted)


def test_a_conflict_by_data_is_irreducible(tmp_path):
    scenario = from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 14.5 ms"))
    data = swept(scenario, tmp_path, drops=("bulk=0,0.1,0.6",), simulated=False)
    assert plan(scenario, data=data).conflict == ["urgent max_delay 14.5 ms", "bulk max_loss 10 %"]


def test_a_data_set_that_is_not_there_or_is_something_else_is_told(tmp_path):
    with pytest.raises(FirelaneError, match="there is no such data set"):
        plan(SCENARIO, data=tmp_path / "nowhere")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(FirelaneError, match="this is not a data set of a sweep"):
        plan(SCENARIO, data=tmp_path / "text.parquet")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("scenario_hash", 5),
        ("link_bps", "fast"),
        ("order", None),
        ("order", [1]),
        ("drops", "{}"),
        ("drops", "bulk"),
        ("drops", None),
        ("drops", '{"urgent": 0, "bulk": 7}'),
        ("drops", '{"urgent": 0, "bulk": NaN}'),
        ("drops", '{"urgent": 0, "bulk": "some"}'),
        ("source", "guessed"),
        ("category", None),
        ("category", "others"),
        ("n", float("inf")),
        ("n", -1.0),
        ("delay_mean_s", "long"),
        ("delay_mean_s", -1.0),
        ("loss", 5.0),
        ("delay_histogram", [1, 2]),
    ],
)
def test_a_data_set_of_others_with_these_columns_is_told_in_a_line(tmp_path, column, value):
    scenario = from_text(TEXT.replace("max_delay: 30 ms", "max_delay: 30 ms, max_delay_p95: 60 ms"))
    file = swept(scenario, tmp_path, drops=DROPS, publications=1000) / "sweep" / "chunk=0" / "part.parquet"
    pq.write_table(pa.Table.from_pylist([row | {column: value} for row in pq.read_table(file).to_pylist()]), file)
    with pytest.raises(FirelaneError, match="pipeline sweep SCENARIO"):
        plan(scenario, data=tmp_path)


def test_the_planner_takes_data_sets_too(predicted, tmp_path):
    ours, theirs = plan(SCENARIO, data=predicted), plan(SCENARIO, data=predicted, planner="enhsp")
    assert theirs.found.cost == ours.found.cost
    plan(SCENARIO, data=predicted, pddl_folder=tmp_path)
    assert (tmp_path / "problem.pddl").exists()
