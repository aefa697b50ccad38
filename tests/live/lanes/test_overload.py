"""More than a link can carry: the best class does not notice, whatever the others offer.

The set-up is PlanEMQX's. Of a real bottleneck the exchange knows nothing but its configured bandwidth, and what clients
measure there contains whatever queues behind the scheduler.
"""

from functools import partial

import pytest

from firelane.scenario.routes import routes
from live.lanes.bottleneck import bottleneck, entered
from live.lanes.deliveries import table
from live.lanes.load import drive
from live.lanes.page import note
from live.lanes.scenarios import at_load, load_of, only, planemqx, planned, raised
from live.lanes.schedule import schedule
from live.lanes.served import Asked, arguments, check_law, close, judged, live, run

pytestmark = pytest.mark.xdist_group("load")

NARROW_BPS = 10e6
BEST = "real-time"
MOST_MEAN_S = 0.020
SEED = 1
LENGTHS = [pytest.param(8, marks=pytest.mark.slow), pytest.param(120, marks=pytest.mark.soak)]


def planned_for(scenario, seconds):
    network = routes(scenario)
    return schedule(network, seconds=seconds, seed=SEED), planned(network)


def noted(name, scenario, one, client, perfect):
    """`client` and `perfect` are the rows by class to be shown, in the same terms."""
    print(name, one.got.sender, "clients", table(client), "perfect links", table(perfect), sep="\n")
    numbers = {
        "load": round(load_of(scenario), 2),
        "mean_ms": round(1e3 * client[0].mean_s, 2),
        "p99_ms": round(1e3 * client[0].p99_s, 2),
        "same_mean_ms": round(1e3 * perfect[0].mean_s, 2),
        "same_p99_ms": round(1e3 * perfect[0].p99_s, 2),
        "success": [row.success for row in client],
    }
    note("overload", name, numbers, one.got.sender)


# ------------------------------------------------------------------------------------------------- a link that is paced


def check_best(one):
    """The best class is as perfect links would have it, by the exchange's measure and by the clients' clock."""
    check_law(one)
    best, perfect = one.rows()[0], one.same_rows()[0]
    measured = one.measured()[0]
    assert best.success == measured["success"] == 1, one
    assert close(measured["delay_mean_s"], perfect.mean_s), one
    assert close(best.mean_s, perfect.mean_s), one
    assert close(best.p99_s, perfect.p99_s), one
    assert best.mean_s < MOST_MEAN_S, one


@pytest.mark.parametrize(
    "seconds", [pytest.param(10, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.soak)]
)
def test_the_best_class_of_planemqx_is_as_simulated_and_loses_nothing(seconds, tmp_path):
    planned_load, plan = planned_for(planemqx(), seconds)
    (one,) = judged(lambda n: (live(tmp_path / str(n), planned_load, plan, quiet_s=1.5),), check_best)
    noted(f"planemqx, {seconds} s", planemqx(), one, one.rows(), one.same_rows())


@pytest.mark.parametrize("seconds", LENGTHS)
def test_twice_the_capacity_in_lower_classes_does_not_double_the_best_ones_p99(seconds, tmp_path):
    base = planemqx(buffer_messages=500)
    full = raised(base, 2.0, spare=BEST)
    of_all, plan = planned_for(full, seconds)
    of_best, plan_alone = planned_for(only(base, BEST), seconds)

    def attempt(n):
        together = live(tmp_path / f"all-{n}", of_all, plan)
        return together, live(tmp_path / f"best-{n}", of_best, plan_alone)

    def check(together, alone):
        check_best(together)
        check_best(alone)
        assert together.rows()[0].p99_s < 2 * alone.rows()[0].p99_s, f"{together}\n{alone}"

    together, alone = judged(attempt, check)
    noted(f"lower classes raised, {seconds} s", full, together, together.rows(), together.same_rows())
    noted(f"the best class alone, {seconds} s", only(base, BEST), alone, alone.rows(), alone.same_rows())


# ---------------------------------------------------------------------------------------------------- a real bottleneck


@pytest.fixture(scope="module")
def narrow_base():
    """As much for its size as the link of the paper has, and everything on the wire counts."""
    link = {"bandwidth_bps": NARROW_BPS, "overhead_bytes": None, "pace": 0.97, "buffer_messages": 500}
    return at_load(planemqx(**link), load_of(planemqx()))


def through(narrow, folder, of_all, plan, scenario):
    folder.mkdir()
    with narrow.firelane(folder, *arguments(folder, scenario, plan)) as broker:
        asked = Asked(broker.http_port, partial(entered, narrow.near))
        return run(of_all, plan, *narrow.places(broker), asked=asked, pid=broker.process.pid)


@pytest.mark.parametrize("seconds", LENGTHS)
def test_no_queue_forms_behind_the_scheduler_at_a_real_bottleneck(seconds, narrow_base, tmp_path):
    full = raised(narrow_base, 2.0, spare=BEST)
    of_all, plan = planned_for(full, seconds)
    of_best, plan_alone = planned_for(only(narrow_base, BEST), seconds)

    def attempt(n):
        with bottleneck(NARROW_BPS) as narrow:
            together = through(narrow, tmp_path / f"all-{n}", of_all, plan, full)
            return together, through(narrow, tmp_path / f"best-{n}", of_best, plan_alone, only(narrow_base, BEST))

    def check(together, alone):
        check_law(together)
        check_law(alone, lossless=True)
        ours, apart = (one.got.by_class(one.plan)[0] for one in (together, alone))
        assert ours.success == 1
        assert ours.mean_s < MOST_MEAN_S, together
        assert ours.p99_s < 2 * apart.p99_s, f"{together}\n{alone}"

    together, alone = judged(attempt, check)
    for name, scenario, one in (("", full, together), (", the best class alone", only(narrow_base, BEST), alone)):
        client = one.got.by_class(one.plan)
        noted(f"bottleneck{name}, {seconds} s", scenario, one, client, one.same_rows())


@pytest.mark.slow
def test_a_plain_broker_at_the_same_bottleneck_makes_the_best_class_wait_with_all_others(narrow_base, tmp_path):
    full = raised(narrow_base, 2.0, spare=BEST)
    of_all, plan = planned_for(full, 4)
    with bottleneck(NARROW_BPS) as narrow, narrow.mosquitto(tmp_path) as broker:
        got = drive(of_all, *narrow.places(broker), broker_pid=broker.process.pid)
    rows = got.by_class(plan)
    print("mosquitto", got.sender, table(rows), sep="\n")
    assert rows[0].mean_s > 10 * MOST_MEAN_S
    best = {"mean_ms": round(1e3 * rows[0].mean_s, 2), "p99_ms": round(1e3 * rows[0].p99_s, 2)}
    success = [row.success for row in rows]
    numbers = {"load": round(load_of(full), 2), **best, "same_mean_ms": None, "same_p99_ms": None, "success": success}
    note("overload", "bottleneck, mosquitto 2.0.11, 4 s", numbers, got.sender)
