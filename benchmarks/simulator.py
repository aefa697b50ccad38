"""Events per second of the simulator, beside ciw and SimPy on the same queues.

The system is the FireDeX paper's: ten links, each a single server without pre-emption, under the plan of
the paper (nine classes, exponential drop rates) and under none (one class, 1.6 to 1.7 times what the links
carry). An event is one arrival or one departure of one copy at one queue, for all alike.

What the peers simulate: every link has its own subscriber, so a publication puts at most one copy on a link
and each link sees independent Poisson arrivals. The peers draw these per link and class, at the summed rate
after drops, and the size from the mixture of exponentials of the subscriptions in that class: the same
queues, without drawing publications and what is dropped of them, and with means per class where ours keeps
counts and a histogram per subscription. Ours is timed from routes and plan to the finished Metrics, the
peers without the collection of their results.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from time import perf_counter
from typing import Any

import ciw
import numpy as np
import simpy

from firelane.bench import OURS, ROUNDS, Measure, Target, interleaved, main
from firelane.scenario import load
from firelane.scenario.plan import Plan, plain_plan
from firelane.scenario.routes import Routes, routes
from firelane.simulate import simulate
from firelane.tune import tune

UNIT = "events/s"
LEAST_EVENTS_PER_S = 30e6
LEAST_TIMES_CIW = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """The messages of one class on one link, all subscriptions together."""

    link: int
    klass: int
    rate_hz: float  # after drops
    buffer: float  # of the whole link: a whole number, or infinite
    service_s: list[float]  # mean of each subscription's messages
    upto: list[float]  # share of the messages that belong to the subscriptions so far

    def draw_s(self) -> float:
        """A service time: whose message is it, then its length."""
        return self.service_s[bisect(self.upto, random.random())] * random.expovariate(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a peer did: so many events in so much time, and the mean delay of each class."""

    events: int
    seconds: float
    delay_s: dict[int, float]


Peer = Callable[[list[Station], float, int], Run]


def measures(quick: bool = False) -> list[Measure]:
    """Both plans."""
    network = routes(load("firedex"))
    tuned = tune(network, priorities="bandwidth-adjusted", drops="exponential")
    return [
        measure("firedex tuned (9 classes, load 0.9)", network, tuned, quick=quick),
        measure("firedex plain (1 class, load 1.7)", network, plain_plan(network), quick=quick),
    ]


def measure(name: str, network: Routes, plan: Plan, *, quick: bool) -> Measure:
    """Everybody's events per second under one plan."""
    seconds, publications = (0.05, 20_000) if quick else (2.0, 6_000_000)
    simulate(network, plan, publications=1000, replications=1, threads=1)  # compiles
    queues = stations(network, plan)
    contestants: dict[str, Callable[[], float]] = {OURS: partial(our_rate, network, plan, publications)}
    for peer, simulated in PEERS.items():
        contestants[peer] = partial(peer_rate, simulated, queues, horizon_s(simulated, queues, seconds))
    rate = interleaved(name, UNIT, contestants, rounds=1 if quick else ROUNDS)
    ours = rate.pop(OURS)
    return Measure(
        name=f"simulator, {name}",
        ours=ours,
        peers=rate,
        unit=UNIT,
        targets={
            OURS: Target(words="at least 30 M", met=ours >= LEAST_EVENTS_PER_S),
            "ciw": Target(words=f"at least {LEAST_TIMES_CIW} ×", met=ours >= LEAST_TIMES_CIW * rate["ciw"]),
        },
    )


def our_rate(network: Routes, plan: Plan, publications: int) -> float:
    """On one core, all that a user gets included."""
    started = perf_counter()
    metrics = simulate(network, plan, publications=publications, replications=1, threads=1)
    return float(metrics.extra["events"] / (perf_counter() - started))


def peer_rate(simulated: Peer, queues: list[Station], until_s: float) -> float:
    """One run of a peer, with chance of its own."""
    done = simulated(queues, until_s, random.randrange(2**32))
    return done.events / done.seconds


def horizon_s(simulated: Peer, queues: list[Station], seconds: float) -> float:
    """How long to simulate so that it takes a peer about so many seconds, from a short trial."""
    trial_s = 5000 / sum(one.rate_hz for one in queues)
    return trial_s * seconds / simulated(queues, trial_s, 1).seconds


def stations(network: Routes, plan: Plan) -> list[Station]:
    """The queues of a scenario (exponential sizes, no overhead, own links) under a plan, as the peers see them."""
    _, priority, drop_rate = plan.per_subscription(network)
    _, klass, dropped = network.owners(priority, drop_rate)
    per_byte_s, _ = network.service_s()
    rate_hz = network.topic_rate_hz[network.stream_topic] * (1 - dropped)
    service_s = network.topic_mean_bytes[network.stream_topic] * per_byte_s
    found = []
    for link, one in sorted(set(zip(network.stream_lane.tolist(), klass.tolist(), strict=True))):
        inside = np.flatnonzero((network.stream_lane == link) & (klass == one) & (rate_hz > 0))
        if len(inside):
            total_hz = float(rate_hz[inside].sum())
            upto = list(accumulate((rate_hz[inside] / total_hz).tolist()))
            found.append(
                Station(
                    link=link,
                    klass=one,
                    rate_hz=total_hz,
                    buffer=network.lanes[link].link.buffer_messages or float("inf"),
                    service_s=service_s[inside].tolist(),
                    upto=[*upto[:-1], 1.0],
                )
            )
    return found


# ------------------------------------------------------------------------------------------------- ciw


class _Sizes(ciw.dists.Distribution):  # type: ignore[misc]
    """The mixture of exponentials; ciw's own HyperExponential draws the same and makes the run 1.6 times as long."""

    def __init__(self, station: Station) -> None:
        self._draw_s = station.draw_s

    def sample(self, t: float | None = None, ind: Any = None) -> float:
        return self._draw_s()


def with_ciw(queues: list[Station], until_s: float, seed: int) -> Run:
    """All links as the nodes of one ciw network."""
    ciw.seed(seed)
    started = perf_counter()
    simulation = ciw.Simulation(_ciw_network(queues))
    simulation.simulate_until_max_time(until_s)
    seconds = perf_counter() - started
    arrivals, departures = (
        simulation.nodes[0].number_of_individuals,
        simulation.nodes[-1].number_of_completed_individuals,
    )
    delays: dict[int, list[float]] = {}
    for record in simulation.get_all_records(only=["service"]):
        delays.setdefault(int(record.customer_class), []).append(record.exit_date - record.arrival_date)
    return Run(events=arrivals + departures, seconds=seconds, delay_s={k: float(np.mean(d)) for k, d in delays.items()})


def with_ciw_by_link(queues: list[Station], until_s: float, seed: int) -> Run:
    """A ciw simulation for each link, one after the other: ciw looks at all its nodes at every event."""
    runs = [
        with_ciw([one for one in queues if one.link == link], until_s, seed + link)
        for link in sorted({one.link for one in queues})
    ]
    return Run(events=sum(one.events for one in runs), seconds=sum(one.seconds for one in runs), delay_s={})


def _ciw_network(queues: list[Station]) -> Any:
    links = sorted({one.link for one in queues})
    classes = sorted({one.klass for one in queues})
    at = {(one.link, one.klass): one for one in queues}

    def by_class(make: Callable[[Station], Any]) -> dict[str, list[Any]]:
        return {
            str(klass): [make(at[link, klass]) if (link, klass) in at else None for link in links] for klass in classes
        }

    return ciw.create_network(
        arrival_distributions=by_class(lambda station: ciw.dists.Exponential(station.rate_hz)),
        service_distributions=by_class(_Sizes),
        number_of_servers=[1] * len(links),
        queue_capacities=[next(one.buffer for one in queues if one.link == link) for link in links],
        priority_classes={str(klass): place for place, klass in enumerate(classes)},
        routing={str(klass): [[0.0] * len(links)] * len(links) for klass in classes},
    )


# ----------------------------------------------------------------------------------------------- SimPy


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What the SimPy processes count."""

    arrivals: int
    delays_s: dict[int, list[float]]


def with_simpy(queues: list[Station], until_s: float, seed: int) -> Run:
    """A source per link and class, and per link a PriorityStore and a server.

    The textbook's form, a process per message that requests a PriorityResource, takes 1.8 times as long here
    and far longer where queues are long.
    """
    random.seed(seed)
    started = perf_counter()
    world = simpy.Environment()
    seen = _Seen(arrivals=0, delays_s={one.klass: [] for one in queues})
    waiting = {link: simpy.PriorityStore(world) for link in {one.link for one in queues}}
    for station in queues:
        world.process(_source(world, waiting[station.link], station, seen))
    for store in waiting.values():
        world.process(_server(world, store, seen))
    world.run(until=until_s)
    seconds = perf_counter() - started
    return Run(
        events=seen.arrivals + sum(len(one) for one in seen.delays_s.values()),
        seconds=seconds,
        delay_s={klass: float(np.mean(one)) for klass, one in seen.delays_s.items() if one},
    )


def _source(world: Any, waiting: Any, station: Station, seen: _Seen) -> Generator[Any, Any, None]:
    while True:
        yield world.timeout(random.expovariate(station.rate_hz))
        seen.arrivals += 1
        if len(waiting.items) < station.buffer:
            waiting.put((station.klass, world.now, station.draw_s()))


def _server(world: Any, waiting: Any, seen: _Seen) -> Generator[Any, Any, None]:
    while True:
        klass, born, service_s = yield waiting.get()
        yield world.timeout(service_s)
        seen.delays_s[klass].append(world.now - born)


PEERS: dict[str, Peer] = {"ciw": with_ciw, "ciw, link by link": with_ciw_by_link, "SimPy": with_simpy}


if __name__ == "__main__":
    main(measures)
