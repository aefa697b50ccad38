"""A day at the exchange, in short: all kinds of clients come, talk, dawdle, misbehave and go, again and again."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

from firelane.mqtt.packets import V3, V5, Disconnect, Publish
from live.hard.crowd import Member, opened

TOPICS = [f"soak/{number}" for number in range(100)]
FILTERS = ["soak/#", "soak/+", "$share/group/soak/#", *TOPICS[:20]]
NAMES = [f"visitor{number}" for number in range(60)]  # few enough to meet themselves now and then


class Day:
    """What happens until the day is over, by chance but repeatably as far as clocks allow."""

    def __init__(self, port: int, duration_s: float, seed: int) -> None:
        self._port = port
        self._chance = random.Random(seed)
        self._over_at = time.monotonic() + duration_s

    async def pass_by(self) -> None:
        kinds = {self.talker: 3, self.visitor: 8, self.flooder: 1, self.dawdler: 2, self.miser: 2, self.vandal: 1}
        async with asyncio.TaskGroup() as group:
            for kind, count in kinds.items():
                for _ in range(count):
                    group.create_task(self._again_and_again(kind))

    async def _again_and_again(self, kind) -> None:
        while time.monotonic() < self._over_at:
            member = await opened(self._port, self._chance.choice((V3, V5)))
            try:
                with suppress(ConnectionError, TimeoutError):
                    await kind(member)
            finally:
                self._leave(member)
            await asyncio.sleep(self._chance.uniform(0, 0.1))

    def _leave(self, member: Member) -> None:
        """With a word, without one, or as if struck by lightning."""
        how = self._chance.choice(("politely", "silently", "suddenly"))
        if how == "politely":
            member.send(Disconnect())
        if how == "suddenly":
            member.writer.transport.abort()
        else:
            member.writer.close()

    async def _come(self, member: Member) -> None:
        """As somebody, for this time or with a session that lasts for a second, an hour or for good."""
        expiry_s = self._chance.choice((0, 1, 3600))
        properties = {"session_expiry_interval": expiry_s} if member.version == V5 and expiry_s else {}
        clean = self._chance.random() < 0.5
        await member.connect(self._chance.choice(NAMES), clean_start=clean, properties=properties)

    async def talker(self, member: Member) -> None:
        """A message every few milliseconds."""
        await member.connect("")
        listening = asyncio.create_task(member.behave())
        try:
            for number in range(1, self._chance.randint(50, 500)):
                qos = self._chance.choice((0, 0, 1, 2))
                payload, retain = bytes(self._chance.randint(1, 2000)), self._chance.random() < 0.1
                topic = self._chance.choice(TOPICS)
                packet_id = number if qos else 0
                member.send(Publish(topic=topic, payload=payload, qos=qos, retain=retain, packet_id=packet_id))
                await asyncio.sleep(0.005)
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await listening

    async def visitor(self, member: Member) -> None:
        """Subscribes, listens for a while, goes."""
        await self._come(member)
        for _ in range(self._chance.randint(0, 3)):
            await member.subscribe(self._chance.choice(FILTERS), self._chance.randint(0, 2))
        async with asyncio.timeout(self._chance.uniform(0, 1)):
            await member.behave()

    async def flooder(self, member: Member) -> None:
        """As much as fits, now and then."""
        await member.connect("flooder")
        for _ in range(30):
            for _ in range(100):
                member.send(Publish(topic="soak/flood", payload=bytes(300)))
            await member.writer.drain()
        await asyncio.sleep(self._chance.uniform(0.5, 1.5))

    async def dawdler(self, member: Member) -> None:
        """Subscribes to everything and then looks elsewhere."""
        await self._come(member)
        await member.subscribe("soak/#", self._chance.randint(0, 2))
        member.writer.transport.pause_reading()
        await asyncio.sleep(self._chance.uniform(0.5, 2))
        member.writer.transport.resume_reading()
        async with asyncio.timeout(self._chance.uniform(0, 0.5)):
            await member.behave()

    async def miser(self, member: Member) -> None:
        """Takes and never acknowledges."""
        await self._come(member)
        await member.subscribe("soak/#", self._chance.randint(1, 2))
        async with asyncio.timeout(self._chance.uniform(0, 1)):
            await member.take(10_000)

    async def vandal(self, member: Member) -> None:
        """Random bytes."""
        if self._chance.random() < 0.5:
            await member.connect("vandal")
        member.writer.write(self._chance.randbytes(200))
        await asyncio.sleep(0.5)
