"""What is published here, and what came from other sites."""

import asyncio

import pytest
from sites import sites, until

from firelane.exchange.journal.retained import OVERLAY_HAD
from firelane.overlay.local.had import Had
from firelane.overlay.local.origin import Origins
from firelane.overlay.messages.stamp import Stamp


def test_what_only_comes_from_elsewhere_is_not_published_here():
    origins = Origins()
    for look in range(1, 20):
        for _ in range(10):
            origins.came("far")
            origins.came("both")
        shares = origins.local_shares([("far", 10 * look), ("both", 40 * look), ("near", 5 * look)], look)
    assert shares == {"both": pytest.approx(0.75), "near": 1.0}


def test_what_was_published_here_fades():
    origins, total = Origins(), 0
    for look in range(200):
        total += 1 if look < 10 else 0
        shares = origins.local_shares([("t", total)], look)
    assert shares == {}


def test_a_topic_that_was_forgotten_meanwhile_counts_from_its_beginning():
    origins = Origins()
    origins.local_shares([("t", 100)], 1.0)
    assert origins.local_shares([("t", 3)], 2.0) == {"t": 1.0}


@pytest.mark.parametrize("every_s", [0.1, 1.0])
def test_a_topic_that_says_something_now_and_then_is_published_here_however_often_somebody_looks(every_s):
    origins = Origins()
    looks = [look * every_s for look in range(round(60 / every_s))]
    assert all("t" in origins.local_shares([("t", 1 + int(now / 10))], now) for now in looks)


def test_others_are_told_only_of_what_is_published_here(tmp_path):
    async def main():
        async with asyncio.timeout(30), sites(tmp_path) as here, here.client("b") as ben, here.client("a") as ann:
            heard = []
            await ben.subscribe("t", lambda topic, payload: heard.append(payload))
            await until(lambda: here.brokers["a"]._interest.of("t"))
            registry = here.brokers["a"].registry
            publishers = {}

            def known(changes):
                publishers.update({name: dict(state.pub) for name, state in changes.items() if state is not None})

            registry.on_topics(known)
            async with asyncio.timeout(20):
                while not publishers.get("t"):
                    await ann.publish("t", b"x")
                    await asyncio.sleep(0.02)
                for _ in range(100):  # b looks once a second, too
                    await ann.publish("t", b"x")
                    await asyncio.sleep(0.03)
            assert heard
            assert list(publishers["t"]) == ["a"]

    asyncio.run(main())


class Retained:
    """What an exchange would have kept."""

    def __init__(self):
        self.kept = {}

    def publish(self, packets):
        for one in packets:
            self.kept.pop(one.topic, None)
            if one.payload:
                self.kept[one.topic] = one


def test_of_very_many_marks_those_that_have_not_changed_for_longest_are_forgotten():
    retained, had = Retained(), Had(most=3)
    for topic in ("a", "b", "c", "a", "d"):
        retained.publish(had.marks(topic, Stamp("far", 3, 7, 0, 0, 2)))
    assert len(had) == 3
    expected = [b'["far", "%s", 7, 3]' % topic for topic in (b"c", b"a", b"d")]
    assert [one.payload for one in retained.kept.values()] == expected
    assert all(topic.startswith(OVERLAY_HAD) for topic in retained.kept)
