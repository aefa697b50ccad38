"""Everything that the registry knows at this moment, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firelane.overlay.registry.documents import EpochDocument, LeaderDocument, read
from firelane.overlay.registry.election import HOLDER
from firelane.overlay.registry.feed import Feed, edges_feed, routers_feed, topics_feed
from firelane.overlay.registry.known import EPOCH, KnownEdge, KnownRouter, TopicState
from firelane.overlay.registry.last_moves import MOVES, Batch, MovesDocument
from firelane.overlay.registry.mirror import read_below
from firelane.overlay.registry.tree import Node, RegistryError, Tree, TreeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Who is there, who leads (None between two leaders), the last epoch, nodes that cannot be read, and what was
    moved last."""

    registry: str
    state: TreeState
    leader: str | None
    epoch: int
    edges: Mapping[str, KnownEdge]
    routers: Mapping[str, KnownRouter]
    topics: Mapping[str, TopicState]
    problems: tuple[str, ...]
    moves: tuple[Batch, ...] = ()


async def read_status(tree: Tree) -> Status:
    """Read all of it; nothing is waited for."""
    problems: list[str] = []
    holder, epoch, moved = await tree.read([HOLDER, EPOCH, MOVES])
    leader = _document(LeaderDocument, holder, HOLDER, problems)
    last = _document(EpochDocument, epoch, EPOCH, problems)
    moves = _document(MovesDocument, moved, MOVES, problems)
    return Status(
        registry=tree.name,
        state=tree.state,
        leader=leader.router if leader else None,
        epoch=last.epoch if last else 0,
        edges=await _known(edges_feed(tree), problems),
        routers=await _known(routers_feed(tree), problems),
        topics=await _known(topics_feed(tree), problems),
        problems=tuple(problems),
        moves=moves.batches if moves else (),
    )


async def _known(feed: Feed[Any], problems: list[str]) -> dict[str, Any]:
    feed.mirror.take(await read_below(feed.mirror.tree, feed.mirror.path))
    problems += map(str, feed.mirror.problems.values())
    return feed.known


def _document(kind: type[Any], node: Node | None, path: str, problems: list[str]) -> Any:
    try:
        return read(kind, node.data, path) if node else None
    except RegistryError as problem:
        problems.append(str(problem))
        return None
