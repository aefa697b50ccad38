"""Watches a running exchange and plans again when what it carries has changed.

Once a second it looks whether subscriptions, needs or links changed, or whether rates and sizes moved too far from
what the plan was made for. Planning happens in a thread, one plan at a time; applying it disconnects nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from firelane.control.decision import Decision, decide
from firelane.control.drift import Expectation
from firelane.control.learn import learnt
from firelane.control.patience import Patience
from firelane.control.warm import warm_up
from firelane.control.what_if import given
from firelane.errors import FirelaneError, PlanError
from firelane.exchange.observed import Observed
from firelane.exchange.run import Exchange
from firelane.scenario.model import Scenario
from firelane.scenario.plan import Plan

LOOK_EVERY_S = 1.0
LOOK_IDLE_S = 10.0  # where no link has a bandwidth, so that there is nothing to plan
RETRY_S = 10.0  # after a plan that could not be made
MIN_INTERVAL_S = 1.0


class Control:
    """Plans for one exchange, by itself (`run`) and when asked to; `tell` is given a line when something is wrong."""

    def __init__(
        self,
        exchange: Exchange,
        scenario: Scenario | None = None,
        *,
        tell: Callable[[str], None] = lambda line: None,
        min_interval_s: float = MIN_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.exchange = exchange
        self.scenario = scenario or Scenario(name="live")
        self._tell = tell
        self._clock = clock
        self._patience = Patience(min_interval_s)
        self._planning = asyncio.Lock()
        self._woken = asyncio.Event()
        self._seen: int | None = None  # the `changed` of what was last looked at
        self._traffic_since: float | None = None
        self._expectation: Expectation | None = None
        self._retry_at = 0.0
        self._said: tuple[str, ...] = ()

    async def run(self) -> None:
        """Watch until cancelled."""
        if _is_paced(self.observed()):
            await asyncio.to_thread(warm_up)
        while True:
            self._woken.clear()
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
            self._patience.changed(now)
        elif not self._patience.waiting and now >= self._retry_at and await self._outdated(observed, now):
            self._patience.changed(now)
        if self._patience.due_at <= now:
            await self._plan_or_complain(now)
        return min(now + LOOK_EVERY_S, max(now, self._patience.due_at))

    def look_soon(self) -> None:
        """Look now rather than at the next second: something has changed."""
        self._woken.set()

    def reload(self, scenario: Scenario) -> None:
        """Go on with another configured scenario."""
        self.scenario = scenario
        self._expectation = None
        self.look_soon()

    def observed(self) -> Observed:
        """What the exchange has seen up to now."""
        return self._observed(self._clock())

    async def decide(self, observed: Observed, plan: Plan | None = None) -> Decision:
        """What would be applied: this plan, or the one that is made for what is live. Nothing changes yet."""
        scenario, listened_s, version = self.scenario, self.listened_s, self.next_version
        if plan is not None and plan.version < version:
            raise PlanError(f"version {plan.version} is not newer than the plan in force, {version - 1}")

        def in_thread() -> Decision:
            if plan is not None:
                return given(plan, learnt(observed, scenario, listened_s=listened_s))
            return decide(observed, scenario, listened_s=listened_s, version=version)

        return await asyncio.to_thread(in_thread)

    async def apply(self, plan: Plan | None = None) -> Decision:
        """Apply this plan, or one that is made for what is live now; a FirelaneError says why not."""
        async with self._planning:
            now = self._clock()
            observed = self._observed(now)
            before, self._seen = self._seen, observed.changed  # whatever changes from here on leads to another plan
            self._patience.acted(now)
            try:
                decision = await self.decide(observed, plan)
                self.exchange.apply(decision.plan)
            except FirelaneError:
                if plan is not None:  # somebody's plan was refused: what has changed is still to be planned for
                    self._seen = before
                raise
            self._patience.done(self._clock())
            self._expectation = await asyncio.to_thread(Expectation, decision, self.scenario)
        return decision

    @property
    def next_version(self) -> int:
        """What the next plan must be numbered."""
        plan = self.exchange.plan
        return 1 if plan is None else plan.version + 1

    @property
    def listened_s(self) -> float:
        """How long there has been traffic."""
        return 0.0 if self._traffic_since is None else self._clock() - self._traffic_since

    def _observed(self, now: float) -> Observed:
        observed: Observed = self.exchange.observed(now)
        if self._traffic_since is None and observed.topics:
            self._traffic_since = now
        return observed

    async def _outdated(self, observed: Observed, now: float) -> bool:
        if self._expectation is None:
            return True
        try:
            return await asyncio.to_thread(self._expectation.outdated, observed, self.listened_s)
        except Exception as problem:
            self._failed(str(problem), now)
            return False

    async def _plan_or_complain(self, now: float) -> None:
        """An exchange goes on with the plan it has, whatever goes wrong here."""
        try:
            decision = await self.apply()
        except FirelaneError as problem:
            self._failed(str(problem), now)
        except Exception as bug:
            traceback.print_exc()
            self._failed(f"a bug, sorry: {type(bug).__name__}: {bug}", now)
        else:
            what = f"least shares do not fit on {', '.join(decision.relaxed)}; {decision.plan.why[0]}"
            self._say(decision.relaxed, f"plan {decision.plan.version}: {what}")

    def _failed(self, problem: str, now: float) -> None:
        self._expectation = None
        self._retry_at = now + RETRY_S
        self._say((problem,), f"no new plan, the old one stays: {problem}")

    def _say(self, what: tuple[str, ...], line: str) -> None:
        """Tell it, unless it has just been told; nothing is not told."""
        if what and what != self._said:
            self._tell(line)
        self._said = what


def _is_paced(observed: Observed) -> bool:
    return any(link.bandwidth_bps is not None for link in observed.links.values())


def _drops(plan: Plan | None) -> bool:
    """Whether a plan drops anything; it has to be replaced when no link is paced any more."""
    return plan is not None and bool(plan.flow_drop_rate.any())


@asynccontextmanager
async def controlling(
    exchange: Exchange, scenario: Scenario | None, *, tell: Callable[[str], None]
) -> AsyncIterator[Control]:
    """A control loop beside a running exchange, until the block ends."""
    control = Control(exchange, scenario, tell=tell)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(control.run())
        try:
            yield control
        finally:
            task.cancel()
