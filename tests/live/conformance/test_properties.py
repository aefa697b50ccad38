"""Properties of MQTT 5 messages (section 3.3.2.3) reach the subscriber as they are."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import Ack, Kind
from firelane.mqtt.packets import Subscription as To
from live.conformance.statements import statement

FORWARDED = {
    "payload_format_indicator": 1,
    "content_type": "text/plain; charset=utf-8",
    "response_topic": "answers/here",
    "correlation_data": bytes(range(256)),
    "user_property": [("b", "1"), ("a", "2"), ("b", "1"), ("", ""), ("ключ", "значение")],
}


@statement("MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16", "MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_properties_of_a_message_are_forwarded_unchanged_and_in_order(join, topic, qos):
    publisher, *subscribers = join(), join(), join()
    for subscriber in subscribers:
        subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"hello", qos=qos, properties=FORWARDED)
    for subscriber in subscribers:
        assert subscriber.take().properties == FORWARDED


@statement("MQTT-3.3.2-4", "MQTT-3.3.2-17")
def test_retained_messages_keep_their_properties(join, topic):
    join().publish(topic, b"hello", qos=1, retain=True, properties=FORWARDED)
    wire = join()
    wire.subscribe(topic)
    assert wire.take().properties == FORWARDED


@statement("MQTT-3.3.2-4", "MQTT-3.3.2-17")
def test_messages_that_wait_keep_their_properties(join, topic):
    kept = {"client_id": topic, "clean_start": False, "properties": {"session_expiry_interval": 60}}
    wire = join(**kept)
    wire.subscribe(topic, qos=1)
    wire.drop()
    join().publish(topic, b"hello", qos=1, properties=FORWARDED)
    assert join(**kept).take().properties == FORWARDED


@statement("MQTT-3.3.2-4")
@pytest.mark.parametrize("properties", [{}, {"payload_format_indicator": 0}, {"content_type": ""}])
def test_what_is_absent_stays_absent(join, topic, properties):
    wire = join()
    wire.subscribe(topic)
    wire.publish(topic, b"hello", properties=properties)
    arrived = wire.take().properties
    assert arrived in (properties, {})
    assert arrived or "content_type" not in properties


@statement("MQTT-3.1.2-29")
def test_a_client_that_declined_problem_information_gets_none(join, topic):
    wire = join(properties={"request_problem_information": 0})
    answers = [
        wire.subscribe(topic, To(filter=f"$share/g/{topic}", qos=2)),
        wire.unsubscribe(f"{topic}/never"),
        wire.publish(f"{topic}/nobody", qos=1),
        wire.publish(f"{topic}/nobody", qos=2),
    ]
    wire.send(Ack(kind=Kind.PUBREL, packet_id=99))
    wire.send(Ack(kind=Kind.PUBREC, packet_id=98))
    answers += [wire.expect(Kind.PUBCOMP), wire.expect(Kind.PUBREL)]
    assert all(answer.properties == {} for answer in answers)


@statement("MQTT-3.1.2-29")
def test_a_client_that_declined_problem_information_still_gets_the_publishers_properties(join, topic):
    wire = join(properties={"request_problem_information": 0})
    wire.subscribe(topic)
    wire.publish(topic, properties={"user_property": [("a", "1")]})
    assert wire.take().properties == {"user_property": [("a", "1")]}
