"""Specification files of PlanIoT and PlanEMQX: what is in them comes over, and what cannot is named."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from firelane.cli import main
from firelane.errors import ScenarioError
from firelane.predict import predict
from firelane.scenario import load
from firelane.scenario.planiot import read_planiot

CODES = {"real-time": "RT", "streaming": "VS", "transactional": "TS", "analytics": "AN"}


def specification(scenario):
    """A scenario as their tools would have it."""
    publishers = {topic: name for name, one in scenario.publishers.items() for topic in one.publishes}
    devices = [
        {
            "deviceId": publishers[topic],
            "deviceName": publishers[topic],
            "publishFrequency": scenario.publishers[publishers[topic]].publishes[topic],
            "messageSize": one.size_bytes,
            "distribution": "exponential",
            "publishesTo": [topic],
        }
        for topic, one in scenario.topics.items()
    ]
    applications = [
        {
            "applicationId": name,
            "applicationCategory": CODES[next(iter(one.subscribes.values())).category],
            "priority": 0,
            "processingRate": 1000,
            "processingDistribution": "exponential",
            "subscribesTo": list(one.subscribes),
        }
        for name, one in scenario.subscribers.items()
    ]
    topics = [
        {
            "topicId": topic,
            "publishers": [publishers[topic]],
            "subscribers": [name for name, one in scenario.subscribers.items() if topic in one.subscribes],
        }
        for topic in scenario.topics
    ]
    return {
        "IoTdevices": devices,
        "virtualSensors": [],
        "actuators": [],
        "applications": applications,
        "applicationCategories": [{"categoryId": code, "categoryName": name} for name, code in CODES.items()],
        "topics": topics,
        "broker": [{"brokerId": "input", "bufferSize": 10000, "processingRate": 100000000, "topics": []}],
        "systemBandwidth": 8,
        "bandwidthPolicy": "none",
        "commChannelLossAN": 0.05,
        "commChannelLossRT": 0,
        "brokerCapacity": -1,
    }


@pytest.fixture
def data():
    return specification(load("planemqx"))


def read(data, tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(data))
    return read_planiot(path)


def test_the_evaluation_of_planemqx_comes_over_whole(data, tmp_path):
    ours, theirs = load("planemqx"), read(data, tmp_path).scenario
    assert len(theirs.publishers) == len(theirs.topics) == 30
    assert len(theirs.subscribers) == 16
    assert sum(len(one.subscribes) for one in theirs.subscribers.values()) == 80
    assert {need.category for one in theirs.subscribers.values() for need in one.subscribes.values()} == set(CODES)
    (our_load,), (their_load,) = (predict(one).links.values() for one in (ours, theirs))
    assert their_load.load == pytest.approx(our_load.load)
    assert theirs.links["link"].buffer_messages == 10_000
    assert theirs.brokers["main"].input_hz == 1e8


def test_what_is_lost_of_a_category_is_what_it_bears_and_that_is_said(data, tmp_path):
    read_back = read(data, tmp_path)
    assert read_back.scenario.categories["analytics"].max_loss == 0.05
    assert "real-time" not in read_back.scenario.categories
    assert any(line.startswith("commChannelLossAN 0.05: taken as what analytics can bear") for line in read_back.unused)


def test_what_cannot_be_used_is_named(data, tmp_path):
    data["bandwidthPolicy"] = "maxmin"
    data["priorityPolicy"] = "RTVS"
    data["actuators"] = [{"deviceId": "valve"}]
    data["applications"][0]["priority"] = 2
    data["applications"][0]["colour"] = "red"
    data["applications"][1]["subscribesTo"].append("nowhere")
    data["topics"][0]["subscribers"].append("stranger")
    data["IoTdevices"][0]["distribution"] = "constant"
    told = "\n".join(read(data, tmp_path).unused)
    for words in (
        "bandwidthPolicy maxmin: all applications share one link",
        "priorityPolicy: not known",
        "actuators: left out",
        "applications.priority: `firelane plan` decides",
        "applications.processingRate: subscribers are as fast as their link",
        "applications.colour: not known",
        "subscribesTo nowhere: no device publishes to it",
        "stranger is only here",
        "distribution constant: publications are Poisson here",
    ):
        assert words in told


def test_devices_of_different_sizes_on_one_topic_have_their_mean(data, tmp_path):
    (first, second), data["IoTdevices"][2:] = data["IoTdevices"][:2], data["IoTdevices"][2:]
    second["publishesTo"] = list(first["publishesTo"])
    read_back = read(data, tmp_path)
    (topic,) = first["publishesTo"]
    bytes_a_second = sum(one["publishFrequency"] * one["messageSize"] for one in (first, second))
    expected = bytes_a_second / (first["publishFrequency"] + second["publishFrequency"])
    assert read_back.scenario.topics[topic].size_bytes == pytest.approx(expected)
    assert any("different sizes" in line for line in read_back.unused)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda data: data["IoTdevices"][3].update(publishFrequency="often"),
            r"IoTdevices\.3\.publishFrequency: .often",
        ),
        (lambda data: data["IoTdevices"][3].update(messageSize=-1), r"IoTdevices\.3\.messageSize: -1 is out of range"),
        (lambda data: data["applications"][2].pop("applicationId"), r"applications\.2\.applicationId: this is missing"),
        (lambda data: data.update(applications={"a": 1}), r"applications: this must be a list"),
        (lambda data: data.update(systemBandwidth=10**400), "systemBandwidth: .* is out of range"),
        (lambda data: data["topics"][1].update(publishers=5), r"topics\.1\.publishers: this must be a list of names"),
        (
            lambda data: data["IoTdevices"].append(data["IoTdevices"][0]),
            r"IoTdevices\.30\.deviceId: .* is the name of another already",
        ),
        (
            lambda data: data["applications"].append(data["applications"][0]),
            r"applications\.16\.applicationId: .* is the name of another already",
        ),
        (lambda data: data.pop("IoTdevices"), "no specification of PlanIoT"),
    ],
)
def test_mistakes_are_told_with_their_place(data, tmp_path, change, words):
    change(data)
    with pytest.raises(ScenarioError, match=words):
        read(data, tmp_path)


def test_a_file_that_is_not_there_or_no_json_is_told(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_planiot(tmp_path / "nowhere.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(ScenarioError, match="this is not JSON"):
        read_planiot(tmp_path / "text.json")


def test_the_command_writes_a_scenario_that_loads_and_says_what_differs(data, tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(data))
    target = tmp_path / "mine.yaml"
    result = CliRunner().invoke(main, ["import", "planiot", str(tmp_path / "spec.json"), "-o", str(target)])
    assert result.exit_code == 0, result.output
    assert f"written to {target}" in result.stdout
    assert "not as in the file: applications.processingRate" in result.stderr
    assert load(target) == read_planiot(tmp_path / "spec.json").scenario
    shown = CliRunner().invoke(main, ["import", "planiot", str(tmp_path / "spec.json")])
    assert "systemBandwidth" not in shown.stdout
    assert "bandwidth: 8 Mbps" in shown.stdout
