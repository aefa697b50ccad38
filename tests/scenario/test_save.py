"""Scenario files as Firelane writes them."""

import os
import threading
import time
from dataclasses import replace

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from firelane.errors import ScenarioError
from firelane.mqtt import topic_problem
from firelane.scenario import Broker, Category, Link, Need, Publisher, Scenario, Subscriber, Topic, from_text, load
from firelane.scenario.generate import city, firedex, office_fire
from firelane.scenario.model import Match
from firelane.scenario.save import save, to_text, write_whole

# What YAML, some YAML or some reader would take for something else.
NASTY = [
    "null", "Null", "~", "true", "no", "ON", "y", "1", "1_000", "0x1f", "1e5", ".5", ".inf", ".nan", "2026-01-01",
    "12:30:00", "a: b", "a:", ":a", "a #b", "#a", "- a", "-", "? a", "<<", "=", "*a", "&a", "!a", "%a", "@a", "`a",
    "{a}", "[a]", "a, b", "'a'", '"a"', "it's", "a\\b", " a", "a ", "a  b", "\ta", "a\nb", "a\r\nb", "é", "日本", "🔥",
    "\u2028", "\x85", "\x7f", "\ufeff", "a\u00a0b", "---", "...", "x" * 2000, "é" * 1500, "$SYS/a", "/", "a//b",
]  # fmt: skip

names = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
topics = names.filter(lambda name: topic_problem(name) is None)
amounts = st.just(0.0) | st.floats(min_value=1e-9, max_value=1e15)
positive = st.floats(min_value=1e-9, max_value=1e15)
shares = st.just(0.0) | st.floats(min_value=1e-9, max_value=1)


def round_trip(scenario: Scenario) -> Scenario:
    text = to_text(scenario)
    again = from_text(text)
    assert to_text(again) == text
    return again


def a_scenario(topic: str = "t", name: str = "n", **parts: object) -> Scenario:
    whole = Scenario(
        name=name,
        links={name: Link(bandwidth_bps=8e6)},
        topics={topic: Topic(size_bytes=100.0)},
        publishers={name: Publisher(publishes={topic: 6.0}, link=name)},
        subscribers={name: Subscriber(link=name, subscribes={topic: Need(category=name)})},
        brokers={name: Broker()},
    )
    return replace(whole, **parts)


@given(topics, names)
@example("null", "a #b")
def test_any_name_comes_back_as_it_was(topic, name):
    scenario = a_scenario(topic, name)
    assert round_trip(scenario) == scenario


@pytest.mark.parametrize("name", NASTY)
def test_every_nasty_name_comes_back_through_another_yaml_reader_too(name):
    topic = "t" if topic_problem(name) else name
    scenario = a_scenario(topic, name)
    assert round_trip(scenario) == scenario
    data = yaml.safe_load(to_text(scenario))
    assert list(data["subscribers"]) == list(data["publishers"]) == list(data["links"]) == [name]
    assert list(data["topics"]) == list(data["subscribers"][name]["subscribes"]) == [topic]
    assert data["subscribers"][name]["subscribes"][topic] == {"category": name}


@pytest.mark.parametrize("wanted", ["#", "+", "+/b", "a/#", "a/+", "a/b"])
def test_every_filter_comes_back(wanted):
    topics = {"a/b": Topic(size_bytes=1.0), "a": Topic(size_bytes=1.0)}
    scenario = Scenario(name="n", topics=topics, subscribers={"s": Subscriber(subscribes={wanted: Need()})})
    assert round_trip(scenario) == scenario
    assert list(yaml.safe_load(to_text(scenario))["subscribers"]["s"]["subscribes"]) == [wanted]


@given(positive, amounts, shares, amounts, positive)
def test_every_number_of_a_link_comes_back_exactly(bandwidth, propagation, loss, overhead, switch):
    link = Link(
        bandwidth_bps=bandwidth, buffer_messages=5, propagation_s=propagation, loss=loss,
        overhead_bytes=overhead, pace=0.5, switch_hz=switch, each=True,
    )  # fmt: skip
    scenario = a_scenario(links={"n": link}, brokers={"b": Broker(input_hz=switch, output_hz=switch)})
    assert round_trip(scenario) == scenario


@given(amounts, amounts, st.lists(amounts, min_size=1, max_size=4), st.sampled_from(["exponential", "fixed"]))
def test_every_rate_and_size_comes_back_exactly(rate, size, sample, sizes):
    scenario = a_scenario(
        topics={"t": Topic(size_bytes=size, sizes=sizes), "u": Topic(sizes=tuple(sample))},
        publishers={"p": Publisher(publishes={"t": rate})},
    )
    assert round_trip(scenario) == scenario


@given(amounts, shares, amounts, shares, shares.filter(bool))
def test_every_number_of_a_need_comes_back_exactly(weight, share, delay, loss, knee):
    needs = {
        "t": Need(weight=weight, max_delay_s=delay, max_loss=loss, min_share=share, tolerance=delay, keep="latest"),
        "u": Need(utility="saturating", knee=knee),
        "v": Need(utility="piecewise", points=((0.0, 0.0), (0.3, 0.8), (1.0, 1.0))),
    }
    scenario = a_scenario(
        headroom=min(share, 0.99),
        priorities=3,
        flows=2,
        topics={name: Topic(size_bytes=1.0) for name in "tuv"},
        categories={"c": Category(weight=weight, max_delay_s=delay, max_delay_p95_s=delay, max_loss=loss)},
        subscribers={
            "s": Subscriber(link="n", subscribes=needs, match=Match(client_id="cmd-*", address="10.0.3.0/24"))
        },
    )
    assert round_trip(scenario) == scenario


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(name="bare"),
        firedex(seed=2, subscribers=2),
        firedex(seed=2, subscribers=2, shared=True, buffer=None, flows=None, async_weight_factor=3.7),
        office_fire(seed=2),
        city(seed=2, zones=7, vehicles=20, cells=3),
        Scenario(name="idle", publishers={"p": Publisher(publishes={})}, subscribers={"s": Subscriber(subscribes={})}),
    ],
    ids=lambda scenario: scenario.name,
)
def test_whole_scenarios_come_back_in_the_same_order(scenario):
    again = round_trip(scenario)
    assert again == scenario
    assert again.digest() == scenario.digest()
    assert list(again.topics) == list(scenario.topics)


def test_the_text_is_what_a_person_would_write():
    scenario = Scenario(
        name="office-fire",
        links={"post": Link(bandwidth_bps=8e6, buffer_messages=2000, propagation_s=0.002, overhead_bytes=0.0)},
        topics={"smoke/3": Topic(size_bytes=120.0, sizes="fixed")},
        publishers={"bms-3": Publisher(publishes={"smoke/3": 6.0})},
        subscribers={
            "commander": Subscriber(
                link="post",
                subscribes={"smoke/+": Need(weight=4.0, max_delay_s=0.1, max_loss=0.01, category="real-time")},
            )
        },
        brokers={"main": Broker(input_hz=50e3)},
    )
    assert to_text(scenario, comment="One floor.\nOne sensor.") == (
        "# One floor.\n"
        "# One sensor.\n"
        "name: office-fire\n"
        "links:\n"
        "  post: {bandwidth: 8 Mbps, buffer: 2000, propagation: 2 ms, overhead: 0 B}\n"
        "topics:\n"
        "  smoke/3: {size: 120 B, sizes: fixed}\n"
        "publishers:\n"
        "  bms-3: {publishes: {smoke/3: 6 Hz}}\n"
        "subscribers:\n"
        "  commander:\n"
        "    link: post\n"
        "    subscribes:\n"
        "      smoke/+: {weight: 4, max_delay: 100 ms, max_loss: 1 %, category: real-time}\n"
        "brokers:\n"
        "  main: {input_rate: 50 kHz}\n"
    )


def test_a_number_that_a_unit_would_round_is_written_in_the_base_unit():
    exact = 0.1 + 0.2  # 300.00000000000004 ms
    text = to_text(a_scenario(links={"n": Link(propagation_s=exact)}))
    assert "propagation: 0.30000000000000004 s" in text


def test_long_lists_of_rates_are_wrapped():
    rates = {f"topic/{n}": float(n) for n in range(100)}
    scenario = Scenario(
        name="many",
        topics={name: Topic(size_bytes=1.0) for name in rates},
        publishers={"p": Publisher(publishes=rates)},
    )
    assert max(map(len, to_text(scenario).splitlines())) <= 120
    assert round_trip(scenario) == scenario


def test_save_writes_the_whole_file_and_no_other(tmp_path):
    file = tmp_path / "new.yaml"
    file.write_text("old")
    scenario = office_fire(seed=3)
    save(scenario, file, comment="made here")
    assert load(file) == scenario
    assert file.read_text().startswith("# made here\nname: office-fire\n")
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_written_gets_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "none" / "a.yaml", tmp_path / "folder"):
        with pytest.raises(ScenarioError, match="cannot be written") as caught:
            save(a_scenario(), path)
        assert str(caught.value).startswith(f"{path}: ")
        assert len(str(caught.value).splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_old_file_stays_whole_when_its_successor_cannot_be_made(tmp_path):
    file = tmp_path / "old.yaml"
    save(a_scenario(), file)
    with pytest.raises(ScenarioError, match="not valid Unicode"):
        save(a_scenario(name="\ud800"), file)
    assert load(file) == a_scenario()


@pytest.mark.slow
def test_100_000_subscriptions_are_written_in_3_s_and_read_in_5_s():
    scenario = city(seed=1, vehicles=20_000)
    assert sum(len(one.subscribes) for one in scenario.subscribers.values()) >= 100_000
    started = time.process_time()
    text = to_text(scenario)
    written = time.process_time()
    again = from_text(text)
    read = time.process_time()
    assert again == scenario
    assert written - started < 3
    assert read - written < 5


def test_writing_keeps_links_modes_and_other_peoples_files(tmp_path):
    target, link, neighbour = tmp_path / "real.yaml", tmp_path / "link.yaml", tmp_path / "real.yaml.part"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    neighbour.write_text("mine")
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert neighbour.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "through")
    reader.join(5)
    assert got == ["through"]
    assert pipe.is_fifo()
