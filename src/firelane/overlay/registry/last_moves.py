"""The last moves of topics and why, which leaders write beside their assignments for people: bounded, and no broker
depends on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from firelane.overlay.registry.documents import Count, read, written
from firelane.overlay.registry.known import LEADER
from firelane.overlay.registry.tree import Conflict, Create, Put, RegistryError, Tree

MOVES = f"{LEADER}/moves"
MOST_BATCHES = 20
MOST_NAMED = 10  # topics, and lines of why, of a batch
LONGEST_TEXT = 200
YEAR_9999_S = 253_370_764_800


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A topic, the router that it left and the one that has it now; of a longer name there is the beginning."""

    topic: str
    left: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Topics that a leader gave other routers at once: how many there were, some of them, and why."""

    at_s: Annotated[float, Field(ge=0, le=YEAR_9999_S)]  # since 1970
    leader: str
    topics: Count
    moves: tuple[Move, ...]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesDocument:
    """The last batches, the oldest first."""

    batches: tuple[Batch, ...] = ()


def batch_of(moves: Sequence[Move], why: Sequence[str], *, leader: str, at_s: float) -> Batch:
    """A batch of which no more is kept than fits."""
    named = [Move(topic=_short(one.topic), left=one.left, to=one.to) for one in moves[:MOST_NAMED]]
    return Batch(
        at_s=at_s, leader=leader, topics=len(moves), moves=tuple(named), why=tuple(map(_short, why[:MOST_NAMED]))
    )


async def add_moves(tree: Tree, batches: Sequence[Batch]) -> None:
    """Write them after those that are there; what cannot be read gives way."""
    (node,) = await tree.read([MOVES])
    try:
        before = () if node is None else read(MovesDocument, node.data, MOVES).batches
    except RegistryError:
        before = ()
    new = [one for one in batches if one not in before]  # it may be there though no answer came
    data = written(MovesDocument(batches=(*before, *new)[-MOST_BATCHES:]))
    try:
        await tree.transact(
            [Create(path=MOVES, data=data) if node is None else Put(path=MOVES, data=data, version=node.version)]
        )
    except Conflict:
        raise RegistryError(f"{MOVES} was written by another leader at the same time; try again") from None


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
