"""The client over UDP by itself: a gateway that is slow, forgetful, busy or talks nonsense."""

from __future__ import annotations

import asyncio

import pytest

from firelane.client import ClientError
from firelane.datagrams import DatagramClient
from firelane.datagrams.naming import MOST_TOPICS, Naming
from firelane.mqtt import plain_topics
from firelane.mqtt.sn.decode import decode
from firelane.mqtt.sn.encode import encode, most_payload
from firelane.mqtt.sn.messages import (
    Acknowledged,
    Answer,
    Connect,
    Disconnect,
    Kind,
    PingRequest,
    Plain,
    Publish,
    Register,
    ReturnCode,
    Step,
    Suback,
    Subscribe,
    TopicKind,
)

PATIENCE_S = 10.0


class Gateway(asyncio.DatagramProtocol):
    """Answers as a good one does, unless a script says otherwise; remembers what was said."""

    def __init__(self, script=lambda message: None) -> None:
        self.said = []
        self.numbers: dict[str, int] = {}
        self._script = script

    def connection_made(self, transport) -> None:
        self.transport = transport

    def datagram_received(self, data, addr) -> None:
        self.address = addr
        message = decode(data)
        self.said.append(message)
        answer = self._script(message)
        for one in self._usual(message) if answer is None else answer:
            self.send(one)

    def send(self, message) -> None:
        self.transport.sendto(message if isinstance(message, bytes) else encode(message), self.address)

    def _usual(self, message):
        match message:
            case Connect():
                yield Answer(kind=Kind.CONNACK)
            case Register():
                number = self.numbers.setdefault(message.topic, len(self.numbers) + 1)
                yield Acknowledged(kind=Kind.REGACK, topic_id=number, message_id=message.message_id)
            case Publish(qos=1):
                yield Acknowledged(kind=Kind.PUBACK, topic_id=0, message_id=message.message_id)
            case Publish(qos=2):
                yield Step(kind=Kind.PUBREC, message_id=message.message_id)
            case Step(kind=Kind.PUBREL):
                yield Step(kind=Kind.PUBCOMP, message_id=message.message_id)
            case Subscribe(kind=Kind.SUBSCRIBE):
                yield Suback(message_id=message.message_id, topic_id=99)
            case PingRequest():
                yield Plain(kind=Kind.PINGRESP)
            case Disconnect():
                yield Disconnect()

    def of(self, kind: type) -> list:
        return [one for one in self.said if isinstance(one, kind)]


def played(act, script=lambda message: None, **fields):
    """Let a client act before a gateway; returns the gateway."""

    async def main():
        loop = asyncio.get_running_loop()
        transport, gateway = await loop.create_datagram_endpoint(lambda: Gateway(script), local_addr=("127.0.0.1", 0))
        port = transport.get_extra_info("sockname")[1]
        try:
            async with (
                asyncio.timeout(PATIENCE_S),
                DatagramClient("127.0.0.1", port, **{"retry_s": 0.05, "retries": 3} | fields) as client,
            ):
                await act(client, gateway)
        finally:
            transport.close()
        return gateway

    return asyncio.run(main())


def first_times(count, answer):
    """Answer the first so many of a kind in some way."""
    left = {}

    def script(message):
        made = answer(message)
        if made is None or left.setdefault(type(message), count) == 0:
            return None
        left[type(message)] -= 1
        return made

    return script


def test_it_enters_publishes_and_leaves():
    async def act(client, gateway):
        await client.publish("a/b", b"1")
        await client.publish("a/b", b"2", qos=1, retain=True)
        await client.publish("a/b", b"3", qos=2)
        await client.publish("ab", b"4")

    gateway = played(act, client_id="ann", keep_alive_s=7)
    assert gateway.said[0] == Connect(client_id="ann", duration_s=7)
    assert len(gateway.of(Register)) == 1
    sent = [(one.topic, one.payload, one.qos, one.retain) for one in gateway.of(Publish)]
    assert sent == [(1, b"1", 0, False), (1, b"2", 1, True), (1, b"3", 2, False), ("ab", b"4", 0, False)]
    assert gateway.said[-1] == Disconnect()


def test_what_is_not_answered_is_asked_again():
    async def act(client, gateway):
        await client.publish("a/b", b"1", qos=2)
        await client.subscribe("c", print, qos=1)

    gateway = played(act, first_times(2, lambda message: []), retries=5)
    for kind in (Connect, Register, Publish, Step, Subscribe):
        assert len(gateway.of(kind)) == 3, kind
    assert [one.duplicate for one in gateway.of(Publish)] == [False, True, True]
    assert len({one.message_id for one in gateway.of(Publish)}) == 1


def test_a_number_that_the_gateway_has_forgotten_is_registered_anew():
    forgotten = ReturnCode.INVALID_TOPIC_ID

    def forgets(message):
        if isinstance(message, Publish):
            answer = Acknowledged(
                kind=Kind.PUBACK, topic_id=message.topic, message_id=message.message_id, return_code=forgotten
            )
            return [answer]
        return None

    async def act(client, gateway):
        await client.publish("a/b", b"1", qos=1)

    gateway = played(act, first_times(1, forgets))
    assert (len(gateway.of(Register)), len(gateway.of(Publish))) == (2, 2)


def test_a_busy_gateway_is_asked_again_and_one_that_refuses_is_not():
    def says(code):
        def script(message):
            if isinstance(message, Publish):
                answer = Acknowledged(kind=Kind.PUBACK, topic_id=1, message_id=message.message_id, return_code=code)
                return [answer]
            return None

        return script

    async def act(client, gateway):
        await client.publish("a/b", b"1", qos=1)

    assert len(played(act, first_times(2, says(ReturnCode.CONGESTION))).of(Publish)) == 3
    with pytest.raises(ClientError, match="refuses publishing on a/b: it is not allowed"):
        played(act, says(ReturnCode.NOT_SUPPORTED))


@pytest.mark.parametrize(("code", "why"), [(1, "it is busy"), (3, "it is not allowed"), (77, "it is not allowed")])
def test_who_is_not_let_in_is_told_why(code, why):
    async def act(client, gateway):
        raise AssertionError

    with pytest.raises(ClientError, match=why):
        played(act, lambda message: [Answer(kind=Kind.CONNACK, return_code=code)])


def test_messages_are_told_apart_acknowledged_and_given_to_who_wants_them():
    got = []

    async def act(client, gateway):
        await client.subscribe("a/+", lambda topic, payload: got.append(("+", topic, payload)))
        await client.subscribe("$need/quick/a/b", lambda topic, payload: got.append(("need", topic, payload)))
        gateway.send(b"\0garbage")
        gateway.send(Register(topic_id=5, message_id=1, topic="a/b"))
        gateway.send(Publish(topic=5, payload=b"1"))
        gateway.send(Publish(topic=6, payload=b"2", qos=1, message_id=2))  # nobody said what 6 is
        for _ in range(3):
            gateway.send(Publish(topic=5, payload=b"3", qos=2, message_id=3))
        gateway.send(Step(kind=Kind.PUBREL, message_id=3))
        gateway.send(Publish(topic=5, payload=b"4", qos=2, message_id=3))
        while len(got) < 6:
            await asyncio.sleep(0.01)

    gateway = played(act)
    assert sorted(got) == sorted((who, "a/b", payload) for payload in (b"1", b"3", b"4") for who in ("+", "need"))
    assert gateway.of(Acknowledged) == [
        Acknowledged(kind=Kind.REGACK, topic_id=5, message_id=1),
        Acknowledged(kind=Kind.PUBACK, topic_id=6, message_id=2, return_code=ReturnCode.INVALID_TOPIC_ID),
    ]
    assert [one.kind for one in gateway.of(Step)] == [Kind.PUBREC] * 3 + [Kind.PUBCOMP, Kind.PUBREC]


def test_a_silent_gateway_is_entered_again_and_subscriptions_made_anew():
    connected = []

    def deaf(message):
        return [] if isinstance(message, PingRequest) else None

    async def act(client, gateway):
        client.on_connected.append(lambda: connected.append(1))
        await client.subscribe("a", print)
        while len(gateway.of(Subscribe)) < 2:
            await asyncio.sleep(0.02)

    gateway = played(act, deaf, keep_alive_s=1)
    assert len(gateway.of(Connect)) >= 2
    assert connected


def test_a_client_that_is_let_go_enters_again():
    async def act(client, gateway):
        gateway.send(Disconnect())
        while len(gateway.of(Connect)) < 2 or not client.connected:
            await asyncio.sleep(0.02)

    played(act)


def test_names_are_bounded_and_forgotten():
    naming = Naming({7: "door"})
    for number in range(MOST_TOPICS + 1):
        naming.learn(f"topic/{number}", number + 1)
    assert len(naming._names) == 1
    assert naming.written("topic/1") is None
    assert naming.written(f"topic/{MOST_TOPICS}") == (TopicKind.NORMAL, MOST_TOPICS + 1)
    naming.forget(number=MOST_TOPICS + 1)
    assert naming.written(f"topic/{MOST_TOPICS}") is None
    assert naming.written("door") == (TopicKind.PREDEFINED, 7)


@pytest.mark.parametrize(
    ("topic_filter", "plain"),
    [("a/b", "a/b"), ("$share/g/a/+", "a/+"), ("$need/p/#", "#"), ("$share/g/$need/p/a", "a"), ("$need/x", "$need/x")],
)
def test_what_comes_of_a_filter_with_a_group_or_a_profile(topic_filter, plain):
    assert plain_topics(topic_filter) == plain


@pytest.mark.parametrize("size", [64, 255, 256, 257, 258, 1400, 65_507])
def test_the_largest_payload_fills_a_datagram(size):
    assert len(encode(Publish(topic=1, payload=bytes(most_payload(size))))) <= size
    assert len(encode(Publish(topic=1, payload=bytes(most_payload(size) + 1)))) > size
