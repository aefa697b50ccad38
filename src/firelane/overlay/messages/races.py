"""Which copy of a message came first, where two are sent: the one through a router or the direct one."""

from __future__ import annotations

from collections import Counter, OrderedDict

MOST_REMEMBERED = 20_000  # messages; an older one's second copy is taken for one that comes too late

Identity = tuple[str, int, int]  # origin, boot and number
DIRECT, ROUTER = "direct", "router"


def way(router: str | None) -> str:
    """How a message came: by a router, or by none."""
    return DIRECT if router is None else ROUTER


class Races:
    """Of messages with a deadline, and of all that come directly."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._seen: OrderedDict[Identity, None] = OrderedDict()  # the oldest first
        self.first: Counter[str] = Counter()  # copies that were the first, by the way they came
        self.second: Counter[str] = Counter()  # and those that were not

    def __len__(self) -> int:
        """How many messages are remembered."""
        return len(self._seen)

    def seen(self, identity: Identity) -> bool:
        """Whether a copy of this message has come before."""
        return identity in self._seen

    def forget(self, identity: Identity) -> None:
        """A copy could not be taken: another one may be the first."""
        self._seen.pop(identity, None)

    def came(self, identity: Identity, by: str) -> None:
        """A copy has come, be it delivered or too late."""
        if identity in self._seen:
            self.second[by] += 1
            return
        self.first[by] += 1
        self._seen[identity] = None
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
