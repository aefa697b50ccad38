"""DDS between two network namespaces whose link loses packets."""

import asyncio
from math import sqrt

import pytest
from dds_rooms import TwoEnds, met, until

from lossy_rooms import lossy

MESSAGES = 1500
END = b"end"


async def sent_over(link, share, *, reliable, back=0.0):
    """What arrives of numbered messages, and what crossed the link meanwhile."""
    async with TwoEnds(link, reliable=reliable) as (publisher, subscriber):
        got = []
        await met(publisher, "s", subscriber.subscribe("s", lambda _, payload: got.append(payload)))
        link.lose(share, back=back)
        for i in range(MESSAGES):
            assert publisher.send("s", i.to_bytes(4, "big") * 50)
            if i % 5 == 0:
                await asyncio.sleep(0.005)  # or sockets would overflow
        if not reliable:
            await asyncio.sleep(0.2)
            link.lose(0.0)
        publisher.send("s", END)
        await until(lambda: END in got or (not reliable and not publisher.send("s", END)), within_s=60)
        return [int.from_bytes(payload[:4], "big") for payload in got if payload != END], link.crossed()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_best_effort_loses_what_the_link_loses(share):
    """Within five standard deviations of the binomial distribution, as each message is a packet."""
    with lossy() as link:
        got, _ = asyncio.run(sent_over(link, share, reliable=False))
    lost = MESSAGES - len(got)
    assert got == sorted(set(got))
    assert abs(lost - MESSAGES * share) <= 5 * sqrt(MESSAGES * share * (1 - share))


@pytest.mark.slow
def test_reliable_delivers_everything_in_order_at_the_cost_of_more_packets():
    """Each message crosses 1 / (1 - 0.3) = 1.43 times on average; what is sent again may share packets."""
    with lossy() as link:
        got, crossed = asyncio.run(sent_over(link, 0.3, back=0.1, reliable=True))
    assert got == list(range(MESSAGES))
    assert crossed.packets > MESSAGES
    assert crossed.lost > MESSAGES * 0.2


def test_the_largest_message_of_best_effort_is_one_packet():
    stream = "s" * 120

    async def main(link):
        async with TwoEnds(link) as (publisher, subscriber):
            got = []
            await met(publisher, stream, subscriber.subscribe(stream, lambda _, payload: got.append(payload)))
            link.lose(0.0)  # count from here
            for _ in range(100):
                publisher.send(stream, bytes(publisher.most_bytes))
                await asyncio.sleep(0.001)
            await until(lambda: len(got) == 100)
            assert 100 <= link.crossed().packets < 110  # some are discovery's

    with lossy() as link:
        asyncio.run(main(link))


@pytest.mark.slow
def test_participants_find_each_other_over_a_link_that_loses_a_third_both_ways():
    async def main(link):
        link.lose(0.33, back=0.33)
        async with TwoEnds(link, reliable=True) as (publisher, subscriber):
            got = []
            subscriber.subscribe("#", lambda stream, _: got.append(stream))
            assert await publisher.matched("s", within_s=60)
            publisher.send("s", b"found")
            await until(lambda: got == ["s"], within_s=60)

    with lossy() as link:
        asyncio.run(main(link))
