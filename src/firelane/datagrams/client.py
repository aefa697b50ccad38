"""An MQTT-SN client over UDP, for sensors on lossy links: it asks until it is answered, and enters again when lost.

It is used like `firelane.client.Client`. Messages of QoS 0 are sent once and may get lost, as may those of QoS -1,
which need no connection; those of QoS 1 and 2 are sent again until they are answered, and wait for the next connection
if need be. MQTT-SN has no users, passwords or properties: a subscription says what it needs by a profile
(`$need/PROFILE/FILTER`).
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, Self

from firelane.client import FIRST_PAUSE_S, LONGEST_PAUSE_S, ClientError, Got, Properties, call_all
from firelane.datagrams.asking import Asking, Key, UnansweredError
from firelane.datagrams.naming import Naming, Written
from firelane.mqtt import FilterTree, filter_problem, plain_topics, topic_problem
from firelane.mqtt.sn.encode import REGISTER_BYTES, framed_bytes, most_payload
from firelane.mqtt.sn.messages import (
    FIRE_AND_FORGET,
    Acknowledged,
    Answer,
    Connect,
    Disconnect,
    Kind,
    Message,
    PingRequest,
    Plain,
    Publish,
    Register,
    ReturnCode,
    Step,
    Suback,
    Subscribe,
    TopicKind,
)

PORT = 1884
DATAGRAM_BYTES = 1400
MOST_UNRELEASED = 1000
LAST_ID = 65_535
_WHY = {int(ReturnCode.CONGESTION): "it is busy", int(ReturnCode.INVALID_TOPIC_ID): "it does not know the topic id"}
_ANSWERED_BY = {Kind.SUBSCRIBE: Kind.SUBACK, Kind.UNSUBSCRIBE: Kind.UNSUBACK}


@dataclass(slots=True, eq=False)
class _Wanted:
    """A subscription: who get what comes of it, and how it was asked for."""

    filter: str
    got: list[Got]
    qos: int
    retained: bool


class DatagramClient:
    """`async with DatagramClient("host", 1884) as client:` is a connection, for as long as the block lasts.

    `predefined` are the topics that were agreed on by number. With `enter=False` there is only the socket, and only
    messages of QoS -1 can be sent.
    """

    reliable = False  # what is sent at QoS 0 may get lost on the way

    def __init__(
        self,
        host: str,
        port: int = PORT,
        *,
        client_id: str = "",
        predefined: Mapping[int, str] | None = None,
        keep_alive_s: int = 30,
        clean_session: bool = True,
        enter: bool = True,
        datagram_bytes: int = DATAGRAM_BYTES,
        retry_s: float = 1.0,
        retries: int = 5,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.host, self.port = host, port
        self.client_id = client_id or f"sn-{secrets.token_hex(4)}"
        self.most_bytes = most_payload(datagram_bytes)  # of a message
        self.dropped = 0  # messages of QoS 0 for which there was no connection
        self.failed = 0  # calls of those who are called with what comes
        self.on_connected: list[Callable[[], None]] = []  # called whenever there is a new connection
        self._hello = Connect(client_id=self.client_id, duration_s=keep_alive_s, clean_session=clean_session)
        self._enters = enter
        self._datagram_bytes = datagram_bytes
        self._retry_s = retry_s
        self._tell = tell
        self._asking = Asking(self._take, retry_s=retry_s, retries=retries)
        self._naming = Naming(predefined or {})
        self._wanted: dict[str, _Wanted] = {}
        self._tree: FilterTree[_Wanted] = FilterTree()
        self._unreleased: dict[int, None] = {}
        self._ids = cycle(range(1, LAST_ID + 1))
        self._one_message, self._one_request = asyncio.Lock(), asyncio.Lock()  # at a time, as gateways expect
        self._there, self._lost = asyncio.Event(), asyncio.Event()
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None

    # ---- its life

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_datagram_endpoint(lambda: self._asking, remote_addr=(self.host, self.port))
            if self._enters:
                await self._enter()
        except BaseException as problem:
            self._asking.close()
            raise _unreachable(f"{self.host}:{self.port}", problem) from None
        if self._enters:
            group = await self._stack.enter_async_context(asyncio.TaskGroup())
            self._task = group.create_task(self._keep())
        return self

    async def __aexit__(self, *problem: object) -> None:
        if self._task is not None:
            self._task.cancel()
        if self.connected:
            self._there.clear()
            with suppress(UnansweredError):
                await self._asking.ask(Disconnect(), (Kind.DISCONNECT, 0), tries=2)
        await self._stack.aclose()
        self._asking.close()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now, as far as is known."""
        return self._there.is_set()

    async def _enter(self) -> None:
        answer: Answer = await self._asking.ask(self._hello, (Kind.CONNACK, 0))
        _consent(answer.return_code, f"connecting to {self.host}:{self.port}")
        self._naming.clear()
        if self._hello.clean_session:
            self._unreleased.clear()
        self._lost.clear()
        self._there.set()

    async def _keep(self) -> None:
        """Show that it is alive, and enter again when nobody answers, until cancelled."""
        while True:
            for call in list(self.on_connected):
                call()
            while not self._lost.is_set():
                await self._stay()
            self._there.clear()
            self._tell(f"the connection to {self.host}:{self.port} is lost; connecting again")
            await self._enter_again()

    async def _stay(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._hello.duration_s / 2 or None):
                await self._lost.wait()
                return
        with suppress(UnansweredError):
            await self._ask(PingRequest(), (Kind.PINGRESP, 0))

    async def _enter_again(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            try:
                await self._enter()
                for one in list(self._wanted.values()):
                    await self._subscribe_again(one)
                return
            except (ClientError, UnansweredError) as problem:
                self._there.clear()
                self._tell(str(problem) or f"nobody answers at {self.host}:{self.port}")

    async def _subscribe_again(self, wanted: _Wanted) -> None:
        """One that is refused this time is told, and tried with the next connection; the others go on."""
        try:
            await self._subscribe(wanted)
        except ClientError as problem:
            self._tell(str(problem))

    async def _ask(self, message: Message, key: Key) -> Any:
        """Who is not answered has lost its connection."""
        try:
            return await self._asking.ask(message, key)
        except UnansweredError:
            self._lost.set()
            self._there.clear()
            raise

    # ---- publishing

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, content_type: str = ""
    ) -> None:
        """Send a message; of QoS 1 and 2 this returns once the exchange has it. MQTT-SN has no content types."""
        if problem := topic_problem(topic):
            raise ClientError(f'nothing can be published on "{topic}": {problem}')
        if len(payload) > self.most_bytes:
            size = f"a message of {len(payload)} bytes on {topic}"
            raise ClientError(f"{size} does not fit a datagram; send at most {self.most_bytes}")
        message = Publish(topic=0, payload=payload, qos=qos, retain=retain)
        if qos == FIRE_AND_FORGET:
            self._throw(topic, message)
        elif qos == 0:
            await self._publish_once(topic, message)
        else:
            async with self._one_message:
                await self._publish_surely(topic, message)

    def _throw(self, topic: str, message: Publish) -> None:
        written = self._naming.written(topic)
        if written is None or written[0] is TopicKind.NORMAL:
            raise ClientError(f"QoS -1 is for topics of two bytes or agreed on by number, which {topic} is not")
        self._asking.send(_on(written, message))

    async def _publish_once(self, topic: str, message: Publish) -> None:
        try:
            if not self.connected:
                raise UnansweredError
            written = await self._written(topic)
        except UnansweredError:
            self.dropped += 1
            return
        self._asking.send(_on(written, message))

    async def _publish_surely(self, topic: str, message: Publish) -> None:
        message = replace(message, message_id=next(self._ids))
        while True:
            await self._there.wait()
            try:
                written = await self._written(topic)
                code = await self._hand_over(_on(written, message))
            except UnansweredError:
                message = replace(message, duplicate=True)
                continue
            if code == ReturnCode.INVALID_TOPIC_ID and written[0] is TopicKind.NORMAL:
                self._naming.forget(topic)
            elif code == ReturnCode.CONGESTION:
                await asyncio.sleep(self._retry_s)
            else:
                _consent(code, f"publishing on {topic}")
                return

    async def _hand_over(self, message: Publish) -> int:
        """Get a message of QoS 1 or 2 across; returns what the other side says of it."""
        message_id = message.message_id
        answer: Acknowledged | Step = await self._ask(message, (Kind.PUBACK, message_id))
        if isinstance(answer, Acknowledged):
            return answer.return_code
        await self._ask(Step(kind=Kind.PUBREL, message_id=message_id), (Kind.PUBCOMP, message_id))
        return ReturnCode.ACCEPTED

    async def _written(self, topic: str) -> Written:
        """How a topic is written; it is registered first if need be."""
        while (written := self._naming.written(topic)) is None:
            async with self._one_request:
                if self._naming.written(topic) is None:
                    await self._register(topic)
        return written

    async def _register(self, topic: str) -> None:
        if framed_bytes(REGISTER_BYTES, len(topic.encode())) > self._datagram_bytes:
            raise ClientError(f"the topic {topic[:40]}... does not fit a datagram; shorten its name")
        message_id = next(self._ids)
        asked = Register(topic_id=0, message_id=message_id, topic=topic)
        answer: Acknowledged = await self._ask(asked, (Kind.REGACK, message_id))
        _consent(answer.return_code, f"registering {topic}")
        self._naming.learn(topic, answer.topic_id)

    # ---- subscribing

    async def subscribe(
        self, topic_filter: str, got: Got, *, qos: int = 0, properties: Properties = (), retained: bool = True
    ) -> dict[str, str]:
        """Have somebody called with what comes on a filter, from now on and with every new connection.

        With `retained=False` what the exchange has kept from before is left out.
        """
        if problem := filter_problem(topic_filter):
            raise ClientError(f'"{topic_filter}" cannot be subscribed to: {problem}')
        if properties:
            raise ClientError(f"MQTT-SN has no properties; subscribe to $need/PROFILE/{topic_filter} instead")
        wanted = self._wanted.get(topic_filter)
        if wanted is None:
            wanted = self._wanted[topic_filter] = _Wanted(topic_filter, [], qos, retained)
            self._tree.add(plain_topics(topic_filter), wanted)
        elif (wanted.qos, wanted.retained) != (qos, retained):
            raise ClientError(f"this client subscribes to {topic_filter} already, and otherwise; use one of its own")
        wanted.got.append(got)
        while True:
            await self._there.wait()
            try:
                await self._subscribe(wanted)
                return {}
            except UnansweredError:
                continue
            except BaseException:
                self._give_back(topic_filter, got)
                raise

    async def unsubscribe(self, topic_filter: str, got: Got | None = None) -> None:
        """Take a subscription back; only somebody's, if others share the filter."""
        if self._give_back(topic_filter, got) and self.connected:
            with suppress(UnansweredError):
                await self._request(Kind.UNSUBSCRIBE, topic_filter, 0)

    async def _subscribe(self, wanted: _Wanted) -> None:
        answer: Suback = await self._request(Kind.SUBSCRIBE, wanted.filter, wanted.qos)
        _consent(answer.return_code, f"subscribing to {wanted.filter}")
        if answer.topic_id and self._naming.wished(wanted.filter)[0] is TopicKind.NORMAL:
            self._naming.learn(wanted.filter, answer.topic_id)

    async def _request(self, kind: Kind, topic_filter: str, qos: int) -> Any:
        topic_kind, topic = self._naming.wished(topic_filter)
        async with self._one_request:
            message_id = next(self._ids)
            asked = Subscribe(kind=kind, message_id=message_id, topic=topic, topic_kind=topic_kind, qos=qos)
            return await self._ask(asked, (_ANSWERED_BY[kind], message_id))

    def _give_back(self, topic_filter: str, got: Got | None = None) -> bool:
        """Somebody, or everybody, is not to be called any more; whether nobody is left."""
        wanted = self._wanted.get(topic_filter)
        if wanted is None:
            return False
        wanted.got = [] if got is None else [one for one in wanted.got if one != got]
        if wanted.got:
            return False
        del self._wanted[topic_filter]
        self._tree.remove(plain_topics(topic_filter), wanted)
        return True

    # ---- what comes

    def _take(self, message: Message) -> None:
        answered = self._asking.answered
        match message:
            case Publish():
                self._take_message(message)
            case Register():
                self._naming.learn(message.topic, message.topic_id)
                self._acknowledge(Kind.REGACK, message.topic_id, message.message_id)
            case Acknowledged():
                if message.return_code == ReturnCode.INVALID_TOPIC_ID:
                    self._naming.forget(number=message.topic_id)
                answered((message.kind, message.message_id), message)
            case Step(kind=Kind.PUBREC):
                answered((Kind.PUBACK, message.message_id), message)
            case Step(kind=Kind.PUBREL):
                self._unreleased.pop(message.message_id, None)
                self._asking.send(Step(kind=Kind.PUBCOMP, message_id=message.message_id))
            case Step():
                answered((message.kind, message.message_id), message)
            case Suback():
                answered((Kind.SUBACK, message.message_id), message)
            case Answer() | Plain():
                answered((message.kind, 0), message)
            case Disconnect():
                answered((Kind.DISCONNECT, 0), message)
                self._lost.set()

    def _take_message(self, message: Publish) -> None:
        topic, message_id = self._naming.name(message), message.message_id
        number = message.topic if isinstance(message.topic, int) else 0
        if topic is None:
            self._acknowledge(Kind.PUBACK, number, message_id, ReturnCode.INVALID_TOPIC_ID)
            return
        if message.qos == 1:
            self._acknowledge(Kind.PUBACK, number, message_id)
        elif message.qos == 2 and self._had_before(message_id):
            return
        for one in list(self._tree.matching(topic)):
            if one.retained or not message.retain:
                self.failed += call_all(one.got, topic, message.payload, self._tell)

    def _had_before(self, message_id: int) -> bool:
        """Say that a message of QoS 2 has come; whether it had before."""
        self._asking.send(Step(kind=Kind.PUBREC, message_id=message_id))
        before = message_id in self._unreleased
        self._unreleased[message_id] = None
        if len(self._unreleased) > MOST_UNRELEASED:
            del self._unreleased[next(iter(self._unreleased))]
        return before

    def _acknowledge(self, kind: Kind, topic_id: int, message_id: int, code: int = ReturnCode.ACCEPTED) -> None:
        self._asking.send(Acknowledged(kind=kind, topic_id=topic_id, message_id=message_id, return_code=code))


def _on(written: Written, message: Publish) -> Publish:
    return replace(message, topic_kind=written[0], topic=written[1])


def _unreachable(where: str, problem: BaseException) -> BaseException:
    """What to tell of an exchange that could not be reached; other problems stay what they are."""
    if isinstance(problem, UnansweredError):
        return ClientError(f"nobody answers MQTT-SN at {where}; is it running, and is this its port?")
    if isinstance(problem, OSError):
        return ClientError(f"{where} cannot be reached: {problem.strerror or problem}; check the address")
    return problem


def _consent(code: int, what: str) -> None:
    if code != ReturnCode.ACCEPTED:
        why = _WHY.get(code, "it is not allowed, or not possible")
        raise ClientError(f"the exchange refuses {what}: {why}")
