"""The benchmarks say what they claim to say, and compare like with like."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from firelane import bench
from firelane.cli import main
from firelane.errors import FirelaneError
from firelane.scenario.generate import firedex
from firelane.scenario.routes import routes
from firelane.simulate import simulate
from firelane.tune import tune

NAMES = ["end-to-end", "matching", "optimiser", "replan", "sense", "simulator", "streams"]


def bench_json(name: str) -> list[dict]:
    done = CliRunner().invoke(main, ["bench", name, "--quick", "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_every_script_is_a_benchmark():
    seldom = ["brokers", "overlay", "positions"]  # not for every test
    assert list(bench.benchmarks()) == sorted([*seldom, *NAMES])


@pytest.mark.parametrize("name", NAMES)
def test_json_has_the_documented_shape(name):
    measures = bench_json(name)
    assert measures
    for one in measures:
        assert set(one) == {"name", "ours", "peers", "ratios", "unit"}
        assert one["name"].startswith(name.replace("-", " "))
        assert one["ours"] > 0
        assert set(one["ratios"]) == set(one["peers"])
        for peer, value in one["peers"].items():
            assert one["ratios"][peer] == pytest.approx(one["ours"] / value)


def test_the_peers_are_there_and_ours_is_optimal():
    measures = bench_json("optimiser")
    by_kind = {one["name"].partition(": ")[2]: one for one in measures if "1,000" in one["name"]}
    assert any(peer.startswith("CVXPY") for peer in by_kind["speed"]["peers"])
    default = next(iter(by_kind["speed"]["peers"]))
    assert by_kind["utility reached"]["ratios"][default] == pytest.approx(1.0, abs=1e-7)
    assert by_kind["load kept"]["ours"] <= 0.9


def test_the_table_shows_targets_and_the_machine():
    done = CliRunner().invoke(main, ["bench", "end-to-end", "--quick"])
    assert done.exit_code == 0, done.output
    assert "less than 5 s: met" in done.stdout
    assert "numba" in done.stdout
    assert "round 1 of 1" in done.stderr


def test_a_page_has_a_column_for_targets_only_if_there_are_some():
    plain = bench.Measure(name="delay", ours=2.0, unit="x", peers={"peer": 4.0})
    aimed = bench.Measure(
        name="delay", ours=2.0, unit="x", targets={"ours": bench.Target(words="less than 3", met=True)}
    )
    assert "| delay (x) | ours | 2 |  |\n|  | peer | 4 | 0.5 × |\n" in bench.report([plain])
    assert "target" not in bench.report([plain])
    assert "| delay (x) | ours | 2 |  | less than 3: met |\n" in bench.report([aimed, plain])


def test_an_unknown_benchmark_is_refused_in_one_line():
    done = CliRunner().invoke(main, ["bench", "simulater"])
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        'firelane: there is no benchmark "simulater"; choose from: '
        "brokers, end-to-end, matching, optimiser, overlay, positions, replan, sense, simulator, streams"
    ]


@pytest.mark.parametrize(
    ("name", "package"),
    [("simulator", "ciw"), ("simulator", "simpy"), ("optimiser", "cvxpy"), ("sense", "filterpy.common")],
)
def test_a_missing_peer_says_how_to_install_it(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(FirelaneError, match=rf"{package}.*pip install 'firelane\[bench\]'"):
        bench.run(name, quick=True)


def test_contestants_take_turns_and_medians_count():
    order, numbers = [], iter([1.0, 10.0, 3.0, 30.0, 2.0, 50.0])

    def turn(name: str) -> float:
        order.append(name)
        return next(numbers)

    result = bench.interleaved("x", "s", {"ours": lambda: turn("ours"), "peer": lambda: turn("peer")}, rounds=3)
    assert order == ["ours", "peer"] * 3
    assert result == {"ours": 2.0, "peer": 30.0}


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "messages"), [("ciw", 20_000), ("SimPy", 60_000)])
def test_peers_simulate_the_same_queues_as_ours(peer, messages):
    """Mean delay of every class on two links at load 0.6, within five standard errors."""
    script = bench.load_script("simulator")
    network = routes(firedex(seed=2, subscribers=2, priorities=3, flows=3))
    plan = tune(network, priorities="bandwidth-adjusted", drops="flat", headroom=0.4)
    ours = simulate(network, plan, publications=1_000_000, replications=8, seed=1).classes()
    assert [row["priority"] for row in ours] == [0, 1, 2]
    queues = script.stations(network, plan)
    horizon_s = messages / sum(one.rate_hz for one in queues)
    runs = [script.PEERS[peer](queues, horizon_s, seed) for seed in range(12)]
    for row in ours:
        delays = [one.delay_s[row["priority"]] for one in runs]
        error = np.std(delays, ddof=1) / math.sqrt(len(delays))
        assert error < 0.02 * row["delay_mean_s"]  # else the next line would prove little
        assert np.mean(delays) == pytest.approx(row["delay_mean_s"], abs=5 * math.hypot(error, row["delay_mean_se_s"]))


def test_peers_count_every_arrival_and_departure():
    """On a link that is hardly loaded nearly everything that arrives in a second also leaves in it."""
    script = bench.load_script("simulator")
    station = script.Station(link=0, klass=0, rate_hz=2000.0, buffer=10, service_s=[1e-5], upto=[1.0])
    for simulated in script.PEERS.values():
        events = simulated([station], 1.0, 1).events
        assert events == pytest.approx(2 * 2000, abs=2 * 5 * math.sqrt(2000))


def test_peers_refuse_what_a_full_buffer_cannot_take():
    """Offered ten times what it can carry, a link sends at its own rate; the rest only arrives."""
    script = bench.load_script("simulator")
    station = script.Station(link=0, klass=0, rate_hz=10_000.0, buffer=10, service_s=[1e-3], upto=[1.0])
    for simulated in script.PEERS.values():
        events = simulated([station], 1.0, 1).events
        assert events == pytest.approx(10_000 + 1000, abs=5 * math.sqrt(11_000))


def test_the_page_for_the_documentation_has_every_number(tmp_path):
    page = tmp_path / "page.md"
    done = CliRunner().invoke(main, ["bench", "optimiser", "--quick", "-o", str(page)])
    assert done.exit_code == 0, done.output
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    assert sum("| ours |" in row for row in rows) >= 3
    assert any("CVXPY" in row for row in rows)
