"""What becomes of decisions: applied or not, measured, kept, taken back; on a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from moved_clock import Run, in_loop, started

from fake_exchange import FakeExchange, reading, seen, topic, treated, want
from firelane.control import controlling, decide, execution
from firelane.control.aside import PLANNING
from firelane.errors import FirelaneError
from firelane.predict import predict
from firelane.scenario import from_data
from firelane.scenario.model import Need, Scenario

FAST = Need(max_delay_s=0.2)


def entries(run):
    """Kinds and verdicts, the oldest first."""
    return [(one.kind, one.verdict) for one in reversed(list(run.control.decisions.newest_first()))]


def measure(run, success=None, delay_s=0.01, hz=100.0):
    """Have the exchange measure this share of what subscriptions are due; by default what the plan promises."""
    exchange = run.exchange
    state = {"version": None, "since": 0.0}

    def now():
        plan = exchange.plan
        if plan.version != state["version"]:
            state.update(version=plan.version, since=run.now)
        age_s = run.now - state["since"]
        kept = {pair: 1 - drop for pair, (_, drop) in treated(plan).items()}
        rows = []
        for one in exchange.seen.subscriptions:
            share = kept.get((one.subscriber, one.filter), 1.0) if success is None else success
            due = round(hz * age_s)
            rows.append((one.subscriber, one.filter, one.need, round(share * due), due - round(share * due), delay_s))
        return reading(rows, version=plan.version, window_s=max(age_s, 1e-9), began_wall_s=float(plan.version))

    exchange.reading = now


def move(run, *topics):
    run.exchange.seen = replace(run.exchange.seen, topics=topics)


@in_loop
async def test_the_first_decision_says_what_it_was_made_for_and_what_is_promised():
    run = await started()
    (entry,) = run.control.decisions.newest_first()
    assert (entry.kind, entry.verdict, entry.version_before, entry.version) == ("start", "pending", 0, 1)
    assert (entry.subscriptions, entry.topics, entry.rate_hz) == (2, 2, 25.0)
    assert entry.bandwidths_bps == {"thin": 8000.0}
    decision = decide(run.exchange.seen)
    rate = predict(decision.routes, decision.plan).utility()["rate"]
    assert entry.predicted.utility_rate == pytest.approx(rate)
    assert entry.predicted_before.utility_rate < rate
    assert entry.predicted_before.delay_mean_s is None  # an overloaded link without a plan
    assert entry.why == tuple(run.exchange.plan.why)


@in_loop
async def test_a_plan_that_does_what_it_promised_is_kept_with_what_was_measured():
    run = Run(FakeExchange(seen([topic("a", 20.0), topic("b", 5.0)], [want("s", "a"), want("s", "b")])))
    await run.until(100.5)
    measure(run)
    await run.until(120.0)
    (entry,) = run.control.decisions.newest_first()
    assert entry.verdict == "kept"
    assert entry.measured.utility_rate == pytest.approx(entry.predicted.utility_rate, rel=0.02)
    assert entry.model_error < 0.02
    assert run.control.decisions.by_verdict["kept"] == 1


@in_loop
async def test_a_plan_without_traffic_is_kept_without_a_measurement():
    run = await started()
    measure(run, hz=0.0)
    await run.until(130.0)
    (entry,) = run.control.decisions.newest_first()
    assert (entry.verdict, entry.measured) == ("kept", None)


@in_loop
async def test_what_is_measured_counts_from_when_the_plan_was_applied_not_from_when_it_was_begun(monkeypatch):
    run = await started()
    monkeypatch.setattr(execution.time, "perf_counter", lambda: run.now)

    def decide_slowly(*arguments, **more):
        run.now += 10.0
        return decide(*arguments, **more)

    measure(run, hz=1000.0)
    monkeypatch.setattr(execution, "decide", decide_slowly)
    await run.control.apply()
    applied = run.now
    while run.control.decisions.by_verdict["kept"] == 0:
        run.now += 0.5
        await run.control.step(run.now)
    assert run.now - applied >= 3.0


async def worse_after_a_load_change(**more):
    """A second plan, made for a shift of the load, under which only a tenth arrives."""
    run = await started()
    measure(run)
    await run.until(120.0)
    move(run, topic("a", 5.0), topic("b", 20.0))
    assert len(await run.until(123.0)) == 1
    measure(run, **more)
    return run


@in_loop
async def test_a_plan_that_does_worse_than_the_one_before_would_is_taken_back():
    run = await worse_after_a_load_change(success=0.1)
    first = run.exchange.applied[0]
    await run.until(140.0)
    assert len(run.exchange.applied) == 3
    assert treated(run.exchange.plan) == treated(first)
    assert run.exchange.plan.version == 3
    assert entries(run) == [("start", "kept"), ("load", "rolled back"), ("rollback", "kept")]
    assert "does worse than plan 1" in run.exchange.plan.why[0]


@in_loop
async def test_a_plan_that_is_gone_back_to_names_the_pace_that_links_have_now():
    run = await started()
    measure(run)
    await run.until(120.0)
    run.exchange.change(links={"thin": replace(run.exchange.seen.links["thin"], bandwidth_bps=4000.0)})
    assert len(await run.until(123.0)) == 1
    halved = run.exchange.plan.links
    measure(run, success=0.01)
    await run.until(140.0)
    assert entries(run)[2][0] == "rollback"
    assert halved == run.exchange.plan.links != run.exchange.applied[0].links


@in_loop
async def test_after_going_back_it_is_left_until_conditions_change():
    run = await worse_after_a_load_change(success=0.1)
    await run.until(140.0)
    assert await run.until(300.0) == []
    move(run, topic("a", 40.0), topic("b", 20.0))
    assert len(await run.until(305.0)) == 1
    assert entries(run)[3][0] == "load"


@in_loop
async def test_a_plan_that_does_as_well_as_the_one_before_would_is_not_taken_back():
    run = await worse_after_a_load_change()
    assert await run.until(140.0) == []
    assert entries(run) == [("start", "kept"), ("load", "kept")]


@in_loop
async def test_nothing_is_taken_back_to_a_plan_for_other_subscriptions():
    run = await started()
    measure(run)
    await run.until(120.0)
    run.exchange.change(subscriptions=(*run.exchange.seen.subscriptions, want("t", "a")))
    assert len(await run.until(122.0)) == 1
    measure(run, success=0.1)
    assert await run.until(150.0) == []
    assert entries(run) == [("start", "kept"), ("subscriptions", "kept")]


@in_loop
async def test_a_plan_that_somebody_brought_is_not_taken_back():
    run = await started()
    measure(run)
    await run.until(120.0)
    plan = run.exchange.plan
    await run.control.apply(replace(plan, version=2, flow_drop_rate=np.full(len(plan.flow_id), 0.9)))
    assert await run.until(150.0) == []
    assert entries(run) == [("start", "kept"), ("operator", "kept")]


@in_loop
async def test_a_plan_that_is_replaced_before_it_was_measured_says_so():
    run = await started()
    measure(run)
    run.exchange.change(subscriptions=(*run.exchange.seen.subscriptions, want("t", "a")))
    await run.until(105.0)
    assert entries(run) == [("start", "replaced"), ("subscriptions", "pending")]
    entry = next(run.control.decisions.newest_first())
    assert entry.cause == "new: 1 subscription (t a)"


@in_loop
async def test_a_load_that_another_plan_would_serve_no_better_changes_nothing():
    wants = [want("s", "a", need=Need(weight=9.0)), want("s", "b")]
    run = Run(FakeExchange(seen([topic("a", 2.0), topic("b", 2.0)], wants)))
    assert len(await run.until(103.0)) == 1
    move(run, topic("a", 4.0), topic("b", 2.0))  # more, but nowhere near too much
    assert await run.until(110.0) == []
    assert entries(run) == [("start", "pending"), ("load", "unchanged")]
    entry = next(run.control.decisions.newest_first())
    assert (entry.version_before, entry.version) == (1, 1)
    assert "no better" in entry.why[0]
    assert await run.until(160.0) == []
    assert len(entries(run)) == 2  # it is known now what the load is


@in_loop
async def test_the_first_message_of_what_matters_gets_its_class_though_nothing_is_lost_without():
    wants = [want("s", "a"), want("s", "alarm", need=Need(weight=100.0))]
    run = Run(FakeExchange(seen([topic("a", 6.0)], wants)))
    await run.until(103.0)
    assert treated(run.exchange.plan)["s", "alarm"][0] == 8
    move(run, topic("a", 6.0), topic("alarm", 0.1))
    assert len(await run.until(106.0)) == 1
    rows = treated(run.exchange.plan)
    assert rows["s", "alarm"][0] < rows["s", "a"][0]


# ------------------------------------------------------------------------------------------------ bounds


@in_loop
async def test_a_bound_that_is_missed_and_can_be_met_leads_to_a_plan():
    run = Run(FakeExchange(seen([topic("a", 4.0), topic("b", 4.0)], [want("s", "a", need=FAST), want("s", "b")])))
    await run.until(101.0)
    slow = replace(run.exchange.plan, version=2, flow_priority=run.exchange.plan.flow_priority[::-1].copy())
    run.exchange.apply(slow)  # behind the control's back: the bound is missed
    measure(run, success=1.0, delay_s=0.5)
    applied = await run.until(112.0)
    assert len(applied) == 1
    assert applied[0] <= 101.0 + 6.0
    entry = next(one for one in run.control.decisions.newest_first() if one.kind == "bound")
    assert entry.cause == "s a: delay 0.5 s, 0.2 s asked for"


@in_loop
async def test_a_bound_that_no_plan_can_meet_is_told_once_and_then_less_and_less():
    run = Run(FakeExchange(seen([topic("a", 4.0)], [want("s", "a", need=FAST)])))
    await run.until(101.0)
    measure(run, delay_s=0.5)
    assert await run.until(160.0) == []
    looks = [one for one in entries(run) if one == ("bound", "unchanged")]
    assert 1 <= len(looks) <= 3
    await run.until(460.0)
    assert len([one for one in entries(run) if one[0] == "bound"]) <= 6
    assert len(run.lines) == 1
    assert "no plan would meet more bounds" in run.lines[0]


@in_loop
async def test_bounds_that_are_kept_or_hardly_known_lead_to_nothing():
    run = Run(FakeExchange(seen([topic("a", 4.0)], [want("s", "a", need=FAST)])))
    await run.until(101.0)
    measure(run, delay_s=0.19)
    assert await run.until(130.0) == []
    measure(run, delay_s=9.0, hz=1.0)  # ten messages
    assert await run.until(160.0) == []
    assert {kind for kind, _ in entries(run)} == {"start"}


@in_loop
async def test_nothing_is_read_where_nobody_has_a_bound_and_the_plan_is_judged():
    run = await started()
    measure(run)
    await run.until(120.0)
    run.exchange.reading = None
    reads = []
    run.exchange.reading = lambda: reads.append(run.now)
    await run.until(150.0)
    assert reads == []


# ------------------------------------------------------------------------------------------------ other causes


def alert(number=1, **more):
    return json.dumps(
        {"id": f"w{number}", "kind": "bound", "subject": "s a", "measured": 2, "bound": 1, **more}
    ).encode()


@in_loop
async def test_an_alert_leads_to_a_look_at_other_plans_once():
    run = await started()
    run.control.alerted(alert())
    run.control.alerted(alert())
    await run.until(106.0)
    run.control.alerted(alert())
    await run.until(110.0)
    assert entries(run)[1:] == [("alert", "unchanged")]
    assert next(run.control.decisions.newest_first()).cause == "bound of s a: 2 measured, bound 1"


@pytest.mark.parametrize("payload", [b"", b"{", b"[1]", b'{"id": 1}', b'{"subject": 3}', b"[" * 100_000, b"\xff"])
def test_what_is_no_alert_is_passed_over(payload):
    async def main():
        run = await started()
        run.control.alerted(payload)
        await run.until(110.0)
        assert len(entries(run)) == 1

    asyncio.run(main())


@in_loop
async def test_alerts_without_end_do_not_exceed_the_budget():
    scenario = from_data({"name": "x", "exchange": {"control": {"replans": 5}}})
    run = await started(scenario=scenario)
    for tenths in range(600):
        run.control.alerted(alert(tenths))
        await run.until(103.0 + tenths / 10)
    assert 5 <= len(entries(run)) <= 1 + 5 + 5  # one a minute in twelve seconds, and those it starts with


@in_loop
async def test_an_alert_while_a_plan_is_made_is_the_cause_of_the_next(monkeypatch):
    run = await started()

    def decide_slowly(*arguments, **more):
        run.control.alerted(alert())
        return decide(*arguments, **more)

    monkeypatch.setattr(execution, "decide", decide_slowly)
    run.exchange.change()
    await run.until(110.0)
    assert [kind for kind, _ in entries(run)] == ["start", "subscriptions", "alert"]


@in_loop
async def test_a_flood_of_alerts_does_not_have_the_exchange_looked_at_for_each():
    exchange = FakeExchange(seen([topic("a", 20.0), topic("b", 5.0)], [want("s", "a"), want("s", "b")]))
    async with controlling(exchange, None, tell=lambda line: None) as control, asyncio.timeout(60):
        while not exchange.applied:
            await asyncio.sleep(0.01)
        looks = exchange.looks
        for number in range(100):
            control.alerted(alert(number))
            await asyncio.sleep(0.001)
        assert exchange.looks - looks < 10


@in_loop
async def test_a_phase_is_the_cause_when_one_was_declared():
    run = await started()
    run.exchange.phase = "suppression"
    first, second = run.exchange.seen.subscriptions
    run.exchange.change(subscriptions=(replace(first, need=Need(weight=8.0)), second))
    assert len(await run.until(106.0)) == 1
    entry = next(run.control.decisions.newest_first())
    assert (entry.kind, entry.phase, entry.cause) == ("phase", "suppression", "phase suppression was declared")


@in_loop
async def test_needs_and_links_that_change_are_named():
    run = await started()
    first, second = run.exchange.seen.subscriptions
    run.exchange.change(subscriptions=(replace(first, need=Need(weight=8.0)), second))
    await run.until(106.0)
    run.exchange.change(links=seen([], [], kbps=4.0).links)
    await run.until(110.0)
    run.exchange.change()
    await run.until(114.0)
    run.control.reload(Scenario(name="other", priorities=2))
    await run.until(118.0)
    made = [(one.kind, one.cause) for one in reversed(list(run.control.decisions.newest_first()))][1:]
    assert made == [
        ("needs", "other needs or classes of 1 subscription (s a)"),
        ("links", "other links: thin: 8 kbit/s -> 4 kbit/s"),
        ("subscriptions", "subscriptions were made anew"),
        ("operator", "settings were reloaded"),
    ]


# ------------------------------------------------------------------------------------------------ forecasts


async def ramped(proactive):
    """A link that is half full, and from 140 s on a load that grows by a fortieth of the link every second.

    It is too much at 156 s.
    """
    scenario = from_data({"name": "x", "exchange": {"control": {"proactive": proactive}}})
    wants = [want("s", "a", need=Need(weight=3.0)), want("s", "b")]
    run = Run(FakeExchange(seen([topic("a", 100.0), topic("b", 300.0)], wants, kbps=640.0)), scenario)
    await run.until(140.0)
    applied = []
    for second in range(1, 31):
        move(run, topic("a", 100.0), topic("b", 300.0 + 20.0 * second))
        applied += await run.until(140.0 + second)
    return run, applied


@in_loop
async def test_a_load_that_grows_is_planned_for_before_it_is_there():
    (early, early_at), (late, late_at) = await ramped(True), await ramped(False)
    assert early_at[0] < 155.0
    assert late_at[0] > 156.0
    assert "forecast" in {kind for kind, _ in entries(early)}
    assert "forecast" not in {kind for kind, _ in entries(late)}
    assert early.control.outlook.record.helped > early.control.outlook.record.hurt
    first = next(one for one in reversed(list(early.control.decisions.newest_first())) if one.kind == "forecast")
    assert first.cause.startswith("a trend: soon thin: the load is")


@in_loop
async def test_a_load_that_grows_is_not_planned_for_at_every_look():
    run, applied = await ramped(True)
    assert len(applied) <= 4
    assert len([one for one in entries(run) if one[0] in ("load", "forecast")]) <= 8


@in_loop
async def test_a_rate_that_has_just_jumped_is_planned_for_as_it_was_last():
    run = await started()
    half_way = topic("a", 60.0)._replace(latest_hz=100.0)  # the mean of a look before the flood, and one in it
    move(run, half_way, topic("b", 5.0))
    assert len(await run.until(104.5)) == 1
    assert next(run.control.decisions.newest_first()).rate_hz == 105.0
    for mean_hz in (75.0, 85.0, 95.0, 97.0, 99.0):
        move(run, topic("a", mean_hz)._replace(latest_hz=100.0), topic("b", 5.0))
        assert await run.until(run.now + 1.0) == []


@in_loop
async def test_traffic_is_never_planned_for_as_less_than_it_is():
    run = Run(FakeExchange(seen([topic("a", 1000.0)], [want("s", "a")], kbps=640.0)))
    await run.until(140.0)
    for second in range(1, 31):
        move(run, topic("a", 1000.0 - 20.0 * second))
        await run.until(140.0 + second)
        newest = next(run.control.decisions.newest_first())
        assert newest.rate_hz >= run.exchange.seen.topics[0].rate_hz


# ------------------------------------------------------------------------------------------------ planners

CATEGORIES = {
    "name": "x",
    "categories": {"real-time": {"max_delay": "300 ms", "max_loss": "0 %"}},
    "exchange": {"control": {"planner": "plan"}},
}
BY_CATEGORY = [
    want("s", "a", need=Need(category="real-time")),
    want("s", "b", need=Need(category="analytics")),
    want("t", "b", need=Need(category="analytics"), best_class=3),
    want("t", "idle", need=Need(category="real-time")),
]


@in_loop
async def test_requirements_are_planned_for_by_the_other_planner():
    exchange = FakeExchange(seen([topic("a", 4.0), topic("b", 5.0)], BY_CATEGORY))
    run = Run(exchange, from_data(CATEGORIES))
    await run.until(103.0)
    rows = treated(exchange.plan)
    assert exchange.plan.made_by == "plan search"
    assert rows["s", "a"][0] < rows["s", "b"][0]
    assert rows["s", "a"][1] == 0 < rows["s", "b"][1]
    assert rows["t", "b"][0] == max(3, rows["s", "b"][0])
    assert rows["t", "idle"] == (8, 0.0)
    entry = next(run.control.decisions.newest_first())
    assert (entry.predicted.missed, entry.predicted_before.missed) == (0, 2)  # too much load: late, and lost


@in_loop
async def test_what_is_ahead_is_not_planned_for_if_that_misses_bounds_now():
    """On this link 800 messages a second are a load of 1; half of the analytics may be lost, so 1400 can be carried."""
    categories = CATEGORIES["categories"] | {"analytics": {"max_loss": "50 %"}}
    exchange = FakeExchange(seen([topic("a", 100.0), topic("b", 300.0)], BY_CATEGORY[:2], kbps=640.0))
    run = Run(exchange, from_data(CATEGORIES | {"categories": categories}))
    await run.until(140.0)
    for second in range(1, 24):
        move(run, topic("a", 100.0), topic("b", 300.0 + 40.0 * second))
        await run.until(140.0 + second)
        assert treated(exchange.plan)["s", "b"][1] <= 0.5
    assert ("forecast", "unchanged") in entries(run) or ("forecast", "kept") in entries(run)
    assert treated(exchange.plan)["s", "b"][1] > 0.2


@in_loop
async def test_clients_that_are_one_subscriber_share_a_row_by_the_other_planner_too():
    wants = [want("crew", "a", link="thin"), want("crew", "a", link="thin"), want("s", "b")]
    run = Run(FakeExchange(seen([topic("a", 4.0), topic("b", 5.0)], wants)), from_data(CATEGORIES))
    await run.until(103.0)
    assert treated(run.exchange.plan).keys() == {("crew", "a"), ("s", "b")}


@pytest.mark.parametrize(
    ("categories", "named"),
    [
        ({"real-time": {"max_delay_p95": "300 ms"}}, "percentiles"),
        ({}, "raise priorities"),
    ],
)
def test_requirements_that_cannot_be_planned_for_leave_the_plan_as_it_is(categories, named):
    async def main():
        run = await started()
        old = run.exchange.plan
        crowd = [want("s", f"x/{n}", need=Need(category=f"c{n}")) for n in range(12)] if not categories else []
        run.control.reload(from_data(CATEGORIES | {"categories": categories}))
        run.exchange.change(subscriptions=(*BY_CATEGORY, *crowd))
        assert await run.until(140.0) == []
        assert run.exchange.plan is old
        assert len(run.lines) == 1
        assert named in run.lines[0]
        assert entries(run)[-1][1] == "failed"
        assert [one[1] for one in entries(run)].count("failed") == 1  # though it is tried again and again

    asyncio.run(main())


def test_a_planner_that_hangs_is_left_alone_and_the_plan_stays(monkeypatch):
    async def main():
        run = await started(within_s=0.05)
        old, hanging = run.exchange.plan, threading.Event()
        with monkeypatch.context() as patched:
            patched.setattr(execution, "decide", lambda *_, **__: hanging.wait(60))
            run.exchange.change()
            await run.until(105.0)
            assert "not done after 0.05 s" in run.lines[0]
            await run.until(150.0)
            assert [one.name for one in threading.enumerate()].count(PLANNING) == 1  # no further thread is risked
        assert run.exchange.plan is old
        with pytest.raises(FirelaneError, match="hangs"):
            await run.control.apply()
        hanging.set()
        await asyncio.sleep(0.05)
        assert len(await run.until(180.0)) == 1

    asyncio.run(main())
