"""One connection to a router: what waits for an identifier goes out as soon as there is one."""

import asyncio

import pytest
from sites import sites, until

from firelane.mqtt.decode import packets
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Connack, Kind, Publish
from firelane.overlay.paths.line import MOST_UNSENT_BYTES, Line, Sent


class Router:
    """A transport to one that acknowledges all it is sent."""

    def __init__(self):
        self.sizes, self.due = [], []

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return False

    def write(self, data):
        for packet in packets(data, V5):
            self.sizes.append(len(packet.payload))
            self.due.append(packet.packet_id)

    async def acknowledge(self, line):
        await asyncio.sleep(0)
        while self.due:
            line.data_received(encode(Ack(kind=Kind.PUBACK, packet_id=self.due.pop(0)), V5))
            await asyncio.sleep(0)


def test_what_waits_for_an_identifier_goes_out_however_much_it_is():
    async def main():
        router, line = Router(), Line(lambda packet: None, lambda reasons: None)
        line.connection_made(router)
        line.data_received(encode(Connack(session_present=False, reason=0, properties={"receive_maximum": 10}), V5))
        sizes = [5] * 30 + [5_000_000]
        for size in sizes:
            assert line.publish(Publish(topic="t", payload=bytes(size), qos=1)) is Sent.YES
        assert line.publish(Publish(topic="u", payload=b"x", qos=0)) is Sent.FULL
        await router.acknowledge(line)
        assert router.sizes == sizes
        assert line.unsent_bytes == 0

    asyncio.run(main())


def test_what_is_too_large_holds_up_nothing_that_waits_behind_it():
    async def main():
        router, line = Router(), Line(lambda packet: None, lambda reasons: None)
        line.connection_made(router)
        limits = {"receive_maximum": 2, "maximum_packet_size": 1000}
        line.data_received(encode(Connack(session_present=False, reason=0, properties=limits), V5))
        sizes = (1, 2, 3000, 3001, 4, 5)
        became = [line.publish(Publish(topic="t", payload=bytes(size), qos=1)) for size in sizes]
        assert became == [Sent.TOO_LARGE if size > 1000 else Sent.YES for size in sizes], "whoever asks can count them"
        await router.acknowledge(line)
        line.publish(Publish(topic="t", payload=bytes(6), qos=1))
        await router.acknowledge(line)
        assert router.sizes == [1, 2, 4, 5, 6]
        assert line.unsent_bytes == 0

    asyncio.run(main())


def test_what_waits_for_an_identifier_counts_with_all_it_takes():
    """Clients may say much in properties and nothing else."""

    async def main():
        router, line = Router(), Line(lambda packet: None, lambda reasons: None)
        line.connection_made(router)
        line.data_received(encode(Connack(session_present=False, reason=0, properties={"receive_maximum": 1}), V5))
        much = {"user_property": [("said", "x" * 50_000)] * 10}
        became = [line.publish(Publish(topic="t", payload=b"", qos=1, properties=much)) for _ in range(20)]
        fits = 1 + MOST_UNSENT_BYTES // 500_000
        assert became == [Sent.YES] * fits + [Sent.FULL] * (20 - fits)
        await router.acknowledge(line)
        assert len(router.sizes) == fits
        assert line.unsent_bytes == 0

    asyncio.run(main())


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000, 100_000])
def test_packets_are_taken_whole_however_they_come_in_pieces(piece):
    sizes = [0, 1, 130, 20_000, 5, 300_000, 0, 16_500, 3] if piece > 7 else [0, 1, 130, 5]
    data = b"".join(encode(Publish(topic="t", payload=bytes(size)), V5) for size in sizes)
    got = []
    line = Line(lambda packet: got.append(len(packet.payload)), lambda reasons: None)
    line.connection_made(Router())
    for at in range(0, len(data), piece):
        line.data_received(data[at : at + piece])
    assert got == sizes


def test_a_large_message_behind_many_small_ones_arrives(tmp_path):
    async def main():
        heard = []
        async with asyncio.timeout(90), sites(tmp_path, edges=(), routers=()) as here:
            large = {"packet": 16_000_000}
            await here.start("router", "r1", limits={**large, "inflight": 10})
            for name in "ab":
                await here.start("edge", name, limits=large)
            await here.joined()
            async with here.client("b") as ben, here.client("a") as ann:
                await ben.subscribe("t", lambda topic, payload: heard.append(len(payload)), qos=1)
                await until(lambda: bool(here.brokers["a"]._interest.of("t")))
                some = [ann.publish("t", b"small", qos=1) for _ in range(60)]
                await asyncio.gather(*some, ann.publish("t", bytes(5_000_000), qos=1))
                await until(lambda: len(heard) == 61, 25.0)

    asyncio.run(main())
