"""An MQTT 5 client over TCP or TLS that connects again when its connection is lost, and subscribes anew.

Messages of QoS 0 that find no connection are counted as dropped; those of QoS 1 wait for the next connection.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self, cast
from urllib.parse import urlsplit

from firelane.errors import FirelaneError
from firelane.mqtt import FilterTree
from firelane.mqtt.decode import decode, frame
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import (
    V5,
    Ack,
    Connack,
    Connect,
    Disconnect,
    Kind,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from firelane.mqtt.reasons import PacketError, Reason

PORTS = {"mqtt": 1883, "mqtts": 8883}
KEEP_ALIVE_S = 30
ANSWER_S = 15.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
MOST_BYTES = 16_000_000  # of a packet that comes in
MOST_KNOWN = 10_000  # topics whose takers are remembered
SOME_IDS = 65_535

Got = Callable[[str, bytes], None]
Properties = tuple[tuple[str, str], ...]


class ClientError(FirelaneError):
    """A broker that cannot be reached, or that refuses something."""


@dataclass(slots=True, eq=False)
class _Wanted:
    """A subscription: who gets what comes of it, and how it was asked for."""

    filter: str
    got: Got
    qos: int
    properties: Properties


class Client:
    """`async with Client("mqtt://host:1883") as client:` is a connection, for as long as the block lasts."""

    most_bytes = 1_000_000  # of a message, which all brokers take
    reliable = True

    def __init__(
        self,
        url: str,
        *,
        client_id: str = "",
        user: str | None = None,
        password: str | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.host, self.port, self._tls = address(url)
        self.client_id = client_id
        self._user, self._password = user, password
        self._tell = tell
        self._wanted: dict[str, _Wanted] = {}
        self._tree: FilterTree[_Wanted] = FilterTree()
        self._takers: dict[str, list[_Wanted]] = {}
        self._connection: _Connection | None = None
        self._ids = cycle(range(1, SOME_IDS + 1))
        self._there = asyncio.Event()
        self._stack = AsyncExitStack()
        self.on_connected: list[Callable[[], None]] = []  # called whenever there is a new connection
        self.dropped = 0

    async def __aenter__(self) -> Self:
        connection = await self._connect()
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._task = group.create_task(self._keep(connection))
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._task.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.leave()
        await self._stack.aclose()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, content_type: str = ""
    ) -> None:
        """Send a message; of QoS 1 this returns once the broker has it. A full socket is waited for."""
        packet = Publish(topic=topic, payload=payload, qos=qos, retain=retain)
        if content_type:
            packet.properties["content_type"] = content_type
        if not qos:
            await self._publish_once(packet)
            return
        while True:
            await self._there.wait()
            with suppress(ConnectionError):
                answer = await self._ask(packet)
                _consent([answer.reason], answer.properties, f"publishing on {topic}")
                return

    async def _publish_once(self, packet: Publish) -> None:
        connection = self._connection
        if connection is None:
            self.dropped += 1
            return
        connection.write(encode(packet, V5))
        await connection.room.wait()

    async def subscribe(
        self, topic_filter: str, got: Got, *, qos: int = 0, properties: Properties = ()
    ) -> dict[str, str]:
        """Have somebody called with what comes on a filter; returns the user properties of the answer.

        The subscription is made again with every new connection. A ClientError says why it was refused.
        """
        wanted = _Wanted(topic_filter, got, qos, tuple(properties))
        self._forget(topic_filter)
        self._wanted[topic_filter] = wanted
        self._tree.add(topic_filter, wanted)
        self._takers.clear()
        while True:
            await self._there.wait()
            try:
                return await self._subscribe(wanted)
            except ConnectionError:
                continue
            except ClientError:
                self._forget(topic_filter)
                raise

    async def unsubscribe(self, topic_filter: str) -> None:
        """Take a subscription back."""
        self._forget(topic_filter)
        with suppress(ConnectionError):
            await self._ask(Unsubscribe(packet_id=0, filters=[topic_filter]))

    async def _subscribe(self, wanted: _Wanted) -> dict[str, str]:
        properties = {"user_property": list(wanted.properties)} if wanted.properties else {}
        wish = Subscription(filter=wanted.filter, qos=wanted.qos)
        answer = await self._ask(Subscribe(packet_id=0, subscriptions=[wish], properties=properties))
        _consent(answer.reasons, answer.properties, f"subscribing to {wanted.filter}")
        return dict(answer.properties.get("user_property", ()))

    def _forget(self, topic_filter: str) -> None:
        before = self._wanted.pop(topic_filter, None)
        if before is not None:
            self._tree.remove(topic_filter, before)
            self._takers.clear()

    async def _ask(self, packet: Any) -> Any:
        connection = self._connection
        if connection is None:
            raise ConnectionError
        packet.packet_id = next(one for one in self._ids if one not in connection.answers)
        return await connection.ask(packet)

    def _got(self, topic: str, payload: bytes) -> None:
        takers = self._takers.get(topic)
        if takers is None:
            if len(self._takers) >= MOST_KNOWN:
                self._takers.clear()
            takers = self._takers[topic] = list(self._tree.matching(topic))
        for one in takers:
            one.got(topic, payload)

    async def _connect(self) -> _Connection:
        """A new connection that was let in."""
        where = f"{self.host}:{self.port}"
        connection = _Connection(self._got)
        try:
            async with asyncio.timeout(ANSWER_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, self.host, self.port, ssl=ssl.create_default_context() if self._tls else None
                )
                answer = await connection.ask(self._hello())
            _consent([answer.reason], answer.properties, f"connecting to {where}")
        except BaseException as problem:
            connection.leave()
            raise _unreachable(where, problem) from None
        self._connection = connection
        self.client_id = answer.properties.get("assigned_client_identifier", self.client_id)
        self._there.set()
        return connection

    def _hello(self) -> Connect:
        password = self._password.encode() if self._password is not None else None
        return Connect(client_id=self.client_id, keep_alive_s=KEEP_ALIVE_S, user=self._user, password=password)

    async def _keep(self, connection: _Connection) -> None:
        """Keep this connection alive, and make another when it is lost, until cancelled."""
        while True:
            for call in self.on_connected:
                call()
            await connection.last()
            self._connection = None
            self._there.clear()
            self._tell(f"the connection to {self.host}:{self.port} is lost; connecting again")
            connection = await self._reconnect()

    async def _reconnect(self) -> _Connection:
        pause_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            try:
                connection = await self._connect()
                for one in list(self._wanted.values()):
                    await self._subscribe(one)
                return connection
            except (ClientError, ConnectionError) as problem:
                if self._connection is not None:
                    self._connection.leave()
                    self._connection = None
                self._there.clear()
                self._tell(str(problem) or f"the connection to {self.host}:{self.port} is lost again")


class _Connection(asyncio.Protocol):
    """One TCP connection: packets in and out, and who waits for which answer."""

    def __init__(self, got: Got) -> None:
        self._got = got
        self._buffer = bytearray()
        self.answers: dict[int, asyncio.Future[Any]] = {}  # by packet identifier; 0 is CONNACK's
        self._lost = asyncio.get_running_loop().create_future()
        self.room = asyncio.Event()
        self.room.set()
        self._heard = True
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a socket."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits for an answer will not get one."""
        self.room.set()
        for one in self.answers.values():
            if not one.done():
                one.set_exception(ConnectionResetError())
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self.room.clear()

    def resume_writing(self) -> None:
        """It takes more again."""
        self.room.set()

    def write(self, data: bytes) -> None:
        """Send these bytes, as long as there is somebody to send them to."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def ask(self, packet: Any) -> Any:
        """Send a packet and wait for its answer; ConnectionError if there will be none."""
        if self._lost.done():
            raise ConnectionResetError
        number = getattr(packet, "packet_id", 0)
        future = self.answers[number] = asyncio.get_running_loop().create_future()
        try:
            self.write(encode(packet, V5))
            async with asyncio.timeout(ANSWER_S):
                return await future
        except TimeoutError:
            self.leave()
            raise ConnectionResetError from None
        finally:
            del self.answers[number]

    async def last(self) -> None:
        """Returns when the connection is lost; a broker that is silent for long is taken for lost."""
        while not self._lost.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_ALIVE_S / 2):
                    await asyncio.shield(self._lost)
            if not self._heard:
                self.leave()
                return
            self._heard = False
            self.write(bytes((Kind.PINGREQ << 4, 0)))

    def leave(self) -> None:
        """Say goodbye and hang up."""
        if self._transport is not None:
            self.write(encode(Disconnect(), V5))
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Take whole packets; a broker that sends nonsense is left."""
        self._heard = True
        buffer, at = self._buffer, 0
        buffer += data
        try:
            while (place := frame(buffer, at, MOST_BYTES)) is not None and place[1] <= len(buffer):
                self._take(decode(buffer[at], bytes(buffer[place[0] : place[1]]), V5))
                at = place[1]
        except PacketError:
            self.leave()
            at = len(buffer)
        del buffer[:at]

    def _take(self, packet: Packet) -> None:
        match packet:
            case Publish():
                if packet.qos == 1:
                    self.write(encode(Ack(kind=Kind.PUBACK, packet_id=packet.packet_id), V5))
                self._got(packet.topic, packet.payload)
            case Connack() | Suback() | Ack():
                future = self.answers.get(getattr(packet, "packet_id", 0))
                if future is not None and not future.done():
                    future.set_result(packet)
            case Disconnect():
                self.leave()


def address(url: str, ports: dict[str, int] = PORTS) -> tuple[str, int, bool]:
    """Host, port and whether it is by TLS; what is no such address is told in a line."""
    parts = urlsplit(url)
    schemes = " or ".join(f"{one}://HOST:PORT" for one in ports)
    try:
        port = parts.port or ports[parts.scheme]
    except (KeyError, ValueError):
        raise ClientError(f'"{url}" is no address of a broker; write {schemes}') from None
    if not parts.hostname:
        raise ClientError(f'"{url}" names no host; write {schemes}')
    return parts.hostname, port, parts.scheme.endswith("s")


def _unreachable(where: str, problem: BaseException) -> BaseException:
    """What to tell of a broker that could not be reached; other problems stay what they are."""
    if isinstance(problem, TimeoutError):
        return ClientError(f"the broker at {where} does not answer; is it running, and is this its port?")
    if isinstance(problem, (OSError, ssl.SSLError)):
        why = problem.strerror or str(problem) or "it hung up"
        return ClientError(f"the broker at {where} cannot be reached: {why}; check the address")
    return problem


def _consent(reasons: list[int], properties: dict[str, Any], what: str) -> None:
    worst = max(reasons, default=0)
    if worst >= Reason.UNSPECIFIED_ERROR:
        why = properties.get("reason_string") or Reason(worst).name.lower().replace("_", " ")
        raise ClientError(f"the broker refuses {what}: {why}")
