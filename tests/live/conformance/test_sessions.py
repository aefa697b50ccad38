"""Sessions (sections 3.1.2.4, 3.1.2.11.2 and 4.1): what is kept for a client that is away, and for how long."""

from __future__ import annotations

import time

import pytest

from firelane.mqtt.packets import V3, V5, Disconnect
from firelane.mqtt.reasons import Reason
from live.conformance.statements import statement, statement3
from live.wire import unique

NEVER = 0xFFFF_FFFF


def kept(seconds=60, *, clean=False):
    return {"clean_start": clean, "properties": {"session_expiry_interval": seconds}}


@statement(
    "MQTT-3.1.2-4", "MQTT-3.1.2-5", "MQTT-3.1.2-6", "MQTT-3.1.2-23", "MQTT-3.1.4-4", "MQTT-3.2.2-2", "MQTT-3.2.2-3"
)
@statement3("MQTT-3.1.2-4", "MQTT-3.1.2-6", "MQTT-3.1.4-3", "MQTT-3.2.2-1", "MQTT-3.2.2-2", "MQTT-3.2.2-3")
def test_session_present_tells_whether_there_was_a_session(join, version):
    client_id = unique("c")
    present = []
    for clean in (False, False, True, False):
        wire = join(version, client_id, **kept(clean=clean))
        present.append(wire.connack.session_present)
        wire.disconnect()
    # after a clean session of 3.1.1 nothing is left, after a clean start of 5 the new session is
    assert present == [False, True, False, version == V5]


@statement("MQTT-3.1.2-5", "MQTT-4.5.0-1", "MQTT-3.1.2-23")
@statement3("MQTT-3.1.2-4", "MQTT-3.1.2-5", "MQTT-4.5.0-1", "MQTT-4.1.0-1")
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("farewell", ["disconnect", "drop"])
def test_messages_wait_for_a_client_that_is_away(join, topic, version, qos, farewell):
    client_id = unique("c")
    wire = join(version, client_id, **kept())
    wire.subscribe(topic, qos=2)
    getattr(wire, farewell)()
    publisher = join(version)
    for number in range(5):
        publisher.publish(topic, b"%d" % number, qos=qos)
    wire = join(version, client_id, **kept())
    messages = [wire.take() for _ in range(5)]
    assert [(m.payload, m.qos) for m in messages] == [(b"%d" % number, qos) for number in range(5)]


@statement("MQTT-3.1.2-5")
@statement3("MQTT-3.1.2-4")
def test_subscriptions_are_resumed(join, topic, version):
    client_id = unique("c")
    wire = join(version, client_id, **kept())
    wire.subscribe(topic)
    wire.drop()
    wire = join(version, client_id, **kept())
    wire.publish(topic, b"still here")
    assert wire.take().payload == b"still here"


@statement("MQTT-3.1.2-4")
@statement3("MQTT-3.1.2-6")
def test_a_clean_start_finds_neither_subscriptions_nor_messages(join, topic, version):
    client_id = unique("c")
    wire = join(version, client_id, **kept())
    wire.subscribe(topic, qos=1)
    wire.drop()
    publisher = join(version)
    publisher.publish(topic, b"old", qos=1)
    wire = join(version, client_id, **kept(clean=True))
    publisher.publish(topic, b"new", qos=1)
    wire.expect_nothing()


@statement3("MQTT-3.1.2-6")
def test_a_clean_session_is_never_resumed(join, topic):
    client_id = unique("c")
    wire = join(V3, client_id, clean_start=True)
    wire.subscribe(topic, qos=1)
    wire.disconnect()
    join(V3).publish(topic, b"missed", qos=1)
    wire = join(V3, client_id, clean_start=False)
    assert not wire.connack.session_present
    wire.expect_nothing()


@statement("MQTT-3.1.3-2")
@statement3("MQTT-3.1.3-2")
def test_sessions_are_told_apart_by_the_client_identifier(join, version):
    client_id = unique("c")
    join(version, client_id, **kept()).disconnect()
    assert not join(version, client_id + "x", **kept()).connack.session_present
    assert not join(version, client_id.upper(), **kept()).connack.session_present
    assert join(version, client_id, **kept()).connack.session_present


@statement("MQTT-3.1.4-3", "MQTT-3.1.2-5")
@statement3("MQTT-3.1.4-2", "MQTT-3.1.2-4")
def test_superseding_a_connection_takes_its_session_over(join, topic, version):
    client_id = unique("c")
    older = join(version, client_id, **kept())
    older.subscribe(topic)
    newer = join(version, client_id, **kept())
    assert newer.connack.session_present
    older.expect_closed(Reason.SESSION_TAKEN_OVER)
    newer.publish(topic, b"mine now")
    assert newer.take().payload == b"mine now"


@statement("MQTT-4.1.0-2")
@pytest.mark.parametrize("properties", [{}, {"session_expiry_interval": 0}], ids=["absent", "zero"])
def test_without_expiry_a_session_ends_with_its_connection(join, properties):
    client_id = unique("c")
    join(client_id=client_id, clean_start=False, properties=properties).disconnect()
    assert not join(client_id=client_id, clean_start=False).connack.session_present


@statement("MQTT-4.1.0-2", "MQTT-3.1.2-23")
def test_a_session_ends_when_its_expiry_has_passed(join):
    client_id = unique("c")
    join(client_id=client_id, **kept(1)).disconnect()
    time.sleep(0.2)
    wire = join(client_id=client_id, **kept(1))
    assert wire.connack.session_present
    wire.disconnect()
    time.sleep(2.5)
    assert not join(client_id=client_id, **kept(1)).connack.session_present


@statement("MQTT-4.1.0-1")
@statement3("MQTT-4.1.0-1", "MQTT-4.1.0-2")
def test_a_session_does_not_end_while_its_client_is_connected(join, topic):
    names = {V3: unique("c"), V5: unique("c")}
    wires = [join(version, name, **kept(1)) for version, name in names.items()]
    for wire in wires:
        wire.subscribe(topic)
    time.sleep(2)
    join().publish(topic, b"still here")
    for wire in wires:
        assert wire.take().payload == b"still here"
        wire.drop()
    assert all(join(version, name, **kept(1)).connack.session_present for version, name in names.items())


@statement("MQTT-3.1.2-23")
def test_the_longest_expiry_means_never(join):
    client_id = unique("c")
    join(client_id=client_id, **kept(NEVER)).drop()
    assert join(client_id=client_id, **kept()).connack.session_present


@statement("MQTT-3.1.2-23", "MQTT-4.1.0-2")
@pytest.mark.parametrize(("at_first", "at_last", "present"), [(60, 0, False), (1, 60, True)])
def test_a_disconnect_may_change_the_expiry(join, at_first, at_last, present):
    client_id = unique("c")
    join(client_id=client_id, **kept(at_first)).disconnect(session_expiry_interval=at_last)
    time.sleep(2.5 if present else 0)
    assert join(client_id=client_id, clean_start=False).connack.session_present == present


@statement("MQTT-4.13.1-1")
def test_a_disconnect_may_not_revive_a_session_that_was_to_end(join):
    wire = join(**kept(0))
    wire.send(Disconnect(properties={"session_expiry_interval": 60}))
    wire.expect_closed(Reason.PROTOCOL_ERROR)


def test_qos_0_messages_to_a_client_that_is_away_do_no_harm(join, topic, version):
    client_id = unique("c")
    wire = join(version, client_id, **kept())
    wire.subscribe(topic, qos=1)
    wire.drop()
    publisher = join(version)
    publisher.publish(topic, b"perhaps", qos=0)
    publisher.publish(topic, b"surely", qos=1)
    arrived = [message.payload for message in join(version, client_id, **kept()).take_all()]
    assert arrived in ([b"surely"], [b"perhaps", b"surely"])
