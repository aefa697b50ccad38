"""More messages than fit in a window: receive maximum, in-flight limits, the largest packet a client takes."""

from __future__ import annotations

from typing import Any

from live.clients.client import MQTT_5, MQTT_311, Message
from live.clients.stage import Seen, Stage, script

MANY = 1000


def a_thousand(stage: Stage, *, qos: int, **setup: Any) -> Seen:
    """Publisher and broker keep no more than ten unacknowledged."""
    payloads = [b"%d" % number for number in range(MANY)]
    subscriber = stage.client("sub", **setup)
    subscriber.subscribe(stage.topic("x"), qos=2)
    stage.client("pub").publish_all(stage.topic("x"), payloads, qos=qos)
    received = subscriber.receive(MANY)
    observed = {"count": len(received), "in order": [message.payload for message in received] == payloads}
    return observed | {"qos": {message.qos for message in received}}, {"count": MANY, "in order": True, "qos": {qos}}


@script()
def a_thousand_of_qos_1_pass_a_window_of_ten(stage: Stage) -> Seen:
    return a_thousand(stage, qos=1)


@script(versions=(MQTT_311,))
def a_thousand_of_qos_2_pass_a_window_of_ten(stage: Stage) -> Seen:
    return a_thousand(stage, qos=2)


@script(versions=(MQTT_5,), needs=("qos 2 in bulk",))
def a_thousand_of_qos_2_pass_a_window_of_ten_in_5(stage: Stage) -> Seen:
    return a_thousand(stage, qos=2)


@script(versions=(MQTT_5,))
def a_thousand_of_qos_1_pass_a_receive_maximum_of_five(stage: Stage) -> Seen:
    return a_thousand(stage, qos=1, properties={"receive_maximum": 5})


@script(versions=(MQTT_5,), needs=("manual ack",))
def receive_maximum_holds_the_broker_back(stage: Stage) -> Seen:
    subscriber = stage.client("sub", manual_ack=True, properties={"receive_maximum": 3})
    subscriber.subscribe(stage.topic("x"), qos=1)
    publisher = stage.client("pub")
    publisher.publish_all(stage.topic("x"), [b"%d" % number for number in range(8)], qos=1)
    received = subscriber.receive(3, quiet_s=0.2)
    observed = {"window": _payloads(received)}
    subscriber.acknowledge(1)
    received += (more := subscriber.receive(1, quiet_s=0.2))
    observed["more after one acknowledgement"] = len(more)
    acknowledged = 1
    while len(received) < 8:
        subscriber.acknowledge(len(received) - acknowledged)
        acknowledged = len(received)
        received += subscriber.receive(1)
    observed["all"] = _payloads(received)
    return observed, {"window": ["0", "1", "2"], "more after one acknowledgement": 1, "all": list("01234567")}


@script(versions=(MQTT_5,), needs=("manual ack",))
def qos_0_may_pass_a_full_window(stage: Stage) -> Seen:
    """Or wait with the rest: section 4.9 allows both."""
    subscriber = stage.client("sub", manual_ack=True, properties={"receive_maximum": 1})
    subscriber.subscribe(stage.topic("#"), qos=1)
    publisher = stage.client("pub")
    publisher.publish_all(stage.topic("one"), [b"first", b"held"], qos=1)
    publisher.publish(stage.topic("zero"), b"zero", qos=0)
    before = _payloads(subscriber.receive(1, quiet_s=0.3))
    subscriber.acknowledge(1)
    after = _payloads(subscriber.receive(3 - len(before)))
    observed = {"passes": "zero" in before, "all": sorted(before + after), "held": "held" in before}
    return observed, {"passes": True, "all": ["first", "held", "zero"], "held": False}


@script(versions=(MQTT_5,))
def a_packet_larger_than_the_client_takes_is_not_sent(stage: Stage) -> Seen:
    """And counts as sent: what follows is not held up (section 3.1.2.11.4)."""
    subscriber = stage.client("sub", properties={"maximum_packet_size": 500})
    subscriber.subscribe(stage.topic("x"), qos=1)
    publisher = stage.client("pub")
    for qos in (0, 1):
        publisher.publish(stage.topic("x"), b"L" * 600, qos=qos)
        publisher.publish(stage.topic("x"), b"small", qos=qos)
    expected = [Message(stage.topic("x"), b"small", qos=qos) for qos in (0, 1)]
    return {"received": subscriber.receive(2)}, {"received": expected}


def _payloads(messages: list[Message]) -> list[str]:
    return [message.payload.decode() for message in messages]
