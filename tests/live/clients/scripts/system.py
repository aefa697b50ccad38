"""`$SYS/broker`: the names that monitoring tools know from mosquitto."""

from __future__ import annotations

from live.clients.client import MQTT_5
from live.clients.stage import Seen, Stage, script
from live.clients.system_names import SYSTEM_NAMES


@script(venue="fresh")
def the_names_under_sys_are_mosquittos(stage: Stage) -> Seen:
    """A broker may have more of them; mosquitto forgets those that have not changed for a minute."""
    subscriber = stage.client("sub")
    granted = subscriber.subscribe("$SYS/broker/#", qos=1)
    received = subscriber.receive(len(SYSTEM_NAMES))
    for _ in range(3):  # values that have just changed come twice
        if set(SYSTEM_NAMES) - {message.topic for message in received}:
            received += subscriber.receive(0, quiet_s=0.5)
    observed = {"granted": granted, "missing": sorted(set(SYSTEM_NAMES) - {message.topic for message in received})}
    observed["empty"] = sorted(message.topic for message in received if not message.payload)
    return observed, {"granted": [1], "missing": [], "empty": []}


@script(versions=(MQTT_5,))
def the_values_under_sys_move(stage: Stage) -> Seen:
    """With an interval of one second, the uptime is told anew within two."""
    subscriber = stage.client("sub")
    subscriber.subscribe("$SYS/broker/uptime")
    texts = [message.payload.decode() for message in subscriber.receive(2)]
    before, after = (int(text.removesuffix(" seconds")) for text in texts[:2])
    observed = {"in seconds": all(text.endswith(" seconds") for text in texts), "grows": before < after <= before + 3}
    return observed, {"in seconds": True, "grows": True}


@script(needs=("publish and subscribe",))
def nobody_publishes_under_sys(stage: Stage) -> Seen:
    """What a client publishes there is not passed on."""
    client = stage.client("both")
    client.subscribe("$SYS/broker/forged", stage.topic("x"), qos=1)
    client.publish("$SYS/broker/forged", b"forged", qos=0)
    client.publish(stage.topic("x"), b"real", qos=1)
    return {"received": [m.payload for m in client.receive(1)]}, {"received": [b"real"]}
