"""Generated scenarios against Table 2 of the FireDeX paper and what their docstrings promise."""

import math

import numpy as np
import pytest

from firelane.errors import ScenarioError
from firelane.scenario import Link, Scenario, from_data, load, shipped_scenarios, wire_bytes
from firelane.scenario.generate import ASYNC, TELEMETRY, Bounded, city, firedex, office_fire
from firelane.scenario.model import plain_data


def subscription_loads(scenario: Scenario) -> list[tuple[str, str, float]]:
    """(link or subscriber, filter, offered load) by plain arithmetic; filters are matched as text."""
    rate_hz: dict[str, float] = {}
    for publisher in scenario.publishers.values():
        for topic, rate in publisher.publishes.items():
            rate_hz[topic] = rate_hz.get(topic, 0.0) + rate
    rows = []
    for name, subscriber in scenario.subscribers.items():
        link = scenario.links[subscriber.link]
        for wanted in subscriber.subscribes:
            bits = sum(
                8 * rate_hz.get(topic, 0.0) * wire_bytes(scenario.topics[topic].mean_bytes, topic, link)
                for topic in matching(wanted, scenario)
            )
            place = name if link.each else subscriber.link
            rows.append((place, wanted, bits / (link.bandwidth_bps * link.pace)))
    return rows


def matching(wanted: str, scenario: Scenario) -> list[str]:
    if "+" not in wanted and "#" not in wanted:
        return [wanted] if wanted in scenario.topics else []
    parts = wanted.split("/")
    return [
        topic
        for topic in scenario.topics
        if (parts[-1] == "#" or topic.count("/") == len(parts) - 1)
        and all(p in ("+", "#", t) for p, t in zip(parts, topic.split("/"), strict=False))
    ]


def link_loads(scenario: Scenario) -> dict[str, float]:
    loads: dict[str, float] = {}
    for link, _, part in subscription_loads(scenario):
        loads[link] = loads.get(link, 0.0) + part
    return loads


def truncated_mean(one: Bounded) -> float:
    """The mean of an exponential given that it lies in its bounds."""
    low, high = (math.exp(-bound / one.mean) for bound in (one.least, one.most))
    return one.mean + (one.least * low - one.most * high) / (low - high)


# --------------------------------------------------------------------------------------------- firedex


@pytest.fixture(scope="module")
def paper() -> Scenario:
    return firedex(seed=1)


def test_table_2_counts_hold(paper):
    assert (len(paper.subscribers), len(paper.publishers)) == (10, 10)
    assert (paper.priorities, paper.flows, paper.headroom) == (9, 9, 0.1)
    assert sum(name.startswith("telemetry/") for name in paper.topics) == 140
    assert sum(name.startswith("async/") for name in paper.topics) == 60
    for subscriber in paper.subscribers.values():
        assert sum(topic.startswith("telemetry/") for topic in subscriber.subscribes) == 70
        assert sum(topic.startswith("async/") for topic in subscriber.subscribes) == 42
    for publisher in paper.publishers.values():
        assert sum(topic.startswith("telemetry/") for topic in publisher.publishes) == round(0.62 * 140)
        assert sum(topic.startswith("async/") for topic in publisher.publishes) == 60


def test_every_subscriber_has_a_link_of_8_mbps_counting_payload_only(paper):
    assert paper.links == {
        "post": Link(bandwidth_bps=8e6, buffer_messages=2000, overhead_bytes=0.0, pace=1.0, each=True)
    }


def test_the_shared_link_has_the_sum_of_all():
    scenario = firedex(seed=1, shared=True, subscribers=20)
    assert scenario.name == "firedex-shared"
    assert scenario.links["post"].bandwidth_bps == 160e6
    assert not scenario.links["post"].each
    assert scenario.topics == firedex(seed=1, subscribers=20).topics
    assert scenario.subscribers == firedex(seed=1, subscribers=20).subscribers


# Table 2: rate, size and weight of telemetry and asynchronous topics, least and most.
TABLE_2 = {"telemetry": ((4, 7), (90, 500), (0.01, 2)), "async": ((3, 5), (500, 1100), (0.1, 4))}


def drawn(scenario: Scenario, kind: str) -> tuple[list[float], list[float], list[float]]:
    rates = [r for p in scenario.publishers.values() for t, r in p.publishes.items() if t.startswith(kind)]
    sizes = [topic.mean_bytes for name, topic in scenario.topics.items() if name.startswith(kind)]
    weights = [n.weight for s in scenario.subscribers.values() for t, n in s.subscribes.items() if t.startswith(kind)]
    return rates, sizes, weights


@pytest.mark.parametrize("kind", TABLE_2)
@pytest.mark.parametrize("seed", range(5))
def test_everything_drawn_lies_in_the_bounds_of_table_2(kind, seed):
    for values, (least, most) in zip(drawn(firedex(seed=seed), kind), TABLE_2[kind], strict=True):
        assert least <= min(values)
        assert max(values) <= most
        assert len(set(values)) > len(values) / 10  # not heaped up at the bounds


@pytest.mark.parametrize("kind", [TELEMETRY, ASYNC], ids=lambda kind: kind.name)
def test_what_is_drawn_has_the_mean_of_a_truncated_exponential(kind):
    for one in (kind.rate_hz, kind.size_bytes, kind.weight):
        sample = np.array(one.draw(np.random.default_rng(7), 40_000))
        error = sample.std() / math.sqrt(len(sample))
        assert abs(sample.mean() - truncated_mean(one)) < 4 * error + 10**-one.decimals


def test_values_outside_the_bounds_are_drawn_again_and_not_clipped():
    sample = np.array(TELEMETRY.size_bytes.draw(np.random.default_rng(1), 10_000))
    assert (sample == 90).mean() < 0.01
    assert (sample == 500).mean() < 0.01


@pytest.mark.parametrize(("telemetry", "events", "of_the_paper"), [(21, 15, 0.6), (42, 24, 0.95), (70, 42, 1.7)])
def test_the_loads_of_the_paper_follow_from_table_2(telemetry, events, of_the_paper):
    loads = [
        np.mean(list(link_loads(scenario).values()))
        for seed in range(15)
        for scenario in [
            firedex(seed=seed, telemetry_subscriptions=telemetry, async_subscriptions=events, subscribers=5)
        ]
    ]
    # Ten publishers; 87 of 140 telemetry topics and all asynchronous ones are advertised by each.
    theory = 10 * 8 / 8e6 * (
        telemetry * (87 / 140) * truncated_mean(TELEMETRY.rate_hz) * truncated_mean(TELEMETRY.size_bytes)
        + events * truncated_mean(ASYNC.rate_hz) * truncated_mean(ASYNC.size_bytes)
    )  # fmt: skip
    assert np.mean(loads) == pytest.approx(theory, abs=4 * np.std(loads) / math.sqrt(len(loads)))
    assert theory == pytest.approx(of_the_paper, rel=0.04)  # the paper rounds: 0.6, 0.95, 1.7


def test_topics_and_publishers_do_not_change_with_subscriptions_subscribers_or_weights(paper):
    fewer = firedex(seed=1, telemetry_subscriptions=21, async_subscriptions=15)
    dearer = firedex(seed=1, async_weight_factor=3.0)
    more = firedex(seed=1, subscribers=20)
    for other in (fewer, dearer, more):
        assert other.topics == paper.topics
        assert other.publishers == paper.publishers
    for name, subscriber in paper.subscribers.items():
        assert more.subscribers[name] == subscriber
        assert fewer.subscribers[name].subscribes.items() <= subscriber.subscribes.items()
        for topic, need in subscriber.subscribes.items():
            factor = 3 if topic.startswith("async/") else 1
            assert dearer.subscribers[name].subscribes[topic].weight == pytest.approx(need.weight * factor)


@pytest.mark.parametrize("subscribers", [1, 10, 20, 50, 100])
def test_every_number_of_subscribers_of_the_paper_can_be_made(subscribers):
    scenario = firedex(seed=1, subscribers=subscribers, telemetry_subscriptions=21, async_subscriptions=15)
    assert len(scenario.subscribers) == subscribers


def test_each_topic_is_as_likely_as_any_other_to_be_subscribed_to_and_advertised():
    scenario = firedex(seed=5, subscribers=400, publishers=400)
    for counts, share in (
        ([sum(f"telemetry/{n}" in s.subscribes for s in scenario.subscribers.values()) for n in range(1, 141)], 0.5),
        ([sum(f"async/{n}" in s.subscribes for s in scenario.subscribers.values()) for n in range(1, 61)], 0.7),
        ([sum(f"telemetry/{n}" in p.publishes for p in scenario.publishers.values()) for n in range(1, 141)], 87 / 140),
    ):
        deviation = math.sqrt(400 * share * (1 - share))
        assert max(abs(count - 400 * share) for count in counts) < 4.5 * deviation


# ----------------------------------------------------------------------------------------- office fire


@pytest.mark.parametrize("seed", range(6))
def test_a_burning_office_offers_1_7_times_what_its_link_carries(seed):
    scenario = office_fire(seed=seed)
    assert set(scenario.links) == {"post"}
    assert scenario.links["post"].bandwidth_bps == 8e6
    assert link_loads(scenario)["post"] == pytest.approx(1.7, rel=0.01)


@pytest.mark.parametrize(
    "sizes", [{"floors": 1}, {"rooms": 20}, {"floors": 10, "rooms": 2}, {"load": 0.5}, {"load": 3}]
)
def test_its_size_and_load_can_be_chosen(sizes):
    scenario = office_fire(seed=1, **sizes)
    assert link_loads(scenario)["post"] == pytest.approx(sizes.get("load", 1.7), rel=0.01)
    assert len([name for name in scenario.publishers if name.startswith("bms-")]) == sizes.get("floors", 4)


@pytest.mark.parametrize("sizes", [{}, {"floors": 1, "rooms": 1}, {"load": 3}, {"floors": 1, "load": 3}])
def test_what_must_be_delivered_fits_into_half_the_link(sizes):
    scenario = office_fire(seed=1, **sizes)
    needs = [need for one in scenario.subscribers.values() for need in one.subscribes.values()]
    loads = [part for _, _, part in subscription_loads(scenario)]
    least = sum(need.least_share * part for need, part in zip(needs, loads, strict=True))
    assert 0 < least <= 0.5
    assert all(need.tolerance is None for need in needs)


def test_a_load_that_leaves_no_plan_is_refused():
    with pytest.raises(ScenarioError, match="load: at 1000 the needs of this building cannot be met; give less"):
        office_fire(seed=1, load=1000)


def test_rooms_send_roughly_ten_messages_a_second():
    scenario = office_fire(seed=1)
    room = ("smoke", "temperature", "co", "occupancy", "camera")
    rates = [r for p in scenario.publishers.values() for t, r in p.publishes.items() if t.split("/")[0] in room]
    assert 7 < sum(rates) / (4 * 6) < 15


@pytest.mark.parametrize("sizes", [{}, {"floors": 1}, {"floors": 2}])
def test_nobody_at_the_post_subscribes_to_a_topic_twice(sizes):
    scenario = office_fire(seed=1, **sizes)
    for subscriber in scenario.subscribers.values():
        topics = [topic for wanted in subscriber.subscribes for topic in matching(wanted, scenario)]
        assert len(topics) == len(set(topics))
        assert topics


def test_all_categories_are_there():
    needs = [need for one in office_fire(seed=1).subscribers.values() for need in one.subscribes.values()]
    assert {need.category for need in needs} == {"real-time", "streaming", "transactional", "analytics"}


# ------------------------------------------------------------------------------------------------ city


def test_a_city_has_what_was_asked_for():
    scenario = city(seed=1)
    assert (len(scenario.topics), len(scenario.subscribers), len(scenario.links)) == (201, 2000, 20)
    assert all(
        link == Link(bandwidth_bps=10e6, buffer_messages=2000, propagation_s=0.01) for link in scenario.links.values()
    )


def test_vehicles_follow_their_zone_and_those_beside_it():
    scenario = city(seed=1, zones=200, vehicles=500)
    columns = 15  # the square root of 200, rounded up
    for vehicle in scenario.subscribers.values():
        own, *around = [int(topic.split("/")[1]) for topic in vehicle.subscribes if topic.startswith("zone/")]
        row, column = divmod(own, columns)
        beside = {(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)}
        assert {divmod(one, columns) for one in around} == {
            (r, c) for r, c in beside if r >= 0 and 0 <= c < columns and r * columns + c < 200
        }
        assert "city/alerts" in vehicle.subscribes
        assert vehicle.link == f"cell-{own * 20 // 200}"


def test_popular_zones_publish_more_and_hold_more_vehicles():
    scenario = city(seed=1, zones=100, vehicles=5000)
    rates = [scenario.publishers[f"roadside-{n}"].publishes[f"zone/{n}"] for n in range(100)]
    vehicles = np.zeros(100)
    for one in scenario.subscribers.values():
        vehicles[int(list(one.subscribes)[1].split("/")[1])] += 1
    assert np.corrcoef(np.square(rates), vehicles)[0, 1] > 0.9
    assert max(rates) > 2 * min(rates)


@pytest.mark.parametrize("vehicles", [100, 2000])
def test_some_cells_are_overloaded_and_some_are_not(vehicles):
    loads = link_loads(city(seed=1, vehicles=vehicles, zones=40, cells=4))
    assert min(loads.values()) < 0.9
    assert max(loads.values()) > 1


@pytest.mark.parametrize(("zones", "vehicles", "cells"), [(1, 1, 1), (2, 5, 9), (7, 3, 2)])
def test_a_tiny_city_is_a_scenario_too(zones, vehicles, cells):
    scenario = city(seed=1, zones=zones, vehicles=vehicles, cells=cells)
    assert from_data(plain_data(scenario)) == scenario


def test_20_000_vehicles_make_more_than_100_000_subscriptions():
    scenario = city(seed=1, vehicles=20_000)
    assert sum(len(one.subscribes) for one in scenario.subscribers.values()) > 100_000


# ------------------------------------------------------------------------------------------------- all

MAKERS = {
    "firedex": lambda seed: firedex(seed=seed, subscribers=3),
    "office_fire": lambda seed: office_fire(seed=seed),
    "city": lambda seed: city(seed=seed, zones=30, vehicles=60, cells=3),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_seed_says_it_all(make):
    assert make(3) == make(3)
    assert make(3) != make(4)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_generated_passes_every_check_of_a_file(make):
    assert from_data(plain_data(make(2))) == make(2)


SHIPPED = {
    "firedex": lambda: firedex(seed=1),
    "firedex-shared": lambda: firedex(seed=1, shared=True),
    "office-fire": lambda: office_fire(seed=1),
    "city": lambda: city(seed=1, zones=40, vehicles=100, cells=4),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_files_are_what_their_first_line_says(name):
    file = shipped_scenarios()[name]
    first = file.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert f"firelane generate {name.removesuffix('-shared')}" in first  # for city, city-cells
    assert load(file) == SHIPPED[name]()


def test_the_office_fits_on_a_few_screens():
    assert len(shipped_scenarios()["office-fire"].read_text().splitlines()) <= 150


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (firedex, {"telemetry_subscriptions": 141}),
        (firedex, {"async_subscriptions": -1}),
        (firedex, {"subscribers": 0}),
        (firedex, {"priorities": 17}),
        (firedex, {"telemetry_share": 1.5}),
        (firedex, {"headroom": math.nan}),
        (firedex, {"headroom": 1.0}),
        (firedex, {"buffer": 0}),
        (firedex, {"flows": 0}),
        (firedex, {"async_weight_factor": -1.0}),
        (firedex, {"async_weight_factor": math.inf}),
        (firedex, {"seed": -1}),
        (office_fire, {"floors": 0}),
        (office_fire, {"rooms": -3}),
        (office_fire, {"load": math.nan}),
        (office_fire, {"load": math.inf}),
        (office_fire, {"load": 0}),
        (city, {"zones": 0}),
        (city, {"vehicles": 0}),
        (city, {"cells": 0}),
    ],
)
def test_sizes_that_make_no_sense_get_one_line(make, wrong):
    (name,) = wrong
    with pytest.raises(ScenarioError, match=f"^{name}: .*; give") as caught:
        make(**{"seed": 1, **wrong})
    assert len(str(caught.value).splitlines()) == 1
