"""Runs the demo: two exchanges, the same fire for both, everything that arrives noted by one clock."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

from firelane.demo.clients import Clients, connected
from firelane.demo.fire import Fire, draw_fire, without_needs
from firelane.demo.outcome import Demo, Outcome, outcome
from firelane.demo.picture import draw
from firelane.demo.screen import Screen, Snapshot
from firelane.errors import FirelaneError, first_of
from firelane.scenario.plan import plain_plan
from firelane.served import Exchange, starting

SWITCH_S = 0.0005  # how long drawing may keep clients from noting what arrives
TICK_S = 0.25
SHOW_EVERY = 2  # ticks
WINDOW_S = 3.0  # what is shown is of the last while
FIRST_PLAN_S = 300.0  # machine code may have to be made first
DRAIN_S = 20.0  # at most, for what is still queued at the end
LOOK_EVERY_S = 0.1


def demo(*, seconds: float, seed: int, picture: Path, screen: Screen) -> Demo:
    """Run the fire at a plain broker and at Firelane at the same time, and draw what came of it."""
    fire = draw_fire(seconds=seconds, seed=seed)
    sys.setswitchinterval(SWITCH_S)
    try:
        plain, firelane = asyncio.run(_both(fire, screen))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # by SIGTERM
    except ExceptionGroup as problems:
        raise first_of(problems) from None
    result = Demo(fire=fire, plain=plain, firelane=firelane, picture=picture)
    draw(result, picture)
    return result


class Stopwatch:
    """Seconds since it was started."""

    def __init__(self) -> None:
        self._started = 0.0

    def start(self) -> None:
        """From now on."""
        self._started = time.perf_counter()

    def __call__(self) -> float:
        """How long it has been running."""
        return time.perf_counter() - self._started


async def _both(fire: Fire, screen: Screen) -> tuple[Outcome, Outcome]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    watch = Stopwatch()
    async with AsyncExitStack() as stack:
        with screen.working("starting two exchanges"):
            both = await _exchanges(fire, stack)
            planner = both[1]
            sides = [await stack.enter_async_context(connected(fire, one.mqtt_port, watch)) for one in both]
        with screen.working("waiting for the first plan (the first run compiles)"):
            first = await _first_version(planner)
        watch.start()
        with screen.live():
            await _run(fire, sides, planner, watch, screen)
        with screen.working("reading what is still queued"):
            for one in both:
                await _drained(one)
            await asyncio.sleep(TICK_S)
        plans = (await asyncio.to_thread(planner.plan))["version"] - first
        for side in sides:
            side.check()
        counts = [await asyncio.to_thread(one.counts) for one in both]
        return (outcome(sides[0].arrivals, counts[0], 0), outcome(sides[1].arrivals, counts[1], plans))


async def _exchanges(fire: Fire, stack: AsyncExitStack) -> tuple[Exchange, Exchange]:
    """The plain one, which keeps to one class without drops, and the one that plans, until the stack unwinds."""
    scenario = fire.routes.scenario
    running = ExitStack()
    stack.push_async_callback(asyncio.to_thread, running.close)
    plain = running.enter_context(starting(without_needs(scenario), plain_plan(fire.routes)))
    firelane = running.enter_context(starting(scenario))
    return await asyncio.gather(asyncio.to_thread(plain), asyncio.to_thread(firelane))


async def _first_version(planner: Exchange) -> int:
    """The version of the first plan, once there is one."""
    deadline = time.monotonic() + FIRST_PLAN_S
    while not (version := int((await asyncio.to_thread(planner.plan))["version"])):
        if time.monotonic() > deadline:
            raise FirelaneError(f"there is no plan after {FIRST_PLAN_S:g} s; is this machine busy? try it again")
        await asyncio.sleep(LOOK_EVERY_S)
    return version


async def _drained(exchange: Exchange) -> None:
    """Wait until nothing is queued any more, but not for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while (await asyncio.to_thread(exchange.counts)).queued:
                await asyncio.sleep(LOOK_EVERY_S)


async def _run(fire: Fire, sides: list[Clients], planner: Exchange, watch: Callable[[], float], screen: Screen) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_publish(fire, sides, watch))
        group.create_task(_turn(fire, sides, watch))
        group.create_task(_observe(fire, sides, planner, watch, screen))


async def _publish(fire: Fire, sides: Sequence[Clients], watch: Callable[[], float]) -> None:
    """Everything in its time, to both brokers, each first in turn."""
    for number, moment_s in enumerate(fire.at_s.tolist()):
        await _until(moment_s, watch, patient=number % 8 == 0)
        for one in sides if number % 2 else reversed(sides):
            one.publish(number)


async def _turn(fire: Fire, sides: list[Clients], watch: Callable[[], float]) -> None:
    """Tell both brokers what matters when a phase begins."""
    for before, phase in zip(fire.phases, fire.phases[1:], strict=False):
        await _until(phase.start_s, watch)
        await asyncio.gather(*(one.turn_to(phase, before) for one in sides))


async def _observe(
    fire: Fire, sides: list[Clients], planner: Exchange, watch: Callable[[], float], screen: Screen
) -> None:
    """Note ages all the time, and show how it goes now and then."""
    for tick in range(1, int(fire.seconds / TICK_S) + 1):
        await _until(tick * TICK_S, watch)
        now = watch()
        for one in sides:
            one.check()
            one.arrivals.sample_ages(now)
        if tick % SHOW_EVERY == 0 and screen.wants(now):
            plan = await asyncio.to_thread(planner.plan)
            rows = [one.arrivals.lately(now, WINDOW_S, fire.phase_at(now)) for one in sides]
            snapshot = Snapshot(fire=fire, moment_s=now, plain=rows[0], firelane=rows[1], plan=plan)
            await asyncio.to_thread(screen.show, snapshot)


async def _until(moment_s: float, watch: Callable[[], float], *, patient: bool = True) -> None:
    """Wait for a moment; who is late lets others go first now and then, if patient."""
    left_s = moment_s - watch()
    while left_s > 0:
        await asyncio.sleep(left_s)
        left_s = moment_s - watch()
    if patient:
        await asyncio.sleep(0)
