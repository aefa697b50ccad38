"""Wills: the message that a lost client leaves."""

from __future__ import annotations

from live.clients.client import MQTT_5, Client, Message, Will
from live.clients.stage import Seen, Stage, script


def watcher_of(stage: Stage) -> Client:
    watcher = stage.client("watcher")
    watcher.subscribe(stage.topic("#"), qos=2)
    return watcher


@script()
def a_lost_client_leaves_its_will(stage: Stage) -> Seen:
    watcher = watcher_of(stage)
    observed, expected = {}, {}
    for qos in range(3):
        topic = stage.topic(f"will{qos}")
        stage.client(f"dying{qos}", will=Will(topic=topic, payload=b"gone", qos=qos)).drop()
        observed[f"qos {qos}"] = watcher.receive(1)
        expected[f"qos {qos}"] = [Message(topic, b"gone", qos=qos)]
    return observed, expected


@script(needs=("goodbye with a will",))
def a_client_that_says_goodbye_leaves_no_will(stage: Stage) -> Seen:
    watcher = watcher_of(stage)
    leaving = stage.client("leaving", will=Will(topic=stage.topic("will"), payload=b"gone", qos=1))
    leaving.disconnect()
    stage.client("pub").publish(stage.topic("end"), b"end", qos=1)
    return {"received": watcher.receive(1, quiet_s=0.2)}, {"received": [Message(stage.topic("end"), b"end", qos=1)]}


@script()
def a_will_can_be_retained(stage: Stage) -> Seen:
    watcher = watcher_of(stage)
    topic = stage.topic("status")
    stage.client("dying", will=Will(topic=topic, payload=b"offline", qos=1, retain=True)).drop()
    observed = {"watcher": watcher.receive(1)}
    late = stage.client("late")
    late.subscribe(topic, qos=1)
    observed["late"] = late.receive(1)
    return observed, {
        "watcher": [Message(topic, b"offline", qos=1)],
        "late": [Message(topic, b"offline", qos=1, retain=True)],
    }


@script(needs=("lost",))
def one_who_is_taken_over_leaves_its_will(stage: Stage) -> Seen:
    """The broker closes the first connection, and that is not a goodbye (3.1.1 section 3.1.2.5, 5 section 3.1.4)."""
    watcher = watcher_of(stage)
    first = stage.client("same", will=Will(topic=stage.topic("will"), payload=b"gone", qos=1))
    stage.client("same")
    first.lost()
    return {"received": watcher.receive(1)}, {"received": [Message(stage.topic("will"), b"gone", qos=1)]}


@script(versions=(MQTT_5,), needs=("disconnect with will",))
def disconnect_with_will_leaves_it(stage: Stage) -> Seen:
    watcher = watcher_of(stage)
    leaving = stage.client("leaving", will=Will(topic=stage.topic("will"), payload=b"gone", qos=1))
    leaving.disconnect(reason=0x04)
    return {"received": watcher.receive(1)}, {"received": [Message(stage.topic("will"), b"gone", qos=1)]}


@script(versions=(MQTT_5,))
def a_will_waits_for_its_delay(stage: Stage) -> Seen:
    """One client comes back in time and its will is dropped; the other does not (section 3.1.3.2.2)."""
    watcher = watcher_of(stage)
    delay = {"will_delay_interval": 1}
    for name in ("back", "gone"):
        will = Will(topic=stage.topic(name), payload=name.encode(), qos=1, properties=delay)
        stage.client(name, will=will, **stage.durable()).drop()
    back = stage.client("back", **stage.durable())
    back.subscribe(stage.topic("nothing"))
    observed = {"at once": watcher.receive(0, quiet_s=0.4), "later": watcher.receive(1, quiet_s=0.5)}
    return observed, {"at once": [], "later": [Message(stage.topic("gone"), b"gone", qos=1)]}


@script(versions=(MQTT_5,))
def a_will_does_not_outwait_its_session(stage: Stage) -> Seen:
    """The delay ends when the session ends, whichever is first (section 3.1.3.2.2)."""
    watcher = watcher_of(stage)
    will = Will(topic=stage.topic("will"), payload=b"gone", qos=1, properties={"will_delay_interval": 3600})
    stage.client("dying", will=will).drop()
    return {"wills": len(watcher.receive(0, quiet_s=1))}, {"wills": 1}


@script(versions=(MQTT_5,))
def a_will_carries_its_properties(stage: Stage) -> Seen:
    watcher = watcher_of(stage)
    properties = {
        "content_type": "text/plain",
        "response_topic": stage.topic("answers"),
        "correlation_data": b"17",
        "user_property": [("unit", "engine-3")],
    }
    will = Will(topic=stage.topic("will"), payload=b"gone", qos=1, properties=properties)
    stage.client("dying", will=will).drop()
    expected = [Message(stage.topic("will"), b"gone", qos=1, properties=properties)]
    return {"received": watcher.receive(1)}, {"received": expected}
