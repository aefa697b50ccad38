"""Retained messages that are told again replace nothing newer; which are from elsewhere is not for clients to say."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from sites import sites, stock, stock5, until

from firelane.exchange.journal.retained import ORIGIN
from firelane.mqtt.tree import FilterTree
from firelane.overlay.local import retold
from firelane.overlay.local import wanting as of_clients
from firelane.overlay.local.retold import Retold
from firelane.overlay.local.wanting import Wanting
from firelane.overlay.messages.stamp import Stamp
from firelane.overlay.registry import Wish


def told(number, first=0, boot=1, origin="a"):
    return Stamp(origin, boot, number, 0, 0, 1, True, first)


def wanting(*filters):
    found = Wanting()
    found.update({one: Wish(qos=1) for one in filters})
    return found


def test_what_was_told_since_it_is_wanted_has_come():
    here = Retold(wanting("cmd/#"))
    assert not here.has_come("cmd/valve", told(10))
    assert here.has_come("cmd/valve", told(17, first=10))
    assert here.has_come("cmd/valve", told(18, first=9))
    assert not here.has_come("cmd/valve", told(19))  # a new one
    assert here.has_come("cmd/valve", told(20, first=19))
    assert not here.has_come("cmd/valve", told(21, first=19, origin="c"))
    assert not here.has_come("cmd/pump", told(22, first=8))


def test_who_wants_it_again_is_told_again():
    wanted = wanting("cmd/#")
    here = Retold(wanted)
    assert not here.has_come("cmd/valve", told(10))
    wanted.update({"cmd/#": Wish(qos=1), "other": Wish(qos=0)})
    assert here.has_come("cmd/valve", told(11, first=10))
    wanted.update({})
    wanted.update({"cmd/+": Wish(qos=1)})
    assert not here.has_come("cmd/valve", told(12, first=10))
    assert here.has_come("cmd/valve", told(13, first=10))


def test_a_topic_that_another_filter_goes_on_to_match_is_not_wanted_anew():
    wanted = wanting("cmd/#")
    here = Retold(wanted)
    assert not here.has_come("cmd/valve", told(10))
    wanted.update({"cmd/#": Wish(qos=1), "cmd/valve": Wish(qos=1)})
    wanted.update({"cmd/valve": Wish(qos=1)})
    assert here.has_come("cmd/valve", told(11, first=10))
    wanted.update({"+/valve": Wish(qos=1)})  # in the same look
    assert here.has_come("cmd/valve", told(12, first=10))


FILTERS = ("cmd/#", "cmd/valve", "+/valve", "#", "cmd/+")
ONCE = st.permutations(range(12)).map(lambda ends: [tuple(sorted(ends[one : one + 2])) for one in range(0, 10, 2)])
OFTEN = st.lists(st.sets(st.sampled_from(FILTERS)), max_size=12)


def wanted_since(changes, topic):
    """By the meaning of the word: the first of the last changes after each of which some filter matched."""
    since = len(changes) + 1
    for number, filters in reversed(list(enumerate(changes, start=1))):
        tree = FilterTree()
        for one in filters:
            tree.add(one, one)
        if not tree.matching(topic):
            break
        since = number
    return since


@given(ONCE)
def test_since_when_a_topic_is_wanted_follows_filters_that_overlap(times):
    """Each filter once, at times of its own."""
    changes, found = [], Wanting()
    for now in range(12):
        filters = {one for one, (begins, ends) in zip(FILTERS, times, strict=True) if begins <= now < ends}
        if filters != (changes[-1] if changes else set()):
            changes.append(filters)
        found.update({one: Wish(qos=1) for one in filters})
        assert found.changes == len(changes)
        for topic in ("cmd/valve", "cmd/pump", "state"):
            assert found.since(topic) == wanted_since(changes, topic)


@given(OFTEN)
def test_filters_that_come_and_go_never_make_a_break_unseen(states):
    changes, found = [], Wanting()
    for filters in states:
        if filters != (changes[-1] if changes else set()):
            changes.append(filters)
        found.update({one: Wish(qos=1) for one in filters})
        assert wanted_since(changes, "cmd/valve") <= found.since("cmd/valve") <= len(changes) + 1


def test_filters_that_ended_are_remembered_within_bounds(monkeypatch):
    monkeypatch.setattr(of_clients, "MOST_ENDED", 10)
    found = Wanting()
    for n in range(100):
        found.update({f"t/{n}": Wish(qos=1), "t/0": Wish(qos=1)})
    assert len(found._ended) == len(found._ended_tree._exact) == 10
    assert found.since("t/0") == 1


def test_an_edge_that_begins_without_its_log_is_heard():
    here = Retold(wanting("#"))
    assert not here.has_come("cmd/valve", told(10))
    assert not here.has_come("cmd/valve", told(4, first=3, boot=2))


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(retold, "MOST_REMEMBERED", 10)
    here = Retold(wanting("#"))
    for n in range(100):
        assert not here.has_come(f"t/{n}", told(n))
    assert len(here._told) == 10
    assert here.has_come("t/99", told(100, first=99))


@pytest.mark.parametrize("why", ["another site begins to want it", "its edge is started again"])
def test_a_retained_message_that_is_told_again_replaces_no_newer_one(tmp_path, why):
    async def main():
        heard = []
        async with (
            asyncio.timeout(60),
            sites(tmp_path, edges=("a", "b", "c"), routers=("r1",)) as here,
            here.client("b") as ben,
            here.client("b") as bob,
            here.client("c") as cid,
        ):
            await ben.subscribe("cmd/#", lambda topic, payload: heard.append(payload), qos=1)
            await until(lambda: bool(here.brokers["a"]._interest.of("cmd/valve")))
            async with here.client("a") as ann:
                await ann.publish("cmd/valve", b"open", qos=1, retain=True)
            await until(lambda: heard == [b"open"])
            await bob.publish("cmd/valve", b"closed", qos=1, retain=True)
            await until(lambda: heard == [b"open", b"closed"])
            if why.startswith("another"):
                await cid.subscribe("cmd/#", lambda topic, payload: None, qos=1)
            else:
                await here.stop("a")
                await here.start("edge", "a")
                await here.joined()
            await asyncio.sleep(2.0)
            kept = here.exchanges["b"].broker.retained.get(b"cmd/valve").payload
        assert (heard, kept) == ([b"open", b"closed"], b"closed")

    asyncio.run(main())


@pytest.mark.parametrize("retain", [False, True])
def test_a_client_may_send_on_the_properties_that_it_was_sent(tmp_path, retain):
    """What it got was retained elsewhere; what it publishes is not."""

    async def main():
        heard = []
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [(ORIGIN, "b 1f"), ("own", "1")]
        async with asyncio.timeout(40), sites(tmp_path, routers=("r1",)) as here:
            with stock5(here, "a", "echo") as echo:
                if retain:
                    echo.publish("t", b"x", qos=1, retain=True, properties=properties).wait_for_publish(5.0)
                with stock(here, "b", "ben", got=heard, wants="t", qos=1):
                    await until(lambda: bool(here.brokers["a"]._interest.of("t")))
                    if not retain:
                        echo.publish("t", b"x", qos=1, properties=properties)
                    await until(lambda: heard)

    asyncio.run(main())
