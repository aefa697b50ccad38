"""Topic aliases (sections 3.1.2.11.5, 3.2.2.3.8 and 3.3.2.3.4), in both directions."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import Publish
from firelane.mqtt.reasons import Reason
from live.conformance.statements import statement


def aliased(topic, alias, payload=b""):
    return Publish(topic=topic, payload=payload, properties={"topic_alias": alias})


@statement("MQTT-3.3.2-12")
def test_an_alias_stands_for_its_topic_until_it_is_given_another(join, topic):
    wire = join()
    wire.subscribe(f"{topic}/#")
    for name in (f"{topic}/a", "", f"{topic}/b", ""):
        wire.send(aliased(name, 1))
    arrived = [wire.take() for _ in range(4)]
    assert [message.topic for message in arrived] == [f"{topic}/a"] * 2 + [f"{topic}/b"] * 2
    assert not any("topic_alias" in message.properties for message in arrived)


@statement("MQTT-3.3.2-12")
def test_every_alias_up_to_the_maximum_is_accepted(join, topic):
    wire = join()
    most = wire.connack.properties["topic_alias_maximum"]
    wire.subscribe(f"{topic}/#")
    for alias in range(1, most + 1):
        wire.send(aliased(f"{topic}/{alias}", alias))
    for alias in range(1, most + 1):
        wire.send(aliased("", alias))
    assert [wire.take().topic for _ in range(2 * most)] == [f"{topic}/{n}" for n in [*range(1, most + 1)] * 2]


@statement("MQTT-3.3.2-8")
def test_alias_0_ends_the_connection(join, topic):
    wire = join()
    wire.send(aliased(topic, 0))
    wire.expect_closed(Reason.TOPIC_ALIAS_INVALID)


@statement("MQTT-3.3.2-9", "MQTT-3.2.2-17")
def test_an_alias_above_the_maximum_ends_the_connection(join, topic):
    wire = join()
    wire.send(aliased(topic, wire.connack.properties["topic_alias_maximum"] + 1))
    wire.expect_closed(Reason.TOPIC_ALIAS_INVALID)


def test_an_alias_that_was_never_set_ends_the_connection(join):
    wire = join()
    wire.send(aliased("", 1))
    wire.expect_closed(Reason.PROTOCOL_ERROR)


@statement("MQTT-3.3.2-7")
def test_an_alias_ends_with_its_connection_even_if_the_session_lives_on(join, topic):
    kept = {"client_id": topic, "clean_start": False, "properties": {"session_expiry_interval": 60}}
    wire = join(**kept)
    wire.send(aliased(topic, 1))
    wire.ping()
    wire.drop()
    wire = join(**kept)
    assert wire.connack.session_present
    wire.send(aliased("", 1))
    wire.expect_closed(Reason.PROTOCOL_ERROR)


def test_an_alias_belongs_to_the_client_that_set_it(join, topic):
    one, other = join(), join()
    one.send(aliased(topic, 1))
    one.ping()
    other.send(aliased("", 1))
    other.expect_closed(Reason.PROTOCOL_ERROR)
    one.ping()


@statement("MQTT-3.1.2-26", "MQTT-3.1.2-27", "MQTT-3.3.2-11", "MQTT-3.3.2-8")
@pytest.mark.parametrize("maximum", [None, 0, 1, 3])
@pytest.mark.parametrize("qos", [0, 1])
def test_the_servers_aliases_stay_within_the_clients_maximum(join, topic, maximum, qos):
    publisher = join()
    subscriber = join(properties={} if maximum is None else {"topic_alias_maximum": maximum})
    subscriber.subscribe(f"{topic}/#", qos=qos)
    names = [f"{topic}/{number % 5}" for number in range(20)]
    for name in names:
        publisher.publish(name, qos=qos)
    known, arrived = {}, []
    for _ in names:
        message = subscriber.take()
        alias = message.properties.get("topic_alias")
        assert alias is None or 1 <= alias <= (maximum or 0)
        if alias and message.topic:
            known[alias] = message.topic
        arrived.append(message.topic or known[alias])
    assert arrived == names
