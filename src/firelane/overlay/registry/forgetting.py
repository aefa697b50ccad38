"""An edge that will not come back: nobody need keep anything for it any more."""

from __future__ import annotations

from firelane.overlay.registry.known import EDGES, HERE
from firelane.overlay.registry.names import broker_segment
from firelane.overlay.registry.tree import SESSION_S, Conflict, Delete, RegistryError, Tree

MOST_ROUNDS = 10
TICK_S = 2.0  # ZooKeeper ends sessions at its next tick, unless set otherwise


class UnknownEdge(RegistryError):  # noqa: N818  what it is, not a fault
    """There is no edge of that name, or no more."""

    def __init__(self, name: str) -> None:
        self.edge = name
        super().__init__(f"no edge {name} is known; `firelane overlay status` shows those that are")


class EdgeIsHere(RegistryError):  # noqa: N818
    """That edge is connected: it would be forgotten and announce itself no more."""

    def __init__(self, name: str) -> None:
        self.edge = name
        moment = f"or was less than {SESSION_S + TICK_S:g} s ago: try again"
        super().__init__(f"the edge {name} is connected ({moment}); stop it first")


async def forget_edge(tree: Tree, name: str) -> None:
    """Delete what is known of it, if it is away; UnknownEdge or EdgeIsHere otherwise."""
    path = f"{EDGES}/{broker_segment(name)}"
    for _ in range(MOST_ROUNDS):
        (node,) = await tree.read([path])
        (names,) = await tree.children([path])
        if node is None:
            raise UnknownEdge(name)
        if HERE in names:
            raise EdgeIsHere(name)
        try:
            await tree.transact([Delete(path=f"{path}/{one}") for one in names] + [Delete(path=path)])
        except Conflict:
            continue  # it has come back, or somebody else was faster: look again
        return
    raise RegistryError(f"the edge {name} comes and goes too fast to be forgotten; stop it first")
