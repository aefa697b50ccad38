"""Keep alive (sections 3.1.2.10 and 3.12): the silent are thrown out, the others are not."""

from __future__ import annotations

import time

from firelane.mqtt.packets import V3, V5, Kind, Ping, Will
from firelane.mqtt.reasons import Reason
from live.conformance.statements import statement, statement3

LONGEST_S = 15  # to notice a silent client; mosquitto looks every five seconds


@statement("MQTT-3.12.4-1")
@statement3("MQTT-3.12.4-1")
def test_a_ping_is_answered(join, version):
    wire = join(version)
    wire.send(Ping(Kind.PINGREQ))
    assert wire.receive() == Ping(Kind.PINGRESP)


@statement("MQTT-3.1.2-22", "MQTT-3.2.2-22")
@statement3("MQTT-3.1.2-24")
def test_silent_clients_are_thrown_out_and_their_wills_published(join, topic):
    observer = join()
    observer.subscribe(topic)
    began = time.monotonic()
    will = Will(topic=topic, payload=b"silent")
    silent = [join(version, keep_alive_s=1, will=will) for version in (V3, V5)]
    for wire in silent:
        wire.subscribe(f"{topic}/news")
    while len(observer.waiting) < 2:
        assert time.monotonic() - began < LONGEST_S
        observer.publish(f"{topic}/news")  # what a client is sent does not keep it alive
        observer.ping()
        time.sleep(0.1)
    assert time.monotonic() - began > 1.4
    for wire in silent:
        assert observer.take().payload == b"silent"
        wire.expect_closed(Reason.KEEP_ALIVE_TIMEOUT)


@statement("MQTT-3.1.2-22", "MQTT-3.2.2-22")
@statement3("MQTT-3.1.2-24")
def test_any_packet_keeps_a_client_alive_and_keep_alive_0_needs_none(join, topic):
    speaking = [join(version, keep_alive_s=1) for version in (V3, V5)]
    allowed_to_be_silent = [join(version, keep_alive_s=0) for version in (V3, V5)]
    for _ in range(4):
        time.sleep(0.7)
        for wire in speaking:
            wire.publish(topic)
    for wire in (*speaking, *allowed_to_be_silent):
        wire.ping()
