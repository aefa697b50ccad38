"""What people see in the terminal."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from firelane.metrics import LinkLoad
from firelane.predict import predict
from firelane.scenario import load
from firelane.scenario.generate import firedex
from firelane.scenario.routes import routes
from firelane.show import MOST_SUBSCRIPTIONS, progress_bar, show_metrics, show_plan, show_section
from firelane.simulate import simulate
from firelane.tune import tune


@pytest.fixture(scope="module")
def office():
    return routes(load("office-fire"))


@pytest.fixture(scope="module")
def plan(office):
    return tune(office)


@pytest.fixture(scope="module")
def predicted(office, plan):
    return {"plain": predict(office), "firelane": predict(office, plan)}


@pytest.fixture(scope="module")
def simulated(office, plan):
    return {
        name: simulate(office, one, publications=20_000, replications=2, seed=1)
        for name, one in (("plain", None), ("firelane", plan))
    }


def shown(show, *arguments, width=80, **options) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None, markup=False, emoji=False)
    show(*arguments, console=console, **options)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def with_column(metrics, name, values):
    number = metrics.table.schema.get_field_index(name)
    field = metrics.table.schema.field(number)
    values = values.cast(field.type) if isinstance(values, pa.ChunkedArray) else pa.array(values, field.type)
    return replace(metrics, table=metrics.table.set_column(number, field, values))


def first_rows(metrics, count):
    return replace(metrics, table=metrics.table.slice(0, count))


def assert_whole(show, *arguments, **options):
    """Nothing is cut, and nothing breaks that would not break on the widest screen."""
    narrow = shown(show, *arguments, **options)
    assert "…" not in narrow
    assert narrow == shown(show, *arguments, width=300, **options)


def test_tables_of_metrics_are_whole_at_80_columns(predicted, simulated):
    for results in (predicted, simulated):
        for metrics in results.values():
            assert_whole(show_metrics, metrics, per_subscription=True)


def test_the_tables_of_a_plan_are_whole_at_80_columns(plan):
    assert_whole(show_plan, replace(plan, why=(), promised={}), per_subscription=True)


def test_very_late_and_very_many_messages_fit_too(simulated):
    metrics = simulated["firelane"]
    for name in ("delay_mean_s", "delay_p95_s", "delivered_hz"):
        metrics = with_column(metrics, name, pc.multiply(metrics.table.column(name), 98_765.4))
    late = {"delay_mean_se_s": 12.3456, "delay_p95_s": 987.654, "delay_p99_s": 98_765.4}
    metrics = replace(metrics, class_extra=dict.fromkeys(range(9), late))
    assert_whole(show_metrics, metrics)
    one = first_rows(metrics, 1)
    assert _numbers(shown(show_metrics, one)) == _numbers(shown(show_metrics, one, width=300))


def _numbers(text):
    row = next(line for line in text.splitlines() if line.startswith("commander"))
    return row.split()[2:]


def test_delays_by_stage_are_whole_at_80_columns():
    metrics = predict(firedex(seed=1))
    stages = ("publisher", "broker_in", "broker_out", "switch", "link", "end_to_end")
    metrics = replace(metrics, stages={name: {0: 0.0123, 8: 123.4} for name in stages})
    assert_whole(show_metrics, metrics)
    assert "123,400" in shown(show_metrics, metrics)


def test_few_subscriptions_are_listed_unasked_and_many_only_when_asked_for(predicted, plan):
    few, many = first_rows(predicted["plain"], MOST_SUBSCRIPTIONS), predicted["plain"]
    assert "subscriber" in shown(show_metrics, few)
    assert "subscriber" not in shown(show_metrics, many)
    assert "--per-subscription lists all 52 subscriptions" in shown(show_metrics, many)
    everything = shown(show_metrics, many, per_subscription=True)
    assert all(name in everything for name in many.table.column("filter").to_pylist())
    assert "subscriber" not in shown(show_plan, plan)
    assert all(name in shown(show_plan, plan, per_subscription=True) for name in plan.filter)


def test_a_row_says_what_its_subscription_got(predicted):
    metrics = predicted["firelane"]
    row = metrics.table.to_pylist()[0]
    lines = shown(show_metrics, first_rows(metrics, 1)).splitlines()
    (cells,) = [line.split() for line in lines if line.split()[:1] == [row["subscriber"]]]
    assert cells[1] == row["filter"]
    assert int(cells[2]) == row["priority"]
    numbers = [float(cell) for cell in cells[3:]]
    assert numbers == pytest.approx(
        [100 * row["drop_rate"], 100 * row["success"], 1e3 * row["delay_mean_s"]], rel=0.005
    )


def test_subscriptions_of_the_first_class_come_first(plan):
    table = shown(show_plan, plan, per_subscription=True).split("Plan, by class")[0].splitlines()
    classes = [int(line.split()[2]) for line in table if line.split()[:1] and line.split()[0] in plan.subscriber]
    assert len(classes) == len(plan.filter)
    assert classes == sorted(plan.flow_priority[plan.subscription_flow].tolist())


def test_a_long_filter_folds_and_loses_nothing(predicted):
    long = "building/" + "wing/" * 30 + "[red]"
    text = shown(show_metrics, with_column(first_rows(predicted["plain"], 1), "filter", [long]))
    assert "…" not in text
    pieces = [line.split() for line in text.split("\n\n")[0].splitlines()[4:]]
    row, *folded = pieces
    assert row[1] + "".join(words[0] for words in folded) == long


def test_only_what_is_not_stable_is_called_saturated(predicted):
    plain = first_rows(predicted["plain"], 1)
    assert "saturated" in shown(show_metrics, replace(plain, links={}))
    idle = with_column(replace(plain, links={}), "stable", [True])
    assert "saturated" not in shown(show_metrics, idle)


def test_a_full_link_is_said_to_be_saturated_and_no_other(predicted):
    links = {"full": LinkLoad(load=1.3, stable=False), "free": LinkLoad(load=0.9, stable=True)}
    lines = shown(show_metrics, replace(predicted["firelane"], links=links)).splitlines()
    assert [("saturated" in line) for line in lines if line.startswith("link ")] == [True, False]


def test_the_bound_is_named_for_what_it_is_and_only_where_it_holds(office, plan):
    said = " ".join(shown(show_plan, plan).split())
    assert "the most any plan can reach that keeps the same headroom and bounds: " in said
    said = " ".join(shown(show_plan, tune(office, drops="none")).split())
    assert "promised utility rate" in said
    assert "the most any plan" not in said


def test_a_section_ends_at_the_next_heading(tmp_path):
    report = tmp_path / "report.md"
    report.write_text("# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n")
    assert shown(show_section, report, "B").split() == ["two"]
    assert shown(show_section, report, "C").split() == ["three"]


def test_an_interrupt_ends_the_threads_that_advance_a_bar(office):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest's workers ignore it
    once = iter([signal.SIGINT])

    def run():
        with progress_bar(1, "simulating") as advance:

            def interrupted(done):
                for number in once:
                    os.kill(os.getpid(), number)
                advance(done)

            simulate(office, publications=10**12, replications=2, seed=1, progress=interrupted)

    try:
        with pytest.raises(KeyboardInterrupt):
            run()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
