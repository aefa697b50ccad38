"""Perfect links against theory: the predicted delays, the fluid limit of push-out, drop rates."""

import numpy as np
import pytest

from firelane.predict import predict
from firelane.scenario.routes import routes
from live.lanes.ideal import ideal
from live.lanes.scenarios import nine_classes, planemqx, planned, raised
from live.lanes.schedule import schedule


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.6, 0.9])
def test_perfect_links_have_the_predicted_delays_in_the_long_run(load):
    network, plan = nine_classes(load)
    runs = [ideal(schedule(network, seconds=100, seed=seed), plan, seed=seed) for seed in range(4)]
    means = np.array([[row.mean_s for row in one.by_class(plan, delays=one.delay_s)] for one in runs])
    predicted = np.array([row["delay_mean_s"] for row in predict(network, plan).classes()])
    error = 6 * means.std(axis=0, ddof=1) / np.sqrt(len(runs)) + 0.01 * predicted
    assert (np.abs(means.mean(axis=0) - predicted) < error).all()


def test_a_full_buffer_pushes_out_the_newest_of_the_lowest_class():
    scenario = raised(planemqx(buffer_messages=50), 2.0, spare="real-time")
    network = routes(scenario)
    plan = planned(network, drops=False)
    rows = ideal(schedule(network, seconds=30, seed=1), plan).by_class(plan)
    share = {row["priority"]: row["success"] for row in predict(network, plan).classes()}
    assert rows[0].success == 1
    for number, row in enumerate(rows):  # the fluid limit of strict priority
        assert row.success == pytest.approx(share[number], abs=0.05)


def test_drop_rates_thin_a_class_out():
    network = routes(planemqx())
    plan = planned(network)
    one = ideal(schedule(network, seconds=60, seed=1), plan)
    rows = one.by_class(plan)
    for row, kept in zip(rows, (1, 0.98, 1, 0.95), strict=True):
        assert row.success == pytest.approx(kept, abs=4.5 * np.sqrt(kept * (1 - kept) / row.due))
    assert one.missing == sum(row.due - row.delivered for row in rows)
