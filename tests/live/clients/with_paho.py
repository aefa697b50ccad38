"""paho-mqtt, the client library that most Python programs use."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from paho.mqtt.client import CallbackAPIVersion, MQTTMessage
from paho.mqtt.client import Client as Paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from live.clients.client import MQTT_5, PATIENCE_S, QUIET_S, Connack, Inbox, Message, RefusalError, Setup
from live.clients.paho_words import connack_code, encode, message_of, property_values, subscribe_options


class PahoClient:
    CANNOT: ClassVar[dict[str, str]] = {}

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._five = setup.version == MQTT_5
        self._inbox = Inbox()
        self._unacknowledged: list[tuple[int, int]] = []
        self._topic_of_alias: dict[int, str] = {}
        self._answers: dict[Any, Any] = {}
        self._answered = threading.Condition()
        self.reason_strings: list[str] = []
        self._client: Paho | None = self._paho()

    def connect(self) -> None:
        s = self._setup
        connecting: dict[str, Any] = {"clean_start": s.clean} if self._five else {}
        properties = encode(PacketTypes.CONNECT, s.properties) if self._five else None
        try:
            self._client.connect(s.host, s.port, s.keep_alive_s, properties=properties, **connecting)
        except OSError as problem:
            raise RefusalError(None) from problem
        self._client.loop_start()
        self.connack = self._answer("connack")
        if self.connack is None or self.connack.reason != 0:
            self.drop()
            raise RefusalError(self.connack and self.connack.reason)

    def subscribe(self, *filters: str, qos: int = 0, identifier: int | None = None, **options: Any) -> list[int]:
        if self._five:
            chosen = subscribe_options(qos, **options)
            given = encode(PacketTypes.SUBSCRIBE, {"subscription_identifier": identifier} if identifier else {})
            _, mid = self._client.subscribe([(one, chosen) for one in filters], properties=given)
        else:
            _, mid = self._client.subscribe([(one, qos) for one in filters])
        return self._answer("suback", mid)

    def unsubscribe(self, *filters: str) -> list[int]:
        _, mid = self._client.unsubscribe(list(filters))
        return self._answer("unsuback", mid)

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, **properties: Any) -> int:
        given = encode(PacketTypes.PUBLISH, properties) if self._five else None
        info = self._client.publish(topic, payload, qos, retain, given)
        return self._answer("puback", info.mid)

    def publish_all(self, topic: str, payloads: Sequence[bytes], *, qos: int, **properties: Any) -> None:
        """With a topic alias, the topic is only said once."""
        infos = []
        for number, payload in enumerate(payloads):
            name = "" if number and "topic_alias" in properties else topic
            given = encode(PacketTypes.PUBLISH, properties) if self._five else None
            infos.append(self._client.publish(name, payload, qos, properties=given))
        for info in infos:
            self._answer("puback", info.mid)

    def receive(self, count: int, *, quiet_s: float = QUIET_S) -> list[Message]:
        return self._inbox.take(count, quiet_s)

    def acknowledge(self, count: int) -> None:
        for _ in range(count):
            self._client.ack(*self._unacknowledged.pop(0))
        while self._client.want_write():
            time.sleep(0.001)

    def lost(self) -> int | None:
        return self._answer("disconnect")

    def disconnect(self, *, reason: int = 0, **properties: Any) -> None:
        if self._client is None:
            return
        if self._five and (reason or properties):
            code = ReasonCode(PacketTypes.DISCONNECT, identifier=reason)
            self._client.disconnect(code, encode(PacketTypes.DISCONNECT, properties))
        else:
            self._client.disconnect()
        self._end()

    def drop(self) -> None:
        """Close the socket without a DISCONNECT."""
        if (connection := self._client.socket()) is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._end()

    def _end(self) -> None:
        """Let paho go at once: it closes its own sockets when nobody refers to it."""
        self._client.loop_stop()
        self._client = None

    def _paho(self) -> Paho:
        s = self._setup
        client = Paho(
            CallbackAPIVersion.VERSION2,
            client_id=s.client_id,
            clean_session=None if self._five else s.clean,
            protocol=s.version,
            transport="websockets" if s.websocket else "tcp",
            reconnect_on_failure=False,
            manual_ack=s.manual_ack,
        )
        client.max_inflight_messages_set(s.inflight)
        if s.user is not None:
            client.username_pw_set(s.user, s.password)
        if s.tls is not None:
            client.tls_set(ca_certs=s.tls.ca, certfile=s.tls.certificate, keyfile=s.tls.certificate)
        if s.will is not None:
            given = encode(PacketTypes.WILLMESSAGE, s.will.properties) if self._five else None
            client.will_set(s.will.topic, s.will.payload, s.will.qos, s.will.retain, given)
        self._listen(client)
        return client

    def _listen(self, client: Paho) -> None:
        client.on_connect = lambda _c, _u, flags, code, properties: self._tell(
            Connack(
                reason=connack_code(code, self._setup.version),
                session_present=flags.session_present,
                properties=property_values(properties),
            ),
            "connack",
        )
        client.on_connect_fail = lambda *_: self._tell(None, "connack")
        client.on_subscribe = self._on_codes("suback")
        client.on_unsubscribe = self._on_codes("unsuback")
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message

    def _on_codes(self, kind: str) -> Callable[..., None]:
        def told(_client: Paho, _userdata: Any, mid: int, codes: list[ReasonCode], properties: Any) -> None:
            self._note(properties)
            self._tell([code.value for code in codes], kind, mid)

        return told

    def _on_publish(self, _client: Paho, _userdata: Any, mid: int, code: ReasonCode, properties: Any) -> None:
        self._note(properties)
        self._tell(code.value, "puback", mid)

    def _note(self, properties: Any) -> None:
        if "reason_string" in (values := property_values(properties)):
            self.reason_strings.append(values["reason_string"])

    def _on_disconnect(self, _client: Paho, _userdata: Any, flags: Any, code: ReasonCode, _properties: Any) -> None:
        self._tell(None, "connack")
        self._tell(code.value if flags.is_disconnect_packet_from_server else None, "disconnect")

    def _on_message(self, _client: Paho, _userdata: Any, paho: MQTTMessage) -> None:
        message = message_of(paho, self._topic_of_alias)
        if self._setup.manual_ack and message.qos:
            self._unacknowledged.append((paho.mid, paho.qos))
        self._inbox.put(message)

    def _tell(self, answer: Any, *question: Any) -> None:
        with self._answered:
            self._answers.setdefault(question, answer)
            self._answered.notify_all()

    def _answer(self, *question: Any) -> Any:
        with self._answered:
            self._answered.wait_for(lambda: question in self._answers or ("disconnect",) in self._answers, PATIENCE_S)
            if question in self._answers:
                return self._answers[question]
        raise ConnectionError(f"no {question[0]} from the broker")
