"""Decides in a thread, applies what is worth it, keeps a record of it, and takes back what turns out worse."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from firelane.control.aside import Aside
from firelane.control.bounds import Bounds
from firelane.control.cause import Cause, Scene, difference
from firelane.control.compare import Comparison, Judgement, compared, judged, missed
from firelane.control.decision import Decision, decide
from firelane.control.decisions import MOST_WHY, Decisions, Entry, Verdict
from firelane.control.drift import Expectation
from firelane.control.effect import ModelError
from firelane.control.learn import shown
from firelane.control.network import Network, Networks
from firelane.control.trial import Trial
from firelane.control.what_if import given, in_force, with_twins
from firelane.errors import FirelaneError, PlanError
from firelane.exchange.run import Exchange
from firelane.scenario.plan import Plan

WEIGHED = ("load", "forecast", "bound", "alert")  # for these a plan that hardly differs is not applied
CHOSEN = ("operator", "rollback")  # what was decided for these is not taken back


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executed:
    """A decision, for what and why it was made, whether it was applied, and how it compares with the plan before."""

    decision: Decision
    scene: Scene
    cause: Cause
    applied: bool
    comparison: Comparison
    seconds: float  # to decide and apply


class Execution:
    """What becomes of decisions about one exchange."""

    def __init__(self, exchange: Exchange, decisions: Decisions, *, within_s: float) -> None:
        self.error = ModelError()
        self.expectation: Expectation | None = None
        self.trial: Trial | None = None
        self.bounded = False  # whether anybody has asked for a bound
        self._exchange = exchange
        self._decisions = decisions
        self._aside = Aside(within_s)
        self._networks = Networks()
        self._scene: Scene | None = None  # that the plan in force was made for
        self._failure = ""

    async def decide(self, scene: Scene, plan: Plan | None) -> Decision:
        """What would be applied: this plan, or the one that is made for the scene. Nothing changes yet."""
        return (await self._aside.run(self._deciding([scene], scene, plan)))[0]

    async def act(
        self, scenes: Sequence[Scene], present: Scene, cause: Cause | None, plan: Plan | None, now: float
    ) -> Executed:
        """Decide and apply it, if that is any good; without a cause it is that something has changed.

        It is decided for the first of several scenes, that may be ahead, for which that does no harm at present.
        """
        scene = scenes[0]
        began, old = time.perf_counter(), self._exchange.plan
        try:
            decision, scene = await self._aside.run(self._deciding(scenes, present, plan))
            comparison = None
            if cause is not None and cause.kind in WEIGHED and old is not None:
                comparison = await asyncio.to_thread(compared, decision, old)
            beforehand = cause is not None and cause.kind == "forecast"
            applied = comparison is None or comparison.worthwhile(self.error, beforehand=beforehand)
            if applied:
                self._exchange.apply(decision.plan)
        except Exception as problem:
            if cause is None:
                cause = await asyncio.to_thread(difference, self._scene, scene)
            self._note_failure(cause, scene, problem, time.perf_counter() - began)
            raise
        seconds = time.perf_counter() - began
        outcome = await asyncio.to_thread(self._settled, decision, cause, comparison, applied, old, scene, seconds)
        self._note(outcome, old, scene, now)
        return outcome

    async def judge(self, trial: Trial, scene: Scene) -> Cause | None:
        """Compare the plan in force with what it should do; a reason to go back to the one before, if there is one."""
        self.trial = None
        if trial.window is None:
            self._decisions.judge(trial.entry_id, "kept")
            return None
        judgement = await asyncio.to_thread(self._judged, trial, scene)
        if judgement is None or self._exchange.plan is not trial.plan:
            self._decisions.judge(trial.entry_id, "kept" if judgement is None else "replaced")
            return None
        self.error.learn(judgement.measured, judgement.predicted)
        verdict: Verdict = "kept" if judgement.worse is None else "rolled back"
        self._decisions.judge(trial.entry_id, verdict, measured=judgement.measured, model_error=self.error.utility)
        if judgement.worse is None or trial.before is None:
            return None
        words = f"plan {trial.plan.version} does worse than plan {trial.before.version}: {judgement.worse}"
        return Cause(kind="rollback", words=words)

    def _deciding(
        self, scenes: Sequence[Scene], present: Scene, plan: Plan | None
    ) -> Callable[[], tuple[Decision, Scene]]:
        version = _version(self._exchange.plan) + 1
        if plan is not None and plan.version < version:
            raise PlanError(f"version {plan.version} is not newer than the plan in force, {version - 1}")
        if plan is not None:
            return lambda: (given(plan, self._network(scenes[0])), scenes[0])
        return lambda: self._chosen(scenes, present, version)

    def _chosen(self, aheads: Sequence[Scene], present: Scene, version: int) -> tuple[Decision, Scene]:
        """A plan for what is farthest ahead of what misses no bounds at present that can be met, or else the fewest."""
        best: tuple[int, Decision, Scene] | None = None
        for scene in (*aheads, present):
            decision = self._made(scene, version)
            if scene is aheads[0] and scene.observed is present.observed:
                return decision, scene
            late = missed(decision.plan, self._network(present))
            if best is None or late < best[0]:
                best = late, decision, scene
            if late == 0:
                break
        assert best is not None
        return best[1:]

    def _made(self, scene: Scene, version: int) -> Decision:
        listened_s, networks = scene.listened_s, self._networks
        return decide(scene.observed, scene.scenario, listened_s=listened_s, version=version, networks=networks)

    def _network(self, scene: Scene) -> Network:
        return self._networks.of(scene.observed, scene.scenario, listened_s=scene.listened_s)

    def _judged(self, trial: Trial, scene: Scene) -> Judgement | None:
        """With the plan before only if it may be gone back to: it must have been made for the same subscriptions."""
        assert trial.window is not None
        comparable = trial.may_roll_back and scene.observed.subscriptions == trial.before_for
        return judged(
            trial.window,
            self._network(scene),
            plan=trial.plan,
            before=trial.before if comparable else None,
            error=self.error,
            by_utility=scene.scenario.exchange.control.planner == "tune",
        )

    def _settled(
        self,
        decision: Decision,
        cause: Cause | None,
        comparison: Comparison | None,
        applied: bool,
        old: Plan | None,
        scene: Scene,
        seconds: float,
    ) -> Executed:
        """What takes long after applying, for a thread."""
        decision_in_force = decision if applied else _as_it_is(decision, old)
        self.expectation = Expectation(decision_in_force, scene.scenario, self._networks)
        self.bounded = Bounds(decision.network.needs, scene.scenario.categories).any
        return Executed(
            decision=decision_in_force,
            scene=scene,
            cause=cause or difference(self._scene, scene),
            applied=applied,
            comparison=comparison or compared(decision, old),
            seconds=seconds,
        )

    def _note(self, outcome: Executed, old: Plan | None, scene: Scene, now: float) -> None:
        self._failure = ""
        comparison, plan, kind = outcome.comparison, outcome.decision.plan, outcome.cause.kind
        entry = replace(
            self._entry(outcome.cause, scene, outcome.seconds, old),
            version=plan.version,
            predicted=comparison.predicted,
            predicted_before=comparison.before,
            model_error=self.error.utility,
            verdict="pending" if outcome.applied else "unchanged",
            why=tuple(shown(line) for line in plan.why[:MOST_WHY]) if outcome.applied else (_no_better(comparison),),
        )
        self._decisions.add(entry)
        before_for = () if self._scene is None else self._scene.observed.subscriptions
        if outcome.applied:
            self._replace_trial("replaced")
            self._scene = scene
            self.trial = Trial(
                entry_id=entry.id,
                plan=plan,
                before=old,
                before_for=before_for,
                since=now + outcome.seconds,
                may_roll_back=kind not in CHOSEN and old is not None,
            )

    def _replace_trial(self, verdict: Verdict) -> None:
        if self.trial is not None:
            self._decisions.judge(self.trial.entry_id, verdict)
            self.trial = None

    def _note_failure(self, cause: Cause, scene: Scene, problem: Exception, seconds: float) -> None:
        """Keep a record of it, once if it goes on."""
        why = str(problem) if isinstance(problem, FirelaneError) else described(problem)
        if numberless(why) != self._failure:
            self._failure = numberless(why)
            entry = self._entry(cause, scene, seconds, self._exchange.plan)
            self._decisions.add(replace(entry, verdict="failed", why=(shown(why),)))

    def _entry(self, cause: Cause, scene: Scene, seconds: float, old: Plan | None) -> Entry:
        observed = scene.observed
        return Entry(
            id=self._decisions.new_id(),
            time=datetime.now(UTC),
            kind=cause.kind,
            cause=shown(cause.words),
            phase=scene.phase,
            subscriptions=len(observed.subscriptions),
            topics=len(observed.topics),
            rate_hz=sum(one.rate_hz for one in observed.topics),
            bandwidths_bps={n: one.bandwidth_bps for n, one in observed.links.items() if one.bandwidth_bps is not None},
            version_before=_version(old),
            version=_version(old),
            seconds=seconds,
        )


def described(bug: Exception) -> str:
    """A bug, in a line."""
    return f"a bug, sorry: {type(bug).__name__}: {bug}"


def numberless(problem: str) -> str:
    """What a problem is, whatever its numbers: what is measured changes from one try to the next."""
    return re.sub(r"(?<![\w/.-])\d[\d.e+-]*", "#", problem)


def _as_it_is(decision: Decision, old: Plan | None) -> Decision:
    """The plan in force, for the conditions that the decision was made for."""
    plan = in_force(old, decision.routes)
    assert plan is not None
    full = with_twins(plan, decision.routes)
    priority, withheld = full.per_subscription(decision.routes)[1], full.withheld(decision.routes)
    return replace(decision, plan=plan, priority=priority, drop_rate=withheld)


def _no_better(comparison: Comparison) -> str:
    rates = f"utility rate {comparison.predicted.utility_rate:.3f} instead of {comparison.before.utility_rate:.3f}"
    missed = f"{comparison.predicted.missed} bounds missed instead of {comparison.before.missed}"
    return f"another plan would be no better: {rates}, {missed}"


def _version(plan: Plan | None) -> int:
    return 0 if plan is None else plan.version
