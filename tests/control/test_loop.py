"""The loop that plans again, step by step on a clock that the test moves."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from itertools import pairwise

import pytest
from moved_clock import TOPICS, WANTS, Run, in_loop, started

from fake_exchange import FakeExchange, seen, topic, treated, want
from firelane.control import controlling, decide, execution, loop
from firelane.control.outlook import Outlook
from firelane.errors import PlanError
from firelane.scenario import from_data
from firelane.scenario.model import Need, Scenario


@in_loop
async def test_the_first_plan_is_made_when_there_is_something_to_plan():
    run = Run(FakeExchange(seen([], WANTS)))
    assert await run.until(105.0) == []
    run.exchange.seen = replace(run.exchange.seen, topics=tuple(TOPICS))
    assert len(await run.until(107.0)) == 1
    assert run.exchange.plan.version == 1
    assert treated(run.exchange.plan).keys() == {("s", "a"), ("s", "b")}
    assert run.lines == []


@in_loop
async def test_a_configured_scenario_is_planned_before_there_is_any_traffic():
    scenario = from_data(
        {"name": "x", "topics": {"a": {"size": "100 B"}}, "publishers": {"p": {"publishes": {"a": 20}}}}
    )
    run = Run(FakeExchange(seen([], [want("s", "a")])), scenario)
    await run.until(101.0)
    assert treated(run.exchange.plan)["s", "a"][1] == pytest.approx(0.55, abs=1e-6)


@in_loop
async def test_nothing_changes_nothing_is_planned():
    run = await started()
    assert await run.until(200.0) == []


@in_loop
async def test_a_new_subscription_is_planned_after_some_quiet():
    run = await started()
    run.exchange.change(subscriptions=(*run.exchange.seen.subscriptions, want("t", "a")))
    (when,) = await run.until(110.0)
    assert 103.0 + 0.2 <= when <= 103.0 + 1.0 + 0.2
    assert run.exchange.plan.version == 2
    assert ("t", "a") in treated(run.exchange.plan)


@in_loop
async def test_changes_without_end_are_planned_once_a_second():
    run = await started()
    applied = []
    for tenths in range(1, 101):
        run.exchange.change()
        applied += await run.until(103.0 + tenths / 10)
    assert 5 <= len(applied) <= 10
    assert min(later - earlier for earlier, later in pairwise(applied)) >= 1.0


@in_loop
async def test_plans_are_not_made_more_often_than_asked():
    run = await started(min_interval_s=5.0)
    applied = []
    for tenths in range(1, 201):
        run.exchange.change()
        applied += await run.until(103.0 + tenths / 10)
    assert 3 <= len(applied) <= 5
    assert min(later - earlier for earlier, later in pairwise(applied)) >= 5.0


@in_loop
async def test_traffic_that_moves_is_planned_for():
    run = await started()
    run.exchange.seen = replace(run.exchange.seen, topics=(topic("a", 20.5), topic("b", 5.0)))
    assert await run.until(110.0) == []
    run.exchange.seen = replace(run.exchange.seen, topics=(topic("a", 20.0), topic("b", 15.0)))
    assert len(await run.until(120.0)) == 1
    assert await run.until(200.0) == []


@in_loop
async def test_without_a_bandwidth_there_is_nothing_to_do_and_little_is_looked_at():
    run = Run(FakeExchange(seen(TOPICS, WANTS, kbps=None)))
    assert await run.until(200.0) == []
    assert run.exchange.looks <= 11
    assert run.exchange.plan is None


@in_loop
async def test_drops_end_when_the_last_link_is_no_longer_paced():
    run = await started()
    assert run.exchange.plan.flow_drop_rate.any()
    run.exchange.change(links=seen([], [], kbps=None).links)
    assert len(await run.until(130.0)) == 1
    assert not run.exchange.plan.flow_drop_rate.any()
    looks = run.exchange.looks
    await run.until(200.0)
    assert run.exchange.looks - looks < 10


@in_loop
async def test_a_change_while_a_plan_is_made_leads_to_another(monkeypatch):
    run = await started()

    def decide_slowly(*arguments, **more):
        if run.exchange.plan.version == 1:
            run.exchange.change()
        return decide(*arguments, **more)

    monkeypatch.setattr(execution, "decide", decide_slowly)
    run.exchange.change()
    assert len(await run.until(120.0)) == 2


@in_loop
async def test_there_are_never_two_plans_in_the_making(monkeypatch):
    run = await started()
    busy = threading.Lock()

    def decide_alone(*arguments, **more):
        assert busy.acquire(blocking=False)
        try:
            threading.Event().wait(0.02)
            return decide(*arguments, **more)
        finally:
            busy.release()

    monkeypatch.setattr(execution, "decide", decide_alone)
    await asyncio.gather(*(run.control.apply() for _ in range(4)))
    assert [plan.version for plan in run.exchange.applied] == [1, 2, 3, 4, 5]


@in_loop
async def test_least_shares_that_do_not_fit_are_told_once():
    run = Run(FakeExchange(seen(TOPICS, [want("s", "a", need=Need(min_share=0.9))])))
    await run.until(103.0)
    (line,) = run.lines
    assert "least shares do not fit on thin" in line
    assert "\n" not in line
    run.exchange.seen = replace(run.exchange.seen, topics=(topic("a", 30.0),))
    assert len(await run.until(110.0)) == 1
    assert len(run.lines) == 1
    run.exchange.seen = replace(run.exchange.seen, topics=(topic("a", 3.0),))
    await run.until(120.0)
    run.exchange.seen = replace(run.exchange.seen, topics=(topic("a", 30.0),))
    await run.until(130.0)
    assert len(run.lines) == 2


@pytest.mark.parametrize("problem", [PlanError("it is too late"), ZeroDivisionError("no")])
def test_the_old_plan_stays_when_no_new_one_can_be_made(problem, monkeypatch, capsys):
    def fail(*arguments, **more):
        raise problem

    async def main():
        run = await started()
        old = run.exchange.plan
        with monkeypatch.context() as patched:
            patched.setattr(execution, "decide", fail)
            run.exchange.change()
            assert await run.until(140.0) == []
        assert run.exchange.plan is old
        (line,) = run.lines
        assert str(problem) in line
        assert "\n" not in line
        assert len(await run.until(160.0)) == 1  # it is tried again
        assert run.exchange.plan.version == 2

    asyncio.run(main())
    assert capsys.readouterr().err.count("Traceback") == isinstance(problem, ZeroDivisionError)  # once


@in_loop
async def test_a_problem_is_told_and_kept_once_though_its_numbers_change(monkeypatch):
    run = await started()

    def fail(*arguments, **more):
        raise PlanError(f"set-7: rate_factor {run.now / 70:g} is outside what was swept (0.5 to 1); sweep it too")

    monkeypatch.setattr(execution, "decide", fail)
    run.exchange.change()
    await run.until(150.0)
    assert len(run.lines) == 1
    assert [one.verdict for one in run.control.decisions.newest_first()].count("failed") == 1


@in_loop
async def test_a_failure_is_not_tried_again_all_the_time(monkeypatch):
    run = await started()
    tries = []

    def fail(*arguments, **more):
        tries.append(run.now)
        raise PlanError("no")

    monkeypatch.setattr(execution, "decide", fail)
    run.exchange.change()
    await run.until(153.0)
    assert 4 <= len(tries) <= 6


@in_loop
async def test_a_plan_given_by_hand_is_applied_and_holds_until_something_changes():
    run = await started()
    before = run.exchange.plan
    by_hand = replace(before, version=9, flow_drop_rate=before.flow_drop_rate * 0 + 0.5, made_by="hand")
    await run.control.apply(by_hand)
    assert await run.until(130.0) == []
    assert run.exchange.plan is by_hand
    with pytest.raises(PlanError, match="not newer"):
        await run.control.apply(by_hand)
    run.exchange.change()
    assert len(await run.until(140.0)) == 1
    assert run.exchange.plan.version == 10


@in_loop
async def test_what_a_plan_that_was_asked_for_knows_is_not_planned_again():
    run = await started()
    run.exchange.change()
    await run.control.apply()
    assert await run.until(120.0) == []


@in_loop
async def test_another_scenario_is_planned_for():
    run = await started()
    run.control.reload(Scenario(name="other", priorities=2, headroom=0.5))
    assert len(await run.until(110.0)) == 1
    assert run.exchange.plan.flow_priority.max() < 2
    assert run.exchange.plan.promised["loads"]["thin"] == pytest.approx(0.5)


@in_loop
async def test_another_scenario_while_a_plan_is_made_is_planned_for_next(monkeypatch):
    run = await started()
    other = Scenario(name="other", priorities=2)

    def decide_slowly(*arguments, **more):
        if run.control.scenario is not other:
            run.control.reload(other)
        return decide(*arguments, **more)

    monkeypatch.setattr(execution, "decide", decide_slowly)
    run.exchange.change()
    await run.until(110.0)
    assert run.exchange.plan.flow_priority.max() < 2
    assert next(run.control.decisions.newest_first()).cause == "settings were reloaded"


def test_a_loop_beside_an_exchange_plans_by_itself_and_looks_at_once_when_told():
    async def main():
        exchange = FakeExchange(seen(TOPICS, WANTS))
        lines = []
        async with controlling(exchange, None, tell=lines.append) as control, asyncio.timeout(60):
            while not exchange.applied:
                await asyncio.sleep(0.01)
            looks = exchange.looks
            control.look_soon()
            await asyncio.sleep(0.05)
            assert exchange.looks > looks
            exchange.change()
            control.look_soon()
            while len(exchange.applied) < 2:
                await asyncio.sleep(0.01)
        assert lines == []

    asyncio.run(main())


def test_what_goes_wrong_in_the_loop_itself_does_not_end_it(monkeypatch, capsys):
    class Restless(FakeExchange):
        def observed(self, now):
            if self.looks < 1:
                self.looks += 1
                raise ZeroDivisionError("odd")
            return super().observed(now)

    def no_compiler(planner):
        raise RuntimeError("no place for compiled code")

    async def main():
        monkeypatch.setattr(loop, "warm_up", no_compiler)
        monkeypatch.setattr(loop, "LOOK_EVERY_S", 0.01)
        lines = []
        exchange = Restless(seen(TOPICS, WANTS))
        async with controlling(exchange, None, tell=lines.append), asyncio.timeout(60):
            while not exchange.applied:
                await asyncio.sleep(0.01)
        assert any("odd" in line for line in lines)

    asyncio.run(main())
    assert "ZeroDivisionError" in capsys.readouterr().err


@in_loop
async def test_a_plan_that_is_asked_for_waits_until_the_loop_has_looked(monkeypatch):
    run = await started()
    looking, looked = threading.Event(), threading.Event()
    moved, to_plan_for, meanwhile = Outlook.moved, Outlook.to_plan_for, []

    def look_slowly(*arguments):
        looking.set()
        looked.wait(10)
        return moved(*arguments)

    def plan_for(*arguments):
        meanwhile.append(not looked.is_set())
        return to_plan_for(*arguments)

    monkeypatch.setattr(Outlook, "moved", look_slowly)
    monkeypatch.setattr(Outlook, "to_plan_for", plan_for)
    step = asyncio.create_task(run.control.step(104.0))
    await asyncio.to_thread(looking.wait, 10)
    asked = asyncio.create_task(run.control.apply())
    await asyncio.sleep(0.05)
    looked.set()
    await asyncio.gather(step, asked)
    assert meanwhile == [False]


@in_loop
async def test_what_has_changed_is_still_planned_for_when_a_plan_that_was_asked_for_cannot_be_made(monkeypatch, capsys):
    run = await started()
    run.exchange.change(subscriptions=(*run.exchange.seen.subscriptions, want("t", "a")))

    def fail(*arguments, **more):
        raise PlanError("no")

    with monkeypatch.context() as patched:
        patched.setattr(execution, "decide", fail)
        with pytest.raises(PlanError):
            await run.control.apply()
    assert len(await run.until(110.0)) == 1
    assert ("t", "a") in treated(run.exchange.plan)
    assert run.lines == []
    assert capsys.readouterr().err == ""
