"""Between the scripts' plain names of MQTT 5 properties and options and the classes of paho-mqtt."""

from __future__ import annotations

from paho.mqtt.client import MQTTMessage
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from live.clients.client import MQTT_5, Message, Properties


def encode(packet_type: int, properties: Properties) -> PahoProperties | None:
    """`content_type="text"` becomes `ContentType`; nothing at all becomes no property list."""
    if not properties:
        return None
    encoded = PahoProperties(packet_type)
    for name, value in properties.items():
        setattr(encoded, _camel(name), value)
    return encoded


def property_values(properties: PahoProperties | None) -> Properties:
    """The properties that are there, by their plain names."""
    names = {} if properties is None else properties.names
    return {
        _snake(name): getattr(properties, name.replace(" ", ""))
        for name in names
        if hasattr(properties, name.replace(" ", ""))
    }


def subscribe_options(
    qos: int, *, no_local: bool = False, retain_as_published: bool = False, retain_handling: int = 0
) -> SubscribeOptions:
    """MQTT 5's subscription options."""
    return SubscribeOptions(
        qos=qos, noLocal=no_local, retainAsPublished=retain_as_published, retainHandling=retain_handling
    )


def message_of(paho: MQTTMessage, topic_of_alias: dict[int, str]) -> Message:
    """What the subscriber saw; paho leaves it to the program to remember what a topic alias stands for."""
    properties = property_values(getattr(paho, "properties", None))
    topic = str(paho.topic)
    if (alias := properties.pop("topic_alias", None)) is not None:
        topic = topic_of_alias[alias] = topic or topic_of_alias[alias]
    return Message(topic, bytes(paho.payload), paho.qos, bool(paho.retain), properties, getattr(paho, "dup", False))


def connack_code(code: ReasonCode, version: int) -> int:
    """What the broker sent: paho translates the five return codes of 3.1.1 into reason codes of 5."""
    back = {0x84: 1, 0x85: 2, 0x88: 3, 0x86: 4, 0x87: 5}
    return code.value if version == MQTT_5 else back.get(code.value, code.value)


def _camel(name: str) -> str:
    return name.title().replace("_", "")


def _snake(name: str) -> str:
    return name.lower().replace(" ", "_")
