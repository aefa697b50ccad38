"""A client inside the process, beside real ones on sockets."""

import asyncio

import pytest

from firelane.client import Client
from firelane.exchange.lanes.message import NUMBER
from firelane.exchange.protocol.connecting import OVERLAY
from firelane.exchange.run import running
from firelane.exchange.sockets.inside import Inside
from firelane.mqtt.packets import Ack, Connack, Kind, Publish, Suback, Subscribe, Subscription
from firelane.scenario.load import from_data


def exchange(tmp_path, **settings):
    scenario = from_data({"name": "inside", "exchange": {"anonymous": "always", **settings}})
    return running(scenario, host="127.0.0.1", mqtt_port=0, data_dir=tmp_path, tell=lambda line: None)


def wish(topic_filter, qos=2):
    return Subscribe(packet_id=1, subscriptions=[Subscription(filter=topic_filter, qos=qos, no_local=True)])


class Insider:
    """Keeps all that it got."""

    def __init__(self, served):
        self.got = []
        self.inside = Inside(served.server, OVERLAY, self.got.append)
        self.inside.enter()

    @property
    def messages(self):
        return [one for one in self.got if isinstance(one, Publish)]

    async def sees(self, count):
        async with asyncio.timeout(5):
            while len(self.messages) < count:
                await asyncio.sleep(0.01)
        return self.messages


def number(packet):
    return int(dict(packet.properties["user_property"])[NUMBER])


def test_it_gets_what_others_publish_with_numbers_that_grow_and_publishes_to_them(tmp_path):
    async def main():
        async with exchange(tmp_path) as served, Client(served.addresses["mqtt"], client_id="ann") as ann:
            one = Insider(served)
            assert isinstance((await until(one, 1))[0], Connack)
            one.inside.say(wish("a/#"))
            assert isinstance((await until(one, 2))[1], Suback)
            heard = []
            await ann.subscribe("b", lambda topic, payload: heard.append(payload))
            for n in range(20):
                await ann.publish("a/x", b"%d" % n, qos=n % 2)
            got = await one.sees(20)
            assert sorted(int(packet.payload) for packet in got) == list(range(20))
            numbers = [number(packet) for packet in got]
            assert numbers == sorted(set(numbers))
            one.inside.say(Publish(topic="b", payload=b"hello", qos=0))
            one.inside.say(Publish(topic="a/own", payload=b"", qos=0))
            async with asyncio.timeout(5):
                while heard != [b"hello"]:
                    await asyncio.sleep(0.01)
            assert len(one.messages) == 20  # no local

    asyncio.run(main())


async def until(one, count):
    async with asyncio.timeout(5):
        while len(one.got) < count:
            await asyncio.sleep(0.01)
    return one.got


def test_what_it_has_not_acknowledged_comes_again_under_the_same_number_after_a_restart(tmp_path):
    async def first():
        async with exchange(tmp_path) as served, Client(served.addresses["mqtt"]) as ann:
            one = Insider(served)
            one.inside.say(wish("a"))
            for n in range(3):
                await ann.publish("a", b"%d" % n, qos=1)
            got = await one.sees(3)
            one.inside.say(Ack(kind=Kind.PUBACK, packet_id=got[0].packet_id))
            return [number(packet) for packet in got]

    async def second():
        async with exchange(tmp_path) as served:
            one = Insider(served)
            got = await one.sees(2)
            return [(packet.payload, number(packet)) for packet in got]

    before = asyncio.run(first())
    assert asyncio.run(second()) == [(b"1", before[1]), (b"2", before[2])]


def test_access_rules_are_for_others_and_nobody_else_may_use_its_name(tmp_path):
    async def main():
        rules = [{"who": "nobody", "filter": "#", "allow": ["publish", "subscribe"]}]
        async with exchange(tmp_path, access=rules) as served:
            one = Insider(served)
            one.inside.say(wish("a"))
            answer = (await until(one, 2))[1]
            assert answer.reasons == [2]
            with pytest.raises(Exception, match=r"0x85|not valid|refuse"):
                async with Client(served.addresses["mqtt"], client_id=OVERLAY):
                    pass

    asyncio.run(main())


def test_a_session_that_does_not_last_ends_with_it(tmp_path):
    async def main():
        async with exchange(tmp_path) as served, Client(served.addresses["mqtt"]) as ann:
            for lasts in (True, False):
                inside = Inside(served.server, OVERLAY, lambda packet: None, lasts=lasts)
                inside.enter()
                inside.say(wish("a"))
                inside.leave()
                await ann.publish("a", b"x", qos=1)
                assert (OVERLAY in served.broker.sessions) is lasts

    asyncio.run(main())


def test_a_message_overtakes_nothing_that_waits_for_the_disk(tmp_path):
    async def main():
        async with exchange(tmp_path) as served, Client(served.addresses["mqtt"]) as ann:
            one, heard = Insider(served), []
            await ann.subscribe("b", lambda topic, payload: heard.append(payload))
            connection, said = one.inside.connection, [b"kept", b"plain", b"last"]
            connection.stalled_until = float("inf")
            one.inside.say(Publish(topic="b", payload=b"kept", qos=1, packet_id=7))
            one.inside.say(Publish(topic="b", payload=b"plain"))
            assert served.broker.counts.publish_received == 0
            connection.stalled_until = 0.0
            one.inside.say(Publish(topic="b", payload=b"last"))
            async with asyncio.timeout(5):
                while len(heard) < len(said):
                    await asyncio.sleep(0.01)
            assert heard == said

    asyncio.run(main())


def test_what_it_publishes_has_all_its_properties_also_past_the_bytes(tmp_path):
    async def main():
        async with exchange(tmp_path) as served:
            one, got = Insider(served), []
            other = Inside(served.server, f"{OVERLAY}-2", got.append)
            other.enter()
            other.say(wish("b"))
            said = {"user_property": [("unit", "K")], "content_type": "text", "message_expiry_interval": 60}
            one.inside.say(Publish(topic="b", payload=b"x", properties=said))
            async with asyncio.timeout(5):
                while not (found := [packet for packet in got if isinstance(packet, Publish)]):
                    await asyncio.sleep(0.01)
            properties = found[0].properties
            assert properties["user_property"][0] == ("unit", "K")
            assert {name: properties[name] for name in ("content_type", "message_expiry_interval")} == {
                "content_type": "text",
                "message_expiry_interval": 60,
            }

    asyncio.run(main())
