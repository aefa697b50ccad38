"""What is forbidden is refused where the protocol can say so, and delivered never."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import V3, V5, Ack, Kind, Publish
from firelane.mqtt.reasons import Reason
from live.brokers import firelane, mosquitto
from live.conformance.statements import differs, statement, statement3

FORBIDDEN = "forbidden/topic"


def guarded_mosquitto(folder):
    (folder / "rules.txt").write_text("topic readwrite #\ntopic deny forbidden/#\n")
    return mosquitto(folder, acl_file=folder / "rules.txt")


def guarded_firelane(folder):
    (folder / "guarded.yaml").write_text("""
        name: guarded
        exchange:
          access:
            - {who: "*", filter: forbidden/#, deny: [publish, subscribe]}
            - {who: "*", filter: "#", allow: [publish, subscribe]}
    """)
    return firelane(folder, str(folder / "guarded.yaml"))


BROKERS = {"mosquitto": guarded_mosquitto, "firelane": guarded_firelane}


@pytest.fixture(scope="module", params=BROKERS)
def broker(request, tmp_path_factory):
    with BROKERS[request.param](tmp_path_factory.mktemp(request.param)) as broker:
        yield broker


@differs("grants the subscription and delivers nothing")
@statement("MQTT-3.8.4-7", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
@statement3("MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
def test_a_forbidden_filter_is_refused_in_its_place(join, topic, version):
    wire = join(version)
    refused = Reason.NOT_AUTHORIZED if version == V5 else 0x80
    assert wire.subscribe(topic, FORBIDDEN, f"{topic}/b", qos=1).reasons == [1, refused, 1]


@statement("MQTT-3.4.2-1", "MQTT-3.5.2-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_forbidden_message_is_refused_and_the_connection_lives(join, qos):
    wire = join()
    assert wire.publish(FORBIDDEN, qos=qos).reason == Reason.NOT_AUTHORIZED
    wire.ping()


@statement("MQTT-4.3.3-9")
def test_after_a_refusal_the_identifier_is_free_for_another_message(join, topic):
    publisher, subscriber = join(), join()
    subscriber.subscribe(topic)
    publisher.send(Publish(topic=FORBIDDEN, payload=b"", qos=2, packet_id=7))
    assert publisher.expect(Kind.PUBREC).reason == Reason.NOT_AUTHORIZED
    publisher.send(Publish(topic=topic, payload=b"allowed", qos=2, packet_id=7))
    assert publisher.expect(Kind.PUBREC).reason == Reason.SUCCESS
    publisher.send(Ack(kind=Kind.PUBREL, packet_id=7))
    assert subscriber.take().payload == b"allowed"


@statement3("MQTT-3.3.5-2")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_forbidden_message_of_3_1_1_is_acknowledged_or_ends_the_connection(join, topic, qos):
    publisher, subscriber = join(V3), join(V3)
    subscriber.subscribe("#")
    publisher.send(Publish(topic=FORBIDDEN, payload=b"forbidden", qos=qos, packet_id=7 if qos else 0))
    if qos:
        answer = publisher.receive()
        assert answer is None or answer.kind is (Kind.PUBACK if qos == 1 else Kind.PUBREC)
    join(V3).publish(topic, b"allowed", qos=1)
    assert [message.payload for message in subscriber.take_all()] == [b"allowed"]
