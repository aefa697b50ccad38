"""One leader among the routers, and the epochs that its assignments carry.

Implements: pubsubcoord, section 2.4.1: who gets to write the leader's node first leads; the others wait until it goes.
Differs:    a leader takes an epoch in the same transaction, and each batch of assignments takes the next. One who
            leads no longer, and does not know it, finds another's epoch there and assigns nothing.
Symbols:    leader znode -> /leader/holder.
Checked by: tests/overlay/test_registry_election.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from firelane.overlay.registry.documents import EpochDocument, LeaderDocument, TopicDocument, read, written
from firelane.overlay.registry.known import EPOCH, LEADER, TOPICS
from firelane.overlay.registry.names import LONGEST_SEGMENT, is_hashed, topic_segment
from firelane.overlay.registry.tree import (
    Conflict,
    Create,
    Delete,
    Disconnected,
    Kind,
    Node,
    Operation,
    Put,
    RegistryError,
    Tree,
    TreeState,
)
from firelane.overlay.registry.worker import Worker, tell

HOLDER = f"{LEADER}/holder"
ASSIGNED_AT_ONCE = 500
BYTES_AT_ONCE = 400_000
MOST_ROUNDS = 10

Elected = Callable[[bool, int], None]


class StaleLeader(RegistryError):  # noqa: N818  who it is, not a fault
    """Another router leads by now: nothing was assigned."""

    def __init__(self, router: str, epoch: int) -> None:
        self.router = router
        self.epoch = epoch
        super().__init__(f"{router} does not lead with epoch {epoch} any more; leave assigning to the new leader")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The epoch that a leader has after assigning, and topics that were not there any more."""

    epoch: int
    missing: frozenset[str]


class Election(Worker):
    """A router's candidature: `told` hears whether it leads, and with which epoch."""

    def __init__(self, tree: Tree, router: str, boot: int, told: Elected, highest: Callable[[], int]) -> None:
        super().__init__(tree)
        self.router = router
        self.boot = boot
        self.leading = False
        self.epoch = 0
        self._version = 0  # of the epoch's node
        self._new = True  # and may take over from an earlier life
        self._told = told
        self._highest = highest
        self._assigning = asyncio.Lock()
        self.wake()

    def entered(self, state: TreeState) -> None:
        """Without a session nobody leads."""
        if state is TreeState.EXPIRED:
            self._step_down()

    async def work(self) -> None:
        """Lead if nobody else does."""
        while True:
            (holder,) = await self.tree.read([HOLDER], self._heard)
            (last,) = await self.tree.read([EPOCH])
            ours = holder is not None and holder.owner == self.tree.session
            if ours and self._lead(last):
                return
            self._step_down()
            if holder is not None and not ours and not self._former(holder):
                self._new = False
                return
            try:
                await self.tree.transact(list(self._taking(holder, last)))
                self._new = False
            except Conflict:
                await asyncio.sleep(0)

    async def resign(self) -> None:
        """Lead no longer, if this router does."""
        if self.leading:
            self._step_down()
            with suppress(Conflict, Disconnected):
                await self.tree.transact([Delete(path=HOLDER)])

    async def assign(self, assignments: Mapping[str, str | None], epoch: int) -> Assigned:
        """Write who routes which topics, if nobody leads with a newer epoch."""
        async with self._assigning:
            if not self.leading or epoch != self.epoch:
                raise StaleLeader(self.router, epoch)
            left, missing = dict(assignments), set[str]()
            for _ in range(MOST_ROUNDS):
                missing |= await self._missing(left)
                left = {topic: router for topic, router in left.items() if topic not in missing}
                if not left:
                    return Assigned(epoch=self.epoch, missing=frozenset(missing))
                left = await self._assign(left)
            raise RegistryError(f"{len(left)} topics come and go too fast to be assigned; try again")

    def _heard(self, _: str) -> None:
        self.wake()

    def _taking(self, holder: Node | None, last: Node | None) -> Iterator[Operation]:
        if holder is not None:
            yield Delete(path=HOLDER, version=holder.version)
        leader = LeaderDocument(router=self.router, boot=self.boot)
        yield Create(path=HOLDER, data=written(leader), kind=Kind.EPHEMERAL)
        data = written(self._document(self._next(last)))
        if last is None:
            yield Create(path=EPOCH, data=data)
        else:
            yield Put(path=EPOCH, data=data, version=last.version)

    def _next(self, last: Node | None) -> int:
        """More than any epoch before, also if its node was lost or spoilt: its version grows with each epoch."""
        known = self._epoch_in(last)
        version = last.version + 1 if last else 0
        return max(known.epoch if known else 0, version, self._highest(), self.epoch) + 1

    def _document(self, epoch: int) -> EpochDocument:
        return EpochDocument(epoch=epoch, router=self.router, boot=self.boot)

    def _epoch_in(self, node: Node | None) -> EpochDocument | None:
        try:
            return read(EpochDocument, node.data, EPOCH) if node else None
        except RegistryError:
            return None

    def _former(self, holder: Node) -> bool:
        """Whether it is of an earlier life of this router, or of nobody.

        Who has campaigned before does not ask: it would be a later life.
        """
        if holder.owner == 0:
            return True
        try:
            return self._new and read(LeaderDocument, holder.data, HOLDER).router == self.router
        except RegistryError:
            return False

    def _lead(self, last: Node | None) -> bool:
        """The leader's node is ours; whether the last epoch is too, as it should be."""
        known = self._epoch_in(last)
        if last is None or known is None or (known.router, known.boot) != (self.router, self.boot):
            return False
        self._version = last.version
        if not self.leading or self.epoch != known.epoch:
            self.leading, self.epoch = True, known.epoch
            self._tell()
        return True

    def _step_down(self) -> None:
        if self.leading:
            self.leading = False
            self._tell()

    def _tell(self) -> None:
        try:
            self._told(self.leading, self.epoch)
        except Exception as problem:
            tell("an election was not taken", problem)

    async def _missing(self, assignments: Mapping[str, str | None]) -> set[str]:
        nodes = await self.tree.read([_path(topic) for topic in assignments])
        return {topic for topic, node in zip(assignments, nodes, strict=True) if node is None}

    async def _assign(self, assignments: Mapping[str, str | None]) -> dict[str, str | None]:
        """Batch after batch, as the check of each one's epoch must see the one before; what was not done is left."""
        left = dict(assignments)
        while left:
            operations = list(self._batch(left))
            try:
                await self.tree.transact(operations)
            except Conflict:
                await self._still_leading()
                break
            except RegistryError:
                self.wake()  # looks which epoch it is
                raise
            self.epoch += 1
            self._version += 1
            left = dict(islice(left.items(), len(operations) - 1, None))
        return left

    def _batch(self, assignments: Mapping[str, str | None]) -> Iterator[Operation]:
        """As many of the assignments as fit into one transaction, on condition of the epoch."""
        epoch = self.epoch + 1
        yield Put(path=EPOCH, data=written(self._document(epoch)), version=self._version)
        size = 0
        for topic, router in islice(assignments.items(), ASSIGNED_AT_ONCE):
            named = topic if is_hashed(topic_segment(topic)) else None
            data = written(TopicDocument(router=router, epoch=epoch, topic=named))
            size += len(data) + LONGEST_SEGMENT
            if size > BYTES_AT_ONCE:
                return
            yield Put(path=_path(topic), data=data)

    async def _still_leading(self) -> None:
        (last,) = await self.tree.read([EPOCH])
        if last is None or last.version != self._version or self._epoch_in(last) != self._document(self.epoch):
            epoch = self.epoch
            self._step_down()
            self.wake()
            raise StaleLeader(self.router, epoch)


def _path(topic: str) -> str:
    return f"{TOPICS}/{topic_segment(topic)}"
