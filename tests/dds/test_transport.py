"""Updates from peer to peer on loopback: who gets what, what is dropped and counted, and what is told of the dead."""

import asyncio
import contextlib
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass

import pytest
import uvloop
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import key
from cyclonedds.idl.types import byte, sequence
from dds_rooms import PATIENCE_S, QUICK, TwoEnds, met, until

from dds_domains import some_domain
from firelane.dds import DdsError, DdsTransport, Participant, SensorUpdates, Writer
from firelane.dds.transport import MOST_STREAMS, TOPIC

PUBLISHER = """
    import asyncio, sys
    from firelane.dds import DdsTransport, Network

    async def main():
        async with DdsTransport(int(sys.argv[1]), Network(lease_s=1.0)) as transport:
            while True:
                transport.send("building/3", b"still here")
                await asyncio.sleep(0.05)

    asyncio.run(main())
"""


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("reliable", [False, True])
def test_subscribers_get_the_streams_they_asked_for_and_no_others(run, reliable):
    async def main():
        async with TwoEnds(reliable=reliable) as (publisher, subscriber):
            one_level, all_below, other = [], [], []
            one = subscriber.subscribe("building/+", lambda *message: one_level.append(message))
            below = subscriber.subscribe("building/#", lambda *message: all_below.append(message))
            star = subscriber.subscribe("street/*", lambda *message: other.append(message))
            for stream in ("building/3", "building", "building/3/door", "street/x", "street/*"):
                publisher.offer(stream)
            for subscription, writers in ((one, 2), (below, 3), (star, 1)):
                await until(lambda here=subscription, n=writers: here.statistics().matched == n)
            for stream, readers in (("building/3", 2), ("building", 1), ("building/3/door", 2), ("street/x", 0)):
                assert await publisher.matched(stream, readers, within_s=PATIENCE_S)
                assert publisher.send(stream, stream.encode() * 3)
            assert await publisher.matched("street/*", within_s=PATIENCE_S)
            assert publisher.send("street/*", b"a star is a star")
            await until(lambda: len(one_level) == 1 and len(all_below) == 3 and len(other) == 1)
            assert one_level == [("building/3", b"building/3" * 3)]
            assert {stream for stream, _ in all_below} == {"building", "building/3", "building/3/door"}
            assert other == [("street/*", b"a star is a star")]
            assert (one.unwanted, below.unwanted, star.unwanted) == (1, 0, 0)

    run(main())


def test_messages_beyond_what_a_packet_takes_are_refused():
    async def main():
        async with TwoEnds() as (publisher, subscriber):
            got = []
            await met(publisher, "s", subscriber.subscribe("s", lambda _, payload: got.append(payload)))
            with pytest.raises(DdsError, match="bytes are too many"):
                publisher.send("s", bytes(publisher.most_bytes + 1))
            publisher.send("s", bytes(publisher.most_bytes))
            await until(lambda: got)
            assert got == [bytes(publisher.most_bytes)]

    asyncio.run(main())


def test_an_application_that_does_not_keep_up_loses_the_oldest_which_are_counted():
    async def main():
        async with TwoEnds(reliable=True, most_waiting=50) as (publisher, subscriber):
            got = []
            subscription = subscriber.subscribe("s", lambda _, payload: got.append(int.from_bytes(payload, "big")))
            assert await publisher.matched("s", within_s=PATIENCE_S)
            for i in range(500):
                assert publisher.send("s", i.to_bytes(4, "big"))
            deadline = time.monotonic() + PATIENCE_S
            while subscription.statistics().taken < 500:  # while the event loop hangs
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(0.1)
            assert len(subscriber._inbox) <= 50
            await until(lambda: got and got[-1] == 499)
            assert len(got) + subscription.dropped == 500
            assert got == list(range(500 - len(got), 500))
            assert len(got) <= 50

    asyncio.run(main())


def test_waiting_bytes_are_bounded_too():
    async def main():
        async with TwoEnds(reliable=True) as (publisher, subscriber):
            subscriber._inbox._most_bytes = 100_000
            got = []
            subscription = subscriber.subscribe("s", lambda _, payload: got.append(len(payload)))
            assert await publisher.matched("s", within_s=PATIENCE_S)
            for _ in range(30):
                assert publisher.send("s", bytes(30_000))
            deadline = time.monotonic() + PATIENCE_S
            while subscription.statistics().taken < 30 or len(subscriber._inbox) + subscription.dropped < 30:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            await until(lambda: len(got) == 3)
            assert subscription.dropped == 27

    asyncio.run(main())


def test_a_subscriber_that_fails_does_not_harm_the_others():
    async def main():
        told, got = [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        async with TwoEnds() as (publisher, subscriber):
            failing = subscriber.subscribe("s", lambda *_: 1 / 0)
            await met(publisher, "s", failing, subscriber.subscribe("s", lambda _, payload: got.append(payload)))
            publisher.send("s", b"1")
            publisher.send("s", b"2")
            await until(lambda: len(got) == 2 == len(told))
            assert all(isinstance(problem, ZeroDivisionError) for problem in told)

    asyncio.run(main())


@dataclass
class Hostile(IdlStruct, typename="firelane.SensorUpdates"):
    """The same type, with a name in it that is no text."""

    stream: str
    payload: sequence[byte]
    key("stream")

    def serialize(self, buffer=None, endianness=None, use_version_2=None):
        written = SensorUpdates(stream=self.stream, payload=self.payload).serialize(use_version_2=use_version_2)
        return written.replace(b"@@@", b"\xff\xfe\xfd")


@pytest.mark.parametrize("stream", ["@@@", "other", "a/+", ""])
def test_streams_with_wrong_names_are_counted_and_go_nowhere(stream):
    async def main():
        async with TwoEnds() as (publisher, subscriber):
            got = []
            subscription = subscriber.subscribe("a", lambda *message: got.append(message))
            await met(publisher, "a", subscription)
            with Participant(publisher._participant.domain, QUICK) as enemy:
                writer = Writer(enemy, TOPIC, Hostile, partitions=["a"])
                await until(lambda: writer.statistics().matched == 1 and subscription.statistics().matched == 2)
                writer.send(Hostile(stream=stream, payload=b"harm"))
                await until(lambda: subscription.unwanted == 1)
            publisher.send("a", b"good")
            await until(lambda: got)
            assert got == [("a", b"good")]

    asyncio.run(main())


def test_what_is_no_longer_wanted_no_longer_comes():
    async def main():
        async with TwoEnds() as (publisher, subscriber):
            got = []
            first = subscriber.subscribe("s", lambda *_: got.append("first"))
            await met(publisher, "s", first, subscriber.subscribe("s", lambda *_: got.append("second")))
            subscriber.unsubscribe(first)
            await until(lambda: publisher.sent("s").matched == 1)
            publisher.send("s", b"")
            await until(lambda: got)
            assert got == ["second"]
            assert publisher.sent("s").matched_ever == 2

    asyncio.run(main())


def test_a_publisher_killed_is_told_of_within_its_lease():
    async def main():
        domain = some_domain()
        async with DdsTransport(domain, QUICK) as subscriber:
            got, gone = [], []
            subscription = subscriber.subscribe("building/+", lambda stream, _: got.append(stream), gone.append)
            command = [sys.executable, "-c", textwrap.dedent(PUBLISHER), str(domain)]
            with subprocess.Popen(command) as process:
                try:
                    await until(lambda: got)
                    assert (subscription.statistics().matched, gone) == (1, [])
                finally:
                    process.kill()
                killed_s = time.monotonic()
            await until(lambda: gone)
            assert gone == ["building/3"]
            assert time.monotonic() - killed_s < 10  # the lease is one second; the machine may be busy
            assert (subscription.statistics().matched, subscription.statistics().matched_ever) == (0, 1)

    asyncio.run(main())


def test_a_transport_has_a_bound_on_its_streams(monkeypatch):
    monkeypatch.setattr("firelane.dds.transport.MOST_STREAMS", 3)
    assert MOST_STREAMS > 3

    async def main():
        async with TwoEnds() as (publisher, _):
            for i in range(3):
                publisher.offer(f"s{i}")
            publisher.offer("s0")
            with pytest.raises(DdsError, match="at most 3 streams"):
                publisher.offer("s3")

    asyncio.run(main())


def test_many_transports_come_and_go_and_leave_nothing_behind():
    threads = _threads()

    async def main():
        for _ in range(10):
            async with TwoEnds() as (publisher, subscriber):
                subscriber.subscribe("s", print)
                publisher.offer("s")
            with contextlib.suppress(ValueError):
                async with TwoEnds():
                    raise ValueError

    asyncio.run(main())
    assert _threads() == threads


def _threads():
    with open("/proc/self/status") as status:
        return next(line for line in status if line.startswith("Threads"))
