"""What has its time: sessions, messages that wait, retained messages. One script, for one wait."""

from __future__ import annotations

import time
from typing import Any

from live.clients.client import MQTT_5, Message
from live.clients.stage import Seen, Stage, script


@script(versions=(MQTT_5,))
def what_expires_is_gone_and_the_rest_counts_down(stage: Stage) -> Seen:
    """What is left of a message's interval travels on in whole seconds: of a hundred, after two to nine, 91 to 98."""
    waiting, mortal = stage.client("waiting", **stage.durable()), stage.client("mortal", **stage.durable(expiry_s=1))
    for subscriber in (waiting, mortal):
        subscriber.subscribe(stage.topic("queued"), qos=1)
        subscriber.disconnect()
    listening = stage.client("listening")
    listening.subscribe(stage.topic("queued"), qos=1)
    publisher = stage.client("pub")
    for topic, retain in (("queued", False), ("kept", True)):
        publish = {"qos": 1, "retain": retain}
        publisher.publish(stage.topic(topic), b"no interval", **publish)
        publisher.publish(stage.topic(topic), b"long", **publish, message_expiry_interval=100)
    publisher.publish(stage.topic("queued"), b"short", qos=1, message_expiry_interval=1)
    publisher.publish(stage.topic("kept/short"), b"short", qos=1, retain=True, message_expiry_interval=1)
    observed = {"listening": _counted(listening.receive(3))}
    time.sleep(2.3)

    late = stage.client("late")
    late.subscribe(stage.topic("kept/#"), qos=1)
    back, reborn = stage.client("waiting", **stage.durable()), stage.client("mortal", **stage.durable(expiry_s=1))
    reborn.subscribe(stage.topic("new"), qos=1)
    publisher.publish(stage.topic("queued"), b"end", qos=1)
    publisher.publish(stage.topic("new"), b"end", qos=1)
    observed |= {
        "waiting": _counted(back.receive(3)),
        "late": _counted(late.receive(1)),
        "reborn": _counted(reborn.receive(1)),
        "reborn has a session": bool(reborn.connack.session_present),
    }
    return observed, {
        "listening": [(b"no interval", None), (b"long", "as sent"), (b"short", 1)],
        "waiting": [(b"no interval", None), (b"long", "counted down"), (b"end", None)],
        "late": [(b"long", "counted down")],
        "reborn": [(b"end", None)],
        "reborn has a session": False,
    }


def _counted(messages: list[Message]) -> list[tuple[bytes, Any]]:
    left = [(message.payload, message.properties.get("message_expiry_interval")) for message in messages]
    words = dict.fromkeys(range(91, 99), "counted down") | dict.fromkeys((99, 100), "as sent")
    return [(payload, words.get(left_s, left_s)) for payload, left_s in left]
