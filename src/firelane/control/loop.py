"""Watches a running exchange, plans again when what it carries has changed, and looks what came of it.

Once a second it looks whether subscriptions, needs or links changed, whether rates and sizes moved too far from what
the plan was made for or soon will, and whether bounds are missed. Planning happens in a thread, one plan at a time;
applying it disconnects nobody. A plan that does worse than the one before would do is taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from firelane.control.alerts import Alerts
from firelane.control.cause import Cause, Scene
from firelane.control.decision import Decision
from firelane.control.decisions import Decisions, Entry
from firelane.control.effect import ModelError
from firelane.control.execution import Executed, Execution, described, numberless
from firelane.control.outlook import SETTLING_S, Outlook
from firelane.control.patience import Patience
from firelane.control.warm import warm_up
from firelane.control.watch import Watch
from firelane.errors import FirelaneError
from firelane.exchange.measuring.observed import Observed
from firelane.exchange.run import Exchange
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan

LOOK_EVERY_S = 1.0
LOOK_IDLE_S = 10.0  # where no link has a bandwidth, so that there is nothing to plan
RETRY_S = 10.0  # after a plan that could not be made
MIN_INTERVAL_S = 1.0
PLAN_WITHIN_S = 30.0
READ_REST = 20  # times as long as reading took: with very many subscriptions it is not done every second
RELOADED = Cause(kind="operator", words="settings were reloaded")


class Control:
    """Plans for one exchange, by itself (`run`) and when asked to.

    `tell` is given a line when something is wrong, `keep` every decision, and again when it is judged.
    """

    def __init__(
        self,
        exchange: Exchange,
        scenario: Scenario | None = None,
        *,
        tell: Callable[[str], None] = lambda line: None,
        keep: Callable[[Entry], None] = lambda entry: None,
        min_interval_s: float = MIN_INTERVAL_S,
        within_s: float = PLAN_WITHIN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.exchange = exchange
        self.scenario = scenario or Scenario(name="live")
        self.decisions = Decisions(keep)
        self.outlook = Outlook(self.scenario.exchange.control)
        self._tell = tell
        self._clock = clock
        self._patience = Patience(min_interval_s, self.scenario.exchange.control.replans)
        self._planning = asyncio.Lock()  # held while somebody plans or looks
        self._execution = Execution(exchange, self.decisions, within_s=within_s)
        self._woken = asyncio.Event()
        self._alerts = Alerts()
        self._watch = Watch()
        self._cause: Cause | None = None  # to plan again, unless subscriptions, needs or links have changed
        self._seen: int | None = None  # the `changed` of what was last looked at
        self._traffic_since: float | None = None
        self._retry_at = self._read_at = 0.0
        self._said: tuple[str, ...] = ()

    async def run(self) -> None:
        """Watch until cancelled."""
        self.exchange.on_alert(self.alerted)
        with self._complaining(self._clock()):
            if _is_paced(self.observed()):
                await asyncio.to_thread(warm_up, self.scenario.exchange.control.planner)
        while True:
            self._woken.clear()
            again_at = self._clock() + LOOK_EVERY_S
            with self._complaining(self._clock()):
                again_at = await self.step(self._clock())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), max(0.0, again_at - self._clock()))

    async def step(self, now: float) -> float:
        """Look, and plan if it is time to; says when to look again."""
        observed = self._observed(now)
        if not (_is_paced(observed) or _drops(self.exchange.plan)):
            return now + LOOK_IDLE_S
        if not observed.subscriptions or not (observed.topics or self.scenario.topics):
            return now + LOOK_EVERY_S
        if observed.changed != self._seen:
            self._seen = observed.changed
            self._cause = RELOADED if self._cause is RELOADED else None
            self._patience.changed(now)
        elif not self._patience.waiting and now >= self._retry_at:
            await self._look_closer(observed, now)
        if self._patience.due_at <= now:
            await self._plan(now)
        return min(now + LOOK_EVERY_S, max(now, self._patience.due_at))

    def look_soon(self) -> None:
        """Look now rather than at the next second: something has changed."""
        self._woken.set()

    def alerted(self, payload: bytes) -> None:
        """Somebody who watches the exchange has raised an alarm (`$firelane/alerts`)."""
        words = self._alerts.new(payload)
        if words is None:
            return
        if not self._patience.waiting:  # else it is looked at soon anyway
            self.look_soon()
        self._wants(Cause(kind="alert", words=words), self._clock())

    def reload(self, scenario: Scenario) -> None:
        """Go on with another configured scenario."""
        self.scenario = scenario
        self.outlook = self.outlook.change(scenario.exchange.control)
        self._patience.allow(scenario.exchange.control.replans)
        self._cause = RELOADED
        self._patience.changed(self._clock())
        self.look_soon()

    @property
    def error(self) -> ModelError:
        """How far predictions usually are from what is measured."""
        return self._execution.error

    @property
    def next_version(self) -> int:
        """What the next plan must be numbered."""
        plan = self.exchange.plan
        return 1 if plan is None else plan.version + 1

    @property
    def listened_s(self) -> float:
        """How long there has been traffic."""
        return 0.0 if self._traffic_since is None else self._clock() - self._traffic_since

    def observed(self) -> Observed:
        """What the exchange has seen up to now."""
        return self._observed(self._clock())

    async def decide(self, observed: Observed, plan: Plan | None = None) -> Decision:
        """What would be applied: this plan, or the one that is made for what is live. Nothing changes yet."""
        return await self._execution.decide(self._scene(observed), plan)

    async def apply(self, plan: Plan | None = None) -> Decision:
        """Apply this plan, or one that is made for what is live now; a FirelaneError says why not."""
        words = "somebody asked for a plan" if plan is None else "somebody brought a plan"
        async with self._planning:
            return (await self._act(Cause(kind="operator", words=words), plan)).decision

    def _observed(self, now: float) -> Observed:
        observed: Observed = self.exchange.observed(now)
        if self._traffic_since is None and observed.topics:
            self._traffic_since = now
        return observed

    def _scene(self, observed: Observed) -> Scene:
        return Scene(observed=observed, scenario=self.scenario, listened_s=self.listened_s, phase=self.exchange.phase)

    def _wants(self, cause: Cause, now: float) -> None:
        if not self._patience.waiting:
            self._cause = cause
        self._patience.changed(now)

    async def _look_closer(self, observed: Observed, now: float) -> None:
        """Look for reasons to plan again that are not changes of subscriptions, needs or links; judge the plan."""
        with self._complaining(now):
            async with self._planning:
                expectation = self._execution.expectation
                if observed.changed != self._seen:  # there was a plan meanwhile
                    return
                if expectation is None:
                    self._patience.changed(now)
                    return
                cause = await asyncio.to_thread(self.outlook.moved, expectation, observed, self.listened_s, now)
                if cause := cause or await self._measured(observed, now):
                    self._wants(cause, now)

    async def _measured(self, observed: Observed, now: float) -> Cause | None:
        """Whether bounds are missed, and what the plan does; nothing is read if neither matters."""
        trial = self._execution.trial
        if now < self._read_at or (trial is None and not self._execution.bounded):
            return None
        reading = await self.exchange.read_gently()
        self._read_at = now + READ_REST * (self._clock() - now)
        if reading is None:
            return None
        if self._execution.bounded:
            missed = await asyncio.to_thread(self._watch.look, reading, self.scenario, now)
            if missed is not None:
                return Cause(kind="bound", words=missed)
        if trial is not None and trial.look(reading, now):
            worse = await self._execution.judge(trial, self._scene(observed))
            if worse is not None and trial.before is not None:
                why = (worse.words, *trial.before.why)
                links = trial.plan.links  # which may carry less or more than when the plan before was made
                await self._act(worse, replace(trial.before, version=self.next_version, links=links, why=why))
        return None

    async def _act(self, cause: Cause | None, plan: Plan | None) -> Executed:
        """Decide and apply; of all that has changed by now nothing is to be planned for again."""
        now = self._clock()
        observed = self._observed(now)
        before, self._seen, self._cause = self._seen, observed.changed, None
        self._patience.acted(now)
        try:
            aheads = await asyncio.to_thread(self.outlook.to_plan_for, observed, now)
            scenes = [self._scene(one.observed) for one in aheads]
            outcome = await self._execution.act(scenes, self._scene(observed), cause, plan, now)
        except Exception:
            if plan is not None:  # somebody's plan was refused: what has changed is still to be planned for
                self._seen = before
            else:
                self._execution.expectation, self._cause = None, self._cause or cause
            raise
        self._patience.done(now + outcome.seconds)
        planned_for = outcome.scene.observed
        held_s = next((one.held_s for one in aheads if one.observed is planned_for), SETTLING_S)
        await asyncio.to_thread(self.outlook.planned, planned_for, now, held_s=held_s)
        self._rest(outcome, brought=plan is not None)
        return outcome

    def _rest(self, outcome: Executed, *, brought: bool) -> None:
        """How long to say nothing of missed bounds: as long as nothing can be done about them."""
        self._watch.begin()
        if brought:
            self._watch.rest_until_renewed()
        elif outcome.applied:
            self._watch.renew()
        elif outcome.cause.kind == "bound" and self._watch.rest(self._clock()):
            self._tell(f"no plan would meet more bounds than the one in force: {outcome.cause.words}")

    async def _plan(self, now: float) -> None:
        with self._complaining(now):
            async with self._planning:
                decision = (await self._act(self._cause, None)).decision
            what = f"least shares do not fit on {', '.join(decision.relaxed)}; {''.join(decision.plan.why[:1])}"
            self._say(decision.relaxed, f"plan {decision.plan.version}: {what}")

    @contextlib.contextmanager
    def _complaining(self, now: float) -> Iterator[None]:
        """An exchange goes on with the plan it has, whatever goes wrong here."""
        try:
            yield
        except FirelaneError as problem:
            self._failed(str(problem), now)
        except Exception as bug:
            if (numberless(described(bug)),) != self._said:
                traceback.print_exc()
            self._failed(described(bug), now)

    def _failed(self, problem: str, now: float) -> None:
        self._execution.expectation = None
        self._retry_at = now + RETRY_S
        self._say((numberless(problem),), f"no new plan, the old one stays: {problem}")

    def _say(self, what: tuple[str, ...], line: str) -> None:
        """Tell it, unless it has just been told; nothing is not told."""
        if what and what != self._said:
            self._tell(line)
        self._said = what


def _is_paced(observed: Observed) -> bool:
    return any(link.bandwidth_bps is not None for link in observed.links.values())


def _drops(plan: Plan | None) -> bool:
    """Whether a plan drops anything, or precision; it has to be replaced when no link is paced any more."""
    return plan is not None and bool(plan.flow_drop_rate.any() or plan.promised.get("widened"))


@asynccontextmanager
async def controlling(
    exchange: Exchange,
    scenario: Scenario | None,
    *,
    tell: Callable[[str], None],
    keep: Callable[[Entry], None] = lambda entry: None,
) -> AsyncIterator[Control]:
    """A control loop beside a running exchange, until the block ends."""
    control = Control(exchange, scenario, tell=tell, keep=keep)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(control.run())
        try:
            yield control
        finally:
            task.cancel()
