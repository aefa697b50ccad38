"""What every part of a registry that talks to its tree has: it works when it has to and can, and begins anew after each
connection."""

from __future__ import annotations

import asyncio

from firelane.overlay.registry.tree import Disconnected, RegistryError, Tree, TreeState

RETRY_S = 1.0


class Worker:
    """`work` is called when somebody has called `wake` and the registry answers; one that breaks off is begun again."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problem: RegistryError | None = None  # why work cannot be done, though the registry answers
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There is something to do."""
        self._wake.set()

    def reconnected(self) -> None:
        """Nothing is known any more for certain: neither what was written last nor what has changed."""
        self.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self.tree.state is TreeState.CONNECTED:
                await self._try()

    async def _try(self) -> None:
        try:
            await self.work()
            self.problem = None
        except Disconnected:
            pass  # a new connection wakes
        except RegistryError as problem:
            self.problem = problem
            await asyncio.sleep(RETRY_S)
            self.wake()

    async def work(self) -> None:
        """Do what there is to do."""
        raise NotImplementedError


def tell(message: str, problem: Exception) -> None:
    """A fault of a callback, which is not to harm others."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": problem})
