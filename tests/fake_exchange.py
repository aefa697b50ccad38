"""An exchange that shows what a test says it has seen and keeps the plans it is given."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from firelane.errors import PlanError
from firelane.exchange.lanes.lane import Dropped
from firelane.exchange.measuring.measuring import COUNTS, Reading
from firelane.exchange.measuring.observed import Observed, SeenSubscription, SeenTopic
from firelane.metrics import SCHEMA, Metrics
from firelane.scenario.model import Link, Need, Scenario
from firelane.scenario.routes import routes
from firelane.scenario.settings import ExchangeSettings

NOTHING = Observed(topics=(), subscriptions=(), links={}, changed=0)


class FakeExchange:
    def __init__(self, seen: Observed = NOTHING, **settings) -> None:
        self.seen = seen
        self.plan = None
        self.applied = []
        self.overrides = []
        self.looks = 0
        self.measured = Metrics(source="live", scenario="", table=SCHEMA.empty_table(), links={}, discounted=0.0)
        self.broker = SimpleNamespace(settings=ExchangeSettings(**settings))
        self.phase, self.phases = None, []
        self.reading = None

    def observed(self, now):
        self.looks += 1
        return self.seen

    def apply(self, plan):
        if self.plan is not None and plan.version <= self.plan.version:
            raise PlanError(f"version {plan.version} is not newer")
        self.plan = plan
        self.applied.append(plan)

    def on_alert(self, call):
        self.alert = call

    async def read_gently(self):
        return None if self.reading is None else self.reading()

    def read(self):
        return SimpleNamespace(metrics=lambda: self.measured)

    def override_need(self, subscriber, topic_filter, need):
        self.overrides.append((subscriber, topic_filter, need))
        self.change()

    def change(self, **parts):
        """Something has changed, perhaps these parts of what is seen."""
        self.seen = replace(self.seen, changed=self.seen.changed + 1, **parts)


def observed(scenario: Scenario, **more) -> Observed:
    """A scenario as an exchange sees it that measures perfectly."""
    r = routes(scenario)
    rows = zip(r.topics, r.topic_rate_hz, r.topic_mean_bytes, r.topic_variance_bytes2, strict=True)
    return Observed(
        topics=tuple(
            topic(name, float(rate), float(mean), float(variance)) for name, rate, mean, variance in rows if rate > 0
        ),
        subscriptions=tuple(
            want(name, topic_filter, need=need, link=subscriber.link)
            for name, subscriber in scenario.subscribers.items()
            for topic_filter, need in subscriber.subscribes.items()
        ),
        links=scenario.links,
        changed=1,
        **more,
    )


def topic(name, rate_hz, mean_bytes=100.0, variance_bytes2=0.0) -> SeenTopic:
    return SeenTopic(
        name=name, rate_hz=rate_hz, mean_bytes=mean_bytes, variance_bytes2=variance_bytes2, latest_hz=rate_hz
    )


def want(subscriber, topic_filter, *, need=Need(), best_class=0, link="thin", qos=0) -> SeenSubscription:  # noqa: B008
    return SeenSubscription(
        subscriber=subscriber, filter=topic_filter, need=need, best_class=best_class, link=link, qos=qos
    )


def reading(rows, *, version=1, window_s=1.0, began_wall_s=1.0) -> Reading:
    """Rows of subscriber, filter, need, messages delivered, messages dropped, and the mean delay, of a whole window."""
    delivered = np.array([row[3] for row in rows])
    counts = np.zeros((COUNTS, len(rows)), np.int64)
    counts[[0, 1, 7]] = delivered + [row[4] for row in rows], delivered, delivered
    dropped = np.zeros((len(rows), len(Dropped)), np.int64)
    dropped[:, Dropped.OVERFLOW] = [row[4] for row in rows]
    return Reading(
        scenario="",
        version=version,
        began_wall_s=began_wall_s,
        window_s=window_s,
        subscribers=[row[0] for row in rows],
        filters=[row[1] for row in rows],
        needs=[row[2] for row in rows],
        drop_rates=np.zeros(len(rows)),
        shares=np.ones(len(rows)),
        counts=counts,
        dropped=dropped,
        delays_s=delivered * np.array([row[5] for row in rows], float),
        histograms=np.zeros((len(rows), 0), np.uint32),
        links={},
    )


def seen(topics, subscriptions, *, kbps=8.0, **links) -> Observed:
    """Topics and subscriptions over one link of 8 kbit/s, where 10 messages of 100 B a second are a load of 1."""
    thin = Link(bandwidth_bps=None if kbps is None else 1000 * kbps, overhead_bytes=0.0, pace=1.0)
    return Observed(topics=tuple(topics), subscriptions=tuple(subscriptions), links={"thin": thin, **links}, changed=1)


def treated(plan) -> dict[tuple[str, str], tuple[int, float]]:
    """What the plan says of every subscription: class and drop rate."""
    flow = plan.subscription_flow
    rows = zip(plan.subscriber, plan.filter, plan.flow_priority[flow].tolist(), plan.flow_drop_rate[flow].tolist(),
               strict=True)  # fmt: skip
    return {(subscriber, topic_filter): (priority, drop) for subscriber, topic_filter, priority, drop in rows}
