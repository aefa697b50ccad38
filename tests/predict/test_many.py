"""Many plans at once say what a prediction of each of them says."""

from __future__ import annotations

import numpy as np
import pytest

from category_cases import some_scenario
from firelane.predict import predict
from firelane.predict.many import many_plans, targets
from firelane.scenario.plan import make_plan
from firelane.scenario.routes import routes


def groups_of(network):
    names = sorted({need.category for need in network.needs})
    return np.array([names.index(need.category) for need in network.needs]), len(names)


def random_plans(rng, count, groups):
    rank = np.array([rng.permutation(groups) for _ in range(count)])
    rank[0] = 0  # everything in one class
    drop = np.where(rng.random((count, groups)) < 0.5, 0.0, rng.uniform(0, 0.9, (count, groups)))
    return rank, drop


@pytest.mark.parametrize("kind", ["plain", "links", "stages", "overlaps", "everything"])
@pytest.mark.parametrize("seed", range(6))
def test_every_delay_and_loss_is_that_of_a_prediction(kind, seed):
    everything = kind == "everything"
    scenario = some_scenario(
        seed,
        links=3 if kind == "links" or everything else 1,
        stages=kind == "stages" or everything,
        overlaps=kind == "overlaps" or everything,
    )
    network = routes(scenario)
    group, groups = groups_of(network)
    rank, drop = random_plans(np.random.default_rng(seed), 12, groups)
    each = [np.array([row]) for row in range(len(group))]
    asked = targets([(False, False, row) for row in each] + [(True, False, row) for row in each])
    values = many_plans(network, group).values(asked, rank, drop)
    for one in range(len(rank)):
        plan = make_plan(
            network,
            subscription_flow=np.arange(len(group)),
            flow_priority=rank[one][group],
            flow_drop_rate=drop[one][group],
            made_by="chance",
        )
        metrics = predict(network, plan)
        delay, loss = values[one, : len(group)], values[one, len(group) :]
        carries = metrics.column("delivered_hz") > 0
        np.testing.assert_allclose(delay[carries], metrics.column("delay_mean_s")[carries], rtol=1e-9)
        np.testing.assert_allclose(loss, 1 - metrics.column("success"), atol=1e-12)


def test_a_group_together_has_the_mean_of_its_messages_and_apart_its_worst_subscription():
    network = routes(some_scenario(3, load=0.6, links=2))
    group, groups = groups_of(network)
    everyone = np.arange(len(group))
    asked = targets([(False, True, everyone), (False, False, everyone), (True, True, everyone)])
    ((mean, worst, loss),) = many_plans(network, group).values(
        asked, np.zeros((1, groups), int), np.full((1, groups), 0.25)
    )
    plan = make_plan(
        network,
        subscription_flow=everyone,
        flow_priority=np.zeros(len(group), int),
        flow_drop_rate=np.full(len(group), 0.25),
        made_by="chance",
    )
    metrics = predict(network, plan)
    delay, rate = metrics.column("delay_mean_s"), metrics.column("delivered_hz")
    assert mean == pytest.approx((delay * rate).sum() / rate.sum())
    assert worst == pytest.approx(delay.max())
    assert loss == pytest.approx(0.25)
