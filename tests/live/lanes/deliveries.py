"""What came of a load: one entry per delivery, what is missing, double or out of order, and delays by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from firelane.arrays import Flags, Floats, Ints
from firelane.scenario.plan import Plan, plain_plan
from live.lanes.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """How well the load itself did: a run whose sender was late says little about the broker."""

    planned_hz: float
    offered_hz: float
    late_p50_s: float
    late_p99_s: float
    late_most_s: float
    held_back: int  # publications that had to wait because the broker did not take them


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A group of streams: what was due in a window and what came of it; delays are NaN when nothing came."""

    name: str
    due: int
    delivered: int
    mean_s: float
    p50_s: float
    p99_s: float
    most_s: float

    @property
    def success(self) -> float:
        return self.delivered / self.due if self.due else 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deliveries:
    """Deliveries in the order of their arrival at each subscriber; publications are numbered as in the schedule."""

    schedule: Schedule
    started_ns: int
    sent_ns: Ints  # per publication
    held_back: int
    publication: Ints  # per delivery
    subscriber: Ints
    received_ns: Ints

    # ------------------------------------------------------------------------------- columns, one value a delivery

    @property
    def topic(self) -> Ints:
        return self.schedule.topic[self.publication]

    @property
    def source(self) -> Ints:
        return self.schedule.source[self.publication]

    @property
    def size_bytes(self) -> Ints:
        return self.schedule.size_bytes[self.publication]

    @property
    def stream(self) -> Ints:
        """The stream of the routes, -1 for what a subscriber did not subscribe to."""
        r = self.schedule.routes
        number = np.full((len(r.topics), len(r.subscribers)), -1, np.int64)
        number[r.stream_topic, r.stream_subscriber] = np.arange(len(r.stream_topic))
        return number[self.topic, self.subscriber]

    def subscription(self, plan: Plan | None = None) -> Ints:
        """The subscription (subscriber and filter) that carries it: the best class under the plan."""
        return self._owner(plan)[0][self.stream]

    @property
    def end_to_end_s(self) -> Floats:
        """From just before it was sent until its subscriber had read it."""
        return (self.received_ns - self.sent_ns[self.publication]) / 1e9

    @property
    def service_s(self) -> Floats:
        """How long it holds its link, and how long the link then takes to carry it over."""
        r = self.schedule.routes
        per_byte, overhead = r.service_s()
        propagation = np.array([lane.link.propagation_s for lane in r.lanes])[r.stream_lane]
        return self.size_bytes * per_byte[self.stream] + (overhead + propagation)[self.stream]

    @property
    def delay_s(self) -> Floats:
        """The delay as plans reckon it, where a link is only paced: a client has the message when service starts."""
        return self.end_to_end_s + self.service_s

    # ------------------------------------------------------------------------------------------- is all in order?

    @property
    def due(self) -> int:
        """Deliveries that the publications ask for, one to each subscriber who wants the topic."""
        return int(self._due_by_stream(np.ones(len(self.sent_ns), bool)).sum())

    def missing_by_stream(self) -> Ints:
        """Publications that did not arrive, per stream of the routes."""
        every = np.ones(len(self.sent_ns), bool)
        once = self.stream[self._first_copies()]
        return self._due_by_stream(every) - np.bincount(once[once >= 0], minlength=len(self._streams))

    @property
    def missing(self) -> int:
        return int(self.missing_by_stream().sum())

    @property
    def doubled(self) -> int:
        """Second and further copies of a publication at one subscriber."""
        return len(self.publication) - len(self._first_copies())

    @property
    def stray(self) -> int:
        """Deliveries to subscribers who did not ask for the topic."""
        return int((self.stream < 0).sum())

    def reordered(self) -> Flags:
        """Which deliveries came after a later one of the same publisher, topic and subscriber."""
        group = self.subscriber * len(self.schedule.routes.source_topic) + self.source
        order = np.argsort(group, kind="stable")
        place = group[order] * (len(self.sent_ns) + 1) + self.publication[order]
        newest = np.maximum.accumulate(place)  # groups are ascending, so none reaches into the next
        late = np.zeros(len(order), bool)
        late[order] = place < newest
        return late

    def check(self, *, lossless: bool = True) -> None:
        """Everything due has come, once and in order; AssertionError says what has not."""
        found = {"doubled": self.doubled, "stray": self.stray, "reordered": int(self.reordered().sum())}
        if lossless:
            found["missing"] = self.missing
        assert not any(found.values()), f"of {self.due} deliveries due: {found}"

    # -------------------------------------------------------------------------------------------------- summaries

    @property
    def sender(self) -> Sender:
        plan = self.schedule
        late_s = (self.sent_ns - self.started_ns) / 1e9 - plan.at_s
        p50, p99 = np.percentile(late_s, (50, 99))
        took_s = max(plan.seconds, float(self.sent_ns.max() - self.started_ns) / 1e9)
        return Sender(
            planned_hz=float(plan.routes.source_rate_hz.sum()),
            offered_hz=len(plan.at_s) / took_s,
            late_p50_s=float(p50),
            late_p99_s=float(p99),
            late_most_s=float(late_s.max()),
            held_back=self.held_back,
        )

    def by_class(self, plan: Plan, **window: float | Floats) -> list[Row]:
        """A row per class of the plan, the highest first."""
        _, klass, _ = self._owner(plan)
        return self.grouped(klass, [f"class {number}" for number in range(int(klass.max()) + 1)], **window)

    def by_category(self, plan: Plan | None = None, **window: float | Floats) -> list[Row]:
        """A row per category of needs, in the scenario's order."""
        owner, _, _ = self._owner(plan)
        category = [need.category or "none" for need in self.schedule.routes.needs]
        names = list(dict.fromkeys(category))
        return self.grouped(np.array([names.index(category[one]) for one in owner.tolist()]), names, **window)

    def grouped(
        self,
        stream_group: Ints,
        names: Sequence[str],
        *,
        start_s: float = 0.0,
        end_s: float = np.inf,
        delays: Floats | None = None,
    ) -> list[Row]:
        """A row per group of streams, over what was planned in a window of the schedule.

        `delays` are those of the deliveries, end to end if not given.
        """
        counted = (self.schedule.at_s >= start_s) & (self.schedule.at_s < end_s)
        due = np.bincount(stream_group, self._due_by_stream(counted), len(names))
        first = self._first_copies()
        first = first[counted[self.publication[first]] & (self.stream[first] >= 0)]
        group = stream_group[self.stream[first]]
        delay_s = (self.end_to_end_s if delays is None else delays)[first]
        return [_row(name, int(due[n]), delay_s[group == n]) for n, name in enumerate(names)]

    @property
    def _streams(self) -> Ints:
        return self.schedule.routes.stream_topic

    def _due_by_stream(self, counted: Flags) -> Ints:
        per_topic = np.bincount(self.schedule.topic[counted], minlength=len(self.schedule.routes.topics))
        return per_topic[self._streams]

    def _first_copies(self) -> Ints:
        key = self.publication * len(self.schedule.routes.subscribers) + self.subscriber
        return np.unique(key, return_index=True)[1]

    def _owner(self, plan: Plan | None) -> tuple[Ints, Ints, Floats]:
        r = self.schedule.routes
        _, priority, drop_rate = (plan or plain_plan(r)).per_subscription(r)
        return r.owners(priority, drop_rate)


def _row(name: str, due: int, delay_s: Floats) -> Row:
    if not len(delay_s):
        return Row(name=name, due=due, delivered=0, mean_s=np.nan, p50_s=np.nan, p99_s=np.nan, most_s=np.nan)
    p50, p99 = np.percentile(delay_s, (50, 99))
    return Row(
        name=name,
        due=due,
        delivered=len(delay_s),
        mean_s=float(delay_s.mean()),
        p50_s=float(p50),
        p99_s=float(p99),
        most_s=float(delay_s.max()),
    )


def table(rows: Sequence[Row]) -> str:
    """The rows for a person to read, delays in milliseconds."""
    lines = [f"{'':16}{'due':>9}{'success':>9}{'mean ms':>11}{'p50 ms':>11}{'p99 ms':>11}{'most ms':>11}"]
    for one in rows:
        delays = "".join(f"{1e3 * value:11.2f}" for value in (one.mean_s, one.p50_s, one.p99_s, one.most_s))
        lines.append(f"{one.name:16}{one.due:9}{one.success:9.4f}{delays}")
    return "\n".join(lines)
