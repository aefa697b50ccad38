"""Messages reach those who asked for them: quality of service, order, wildcards, names, sizes."""

from __future__ import annotations

import hashlib
import random

from live.clients.client import Message
from live.clients.stage import Seen, Stage, script


def by_payload(messages: list[Message]) -> list[Message]:
    """Where MQTT promises no order."""
    return sorted(messages, key=lambda message: (message.payload, message.topic))


@script()
def every_qos_meets_every_qos(stage: Stage) -> Seen:
    topic = stage.topic("x")
    observed, expected = {}, {}
    subscribers = {qos: stage.client(f"sub{qos}") for qos in range(3)}
    for qos, subscriber in subscribers.items():
        observed[f"granted {qos}"] = subscriber.subscribe(topic, qos=qos)
        expected[f"granted {qos}"] = [qos]
    publisher = stage.client("pub")
    for qos in range(3):
        publisher.publish(topic, b"%d" % qos, qos=qos)
    for qos, subscriber in subscribers.items():
        observed[f"received at {qos}"] = by_payload(subscriber.receive(3))
        expected[f"received at {qos}"] = [Message(topic, b"%d" % sent, qos=min(sent, qos)) for sent in range(3)]
    return observed, expected


@script()
def messages_of_a_publisher_and_topic_keep_their_order(stage: Stage) -> Seen:
    payloads = [b"%d" % number for number in range(20)]
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("#"), qos=2)
    publisher = stage.client("pub")
    observed, expected = {}, {}
    for qos in range(3):
        topic = stage.topic(f"q{qos}")
        publisher.publish_all(topic, payloads, qos=qos)
        observed[f"qos {qos}"] = subscriber.receive(len(payloads))
        expected[f"qos {qos}"] = [Message(topic, payload, qos=qos) for payload in payloads]
    return observed, expected


@script()
def wildcards_match_levels(stage: Stage) -> Seen:
    names = ["a", "a/b", "a/b/c", "a//c", "/a", "a/", "b/b/c"]
    matched = {
        "a/#": ["a", "a/b", "a/b/c", "a//c", "a/"],
        "a/+": ["a/b", "a/"],
        "a/+/c": ["a/b/c", "a//c"],
        "+/b/#": ["a/b", "a/b/c", "b/b/c"],
        "+": ["a"],
        "+/+": ["a/b", "/a", "a/"],
        "#": names,
    }
    publisher = stage.client("pub")
    subscribers = {one: stage.client(f"sub{number}") for number, one in enumerate(matched)}
    for one, subscriber in subscribers.items():
        subscriber.subscribe(stage.topic(one), qos=1)
    for name in names:
        publisher.publish(stage.topic(name), b"", qos=1)
    observed = {
        one: sorted(message.topic for message in subscriber.receive(len(matched[one])))
        for one, subscriber in subscribers.items()
    }
    return observed, {one: sorted(map(stage.topic, expected)) for one, expected in matched.items()}


@script()
def a_wildcard_at_the_start_does_not_match_dollar(stage: Stage) -> Seen:
    hidden, plain = f"${stage.topic('x')}", stage.topic("x")
    everything, one_level, named = (stage.client(name) for name in ("everything", "level", "named"))
    everything.subscribe("#", qos=1)
    one_level.subscribe("+/x", qos=1)
    named.subscribe(f"${stage.topic('#')}", qos=1)
    publisher = stage.client("pub")
    publisher.publish(hidden, b"hidden", qos=1)
    publisher.publish(plain, b"plain", qos=1)
    subscribers = {"#": everything, "+/x": one_level, "$.../#": named}
    seen = {name: [message.topic for message in subscriber.receive(1)] for name, subscriber in subscribers.items()}
    own = {name: [topic for topic in topics if topic in (hidden, plain)] for name, topics in seen.items()}
    return own, {"#": [plain], "+/x": [plain], "$.../#": [hidden]}


@script()
def topics_are_unicode(stage: Stage) -> Seen:
    names = ["Zürich/Löschzug 3", "火/警報", "🔥/🚒", "e\u0301 is not é", " leading and trailing ", "a" * 1000]
    subscriber = stage.client("sub")
    subscriber.subscribe(*map(stage.topic, names), qos=1)
    publisher = stage.client("pub")
    for name in names:
        publisher.publish(stage.topic(name), name.encode(), qos=1)
    expected = [Message(stage.topic(name), name.encode(), qos=1) for name in names]
    return {"received": subscriber.receive(len(names))}, {"received": expected}


@script()
def nine_hundred_kilobytes_arrive_whole(stage: Stage) -> Seen:
    payload = random.Random(1).randbytes(900_000)
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("big"), qos=2)
    publisher = stage.client("pub")
    for qos in range(3):
        publisher.publish(stage.topic("big"), payload, qos=qos)
    received = subscriber.receive(3)
    observed = sorted((message.qos, len(message.payload), _digest(message.payload)) for message in received)
    return {"received": observed}, {"received": [(qos, len(payload), _digest(payload)) for qos in range(3)]}


@script()
def an_empty_payload_is_a_message(stage: Stage) -> Seen:
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("x"), qos=2)
    publisher = stage.client("pub")
    for qos in range(3):
        publisher.publish(stage.topic("x"), b"", qos=qos)
    observed = sorted(message.qos for message in subscriber.receive(3) if message.payload == b"")
    return {"received": observed}, {"received": [0, 1, 2]}


@script(needs=("unsubscribe",))
def after_unsubscribe_nothing_comes(stage: Stage) -> Seen:
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("a"), stage.topic("b"), qos=1)
    subscriber.unsubscribe(stage.topic("a"))
    publisher = stage.client("pub")
    publisher.publish(stage.topic("a"), b"no", qos=1)
    publisher.publish(stage.topic("b"), b"yes", qos=1)
    return {"received": subscriber.receive(1)}, {"received": [Message(stage.topic("b"), b"yes", qos=1)]}


@script(needs=("publish and subscribe",))
def a_client_hears_itself(stage: Stage) -> Seen:
    client = stage.client("both")
    client.subscribe(stage.topic("x"), qos=2)
    for qos in range(3):
        client.publish(stage.topic("x"), b"%d" % qos, qos=qos)
    expected = [Message(stage.topic("x"), b"%d" % qos, qos=qos) for qos in range(3)]
    return {"received": by_payload(client.receive(3))}, {"received": expected}


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
