"""Quality of service (sections 4.3, 4.4 and 4.6): handshakes, repeats after a reconnection, order."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import V3, V5, Ack, Kind, Publish
from firelane.mqtt.reasons import Reason
from live.conformance.statements import differs, statement, statement3
from live.wire import unique

KEPT = {"clean_start": False, "properties": {"session_expiry_interval": 60}}


def ack(kind, packet, reason=0):
    return Ack(kind=kind, packet_id=packet.packet_id, reason=reason)


@statement("MQTT-3.3.4-1", "MQTT-4.3.2-4", "MQTT-2.2.1-5", "MQTT-3.4.2-1")
@statement3("MQTT-3.3.4-1", "MQTT-4.3.2-2", "MQTT-2.3.1-6")
def test_qos_1_is_answered_with_puback(join, topic, version):
    wire = join(version)
    wire.send(Publish(topic=topic, payload=b"", qos=1, packet_id=4711))
    answer = wire.receive()
    assert (answer.kind, answer.packet_id) == (Kind.PUBACK, 4711)
    assert answer.reason in (Reason.SUCCESS, Reason.NO_MATCHING_SUBSCRIBERS)


@statement("MQTT-3.3.4-1", "MQTT-4.3.3-8", "MQTT-4.3.3-11", "MQTT-2.2.1-5", "MQTT-3.5.2-1", "MQTT-3.7.2-1")
@statement3("MQTT-3.3.4-1", "MQTT-4.3.3-2", "MQTT-2.3.1-6")
def test_qos_2_is_answered_with_pubrec_and_pubrel_with_pubcomp(join, topic, version):
    wire = join(version)
    wire.send(Publish(topic=topic, payload=b"", qos=2, packet_id=65_535))
    answer = wire.receive()
    assert (answer.kind, answer.packet_id) == (Kind.PUBREC, 65_535)
    assert answer.reason in (Reason.SUCCESS, Reason.NO_MATCHING_SUBSCRIBERS)
    wire.send(ack(Kind.PUBREL, answer))
    assert wire.receive() == Ack(kind=Kind.PUBCOMP, packet_id=65_535)


@statement("MQTT-4.3.2-5")
@statement3("MQTT-4.3.2-2")
def test_after_puback_the_same_identifier_is_a_new_message(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic)
    for payload in (b"one", b"two"):
        publisher.send(Publish(topic=topic, payload=payload, qos=1, packet_id=7, duplicate=payload == b"two"))
        publisher.expect(Kind.PUBACK)
        assert subscriber.take().payload == payload


@statement("MQTT-4.3.3-10", "MQTT-4.3.3-12")
@statement3("MQTT-4.3.3-2")
def test_a_qos_2_message_sent_twice_is_delivered_once(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic)
    message = Publish(topic=topic, payload=b"once", qos=2, packet_id=7)
    publisher.send(message)
    publisher.expect(Kind.PUBREC)
    message.duplicate = True
    publisher.send(message)
    publisher.send(ack(Kind.PUBREL, publisher.expect(Kind.PUBREC)))
    publisher.expect(Kind.PUBCOMP)
    assert subscriber.take().payload == b"once"
    subscriber.expect_nothing()
    publisher.send(Publish(topic=topic, payload=b"new", qos=2, packet_id=7))
    publisher.send(ack(Kind.PUBREL, publisher.expect(Kind.PUBREC)))
    assert subscriber.take().payload == b"new"


@statement("MQTT-4.3.3-10", "MQTT-4.4.0-1")
@statement3("MQTT-4.3.3-2", "MQTT-4.4.0-1")
def test_a_qos_2_message_repeated_after_a_reconnection_is_delivered_once(join, topic, version):
    subscriber, client_id = join(version), unique("c")
    subscriber.subscribe(topic)
    publisher = join(version, client_id, **KEPT)
    message = Publish(topic=topic, payload=b"once", qos=2, packet_id=7)
    publisher.send(message)
    publisher.expect(Kind.PUBREC)
    publisher.drop()
    publisher = join(version, client_id, **KEPT)
    message.duplicate = True
    publisher.send(message)
    publisher.send(ack(Kind.PUBREL, publisher.expect(Kind.PUBREC)))
    publisher.expect(Kind.PUBCOMP)
    assert subscriber.take().payload == b"once"
    subscriber.expect_nothing()


@differs("answers with success", version=5)
@statement("MQTT-4.3.3-11", "MQTT-3.7.2-1")
@statement3("MQTT-4.3.3-2")
def test_a_pubrel_for_an_unknown_identifier_is_answered_with_not_found(join, version):
    wire = join(version)
    wire.send(Ack(kind=Kind.PUBREL, packet_id=99))
    answer = wire.receive()
    assert (answer.kind, answer.packet_id) == (Kind.PUBCOMP, 99)
    assert answer.reason in (Reason.PACKET_IDENTIFIER_NOT_FOUND, *([0] if version == 4 else []))
    wire.ping()


@differs("answers with success")
@statement("MQTT-3.6.2-1")
def test_a_pubrec_for_an_unknown_identifier_is_answered_with_not_found(join):
    wire = join()
    wire.send(Ack(kind=Kind.PUBREC, packet_id=99))
    assert wire.receive() == Ack(kind=Kind.PUBREL, packet_id=99, reason=Reason.PACKET_IDENTIFIER_NOT_FOUND)


def test_a_puback_or_pubcomp_for_an_unknown_identifier_does_no_harm(join, version):
    wire = join(version)
    for kind in (Kind.PUBACK, Kind.PUBCOMP):
        wire.send(Ack(kind=kind, packet_id=99))
    wire.expect_nothing()


@statement("MQTT-4.3.2-1", "MQTT-4.3.2-2", "MQTT-2.2.1-4")
@statement3("MQTT-4.3.2-1", "MQTT-2.3.1-1", "MQTT-2.3.1-4")
def test_the_server_sends_qos_1_with_identifiers_of_its_own(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=1)
    for _ in range(5):
        publisher.publish(topic, qos=1)
    messages = [subscriber.expect(Kind.PUBLISH) for _ in range(5)]
    assert len({message.packet_id for message in messages} - {0}) == 5
    assert {(message.qos, message.duplicate) for message in messages} == {(1, False)}


@statement("MQTT-4.3.3-1", "MQTT-4.3.3-2", "MQTT-4.3.3-4", "MQTT-2.2.1-5", "MQTT-3.6.2-1")
@statement3("MQTT-4.3.3-1", "MQTT-2.3.1-6")
def test_the_server_sends_qos_2_and_answers_pubrec_with_pubrel(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"exactly", qos=2)
    message = subscriber.receive()
    assert (message.payload, message.qos, message.duplicate) == (b"exactly", 2, False)
    subscriber.send(ack(Kind.PUBREC, message))
    assert subscriber.receive() == ack(Kind.PUBREL, message)
    subscriber.send(ack(Kind.PUBCOMP, message))
    subscriber.expect_nothing()


@statement("MQTT-4.4.0-1")
def test_nothing_is_repeated_while_the_connection_lasts(join, topic):
    publisher, subscribers = join(), [join(version) for version in (V3, V5)]
    for subscriber in subscribers:
        subscriber.subscribe(topic, qos=2)
    for qos in (1, 2):
        publisher.publish(topic, qos=qos)
    for subscriber in subscribers:
        subscriber.expect(Kind.PUBLISH)
        subscriber.expect(Kind.PUBLISH)
    for subscriber in subscribers:
        subscriber.expect_nothing(1.0)


@statement("MQTT-4.4.0-1", "MQTT-4.3.2-3", "MQTT-4.3.3-3", "MQTT-3.3.1-1", "MQTT-4.6.0-1")
@statement3(
    "MQTT-4.4.0-1", "MQTT-4.3.2-1", "MQTT-4.3.3-1", "MQTT-3.3.1-1", "MQTT-2.3.1-4", "MQTT-4.6.0-1", "MQTT-4.6.0-6"
)
@pytest.mark.parametrize("qos", [1, 2])
def test_unacknowledged_messages_are_repeated_on_reconnecting(join, topic, version, qos):
    publisher, client_id = join(version), unique("c")
    subscriber = join(version, client_id, **KEPT)
    subscriber.subscribe(topic, qos=2)
    for number in range(4):
        publisher.publish(topic, b"%d" % number, qos=qos)
    first = [subscriber.expect(Kind.PUBLISH) for _ in range(4)]
    assert not any(message.duplicate for message in first)
    subscriber.drop()
    subscriber = join(version, client_id, **KEPT)
    again = [subscriber.expect(Kind.PUBLISH) for _ in range(4)]
    assert all(message.duplicate for message in again)
    assert [(m.payload, m.packet_id) for m in again] == [(m.payload, m.packet_id) for m in first]


@statement("MQTT-4.3.3-5", "MQTT-4.3.3-6", "MQTT-4.4.0-1")
@statement3("MQTT-4.3.3-1", "MQTT-4.4.0-1")
def test_after_pubrec_only_the_pubrel_is_repeated_on_reconnecting(join, topic, version):
    publisher, client_id = join(version), unique("c")
    subscriber = join(version, client_id, **KEPT)
    subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"exactly", qos=2)
    message = subscriber.expect(Kind.PUBLISH)
    subscriber.send(ack(Kind.PUBREC, message))
    subscriber.expect(Kind.PUBREL)
    subscriber.drop()
    subscriber = join(version, client_id, **KEPT)
    assert subscriber.receive() == ack(Kind.PUBREL, message)
    subscriber.send(ack(Kind.PUBCOMP, message))
    subscriber.expect_nothing()


@statement("MQTT-4.3.2-3")
@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledged_messages_are_not_repeated(join, topic, version, qos):
    publisher, client_id = join(version), unique("c")
    subscriber = join(version, client_id, **KEPT)
    subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"done", qos=qos)
    subscriber.take()
    subscriber.ping()
    subscriber.drop()
    join(version, client_id, **KEPT).expect_nothing()


@statement("MQTT-4.4.0-2", "MQTT-4.3.3-4")
@pytest.mark.parametrize(("qos", "kind"), [(1, Kind.PUBACK), (2, Kind.PUBREC)])
def test_a_message_the_client_refuses_counts_as_acknowledged(join, topic, qos, kind):
    publisher, client_id = join(), unique("c")
    subscriber = join(client_id=client_id, **KEPT)
    subscriber.subscribe(topic, qos=2)
    publisher.publish(topic, b"unwanted", qos=qos)
    subscriber.send(ack(kind, subscriber.expect(Kind.PUBLISH), Reason.UNSPECIFIED_ERROR))
    subscriber.expect_nothing()
    subscriber.drop()
    join(client_id=client_id, **KEPT).expect_nothing()


@statement("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@statement3("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_one_client_on_one_topic_keep_their_order(join, topic, version, qos):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    for number in range(40):
        publisher.publish(topic, b"%d" % number, qos=qos)
    assert [subscriber.take().payload for _ in range(40)] == [b"%d" % number for number in range(40)]


@statement3("MQTT-4.6.0-6")
@pytest.mark.parametrize(("qos", "kind"), [(1, Kind.PUBACK), (2, Kind.PUBREC)])
def test_answers_come_in_the_order_of_the_messages(join, topic, version, qos, kind):
    wire = join(version)
    for packet_id in (5, 3, 8, 1):
        wire.send(Publish(topic=topic, payload=b"", qos=qos, packet_id=packet_id))
    assert [wire.expect(kind).packet_id for _ in range(4)] == [5, 3, 8, 1]


@statement3("MQTT-4.6.0-6")
def test_pubrels_come_in_the_order_of_the_pubrecs(join, topic, version):
    publisher, subscriber = join(version), join(version)
    subscriber.subscribe(topic, qos=2)
    for _ in range(4):
        publisher.publish(topic, qos=2)
    messages = [subscriber.expect(Kind.PUBLISH) for _ in range(4)]
    for message in messages:
        subscriber.send(ack(Kind.PUBREC, message))
    assert [subscriber.expect(Kind.PUBREL).packet_id for _ in range(4)] == [message.packet_id for message in messages]
