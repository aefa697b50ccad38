"""Plans: to a file and back, what is wrong with bad ones, and what they leave out."""

import json

import numpy as np
import pytest

from firelane.errors import PlanError
from firelane.scenario import from_data
from firelane.scenario.plan import Plan, load_plan, make_plan, plain_plan, plan_from_data
from firelane.scenario.routes import routes


@pytest.fixture
def way():
    return routes(
        from_data(
            {
                "name": "test",
                "priorities": 4,
                "links": {"post": {"bandwidth": "8 Mbps"}},
                "topics": {"a": {"size": 10}, "b": {"size": 20}, "c": {"size": 30}},
                "subscribers": {
                    "s": {"link": "post", "subscribes": {"a": {"tolerance": 0.5}, "b": None}},
                    "t": {"link": "post", "subscribes": {"#": None}},
                },
            }
        )
    )


@pytest.fixture
def plan(way):
    return make_plan(
        way,
        subscription_flow=np.array([1, 0, 2]),
        flow_priority=np.array([3, 0, 1]),
        flow_drop_rate=np.array([0.1 + 0.2, 0.0, 1.0]),
        made_by="a test",
        promised={"load": 0.9},
        why=("because",),
        version=7,
    )


def test_a_plan_comes_back_from_its_file_as_it_was(plan, tmp_path):
    plan.save(tmp_path / "plan.json")
    again = load_plan(tmp_path / "plan.json")
    assert again.to_data() == plan.to_data()
    np.testing.assert_array_equal(again.flow_drop_rate, plan.flow_drop_rate)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_file_has_the_keys_of_the_contract(plan):
    data = plan.to_data()
    assert list(data) == [
        "format", "version", "scenario_digest", "made_by", "links", "flows", "subscriptions",
        "placement", "promised", "why",
    ]  # fmt: skip
    assert data["flows"][1] == {"id": 1, "subscriber": "s", "priority": 0, "drop_rate": 0.0}
    assert data["subscriptions"][0] == {"subscriber": "s", "filter": "a", "flow": 1, "delta": 0.5}
    assert data["links"] == {"post": {"pace_bps": pytest.approx(0.97 * 8e6)}}


def test_every_subscription_gets_the_class_and_drop_rate_of_its_flow(plan, way):
    flow, priority, drop_rate = plan.per_subscription(way)
    assert flow.tolist() == [1, 0, 2]
    assert priority.tolist() == [0, 3, 1]
    assert drop_rate.tolist() == [0.0, 0.1 + 0.2, 1.0]


def test_flows_are_found_by_id_in_whatever_order_they_stand(plan, way):
    data = plan.to_data()
    data["flows"].reverse()
    data["subscriptions"].reverse()
    _, priority, drop_rate = plan_from_data(data).per_subscription(way)
    assert priority.tolist() == [0, 3, 1]
    assert drop_rate.tolist() == [0.0, 0.1 + 0.2, 1.0]


def test_a_subscription_the_plan_does_not_name_gets_the_lowest_class_and_is_not_dropped(plan, way):
    data = plan.to_data()
    data["subscriptions"] = data["subscriptions"][:1]
    flow, priority, drop_rate = plan_from_data(data).per_subscription(way)
    assert flow.tolist() == [1, -1, -1]
    assert priority.tolist() == [0, 3, 3]
    assert drop_rate.tolist() == [0.0, 0.0, 0.0]


def test_an_empty_plan_leaves_everything_in_the_lowest_class(way):
    empty = plan_from_data({"format": 1, "flows": [], "subscriptions": []})
    flow, priority, drop_rate = empty.per_subscription(way)
    assert (flow.tolist(), priority.tolist(), drop_rate.tolist()) == ([-1] * 3, [3] * 3, [0.0] * 3)


def test_the_plain_plan_is_one_class_without_drops(way):
    _, priority, drop_rate = plain_plan(way).per_subscription(way)
    assert (priority.tolist(), drop_rate.tolist()) == ([0] * 3, [0.0] * 3)


def test_a_plan_with_more_classes_than_the_scenario_is_refused(plan, way):
    data = plan.to_data()
    data["flows"][0]["priority"] = 4
    with pytest.raises(PlanError, match="priority 4, but the scenario has classes 0 to 3; raise"):
        plan_from_data(data).per_subscription(way)


def changed(data: dict, path: str, value: object) -> dict:
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    inner = data
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", 2, "format: this is not a Firelane plan"),
        ("version", "new", "version: new is not a whole number"),
        ("version", 10**30, "version: "),
        ("flows", None, "subscriptions.0.flow: there is no flow 1"),
        ("flows", {}, "flows: this must be a list"),
        ("flows.0", 5, "flows.0: id, subscriber, priority, drop_rate missing"),
        ("flows.0", {"id": 0}, "flows.0: subscriber, priority, drop_rate missing"),
        ("flows.0.id", 1, "flows: two flows have the same id"),
        ("flows.0.id", [1], "flows.0.id: [1] is not a whole number"),
        ("flows.0.id", 1.5, "flows.0.id: 1.5 is not a whole number"),
        ("flows.0.priority", -1, "priority -1 is not from 0 to 15"),
        ("flows.0.priority", 16, "priority 16 is not from 0 to 15"),
        ("flows.0.priority", True, "flows.0.priority: True is not a whole number"),
        ("flows.0.drop_rate", 1.5, "flows.0.drop_rate: 1.5 is not a number from 0 to 1"),
        ("flows.0.drop_rate", -0.1, "flows.0.drop_rate: -0.1"),
        ("flows.0.drop_rate", float("nan"), "flows.0.drop_rate: nan"),
        ("flows.0.drop_rate", float("inf"), "flows.0.drop_rate: inf"),
        ("flows.0.drop_rate", "much", "flows.0.drop_rate: much"),
        ("flows.0.drop_rate", 10**400, "flows.0.drop_rate: 1000"),
        ("subscriptions", "all", "subscriptions: this must be a list"),
        ("subscriptions.0.flow", 9, "subscriptions.0.flow: there is no flow 9"),
        ("subscriptions.0.flow", {}, "subscriptions.0.flow: {} is not a whole number"),
        ("subscriptions.1.filter", "a", "subscriptions.1: s a is named twice"),
        ("subscriptions.0.delta", "fine", "subscriptions.0.delta: fine is not a precision"),
        ("links", [1], "links: this must be a mapping"),
        ("placement", 3, "placement: this must be a mapping"),
        ("why", 5, "why: this must be a list"),
    ],
)
def test_a_bad_plan_gets_one_line_that_names_file_and_key(plan, tmp_path, path, value, words):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(changed(plan.to_data(), path, value)))
    with pytest.raises(PlanError) as caught:
        load_plan(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert words in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"name: office", b"[" * 100_000, b"[]", b"null", b'{"format": 1' + b"0" * 5000 + b"}"],
    ids=["empty", "cut", "not UTF-8", "YAML", "deep", "a list", "null", "a huge number"],
)
def test_a_file_that_is_no_plan_gets_one_line(tmp_path, content):
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    with pytest.raises(PlanError) as caught:
        load_plan(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_plan_or_a_folder_gets_one_line(tmp_path):
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(PlanError, match="cannot read the plan"):
            load_plan(path)


def test_a_plan_that_cannot_be_written_says_so_and_leaves_nothing(plan, tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "none" / "plan.json", tmp_path / "folder"):
        with pytest.raises(PlanError, match="cannot write the plan"):
            plan.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_numbers_outside_their_range_are_refused_in_code_too():
    with pytest.raises(PlanError, match="drop_rate"):
        Plan(
            flow_id=np.array([0]),
            flow_subscriber=["s"],
            flow_priority=np.array([0]),
            flow_drop_rate=np.array([np.nan]),
            subscriber=[],
            filter=[],
            subscription_flow=np.empty(0, np.int64),
            delta=[],
        )
