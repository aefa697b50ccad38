"""An MQTT 5 client over TCP or TLS that connects again when its connection is lost, and subscribes anew.

Messages of QoS 0 that find no connection are counted as dropped; those of QoS 1 wait for the next connection. Who is
called with what comes and fails harms nobody else: that is told, and counted.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self, cast
from urllib.parse import urlsplit

from firelane.errors import FirelaneError
from firelane.mqtt import FilterTree, plain_topics
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
from firelane.mqtt.reasons import PacketError, Reason, in_words

PORTS = {"mqtt": 1883, "mqtts": 8883}
KEEP_ALIVE_S = 30
ANSWER_S = 15.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
MOST_BYTES = 16_000_000  # of a packet that comes in
MOST_SENT = 1_000_000  # of one that goes out, unless it must be more; a broker may take less
MOST_KNOWN = 10_000  # topics whose takers are remembered
SOME_IDS = 65_535
SPARE_BYTES = 200  # of a packet beside its payload, at least

Got = Callable[[str, bytes], None]
Properties = tuple[tuple[str, str], ...]


class ClientError(FirelaneError):
    """A broker that cannot be reached, or that refuses something."""


@dataclass(slots=True, eq=False)
class _Wanted:
    """A subscription: who get what comes of it, and how it was asked for."""

    filter: str
    got: list[Got]
    qos: int
    properties: Properties
    retained: bool


class Client:
    """`async with Client("mqtt://host:1883") as client:` is a connection, for as long as the block lasts."""

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
        self.dropped = 0  # messages of QoS 0 for which there was no connection
        self.failed = 0  # calls of those who are called with what comes
        self._pause_s = FIRST_PAUSE_S

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

    @property
    def most_bytes(self) -> int:
        """How large a message may be, for this broker to take it."""
        largest = MOST_SENT if self._connection is None else self._connection.largest
        return max(1, min(MOST_SENT, largest) - SPARE_BYTES)

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, content_type: str = ""
    ) -> None:
        """Send a message; of QoS 1 this returns once the broker has it. A full socket is waited for."""
        _check_qos(qos)
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
        if connection is None or not connection.write(connection.fitting(packet)):
            self.dropped += 1
            return
        await connection.room.wait()

    async def subscribe(
        self, topic_filter: str, got: Got, *, qos: int = 0, properties: Properties = (), retained: bool = True
    ) -> dict[str, str]:
        """Have somebody called with what comes on a filter; returns the user properties of the answer.

        With `retained=False` what the broker has kept from before is left out. The subscription is made again with
        every new connection. A ClientError says why it was refused. Several may share a filter if they ask alike.
        """
        _check_qos(qos)
        wanted = self._want(_Wanted(topic_filter, [], qos, tuple(properties), retained))
        wanted.got.append(got)
        while True:
            await self._there.wait()
            try:
                return await self._subscribe(wanted)
            except ConnectionError:
                continue
            except BaseException:
                self._forget(topic_filter, got)
                raise

    async def unsubscribe(self, topic_filter: str, got: Got | None = None) -> None:
        """Take a subscription back; only somebody's, if others share the filter."""
        if self._forget(topic_filter, got):
            with suppress(ConnectionError):
                await self._ask(Unsubscribe(packet_id=0, filters=[topic_filter]))

    def _want(self, wish: _Wanted) -> _Wanted:
        """This subscription, or the one there is already."""
        wanted = self._wanted.get(wish.filter)
        if wanted is None:
            self._wanted[wish.filter] = wish
            self._tree.add(plain_topics(wish.filter), wish)
            self._takers.clear()
            return wish
        if (wanted.qos, wanted.properties, wanted.retained) != (wish.qos, wish.properties, wish.retained):
            raise ClientError(
                f"this client subscribes to {wish.filter} already, and otherwise; use a client of its own"
            )
        return wanted

    async def _subscribe(self, wanted: _Wanted) -> dict[str, str]:
        properties = {"user_property": list(wanted.properties)} if wanted.properties else {}
        wish = Subscription(filter=wanted.filter, qos=wanted.qos)
        answer = await self._ask(Subscribe(packet_id=0, subscriptions=[wish], properties=properties))
        _consent(answer.reasons, answer.properties, f"subscribing to {wanted.filter}")
        return dict(answer.properties.get("user_property", ()))

    def _forget(self, topic_filter: str, got: Got | None = None) -> bool:
        """Somebody, or everybody, is not to be called any more; whether nobody is left."""
        wanted = self._wanted.get(topic_filter)
        if wanted is None:
            return False
        wanted.got = [] if got is None else [one for one in wanted.got if one != got]
        if wanted.got:
            return False
        del self._wanted[topic_filter]
        self._tree.remove(plain_topics(topic_filter), wanted)
        self._takers.clear()
        return True

    async def _ask(self, packet: Any) -> Any:
        connection = self._connection
        if connection is None:
            raise ConnectionError
        if len(connection.answers) >= SOME_IDS - 1:
            raise ClientError(f"{SOME_IDS - 1} messages wait for the broker's answer; wait for some of them")
        packet.packet_id = next(one for one in self._ids if one not in connection.answers)
        try:
            return await connection.ask(packet)
        except ConnectionError:
            if self._connection is connection:  # whoever tries again waits for the next one
                self._connection = None
                self._there.clear()
            raise

    def _got(self, topic: str, payload: bytes, retained: bool) -> None:
        takers = self._takers.get(topic)
        if takers is None:
            if len(self._takers) >= MOST_KNOWN:
                self._takers.clear()
            takers = self._takers[topic] = list(self._tree.matching(topic))
        for one in takers:
            if one.retained or not retained:
                self.failed += call_all(one.got, topic, payload, self._tell)

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
        connection.agreed(answer.properties)
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
            for call in list(self.on_connected):
                call()
            began_s = time.monotonic()
            await connection.last()
            self._connection = None
            self._there.clear()
            self._tell(f"the connection to {self.host}:{self.port} is lost{connection.why}; connecting again")
            if time.monotonic() - began_s > LONGEST_PAUSE_S:
                self._pause_s = FIRST_PAUSE_S
            connection = await self._reconnect()

    async def _reconnect(self) -> _Connection:
        while True:
            await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            try:
                connection = await self._connect()
                for one in list(self._wanted.values()):
                    await self._subscribe_again(one)
                return connection
            except (ClientError, ConnectionError) as problem:
                if self._connection is not None:
                    self._connection.leave()
                    self._connection = None
                self._there.clear()
                self._tell(str(problem) or f"the connection to {self.host}:{self.port} is lost again")

    async def _subscribe_again(self, wanted: _Wanted) -> None:
        """One that is refused this time is told, and tried with the next connection; the others go on."""
        try:
            await self._subscribe(wanted)
        except ClientError as problem:
            self._tell(str(problem))


class _Connection(asyncio.Protocol):
    """One TCP connection: packets in and out, and who waits for which answer."""

    def __init__(self, got: Callable[[str, bytes, bool], None]) -> None:
        self._got = got
        self._buffer = bytearray()
        self.answers: dict[int, asyncio.Future[Any]] = {}  # by packet identifier; 0 is CONNACK's
        self._lost = asyncio.get_running_loop().create_future()
        self.room = asyncio.Event()
        self.room.set()
        self._heard = True
        self._transport: asyncio.Transport | None = None
        self._keep_alive_s = KEEP_ALIVE_S
        self.largest = MOST_BYTES  # packet that the broker takes
        self.why = ""  # it hung up, if it said

    def agreed(self, properties: dict[str, Any]) -> None:
        """What the broker lets in."""
        self.largest = properties.get("maximum_packet_size", MOST_BYTES)
        self._keep_alive_s = max(2, properties.get("server_keep_alive") or KEEP_ALIVE_S)

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

    def write(self, data: bytes) -> bool:
        """Send these bytes, as long as there is somebody to send them to; whether there was."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(data)
        return True

    def fitting(self, packet: Any) -> bytes:
        """A packet as bytes; one that the broker does not take would end the connection, now and every time."""
        data = encode(packet, V5)
        if len(data) > self.largest:
            raise ClientError(f"a packet of {len(data)} bytes is more than the {self.largest} that the broker takes")
        return data

    async def ask(self, packet: Any) -> Any:
        """Send a packet and wait for its answer; ConnectionError if there will be none."""
        if self._lost.done():
            raise ConnectionResetError
        data, number = self.fitting(packet), getattr(packet, "packet_id", 0)
        future = self.answers[number] = asyncio.get_running_loop().create_future()
        try:
            self.write(data)
            async with asyncio.timeout(ANSWER_S):
                return await future
        except TimeoutError:
            self.hang_up()
            raise ConnectionResetError from None
        finally:
            del self.answers[number]

    async def last(self) -> None:
        """Returns when the connection is lost; a broker that is silent for long is taken for lost."""
        while not self._lost.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._keep_alive_s / 2):
                    await asyncio.shield(self._lost)
            if not self._heard:
                self.hang_up()
                return
            self._heard = False
            self.write(bytes((Kind.PINGREQ << 4, 0)))

    def leave(self) -> None:
        """Say goodbye and hang up."""
        if self._transport is not None:
            self.write(encode(Disconnect(), V5))
            self._transport.close()
            self.room.set()

    def hang_up(self) -> None:
        """Nobody is there any more: what waits to be written would wait for as long as TCP hopes."""
        if self._transport is not None:
            self._transport.abort()

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
                self._got(packet.topic, packet.payload, packet.retain)
            case Connack() | Suback() | Ack():
                future = self.answers.get(getattr(packet, "packet_id", 0))
                if future is not None and not future.done():
                    future.set_result(packet)
            case Disconnect():
                self.why = f" ({in_words(packet.reason)})"
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
        code = problem.errno if not isinstance(problem, (ssl.SSLError, socket.gaierror)) else None
        why = os.strerror(code) if code else problem.strerror or str(problem) or "it hung up"
        return ClientError(f"the broker at {where} cannot be reached: {why}; is it running, and is this its address?")
    return problem


def call_all(takers: list[Got], topic: str, payload: bytes, tell: Callable[[str], None]) -> int:
    """Call all with what came; how many failed, which is told."""
    failed = 0
    for got in tuple(takers):
        try:
            got(topic, payload)
        except Exception as problem:  # a fault of theirs is no reason to hang up
            failed += 1
            tell(f"what came on {topic} was not taken: {problem!r}")
            fault = {"message": f"what came on {topic} was not taken", "exception": problem}
            asyncio.get_running_loop().call_exception_handler(fault)
    return failed


def _check_qos(qos: int) -> None:
    if qos not in (0, 1):
        raise ClientError(f"this client knows QoS 0 and 1, not {qos}")


def _consent(reasons: list[int], properties: dict[str, Any], what: str) -> None:
    worst = max(reasons, default=0)
    if worst >= Reason.UNSPECIFIED_ERROR:
        raise ClientError(f"the broker refuses {what}: {properties.get('reason_string') or in_words(worst)}")
