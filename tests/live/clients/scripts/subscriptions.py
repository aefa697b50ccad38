"""Subscriptions that share, overlap or exclude, and the answers to subscribing."""

from __future__ import annotations

from itertools import chain

from live.clients.client import MQTT_5, Client, Message
from live.clients.stage import Seen, Stage, script


@script()
def a_group_gets_each_message_once(stage: Stage) -> Seen:
    """Both brokers let the members take turns, which is their choice; one who is no member gets everything.

    MQTT 3.1.1 knows no groups; both brokers have them all the same.
    """
    topic, payloads = stage.topic("x"), [b"%02d" % number for number in range(18)]
    members = [stage.client(f"member{number}") for number in range(3)]
    for member in members:
        member.subscribe(f"$share/group/{topic}", qos=2)
    alone = stage.client("alone")
    alone.subscribe(topic, qos=2)
    publisher = stage.client("pub")
    observed, expected = {}, {}
    for qos in range(3):
        publisher.publish_all(topic, payloads, qos=qos)
        everything = [message.payload for message in alone.receive(len(payloads))]
        shares = _shares(members, len(payloads))
        observed[qos] = everything, sorted(chain(*shares)), all(shares), all(one == sorted(one) for one in shares)
        expected[qos] = payloads, payloads, True, True
    return observed, expected


def _shares(members: list[Client], total: int) -> list[list[bytes]]:
    """What each member of a group has received, once it is `total` together."""
    shares: list[list[bytes]] = [[] for _ in members]
    for _ in range(100):
        for member, share in zip(members, shares, strict=True):
            share += [message.payload for message in member.receive(0)]
        if sum(map(len, shares)) >= total:
            break
    return shares


@script()
def groups_are_independent(stage: Stage) -> Seen:
    topic, payloads = stage.topic("a/b"), [b"%d" % number for number in range(6)]
    subscribers = {}
    for group, one in (("one", "a/b"), ("two", "a/+"), ("three", "#")):
        subscribers[group] = stage.client(group)
        subscribers[group].subscribe(f"$share/{group}/{stage.topic(one)}", qos=1)
    stage.client("pub").publish_all(topic, payloads, qos=1)
    observed = {
        group: [message.payload for message in subscriber.receive(len(payloads))]
        for group, subscriber in subscribers.items()
    }
    return observed, dict.fromkeys(subscribers, payloads)


@script()
def a_group_is_not_greeted_with_retained(stage: Stage) -> Seen:
    """Only a subscription that is not shared is (MQTT 5, section 3.3.1.3)."""
    publisher = stage.client("pub")
    publisher.publish(stage.topic("x"), b"retained", qos=1, retain=True)
    member = stage.client("member")
    member.subscribe(f"$share/greeted/{stage.topic('x')}", qos=1)
    publisher.publish(stage.topic("x"), b"live", qos=1)
    received = member.receive(1)
    observed = {"greetings": sum(message.retain for message in received), "last": received[-1]}
    return observed, {"greetings": 0, "last": Message(stage.topic("x"), b"live", qos=1)}


@script()
def overlapping_filters_of_one_packet(stage: Stage) -> Seen:
    """One copy or one per filter: 3.1.1 section 3.3.5 and 5 section 3.3.4 allow both."""
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("a/+"), stage.topic("#"), qos=1)
    stage.client("pub").publish(stage.topic("a/b"), b"x", qos=1)
    received = subscriber.receive(1)
    each = {(message.topic, message.payload, message.qos) for message in received}
    return {"copies": len(received), "each": each}, {"copies": 1, "each": {(stage.topic("a/b"), b"x", 1)}}


@script(needs=("subscribe twice",))
def overlapping_filters_deliver_at_the_highest_qos(stage: Stage) -> Seen:
    """The specification allows further copies, at the QoS of their own subscription."""
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("a/#"), qos=0)
    subscriber.subscribe(stage.topic("a/+"), qos=2)
    subscriber.subscribe(stage.topic("+/b"), qos=1)
    stage.client("pub").publish(stage.topic("a/b"), b"x", qos=2)
    received = subscriber.receive(1)
    observed = {"highest": max(message.qos for message in received), "copies": len(received)}
    return observed, {"highest": 2, "copies": 1}


@script(versions=(MQTT_5,), needs=("subscribe twice", "identifiers"))
def a_message_carries_the_identifiers_of_what_it_matched(stage: Stage) -> Seen:
    """All in one copy, or each in its own (section 3.3.4)."""
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("a/#"), qos=2, identifier=1)
    subscriber.subscribe(stage.topic("a/b"), qos=2, identifier=268_435_455)
    subscriber.subscribe(stage.topic("+/b"), qos=2)
    publisher = stage.client("pub")
    observed, expected = {"copies": []}, {"copies": [1] * 9}
    for name, matched in (("a/b", [1, 268_435_455]), ("a/c", [1]), ("c/b", [])):
        for qos in range(3):
            publisher.publish(stage.topic(name), b"x", qos=qos)
            received = subscriber.receive(1)
            found = [one for message in received for one in message.properties.get("subscription_identifier", [])]
            observed[f"{name} at {qos}"], expected[f"{name} at {qos}"] = sorted(found), matched
            observed["copies"].append(len(received))
    return observed, expected


@script(versions=(MQTT_5,), needs=("subscribe twice", "identifiers"))
def subscribing_again_replaces_qos_and_identifier(stage: Stage) -> Seen:
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("x"), qos=2, identifier=1)
    subscriber.subscribe(stage.topic("x"), qos=1, identifier=2)
    stage.client("pub").publish(stage.topic("x"), b"x", qos=2)
    expected = [Message(stage.topic("x"), b"x", qos=1, properties={"subscription_identifier": [2]})]
    return {"received": subscriber.receive(1)}, {"received": expected}


@script(versions=(MQTT_5,), needs=("subscribe options", "publish and subscribe"))
def no_local_spares_a_client_its_own_words(stage: Stage) -> Seen:
    one, other = stage.client("one"), stage.client("other")
    for client in (one, other):
        client.subscribe(stage.topic("x"), qos=2, no_local=True)
    observed, expected = {}, {}
    for qos in range(3):
        one.publish(stage.topic("x"), b"of one", qos=qos)
        other.publish(stage.topic("x"), b"of other", qos=qos)
        observed[qos] = one.receive(1), other.receive(1)
        expected[qos] = tuple([Message(stage.topic("x"), payload, qos=qos)] for payload in (b"of other", b"of one"))
    return observed, expected


@script(versions=(MQTT_5,), needs=("unsuback reason",))
def unsubscribing_tells_what_was_there(stage: Stage) -> Seen:
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("a"))
    codes = subscriber.unsubscribe(stage.topic("a"), stage.topic("a"), stage.topic("never"))
    return {"codes": codes}, {"codes": [0x00, 0x11, 0x11]}


@script(versions=(MQTT_5,), needs=("puback reason",))
def a_publisher_learns_that_nobody_listens(stage: Stage) -> Seen:
    """0x10 in PUBACK; in PUBREC too, which these clients do not show, and never in PUBCOMP."""
    publisher = stage.client("pub")
    observed = {"qos 1": publisher.publish(stage.topic("x"), b"", qos=1)}
    observed["qos 2"] = publisher.publish(stage.topic("x"), b"", qos=2)
    stage.client("sub").subscribe(stage.topic("x"))
    observed["qos 1 with a subscriber"] = publisher.publish(stage.topic("x"), b"", qos=1)
    return observed, {"qos 1": 0x10, "qos 2": 0x00, "qos 1 with a subscriber": 0x00}
