"""Retained messages: the last value of a topic, for those who come later."""

from __future__ import annotations

from live.clients.client import MQTT_5, Message
from live.clients.stage import Seen, Stage, script


@script()
def the_last_retained_message_greets_a_subscriber(stage: Stage) -> Seen:
    topic = stage.topic("x")
    publisher = stage.client("pub")
    early = stage.client("early")
    early.subscribe(topic, qos=2)
    publisher.publish(topic, b"first", qos=1, retain=True)
    publisher.publish(topic, b"second", qos=1, retain=True)
    publisher.publish(topic, b"passing", qos=1)
    observed = {"early": early.receive(3)}
    for qos in range(3):
        late = stage.client(f"late{qos}")
        late.subscribe(topic, qos=qos)
        observed[f"late at {qos}"] = late.receive(1)
    expected = {"early": [Message(topic, payload, qos=1) for payload in (b"first", b"second", b"passing")]}
    for qos in range(3):
        expected[f"late at {qos}"] = [Message(topic, b"second", qos=min(qos, 1), retain=True)]
    return observed, expected


@script()
def an_empty_payload_clears(stage: Stage) -> Seen:
    """Those who are subscribed see the empty message; those who come later see nothing."""
    cleared, other = stage.topic("cleared"), stage.topic("other")
    publisher = stage.client("pub")
    publisher.publish(cleared, b"old", qos=1, retain=True)
    publisher.publish(other, b"stays", qos=1, retain=True)
    early = stage.client("early")
    early.subscribe(cleared, qos=1)
    observed = {"before": early.receive(1)}
    publisher.publish(cleared, b"", qos=1, retain=True)
    observed["clearing"] = early.receive(1)
    late = stage.client("late")
    late.subscribe(stage.topic("+"), qos=1)
    observed["after"] = late.receive(1)
    return observed, {
        "before": [Message(cleared, b"old", qos=1, retain=True)],
        "clearing": [Message(cleared, b"", qos=1)],
        "after": [Message(other, b"stays", qos=1, retain=True)],
    }


@script()
def a_wildcard_finds_all_retained(stage: Stage) -> Seen:
    names = ["a", "a/b", "a/b/c", "d/b"]
    publisher = stage.client("pub")
    for name in names:
        publisher.publish(stage.topic(name), name.encode(), qos=1, retain=True)
    matched = {"#": names, "a/#": ["a", "a/b", "a/b/c"], "+/b": ["a/b", "d/b"], "+": ["a"]}
    observed = {}
    for number, (one, expected) in enumerate(matched.items()):
        subscriber = stage.client(f"sub{number}")
        subscriber.subscribe(stage.topic(one))
        received = subscriber.receive(len(expected))
        observed[one] = sorted((message.payload.decode(), message.retain) for message in received)
    return observed, {one: [(name, True) for name in expected] for one, expected in matched.items()}


@script(needs=("subscribe twice",))
def subscribing_again_brings_retained_again(stage: Stage) -> Seen:
    topic = stage.topic("x")
    stage.client("pub").publish(topic, b"state", qos=1, retain=True)
    subscriber = stage.client("sub")
    observed = {}
    for visit in ("first", "again"):
        subscriber.subscribe(topic, qos=1)
        observed[visit] = subscriber.receive(1)
    greeting = [Message(topic, b"state", qos=1, retain=True)]
    return observed, {"first": greeting, "again": greeting}


@script()
def a_durable_session_does_not_get_retained_twice(stage: Stage) -> Seen:
    """Coming back is not subscribing; what was retained meanwhile is queued as an ordinary message."""
    topic = stage.topic("x")
    publisher = stage.client("pub")
    publisher.publish(topic, b"before", qos=1, retain=True)
    subscriber = stage.client("sub", **stage.durable())
    subscriber.subscribe(topic, qos=1)
    observed = {"subscribed": subscriber.receive(1)}
    subscriber.disconnect()
    publisher.publish(topic, b"meanwhile", qos=1, retain=True)
    observed["back"] = stage.client("sub", **stage.durable()).receive(1)
    return observed, {
        "subscribed": [Message(topic, b"before", qos=1, retain=True)],
        "back": [Message(topic, b"meanwhile", qos=1)],
    }


@script(versions=(MQTT_5,), needs=("subscribe options", "subscribe twice"))
def retain_handling_decides_when_retained_comes(stage: Stage) -> Seen:
    """0: always, 1: with a new subscription, 2: never (section 3.8.3.1)."""
    publisher = stage.client("pub")
    publisher.publish(stage.topic("x"), b"state", qos=1, retain=True)
    publisher.publish(stage.topic("end"), b"end", qos=1, retain=True)
    observed, expected = {}, {}
    for handling, greeted in ((0, [True, True]), (1, [True, False]), (2, [False, False])):
        subscriber = stage.client(f"sub{handling}")
        for visit, comes in zip(("new", "again"), greeted, strict=True):
            subscriber.subscribe(stage.topic("x"), qos=1, retain_handling=handling)
            subscriber.subscribe(stage.topic("end"), qos=1)
            name = f"{handling} {visit}"
            observed[name] = sorted(message.payload for message in subscriber.receive(1 + comes))
            expected[name] = [b"end", b"state"] if comes else [b"end"]
    return observed, expected


@script(versions=(MQTT_5,), needs=("subscribe options",))
def retain_as_published_keeps_the_flag(stage: Stage) -> Seen:
    plain, faithful = stage.client("plain"), stage.client("faithful")
    plain.subscribe(stage.topic("#"), qos=2)
    faithful.subscribe(stage.topic("#"), qos=2, retain_as_published=True)
    publisher = stage.client("pub")
    observed, expected = {}, {}
    for qos in range(3):
        topic = stage.topic(f"q{qos}")
        publisher.publish(topic, b"kept", qos=qos, retain=True)
        publisher.publish(topic, b"passing", qos=qos)
        passing = Message(topic, b"passing", qos=qos)
        observed[f"plain {qos}"] = plain.receive(2)
        expected[f"plain {qos}"] = [Message(topic, b"kept", qos=qos), passing]
        observed[f"faithful {qos}"] = faithful.receive(2)
        expected[f"faithful {qos}"] = [Message(topic, b"kept", qos=qos, retain=True), passing]
    return observed, expected


@script(versions=(MQTT_5,))
def a_retained_message_keeps_its_properties(stage: Stage) -> Seen:
    properties = {"content_type": "text/plain", "user_property": [("floor", "3"), ("floor", "4")]}
    stage.client("pub").publish(stage.topic("x"), b"state", qos=1, retain=True, **properties)
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("x"), qos=1)
    expected = [Message(stage.topic("x"), b"state", qos=1, retain=True, properties=properties)]
    return {"received": subscriber.receive(1)}, {"received": expected}
