"""Routes of what is live that are brought up to date instead of made anew."""

from dataclasses import replace

import pytest

from fake_exchange import seen, topic, want
from firelane.control.learn import learnt
from firelane.control.network import Networks
from firelane.predict import predict
from firelane.scenario.model import Need, Scenario
from firelane.scenario.routes import routes

WANTS = [want("s", "t/#"), want("s", "t/2", need=Need(weight=3.0)), want("s", "t/2"), want("u", "$share/g/t/+", qos=1)]
TOPICS = [topic(f"t/{n}", 1.0 + n, 50.0 + 30 * n, 900.0 * n) for n in range(4)]
SCENE = seen(TOPICS, WANTS, kbps=100.0)


def loads(network):
    """What links carry, and what becomes of every subscription, by prediction."""
    metrics = predict(network.routes)
    return [
        *(one.load for one in metrics.links.values()),
        *metrics.column("offered_hz"),
        *metrics.column("delay_mean_s"),
    ]


def made(network):
    return network.routes.stream_topic


def test_other_rates_and_sizes_need_no_new_routes():
    networks = Networks()
    before = networks.of(SCENE)
    moved = replace(SCENE, topics=tuple(topic(one.name, 0.3, 170.0, 8000.0) for one in TOPICS))
    after = networks.of(moved)
    assert made(after) is made(before)
    assert loads(after) == pytest.approx(loads(Networks().of(moved)), nan_ok=True)
    assert loads(before) == pytest.approx(loads(Networks().of(SCENE)), nan_ok=True)  # what others hold does not change


@pytest.mark.parametrize(
    "topics",
    [TOPICS[1:], [*TOPICS, topic("t/new", 2.0)], [topic("t/new", 2.0), *TOPICS[2:]], [topic("elsewhere", 1.0)]],
    ids=["fewer", "more", "others", "none that is wanted"],
)
def test_other_topics_are_matched(topics):
    networks = Networks()
    networks.of(SCENE)
    other = replace(SCENE, topics=tuple(topics))
    assert loads(networks.of(other)) == pytest.approx(loads(Networks().of(other)), nan_ok=True)
    assert loads(networks.of(SCENE)) == pytest.approx(loads(Networks().of(SCENE)), nan_ok=True)


@pytest.mark.parametrize(
    "other",
    [
        lambda: (seen(TOPICS, WANTS[:-1], kbps=100.0), None),
        lambda: (seen(TOPICS, WANTS, kbps=50.0), None),
        lambda: (SCENE, Scenario(name="x", priorities=3)),
    ],
    ids=["subscriptions", "links", "scenario"],
)
def test_other_subscriptions_links_or_settings_need_new_routes(other):
    networks = Networks()
    networks.of(SCENE)
    scene, scenario = other()
    network = networks.of(scene, scenario)
    assert loads(network) == pytest.approx(loads(Networks().of(scene, scenario)), nan_ok=True)
    assert network.routes.scenario.priorities == (3 if scenario else Scenario(name="x").priorities)


def test_it_is_what_the_scenario_of_what_is_live_makes():
    for number, one in enumerate((SCENE, seen(TOPICS, WANTS[:2], kbps=70.0))):
        live, found = routes(learnt(one)), Networks().of(one).routes
        assert predict(found).table.equals(predict(live).table), number


def test_needs_are_as_granted_and_twins_share_a_row():
    network = Networks().of(SCENE)
    assert [one.min_share for one in network.needs] == [0.0] * 4
    assert network.routes.needs.least_share.tolist() == [0, 0, 0, 1]  # of QoS 1 nothing is dropped by rate
    assert network.numbers()["s", "t/2"] == 1
    names = [(one.subscriber, one.filter) for one in network.rows]
    assert [names[row] for row in network.first] == names
    assert len(set(network.first.tolist())) == 3


def test_what_another_thread_asks_for_meanwhile_does_not_get_mixed_up():
    other = seen([topic("u/1", 1.0)], [want("x", "u/#")], kbps=100.0)

    class Shared(Networks):
        """As if another thread asked for something else at the worst moment."""

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "_known" and value is not None and value.subscriptions is SCENE.subscriptions:
                self.of(other)

    assert Shared().of(SCENE).rows == Networks().of(SCENE).rows
