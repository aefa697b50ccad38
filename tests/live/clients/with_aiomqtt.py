"""aiomqtt, the asyncio client; its event loop runs in a thread so that scripts stay plain functions."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import aiomqtt
from paho.mqtt.packettypes import PacketTypes

from live.clients.client import MQTT_5, PATIENCE_S, QUIET_S, Connack, Inbox, Message, RefusalError, Setup
from live.clients.paho_words import connack_code, encode, message_of, subscribe_options

UNSPECIFIED = 0x80  # paho, below, says this when the broker says nothing


class Loop:
    """An event loop in a thread, for all clients of a test run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run it there and wait for it here."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class AiomqttClient:
    CANNOT: ClassVar[dict[str, str]] = {
        "connack": "aiomqtt does not pass on the session present flag and the properties of CONNACK",
        "puback reason": "aiomqtt does not pass on the reason code of PUBACK and PUBCOMP",
        "unsuback reason": "aiomqtt does not pass on the reason codes of UNSUBACK",
        "disconnect with will": "aiomqtt sends DISCONNECT without a reason code",
        "disconnect properties": "aiomqtt sends DISCONNECT without properties",
        "refused certificate": "aiomqtt notices a connection that is closed before CONNACK only after its timeout",
        "plain on a TLS port": "aiomqtt notices a connection that is closed before CONNACK only after its timeout",
        "manual ack": "aiomqtt always acknowledges by itself",
        "aliases from the broker": "aiomqtt refuses a message with an empty topic",
    }
    loop: ClassVar[Loop]

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.reason_strings: list[str] = []
        self._five = setup.version == MQTT_5
        self._inbox = Inbox()
        self._lost: int | None = None
        self._reader: asyncio.Task[None] | None = None

    def connect(self) -> None:
        try:
            self.loop.run(self._connect())
        except aiomqtt.exceptions.MqttConnectError as refusal:
            raise RefusalError(connack_code(refusal.rc, self._setup.version)) from refusal
        except (aiomqtt.MqttError, OSError) as problem:
            raise RefusalError(None) from problem
        self.connack = Connack(reason=0)

    def subscribe(self, *filters: str, qos: int = 0, identifier: int | None = None, **options: Any) -> list[int]:
        if self._five:
            chosen = subscribe_options(qos, **options)
            given = encode(PacketTypes.SUBSCRIBE, {"subscription_identifier": identifier} if identifier else {})
            subscribing = self._client.subscribe([(one, chosen) for one in filters], properties=given)
        else:
            subscribing = self._client.subscribe([(one, qos) for one in filters])
        return [code.value for code in self.loop.run(subscribing)]

    def unsubscribe(self, *filters: str) -> list[int]:
        self.loop.run(self._client.unsubscribe(list(filters)))
        return [0] * len(filters)

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, **properties: Any) -> int:
        given = encode(PacketTypes.PUBLISH, properties) if self._five else None
        self.loop.run(self._client.publish(topic, payload, qos, retain, given))
        return 0

    def publish_all(self, topic: str, payloads: Sequence[bytes], *, qos: int, **properties: Any) -> None:
        """With a topic alias, the topic is only said once."""

        async def publish() -> None:
            self._client.pending_calls_threshold = len(payloads)
            async with asyncio.TaskGroup() as group:
                for number, payload in enumerate(payloads):
                    name = "" if number and "topic_alias" in properties else topic
                    given = encode(PacketTypes.PUBLISH, properties) if self._five else None
                    group.create_task(self._client.publish(name, payload, qos, properties=given))

        self.loop.run(publish())

    def receive(self, count: int, *, quiet_s: float = QUIET_S) -> list[Message]:
        return self._inbox.take(count, quiet_s)

    def acknowledge(self, count: int) -> None:
        raise NotImplementedError(self.CANNOT["manual ack"])

    def lost(self) -> int | None:
        self.loop.run(asyncio.wait_for(asyncio.shield(self._reader), PATIENCE_S))
        return self._lost

    def disconnect(self, *, reason: int = 0, **properties: Any) -> None:
        if reason or properties:
            raise NotImplementedError(self.CANNOT["disconnect with will"])
        self.loop.run(self._close())

    def drop(self) -> None:
        """Close the socket without a DISCONNECT, as an accident would."""

        async def drop() -> None:
            await self._cut()
            if self._reader is not None:
                await self._reader
            await self._close()

        self.loop.run(drop())

    async def _connect(self) -> None:
        self._client = self._aiomqtt()
        try:
            await self._client.__aenter__()
        except aiomqtt.MqttError:
            await self._cut()
            raise
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        aliases: dict[int, str] = {}
        try:
            async for message in self._client.messages:
                self._inbox.put(message_of(message, aliases))
        except aiomqtt.MqttError as closed:
            reason = getattr(getattr(closed.__cause__, "rc", None), "value", UNSPECIFIED)
            self._lost = None if reason == UNSPECIFIED else reason

    async def _cut(self) -> None:
        paho = self._client._client
        if (connection := paho.socket()) is not None:
            connection.shutdown(socket.SHUT_RDWR)
        while paho.socket() is not None:
            await asyncio.sleep(0.001)

    async def _close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        with suppress(aiomqtt.MqttError):
            await self._client.__aexit__(None, None, None)

    def _aiomqtt(self) -> aiomqtt.Client:
        s = self._setup
        will = None
        if s.will is not None:
            given = encode(PacketTypes.WILLMESSAGE, s.will.properties) if self._five else None
            will = aiomqtt.Will(s.will.topic, s.will.payload, s.will.qos, s.will.retain, given)
        tls = s.tls and aiomqtt.TLSParameters(
            ca_certs=str(s.tls.ca), certfile=s.tls.certificate, keyfile=s.tls.certificate
        )
        session: dict[str, Any] = {"clean_start": s.clean} if self._five else {"clean_session": s.clean}
        return aiomqtt.Client(
            s.host,
            s.port,
            identifier=s.client_id,
            protocol=aiomqtt.ProtocolVersion(s.version),
            username=s.user,
            password=s.password,
            keepalive=s.keep_alive_s,
            timeout=PATIENCE_S,
            will=will,
            tls_params=tls,
            max_inflight_messages=s.inflight,
            transport="websockets" if s.websocket else "tcp",
            properties=encode(PacketTypes.CONNECT, s.properties) if self._five else None,
            **session,
        )
