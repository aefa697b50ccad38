"""The load under which a broker is killed, and the account of what was lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass

from firelane.mqtt.packets import V3, V5
from live.brokers import Broker
from live.hard.durable import Publisher, Subscriber

LOAD_S = (0.2, 1.2)  # between two kills
QUIET_S = 3.0  # nothing more comes
FILTER = "crash/#"


@dataclass(frozen=True, kw_only=True)
class Account:
    """What subscribers had of what publishers were told was accepted."""

    kills: int
    accepted: int  # messages
    due: int  # accepted messages times subscribers
    lost: int
    twice: int  # QoS 2 all the way, and there more than once
    out_of_order: int

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.accepted} messages accepted: "
            f"{self.lost} of {self.due} deliveries lost, {self.twice} QoS 2 deliveries repeated"
        )


class Crowd:
    """Publishers and subscribers of QoS 1 and 2, in both versions of MQTT; half of the latter are away at times."""

    def __init__(self, port: int) -> None:
        self.publishers = [
            Publisher(port, f"publisher-{version}-{qos}", version, topic=f"crash/{version}/{qos}", qos=qos)
            for version in (V3, V5)
            for qos in (1, 2)
        ]
        self.faithful, self.fickle = (
            [
                Subscriber(port, f"{name}-{version}-{qos}", version, topic_filter=FILTER, qos=qos)
                for version, qos in ((V3, 1), (V3, 2), (V5, 1), (V5, 2))
            ]
            for name in ("faithful", "fickle")
        )

    @property
    def subscribers(self) -> list[Subscriber]:
        return self.faithful + self.fickle

    async def start(self) -> None:
        for subscriber in self.subscribers:
            subscriber.come()
            await asyncio.wait_for(subscriber.subscribed.wait(), 10)
        for subscriber in self.fickle:
            await subscriber.leave()
        for publisher in self.publishers:
            publisher.come()

    async def settle(self) -> None:
        """No new messages; wait until everything there is has arrived, or nothing more does."""
        for publisher in self.publishers:
            publisher.going_on = False
        progress, still_s = -1, 0.0
        while still_s < QUIET_S and self._unfinished():
            await asyncio.sleep(0.1)
            before, progress = progress, self._progress()
            still_s = still_s + 0.1 if progress == before else 0.0

    async def leave(self) -> None:
        for client in [*self.publishers, *self.subscribers]:
            await client.leave()

    def account(self, kills: int) -> Account:
        accepted = set().union(*(publisher.accepted for publisher in self.publishers))
        lost = sum(len(accepted - one.seen) for one in self.subscribers)
        counted = [Counter(one.received) for one in self.subscribers if one.qos == 2]
        twice = sum(sum(n - 1 for text, n in one.items() if text.split()[1] == b"2") for one in counted)
        return Account(
            kills=kills,
            accepted=len(accepted),
            due=len(accepted) * len(self.subscribers),
            lost=lost,
            twice=twice,
            out_of_order=sum(_out_of_order(one.received) for one in self.subscribers),
        )

    def _unfinished(self) -> bool:
        sent = sum(publisher.sent for publisher in self.publishers)
        return any(one.open for one in self.publishers) or any(len(one.seen) < sent for one in self.subscribers)

    def _progress(self) -> int:
        return sum(len(one.accepted) for one in self.publishers) + sum(len(one.received) for one in self.subscribers)


def _out_of_order(received: list[bytes]) -> int:
    """Messages that came for the first time after a later one of the same publisher had come."""
    latest: dict[bytes, int] = {}
    seen: set[bytes] = set()
    count = 0
    for text in received:
        publisher, _, number = text.split()
        if text not in seen:
            count += int(number) < latest.get(publisher, 0)
            latest[publisher] = int(number)
            seen.add(text)
    return count


async def killed_under_load(broker: Broker, rounds: int, seed: int) -> Account:
    """Kill a broker at random moments while everybody is busy, start it again each time, and count at the end."""
    chance = random.Random(seed)
    crowd = Crowd(broker.port)
    await crowd.start()
    for _ in range(rounds):
        await asyncio.sleep(chance.uniform(*LOAD_S))
        broker.kill()
        await asyncio.to_thread(broker.start)
        for subscriber in chance.sample(crowd.fickle, 2):
            subscriber.come()
            await asyncio.sleep(chance.uniform(0, 0.2))
            await subscriber.leave()
        publisher = chance.choice(crowd.publishers)
        await publisher.leave()
        publisher.come()
    for subscriber in crowd.fickle:
        subscriber.come()
    await crowd.settle()
    await crowd.leave()
    return crowd.account(rounds)
