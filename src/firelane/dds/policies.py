"""What endpoints of others offer and ask for: their policies as plain data, whether two of them fit, and as text.

Requested and offered are compared as the DDS standard does (DDS 1.4, section 2.2.3), so that what would not be heard on
one network can be told when there is a wide-area network in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from cyclonedds.core import Policy, Qos
from cyclonedds.util import duration

DURABILITY = ("volatile", "transient-local", "transient", "persistent")
LIVELINESS = ("automatic", "manual-by-participant", "manual-by-topic")
SCOPES = ("instance", "topic", "group")
KEPT = 1  # "transient-local"
NOTHING = "-"
LONGEST_S = 4e9
NS = 1e9
_DURABLE = (
    Policy.Durability.Volatile,
    Policy.Durability.TransientLocal,
    Policy.Durability.Transient,
    Policy.Durability.Persistent,
)
_LEASES = (Policy.Liveliness.Automatic, Policy.Liveliness.ManualByParticipant, Policy.Liveliness.ManualByTopic)
_ACCESS = (
    Policy.PresentationAccessScope.Instance,
    Policy.PresentationAccessScope.Topic,
    Policy.PresentationAccessScope.Group,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """Of one endpoint; what is infinite is `inf`. Ranks count from 0 in DURABILITY, LIVELINESS and SCOPES."""

    reliable: bool = False
    durability: int = 0
    deadline_s: float = math.inf
    budget_s: float = 0.0
    liveliness: int = 0
    lease_s: float = math.inf
    exclusive: bool = False
    strength: int = 0
    by_source: bool = False
    scope: int = 0
    coherent: bool = False
    ordered: bool = False
    lifespan_s: float = math.inf

    @property
    def kept(self) -> bool:
        """Whether late readers get what was written before they came."""
        return self.durability >= KEPT

    @property
    def carried(self) -> Policies:
        """The same as far as it can be kept up beyond the network where the endpoint is."""
        durability = min(self.durability, KEPT)
        return replace(self, durability=durability, scope=0, coherent=False, ordered=False, lifespan_s=math.inf)


PLAIN = Policies()


def policies_of(qos: Any) -> Policies:
    """Those of the library's settings."""
    liveliness, scope = qos[Policy.Liveliness], qos[Policy.PresentationAccessScope]
    durability = qos[Policy.Durability]
    strength = qos[Policy.OwnershipStrength]
    return Policies(
        reliable=isinstance(qos[Policy.Reliability], Policy.Reliability.Reliable),
        durability=_DURABLE.index(durability) if durability in _DURABLE else 0,
        deadline_s=_seconds(qos[Policy.Deadline], "deadline", math.inf),
        budget_s=_seconds(qos[Policy.LatencyBudget], "budget", 0.0),
        liveliness=_rank(liveliness, _LEASES),
        lease_s=_seconds(liveliness, "lease_duration", math.inf),
        exclusive=qos[Policy.Ownership] == Policy.Ownership.Exclusive,
        strength=0 if strength is None else strength.strength,
        by_source=qos[Policy.DestinationOrder] == Policy.DestinationOrder.BySourceTimestamp,
        scope=_rank(scope, _ACCESS),
        coherent=scope is not None and scope.coherent_access,
        ordered=scope is not None and scope.ordered_access,
        lifespan_s=_seconds(qos[Policy.Lifespan], "lifespan", math.inf),
    )


def mismatches(offered: Policies, requested: Policies) -> list[str]:
    """Why a reader that asks for one gets nothing from a writer that offers the other; empty if it does."""
    return [f"{wanted}, but {given} is offered" for wanted, given, fits in _compared(offered, requested) if not fits]


def unsupported(own: Policies) -> list[str]:
    """What of it is not kept up beyond the network where the endpoint is, and what is done instead."""
    found = []
    if own.durability > KEPT:
        found.append(f"durability {DURABILITY[own.durability]} is carried as {DURABILITY[KEPT]}")
    if own.coherent:
        found.append("coherent changes are carried one by one")
    if own.ordered and own.scope:
        found.append(f"the order of changes in a {SCOPES[own.scope]} is carried for each topic alone")
    return found


def as_text(own: Policies) -> str:
    """What differs from the defaults, in one word: `reliable,deadline_s=0.5`."""
    changed = [(one.name, getattr(own, one.name)) for one in fields(own) if getattr(own, one.name) != one.default]
    return ",".join(name if value is True else f"{name}={value}" for name, value in changed) or NOTHING


def from_text(text: str) -> Policies:
    """The same back; ValueError for what is none."""
    given: dict[str, Any] = {}
    kinds: dict[str, Any] = {one.name: type(one.default) for one in fields(Policies)}
    for word in [] if text == NOTHING else text.split(","):
        name, _, value = word.partition("=")
        if name not in kinds or bool(value) is (kinds[name] is bool):
            raise ValueError(f"{word[:40]!r} is no policy")
        given[name] = kinds[name](value) if value else True
    return _checked(Policies(**given))


def offering(own: Policies, *, version_2: bool) -> Any:
    """The library's settings of a writer that offers these; nothing ever waits."""
    return Qos(
        Policy.Reliability.Reliable(max_blocking_time=0) if own.reliable else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if own.kept else Policy.Durability.Volatile,
        Policy.DurabilityService(0, Policy.History.KeepLast(1), -1, -1, -1),
        Policy.History.KeepAll,
        Policy.Deadline(_duration(own.deadline_s)),
        Policy.LatencyBudget(_duration(own.budget_s)),
        _LEASES[own.liveliness](_duration(own.lease_s)),
        Policy.Ownership.Exclusive if own.exclusive else Policy.Ownership.Shared,
        Policy.OwnershipStrength(own.strength),
        Policy.DestinationOrder.BySourceTimestamp if own.by_source else Policy.DestinationOrder.ByReceptionTimestamp,
        Policy.WriterDataLifecycle(autodispose=False),
        Policy.DataRepresentation(use_cdrv0_representation=not version_2, use_xcdrv2_representation=version_2),
        Policy.IgnoreLocal.Participant,
    )


def asking(own: Policies, *, most_samples: int) -> Any:
    """The library's settings of a reader that hears writers which offer these."""
    return Qos(
        Policy.Reliability.Reliable(max_blocking_time=0) if own.reliable else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if own.kept else Policy.Durability.Volatile,
        Policy.History.KeepAll,
        Policy.ResourceLimits(max_samples=most_samples, max_instances=-1, max_samples_per_instance=-1),
        Policy.LatencyBudget(duration(infinite=True)),
        Policy.Ownership.Exclusive if own.exclusive else Policy.Ownership.Shared,
        Policy.IgnoreLocal.Participant,
    )


def _compared(offered: Policies, requested: Policies) -> Iterator[tuple[str, str, bool]]:
    yield "reliable", "best-effort", offered.reliable or not requested.reliable
    durable = (DURABILITY[requested.durability], DURABILITY[offered.durability])
    yield *durable, offered.durability >= requested.durability
    yield (
        f"a deadline of {requested.deadline_s:g} s",
        f"{offered.deadline_s:g} s",
        offered.deadline_s <= requested.deadline_s,
    )
    yield (
        f"a latency budget of {requested.budget_s:g} s",
        f"{offered.budget_s:g} s",
        offered.budget_s <= requested.budget_s,
    )
    lively = offered.liveliness >= requested.liveliness and offered.lease_s <= requested.lease_s
    yield f"{_lively(requested)} liveliness", _lively(offered), lively
    yield _owned(requested), _owned(offered), offered.exclusive == requested.exclusive
    yield "order by source time", "by reception", offered.by_source or not requested.by_source
    grouped = offered.coherent >= requested.coherent and offered.ordered >= requested.ordered
    yield _presented(requested), _presented(offered), grouped and offered.scope >= requested.scope


def _lively(own: Policies) -> str:
    return LIVELINESS[own.liveliness] + (f" ({own.lease_s:g} s)" if own.lease_s < math.inf else "")


def _owned(own: Policies) -> str:
    return "exclusive ownership" if own.exclusive else "shared ownership"


def _presented(own: Policies) -> str:
    return f"{'coherent ' * own.coherent}{'ordered ' * own.ordered}access by {SCOPES[own.scope]}"


def _checked(own: Policies) -> Policies:
    spans = (own.deadline_s, own.budget_s, own.lease_s, own.lifespan_s)
    ranks = own.durability < len(DURABILITY) and own.liveliness < len(LIVELINESS) and own.scope < len(SCOPES)
    if not ranks or min(own.durability, own.liveliness, own.scope) < 0 or not all(span >= 0 for span in spans):
        raise ValueError("a policy out of its range")
    if not 0 <= own.strength < 2**31:
        raise ValueError("a strength out of its range")
    return own


def _rank(policy: Any, kinds: tuple[type, ...]) -> int:
    return next((rank for rank, kind in enumerate(kinds) if isinstance(policy, kind)), 0)


def _seconds(policy: Any, name: str, default: float) -> float:
    """Of one of the library's times, which are in nanoseconds, and infinite from a year that nobody sees."""
    value = default if policy is None else getattr(policy, name) / NS
    return math.inf if value >= LONGEST_S else value


def _duration(span_s: float) -> Any:
    return duration(infinite=True) if span_s >= LONGEST_S else round(span_s * NS)
