"""Wills (sections 3.1.2.5 and 3.1.3.2): published when a client is lost, and only then."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import V5, Kind, Publish, Will
from firelane.mqtt.packets import Subscription as To
from firelane.mqtt.reasons import Reason
from live.conformance.statements import differs, statement, statement3
from live.wire import unique


@pytest.fixture
def observer(join, topic, version):
    wire = join(version)
    wire.subscribe(topic, qos=2)
    return wire


@pytest.fixture
def observer5(join, topic):
    wire = join()
    wire.patience_s = 10
    wire.subscribe(To(filter=topic, qos=2, retain_as_published=True))
    return wire


@statement("MQTT-3.1.2-7", "MQTT-3.1.2-8")
@statement3("MQTT-3.1.2-8")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_of_a_lost_client_is_published_with_its_qos(join, topic, version, observer, qos):
    join(version, will=Will(topic=topic, payload=b"lost", qos=qos)).drop()
    message = observer.take()
    assert (message.topic, message.payload, message.qos, message.retain) == (topic, b"lost", qos, False)


@statement("MQTT-3.1.2-8")
@statement3("MQTT-3.1.2-8")
def test_the_will_of_a_client_thrown_out_for_an_error_is_published(join, topic, version, observer):
    wire = join(version, will=Will(topic=topic, payload=b"thrown out"))
    wire.send_raw(b"\x36\x07\0\1a\0\1\0x")  # QoS 3
    assert observer.take().payload == b"thrown out"


@statement("MQTT-3.14.4-3", "MQTT-3.1.2-10", "MQTT-3.1.2-8")
@statement3("MQTT-3.14.4-3", "MQTT-3.1.2-10")
def test_a_normal_disconnect_throws_the_will_away(join, topic, version, observer):
    client_id = unique("c")
    join(version, client_id, will=Will(topic=topic, payload=b"lost")).disconnect()
    observer.expect_nothing()
    join(version, client_id).drop()
    observer.expect_nothing()


@statement("MQTT-3.1.2-8")
def test_a_client_may_ask_for_its_will_when_it_disconnects(join, topic, observer5):
    join(will=Will(topic=topic, payload=b"gone")).disconnect(Reason.DISCONNECT_WITH_WILL)
    assert observer5.take().payload == b"gone"


@statement("MQTT-3.1.2-10")
@statement3("MQTT-3.1.2-10", "MQTT-3.1.2-12")
def test_a_will_is_published_once_and_then_forgotten(join, topic, version, observer):
    client_id = unique("c")
    join(version, client_id, will=Will(topic=topic, payload=b"lost")).drop()
    assert observer.take().payload == b"lost"
    join(version, client_id).drop()
    observer.expect_nothing()


@statement("MQTT-3.1.2-8")
@statement3("MQTT-3.1.2-8")
def test_the_will_of_a_superseded_connection_is_published(join, topic, version, observer):
    client_id = unique("c")
    join(version, client_id, will=Will(topic=topic, payload=b"superseded"))
    join(version, client_id)
    assert observer.take().payload == b"superseded"


@statement("MQTT-3.1.2-14")
@statement3("MQTT-3.1.2-16")
def test_a_will_without_retain_is_not_retained(join, topic, version, observer):
    join(version, will=Will(topic=topic, payload=b"lost")).drop()
    observer.take()
    late = join(version)
    late.subscribe(topic)
    late.expect_nothing()


@statement("MQTT-3.1.2-15")
@statement3("MQTT-3.1.2-17")
def test_a_will_with_retain_is_retained(join, topic, version, observer):
    join(version, will=Will(topic=topic, payload=b"lost", retain=True)).drop()
    observer.take()
    late = join(version)
    late.subscribe(topic)
    assert late.take() == Publish(topic=topic, payload=b"lost", retain=True)


@statement("MQTT-3.1.3-10")
def test_a_will_is_published_with_its_properties(join, topic, observer5):
    properties = {
        "payload_format_indicator": 1,
        "content_type": "text/plain",
        "response_topic": f"{topic}/answer",
        "correlation_data": b"\0\1",
        "user_property": [("b", "1"), ("a", "2"), ("b", "3")],
    }
    join(will=Will(topic=topic, payload=b"lost", qos=1, retain=True, properties=properties)).drop()
    message = observer5.take()
    assert message.properties == properties
    assert message.retain


@statement("MQTT-3.1.2-8")
def test_a_delayed_will_is_published_after_its_delay(join, topic, observer5):
    will = Will(topic=topic, payload=b"lost", properties={"will_delay_interval": 1})
    join(will=will, properties={"session_expiry_interval": 60}).drop()
    observer5.expect_nothing(0.5)
    assert observer5.take().payload == b"lost"


@statement("MQTT-3.1.3-9", "MQTT-3.1.2-8")
def test_a_client_that_returns_within_the_delay_has_its_will_withheld(join, topic, observer5):
    client_id, kept = unique("c"), {"session_expiry_interval": 60}
    will = Will(topic=topic, payload=b"lost", properties={"will_delay_interval": 1})
    join(client_id=client_id, will=will, properties=kept).drop()
    join(client_id=client_id, clean_start=False, properties=kept)
    observer5.expect_nothing(2.0)


@statement("MQTT-3.1.2-8")
def test_a_delayed_will_is_published_when_its_session_ends_before(join, topic, observer5):
    will = Will(topic=topic, payload=b"lost", properties={"will_delay_interval": 600})
    join(will=will, properties={"session_expiry_interval": 1}).drop()
    assert observer5.take().payload == b"lost"


@differs("forgets the will")
@statement("MQTT-3.1.2-8")
def test_a_delayed_will_is_published_at_once_when_its_session_is_thrown_away(join, topic, observer5):
    observer5.patience_s = 2
    client_id = unique("c")
    will = Will(topic=topic, payload=b"lost", properties={"will_delay_interval": 600})
    join(client_id=client_id, will=will, properties={"session_expiry_interval": 600}).drop()
    observer5.expect_nothing()
    join(client_id=client_id, clean_start=True)
    assert observer5.take().payload == b"lost"


@statement("MQTT-3.1.2-7")
@pytest.mark.parametrize("clean", [True, False])
def test_the_will_belongs_to_the_connection_that_brought_it(join, topic, version, observer, clean):
    client_id, kept = unique("c"), {"session_expiry_interval": 60} if version == V5 else {}
    fields = {"clean_start": clean, "properties": kept}
    join(version, client_id, will=Will(topic=topic, payload=b"first"), **fields).disconnect()
    join(version, client_id, will=Will(topic=topic, payload=b"second"), **fields).drop()
    assert [message.payload for message in observer.take_all()] == [b"second"]


def test_a_will_may_be_empty(join, topic, version, observer):
    join(version, will=Will(topic=topic, payload=b"")).drop()
    assert observer.expect(Kind.PUBLISH).payload == b""
