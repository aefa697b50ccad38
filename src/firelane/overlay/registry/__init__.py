"""The registry: what edges and routers know of each other, in ZooKeeper or in memory."""

from firelane.overlay.owner import Assignment
from firelane.overlay.registry.address import parse_registry
from firelane.overlay.registry.documents import Load, Wish
from firelane.overlay.registry.election import Assigned, StaleLeader
from firelane.overlay.registry.forgetting import EdgeIsHere, UnknownEdge
from firelane.overlay.registry.known import KnownEdge, KnownRouter, TopicState
from firelane.overlay.registry.last_moves import Batch, Move
from firelane.overlay.registry.registry import Registry
from firelane.overlay.registry.status import Status
from firelane.overlay.registry.tree import Disconnected, RegistryError, TreeState

__all__ = [
    "Assigned",
    "Assignment",
    "Batch",
    "Disconnected",
    "EdgeIsHere",
    "KnownEdge",
    "KnownRouter",
    "Load",
    "Move",
    "Registry",
    "RegistryError",
    "StaleLeader",
    "Status",
    "TopicState",
    "TreeState",
    "UnknownEdge",
    "Wish",
    "parse_registry",
]
