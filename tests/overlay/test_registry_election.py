"""One leader, epochs that only grow, and nothing assigned by one who leads no longer."""

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest
from registry_rooms import InMemory, run, until

from firelane.overlay.registry import StaleLeader
from firelane.overlay.registry.documents import EpochDocument, read
from firelane.overlay.registry.election import ASSIGNED_AT_ONCE, HOLDER, Election
from firelane.overlay.registry.known import EPOCH
from firelane.overlay.registry.tree import Conflict, Delete, Put


class Candidate:
    """A router that campaigns, and what it was told."""

    def __init__(self, registry, name, boot=1):
        self.registry = registry
        self.told = []
        registry.announce_router(name, boot, "h:1")
        registry.campaign(lambda *one: self.told.append(one))

    @property
    def leads(self):
        return bool(self.told) and self.told[-1][0]

    @property
    def epoch(self):
        return self.told[-1][1]


async def topics_of(place, registry, names):
    registry.announce_edge("north", 1)
    registry.endpoints(dict.fromkeys(names, 1), {})
    await registry.settled()


def test_another_leads_when_the_leader_has_gone_and_with_a_higher_epoch(place):
    async def story():
        async with AsyncExitStack() as stack:
            async with place.registry() as first_registry:
                first = Candidate(first_registry, "r1")
                await until(lambda: first.leads)
                second = Candidate(await stack.enter_async_context(place.registry()), "r2")
                third = Candidate(await stack.enter_async_context(place.registry()), "r3")
                await asyncio.sleep(0.2)
                assert not second.told
                assert not third.told
                assert (await first_registry.status()).leader == "r1"
            await until(lambda: second.leads or third.leads)
            await asyncio.sleep(0.2)
            assert second.leads != third.leads
            assert max(one.epoch for one in (second, third) if one.told) > first.epoch

    run(story())


def test_a_leader_whose_session_expired_is_told_and_may_lead_again(place):
    async def story():
        async with place.registry() as registry:
            only = Candidate(registry, "r1")
            await until(lambda: only.leads)
            first = only.epoch
            await place.expire(registry.tree)
            await until(lambda: len(only.told) >= 3)
            assert [leads for leads, _ in only.told] == [True, False, True]
            assert only.epoch > first

    run(story())


def test_a_router_that_leaves_leads_no_longer(place):
    async def story():
        async with place.registry() as first_registry, place.registry() as second_registry:
            first = Candidate(first_registry, "r1")
            await until(lambda: first.leads)
            second = Candidate(second_registry, "r2")
            await first_registry.leave()
            await until(lambda: second.leads)
            assert not first.leads
            with pytest.raises(StaleLeader):
                await first_registry.assign({}, first.epoch)

    run(story())


def test_a_leader_without_a_session_is_told_at_once():
    async def story():
        async with InMemory().registry() as registry:
            only = Candidate(registry, "r1")
            await until(lambda: only.leads)
            registry.tree.expire()
            assert not only.leads

    run(story())


def test_a_leader_that_lost_its_connection_for_a_moment_goes_on(place):
    async def story():
        async with place.registry() as registry:
            only = Candidate(registry, "r1")
            await topics_of(place, registry, ["a"])
            await until(lambda: only.leads)
            async with place.dropped(registry.tree):
                pass
            await registry.settled()
            done = await registry.assign({"a": "r1"}, only.epoch)
            assert done.epoch == only.epoch + 1
            assert len(only.told) == 1

    run(story())


def test_a_restarted_leader_does_not_wait_for_its_former_session(place):
    async def story():
        async with place.registry() as former, place.registry() as now:
            before = Candidate(former, "r1", boot=1)
            await until(lambda: before.leads)
            after = Candidate(now, "r1", boot=2)
            await until(lambda: after.leads)
            assert after.epoch > before.epoch
            await until(lambda: not before.leads)
            await asyncio.sleep(0.2)
            assert (len(before.told), len(after.told)) == (2, 1), "they do not take it from each other for ever"

    run(story())


def test_who_has_campaigned_before_does_not_take_a_namesake_s_lead(place):
    async def story():
        async with AsyncExitStack() as stack:
            async with place.registry() as other:
                first = Candidate(other, "r9")
                await until(lambda: first.leads)
                registries = [await stack.enter_async_context(place.registry()) for _ in range(2)]
                namesakes = [Candidate(registry, "r1", boot) for boot, registry in enumerate(registries)]
                await asyncio.sleep(0.2)
            await until(lambda: any(one.leads for one in namesakes))
            await asyncio.sleep(0.2)
            assert sum(len(one.told) for one in namesakes) == 1

    run(story())


@pytest.mark.parametrize("number", [1, 2 * ASSIGNED_AT_ONCE + 1])
def test_a_leader_that_does_not_know_of_its_successor_assigns_nothing(place, number):
    """Elections are driven by hand, so that the first one hears nothing."""

    async def story():
        async with place.registry() as edge, place.registry() as other:
            names = [f"t/{one}" for one in range(number)]
            await topics_of(place, edge, names)
            first = Election(edge.tree, "r1", 1, lambda *_: None, lambda: 0)
            second = Election(other.tree, "r2", 1, lambda *_: None, lambda: 0)
            await first.work()
            assert first.leading
            await first.assign(dict.fromkeys(names, "r1"), first.epoch)
            await other.tree.transact([Delete(path=HOLDER)])
            await second.work()
            assert second.leading
            await second.assign({names[0]: "r2"}, second.epoch)
            before = await other.tree.read([f"/topics/t%2F{one}" for one in range(number)])
            with pytest.raises(StaleLeader, match="r1 does not lead with epoch"):
                await first.assign(dict.fromkeys(names, "r3"), first.epoch)
            assert not first.leading
            assert await other.tree.read([f"/topics/t%2F{one}" for one in range(number)]) == before
            with pytest.raises(StaleLeader):
                await first.assign({names[0]: "r3"}, first.epoch)

    run(story())


def test_epochs_grow_with_every_batch_and_are_in_the_topics(place):
    async def story():
        async with place.registry() as registry:
            names = [f"t/{one}" for one in range(2 * ASSIGNED_AT_ONCE + 10)]
            await topics_of(place, registry, names)
            leader = Candidate(registry, "r1")
            await until(lambda: leader.leads)
            done = await registry.assign(dict.fromkeys(names, "r1"), leader.epoch)
            assert done.epoch == leader.epoch + 3, "three batches"
            topics = (await registry.status()).topics
            assert {one.assignment.epoch for one in topics.values()} == set(range(leader.epoch + 1, done.epoch + 1))
            with pytest.raises(StaleLeader):
                await registry.assign({"t/1": "r1"}, leader.epoch)

    run(story())


def test_topics_that_go_meanwhile_do_not_hold_up_the_others(place):
    async def story():
        async with place.registry() as registry:
            await topics_of(place, registry, ["a", "b"])
            leader = Candidate(registry, "r1")
            await until(lambda: leader.leads)
            deleted = [Delete(path="/topics/a/pub/north"), Delete(path="/topics/a/pub"), Delete(path="/topics/a")]
            looked = registry._election._missing

            async def gone_just_then(left):
                missing = await looked(left)
                for one in deleted:
                    await _gone(registry.tree, one)
                deleted.clear()
                return missing

            registry._election._missing = gone_just_then
            done = await registry.assign({"a": "r1", "b": "r1"}, leader.epoch)
            assert done.missing == {"a"}
            assert (await registry.status()).topics["b"].assignment.router == "r1"

    run(story())


async def _gone(tree, deletion):
    (node,) = await tree.read([deletion.path])
    if node:
        with suppress(Conflict):  # ZooKeeper has just deleted the container itself
            await tree.transact([deletion])


@pytest.mark.parametrize("spoilt", [b"", b"garbage", b'{"format":1,"epoch":3}'])
def test_an_epoch_that_was_spoilt_does_not_go_back(place, spoilt):
    async def story():
        async with AsyncExitStack() as stack:
            async with place.registry() as registry:
                await topics_of(place, registry, ["a"])
                first = Candidate(registry, "r1")
                await until(lambda: first.leads)
                epoch = first.epoch
                for _ in range(5):
                    epoch = (await registry.assign({"a": "r1"}, epoch)).epoch
                await registry.tree.transact([Put(path=EPOCH, data=spoilt)])
                with pytest.raises(StaleLeader):
                    await registry.assign({"a": "r2"}, epoch)
                second = Candidate(await stack.enter_async_context(place.registry()), "r2")
            await until(lambda: second.leads)
            assert second.epoch > epoch

    run(story())


def test_an_epoch_that_was_deleted_goes_on_from_what_the_leader_has_seen(place):
    async def story():
        async with place.registry() as registry:
            await topics_of(place, registry, ["a"])
            seen = []
            registry.watch_topic("a", lambda _, found: seen.append(found))
            await registry.tree.transact([Put(path="/topics/a", data=b'{"format":1,"router":"r","epoch":500}')])
            await until(lambda: seen and seen[-1])
            leader = Candidate(registry, "r1")
            await until(lambda: leader.leads)
            assert leader.epoch == 501
            (node,) = await registry.tree.read([EPOCH])
            assert read(EpochDocument, node.data, EPOCH) == EpochDocument(epoch=501, router="r1", boot=1)

    run(story())
