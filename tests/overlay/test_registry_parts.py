"""Filters that an edge's clients want go on being there in the registry, whatever happens while they are written:
others drop what they keep for an edge that does not want it any more."""

import asyncio
import json
from contextlib import contextmanager, suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from registry_rooms import run

from firelane.overlay.registry import Disconnected, Registry, RegistryError, Wish
from firelane.overlay.registry.memory import MemoryTree
from firelane.overlay.registry.store import MemoryStore
from firelane.overlay.registry.tree import Conflict, Delete

NAMES = [f"site/{number:03}/#" for number in range(120)]
NOW, OF_OLD = 150, 600  # bytes of filters in a part


@contextmanager
def small(part_bytes=NOW, largest_bytes=10_000):
    """Many parts of few filters, and transactions of few parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firelane.overlay.registry.packing.PART_BYTES", part_bytes)
        patch.setattr("firelane.overlay.registry.packing.LARGEST_PART_BYTES", largest_bytes)
        patch.setattr("firelane.overlay.registry.declarations.BYTES_AT_ONCE", 800)
        patch.setattr("firelane.overlay.registry.declarations.AGAIN_S", 0.0)
        yield


def wishes(names):
    return {one: Wish(qos=1, keeps=True) for one in names}


class Witness:
    """Looks at all filters of an edge after each transaction, and knows which of them must be there."""

    def __init__(self):
        self.store = MemoryStore()
        self.wanted = self.lasting = self.owed = frozenset()
        self.missing = []

    @property
    def there(self):
        nodes = self.store.nodes.items()
        return frozenset(one for path, node in nodes if "/filters-" in path for one in json.loads(node.data)["filters"])

    def want(self, names):
        """What is there, and was wanted all the time since nothing was left to be written."""
        self.wanted = frozenset(names)
        self.lasting &= self.wanted
        self.owed &= self.wanted

    def begun(self, names):
        """What a former life had declared and not written is not written any more."""
        self.want(names)
        self.lasting = self.wanted

    def settled(self):
        assert self.there == self.wanted
        self.lasting = self.owed = self.wanted

    def look(self):
        self.owed |= self.there & self.lasting
        if missing := self.owed - self.there:
            self.missing.append(missing)


class Seen(MemoryTree):
    """A tree somebody looks at, and where something may go wrong with the next transaction."""

    def __init__(self, witness):
        super().__init__(witness.store)
        self.witness, self.luck = witness, []

    async def transact(self, operations):
        await asyncio.sleep(0)
        luck = self.luck.pop(0) if self.luck else None
        if luck == "conflict":
            raise Conflict("bad luck")
        if luck != "not done":
            await super().transact(operations)
            self.witness.look()
        if luck is not None:
            self.suspend()
            asyncio.get_running_loop().call_soon(self.resume)
            raise Disconnected("bad luck")


async def lived(witness, steps):
    """One life of an edge, that ends without a word."""
    tree = Seen(witness)
    first, *others = steps
    witness.begun(first)
    with suppress(Disconnected):
        async with Registry(tree) as edge:
            edge.announce_edge("north", 1)
            edge.want(wishes(first))
            for step in others:
                match step:
                    case list():
                        witness.want(step)
                        edge.want(wishes(step))
                    case int():
                        for _ in range(step):
                            await asyncio.sleep(0)
                    case "settle":
                        tree.luck.clear()
                        await edge.settled()
                        witness.settled()
                    case _:
                        tree.luck.append(None if step == "good" else step)


SOME = st.builds(lambda a, b: NAMES[min(a, b) : max(a, b)], st.integers(0, len(NAMES)), st.integers(0, len(NAMES)))
STEPS = st.one_of(SOME, st.integers(1, 30), st.sampled_from(["settle", "good", "done", "not done", "conflict"]))
LIVES = st.lists(
    st.tuples(st.sampled_from([NOW, OF_OLD]), SOME, st.lists(STEPS, max_size=8)), min_size=1, max_size=4
)  # bytes of a part, what is wanted first, what happens then


@given(LIVES)
@example([(NOW, NAMES, ["settle"]), (NOW, NAMES[:60], ["settle"])])  # that had more parts, which are left over
@example([(NOW, NAMES[:20], ["settle"]), (NOW, NAMES, ["settle"])])  # fewer
@example([(OF_OLD, NAMES, ["settle"]), (NOW, NAMES, ["settle"])])  # larger ones
@example([(NOW, NAMES, ["settle"]), (OF_OLD, NAMES, ["settle"])])
@example([(NOW, NAMES[:20], ["settle", "not done", NAMES, "settle"])])  # the connection is lost just then
@example([(NOW, NAMES[:20], ["settle", "conflict", NAMES, "settle"])])
@example([(NOW, NAMES, ["settle", "conflict", NAMES[:10], "settle"])])
@example([(NOW, NAMES[:20], ["settle", "done", NAMES, 9]), (NOW, NAMES, ["settle"])])
def test_no_filter_that_stays_is_ever_missing(lives):
    async def story():
        witness = Witness()
        for part_bytes, first, others in lives:
            with small(part_bytes):
                await lived(witness, [first, *others])
        assert not witness.missing

    run(story())


def test_what_is_left_over_goes_when_all_else_is_written():
    """Somebody has deleted a part by hand: what is to be written in its place cannot be until it is looked at again."""

    async def story():
        witness = Witness()
        tree = Seen(witness)
        async with Registry(tree) as edge:
            edge.announce_edge("north", 1)
            edge.want(wishes(NAMES))
            await edge.settled()
            await tree.transact([Delete(path="/edges/north/filters-1")])
            few = frozenset(NAMES[:20])
            witness.wanted = witness.lasting = witness.owed = witness.there & few
            edge.want(wishes(few))
            await edge.settled()
        assert not witness.missing
        assert witness.there == few

    with small():
        run(story())


def test_nothing_is_left_over_before_an_edge_has_said_what_it_wants():
    """As when that is too much for the registry."""

    async def story():
        witness = Witness()
        await lived(witness, [NAMES, "settle"])
        async with Registry(Seen(witness)) as edge:
            edge.announce_edge("north", 2)
            with small(largest_bytes=100), pytest.raises(RegistryError, match="in one node"):
                edge.want(wishes(NAMES))
            await edge.settled()
            assert witness.there == frozenset(NAMES)
            edge.want(wishes(NAMES[:3]))
            await edge.settled()
            assert witness.there == frozenset(NAMES[:3])

    with small():
        run(story())


def test_an_edge_that_leaves_before_it_has_said_what_it_wants_leaves_nothing():
    async def story():
        witness = Witness()
        await lived(witness, [NAMES, "settle"])
        async with Registry(Seen(witness)) as edge:
            edge.announce_edge("north", 2)
            await edge.settled()
            assert witness.there == frozenset(NAMES)
            await edge.leave()
        assert "/edges/north" not in witness.store.nodes

    with small():
        run(story())
