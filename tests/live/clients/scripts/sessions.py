"""Sessions: what a broker keeps while a client is away, for how long, and who owns it."""

from __future__ import annotations

import time

from live.clients.client import MQTT_5, MQTT_311, Message
from live.clients.stage import Seen, Stage, script


@script()
def messages_while_away_arrive_in_order(stage: Stage) -> Seen:
    topic, payloads = stage.topic("x"), [b"%d" % number for number in range(20)]
    subscriber = stage.client("sub", **stage.durable())
    subscriber.subscribe(topic, qos=2)
    subscriber.disconnect()
    publisher = stage.client("pub")
    publisher.publish_all(topic, payloads[:10], qos=1)
    publisher.publish_all(topic, payloads[10:], qos=2)
    back = stage.client("sub", **stage.durable())
    expected = [Message(topic, payload, qos=1 if number < 10 else 2) for number, payload in enumerate(payloads)]
    received = back.receive(len(payloads))
    observed = {f"qos {qos}": [message for message in received if message.qos == qos] for qos in (1, 2)}
    return observed, {f"qos {qos}": [message for message in expected if message.qos == qos] for qos in (1, 2)}


@script()
def qos_0_is_not_kept_for_the_absent(stage: Stage) -> Seen:
    """The specification leaves it to the broker (3.1.1 section 3.1.2.4, 5 section 4.1); both keep none."""
    subscriber = stage.client("sub", **stage.durable())
    subscriber.subscribe(stage.topic("x"), qos=1)
    subscriber.disconnect()
    publisher = stage.client("pub")
    publisher.publish(stage.topic("x"), b"zero", qos=0)
    publisher.publish(stage.topic("x"), b"one", qos=1)
    back = stage.client("sub", **stage.durable())
    return {"received": back.receive(1)}, {"received": [Message(stage.topic("x"), b"one", qos=1)]}


@script()
def a_lost_connection_leaves_the_session(stage: Stage) -> Seen:
    subscriber = stage.client("sub", **stage.durable())
    subscriber.subscribe(stage.topic("x"), qos=1)
    subscriber.drop()
    stage.client("pub").publish(stage.topic("x"), b"kept", qos=1)
    back = stage.client("sub", **stage.durable())
    return {"received": back.receive(1)}, {"received": [Message(stage.topic("x"), b"kept", qos=1)]}


@script()
def a_clean_start_forgets_the_session(stage: Stage) -> Seen:
    subscriber = stage.client("sub", **stage.durable())
    subscriber.subscribe(stage.topic("old"), qos=1)
    subscriber.disconnect()
    publisher = stage.client("pub")
    publisher.publish(stage.topic("old"), b"forgotten", qos=1)
    fresh = stage.client("sub", clean=True)
    fresh.subscribe(stage.topic("new"), qos=1)
    publisher.publish(stage.topic("old"), b"unwanted", qos=1)
    publisher.publish(stage.topic("new"), b"wanted", qos=1)
    return {"received": fresh.receive(1)}, {"received": [Message(stage.topic("new"), b"wanted", qos=1)]}


@script(needs=("connack",))
def session_present_says_whether_there_was_one(stage: Stage) -> Seen:
    observed = {}
    for visit, setup in (
        ("first", stage.durable()),
        ("again", stage.durable()),
        ("clean", {"clean": True}),
        ("after clean", stage.durable()),
    ):
        client = stage.client("sub", **setup)
        observed[visit] = client.connack.session_present
        client.disconnect()
    return observed, {"first": False, "again": True, "clean": False, "after clean": False}


@script(versions=(MQTT_5,), needs=("connack",))
def without_an_expiry_the_session_ends_with_the_connection(stage: Stage) -> Seen:
    first = stage.client("sub", clean=False)
    first.disconnect()
    second = stage.client("sub", clean=False)
    return {"session present": second.connack.session_present}, {"session present": False}


@script(versions=(MQTT_5,), needs=("connack", "disconnect properties"))
def disconnect_can_shorten_the_expiry(stage: Stage) -> Seen:
    observed = {}
    first = stage.client("sub", **stage.durable())
    first.disconnect(session_expiry_interval=3600)
    second = stage.client("sub", **stage.durable())
    observed["kept"] = second.connack.session_present
    second.disconnect(session_expiry_interval=0)
    third = stage.client("sub", **stage.durable())
    observed["ended"] = third.connack.session_present
    return observed, {"kept": True, "ended": False}


@script(needs=("manual ack",))
def what_was_not_acknowledged_comes_again(stage: Stage) -> Seen:
    topic = stage.topic("x")
    subscriber = stage.client("sub", manual_ack=True, **stage.durable())
    subscriber.subscribe(topic, qos=1)
    publisher = stage.client("pub")
    publisher.publish_all(topic, [b"1", b"2", b"3"], qos=1)
    observed = {"first": subscriber.receive(3)}
    subscriber.acknowledge(1)
    subscriber.drop()
    back = stage.client("sub", manual_ack=True, **stage.durable())
    observed["again"] = back.receive(2)
    return observed, {
        "first": [Message(topic, payload, qos=1) for payload in (b"1", b"2", b"3")],
        "again": [Message(topic, payload, qos=1, dup=True) for payload in (b"2", b"3")],
    }


@script(needs=("lost",))
def the_second_with_an_id_takes_over(stage: Stage) -> Seen:
    """MQTT 5 tells the first why (0x8E); 3.1.1 has no word for it."""
    first = stage.client("same", **stage.durable())
    first.subscribe(stage.topic("x"), qos=1)
    second = stage.client("same", **stage.durable())
    observed = {"first is told": first.lost()}
    stage.client("pub").publish(stage.topic("x"), b"for the second", qos=1)
    observed["second received"] = second.receive(1)
    return observed, {
        "first is told": 0x8E if stage.five else None,
        "second received": [Message(stage.topic("x"), b"for the second", qos=1)],
    }


@script(versions=(MQTT_311,), needs=("connack",))
def an_empty_id_is_welcome_in_a_clean_session(stage: Stage) -> Seen:
    client = stage.client("nameless", client_id="")
    return {"answer": client.connack.reason, "usable": client.subscribe(stage.topic("x"))}, {"answer": 0, "usable": [0]}


@script(versions=(MQTT_5,), needs=("connack",))
def an_empty_id_is_replaced(stage: Stage) -> Seen:
    clients = [stage.client("nameless", client_id="", **stage.durable()) for _ in range(2)]
    given = [client.connack.properties.get("assigned_client_identifier", "") for client in clients]
    clients[0].disconnect()
    back = stage.client("named", client_id=given[0], **stage.durable())
    observed = {"different": len(set(given)), "not empty": all(given), "kept": back.connack.session_present}
    observed["a given id is not replaced"] = "assigned_client_identifier" not in back.connack.properties
    return observed, {"different": 2, "not empty": True, "kept": True, "a given id is not replaced": True}


@script(needs=("short keep alive",))
def an_idle_client_stays_by_pinging(stage: Stage) -> Seen:
    client = stage.client("idle", keep_alive_s=1)
    client.subscribe(stage.topic("x"))
    time.sleep(1.7)
    stage.client("pub").publish(stage.topic("x"), b"still here")
    return {"received": client.receive(1)}, {"received": [Message(stage.topic("x"), b"still here")]}
