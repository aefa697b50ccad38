"""What only MQTT 5 has: properties of messages, aliases, expiry, the broker's limits in CONNACK."""

from __future__ import annotations

from live.clients.client import INFLIGHT, MQTT_5, Message
from live.clients.stage import Seen, Stage, script


@script(versions=(MQTT_5,))
def properties_of_a_message_are_passed_on(stage: Stage) -> Seen:
    properties = {
        "payload_format_indicator": 1,
        "content_type": "application/json",
        "response_topic": stage.topic("answers"),
        "correlation_data": b"0042",
        "user_property": [("b", "2"), ("a", "1"), ("b", "3")],
    }
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("x"), qos=2)
    publisher = stage.client("pub")
    observed, expected = {}, {}
    for qos in range(3):
        publisher.publish(stage.topic("x"), b"{}", qos=qos, **properties)
        observed[f"qos {qos}"] = subscriber.receive(1)
        expected[f"qos {qos}"] = [Message(stage.topic("x"), b"{}", qos=qos, properties=properties)]
    return observed, expected


@script(versions=(MQTT_5,))
def a_request_finds_its_response(stage: Stage) -> Seen:
    asking, answering = stage.client("asking"), stage.client("answering")
    asking.subscribe(stage.topic("answers/asking"), qos=1)
    answering.subscribe(stage.topic("questions"), qos=1)
    asking.publish(
        stage.topic("questions"),
        b"how hot?",
        qos=1,
        response_topic=stage.topic("answers/asking"),
        correlation_data=b"q-1",
    )
    (question,) = answering.receive(1)
    how = question.properties
    answering.publish(how["response_topic"], b"210", qos=1, correlation_data=how["correlation_data"])
    expected = Message(stage.topic("answers/asking"), b"210", qos=1, properties={"correlation_data": b"q-1"})
    return {"answer": asking.receive(1)}, {"answer": [expected]}


@script(versions=(MQTT_5,))
def an_alias_stands_for_its_topic(stage: Stage) -> Seen:
    subscriber = stage.client("sub")
    subscriber.subscribe(stage.topic("#"), qos=1)
    publisher = stage.client("pub")
    payloads = [b"%d" % number for number in range(5)]
    observed, expected = {}, {}
    for name in ("one", "other"):  # the second takes the alias over
        publisher.publish_all(stage.topic(name), payloads, qos=1, topic_alias=1)
        observed[name] = subscriber.receive(len(payloads))
        expected[name] = [Message(stage.topic(name), payload, qos=1) for payload in payloads]
    return observed, expected


@script(versions=(MQTT_5,), needs=("aliases from the broker",))
def a_broker_may_use_aliases_of_a_subscriber_that_allows_them(stage: Stage) -> Seen:
    """Whether it does is its choice; the subscriber must end up with the right topics."""
    subscriber = stage.client("sub", properties={"topic_alias_maximum": 2})
    subscriber.subscribe(stage.topic("#"), qos=1)
    publisher = stage.client("pub")
    names = ["a", "b", "c", "a", "b", "c", "c", "a"]
    for name in names:
        publisher.publish(stage.topic(name), name.encode(), qos=1)
    observed = [(message.topic, message.payload) for message in subscriber.receive(len(names))]
    return {"received": observed}, {"received": [(stage.topic(name), name.encode()) for name in names]}


@script(versions=(MQTT_5,), needs=("connack",))
def connack_says_what_the_broker_can(stage: Stage) -> Seen:
    """A property that is missing means its default (section 3.2.2.3); both brokers are set up alike."""
    defaults = {
        "maximum_qos": 2,
        "retain_available": 1,
        "wildcard_subscription_available": 1,
        "subscription_identifier_available": 1,
        "shared_subscription_available": 1,
        "receive_maximum": 65_535,
        "topic_alias_maximum": 0,
        "maximum_packet_size": None,
        "session_expiry_interval": 60,
    }
    client = stage.client("any", clean=False, properties={"session_expiry_interval": 60})
    said = client.connack.properties
    observed = {name: said.get(name, default) for name, default in defaults.items()}
    limits = {"receive_maximum": INFLIGHT, "topic_alias_maximum": 100, "maximum_packet_size": 1_000_000}
    return observed, defaults | limits


@script(versions=(MQTT_5,), needs=("connack",))
def the_broker_can_shorten_the_keep_alive(stage: Stage) -> Seen:
    """Both brokers are set up to accept at most 600 s."""
    observed = {}
    for asked_s in (30, 1000):
        said = stage.client(f"asks{asked_s}", keep_alive_s=asked_s).connack.properties
        observed[f"asked {asked_s}"] = said.get("server_keep_alive", asked_s)
    return observed, {"asked 30": 30, "asked 1000": 600}
