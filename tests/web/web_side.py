"""An exchange with its web side on free ports, in a thread of its own, and MQTT clients for it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import paho.mqtt.client as paho
import uvloop
from argon2 import PasswordHasher
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from firelane.exchange.run import Exchange, running
from firelane.scenario.model import Scenario
from firelane.scenario.settings import ExchangeSettings, Token, User
from firelane.web.app import make_app
from firelane.web.server import serving

HOST = "127.0.0.1"
PATIENCE_S = 10.0


@dataclass
class Side:
    """What a test may touch; `call` runs something in the exchange's own thread."""

    exchange: Exchange
    loop: asyncio.AbstractEventLoop
    http: httpx.Client
    stop: asyncio.Event

    @property
    def mqtt_port(self) -> int:
        return int(self.exchange.addresses["mqtt"].rpartition(":")[2])

    @property
    def http_port(self) -> int:
        return self.http.base_url.port

    def call(self, function, *arguments):
        done = Future()
        self.loop.call_soon_threadsafe(lambda: done.set_result(function(*arguments)))
        return done.result(PATIENCE_S)

    def items(self, path, **parameters):
        answer = self.http.get(f"/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]


@contextmanager
def web_side(folder: Path, **settings):
    """A running exchange whose settings are these."""
    started = Future()
    thread = threading.Thread(target=_run, args=(folder, ExchangeSettings(**settings), started))
    thread.start()
    side = started.result(PATIENCE_S)
    try:
        yield side
    finally:
        side.http.close()
        side.loop.call_soon_threadsafe(side.stop.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _run(folder: Path, settings: ExchangeSettings, started: Future) -> None:
    async def main():
        stop = asyncio.Event()
        async with (
            running(
                Scenario(name="web", exchange=settings), host=HOST, mqtt_port=0, data_dir=folder, tell=lambda line: None
            ) as exchange,
            serving(make_app(exchange), HOST, 0) as url,
        ):
            http = httpx.Client(base_url=url, timeout=PATIENCE_S)
            started.set_result(Side(exchange, asyncio.get_running_loop(), http, stop))
            await stop.wait()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    except BaseException as problem:
        if started.done():
            raise
        started.set_exception(problem)


def user(password: str, *roles: str) -> User:
    """A user whose password costs little to check."""
    return User(password=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(password), roles=roles)


def tokens(**roles: str) -> dict[str, Token]:
    """One token for each name; the secret is the name and `-secret`."""
    return {name: Token(token=f"{name}-secret", roles=(role,)) for name, role in roles.items()}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-secret"}


def asked(app, method, path, *, peer="127.0.0.1", host="firelane.example", headers=None):
    """What a client elsewhere is answered, without a socket."""

    async def ask():
        transport = httpx.ASGITransport(app, client=(peer, 4711))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers) as client:
            return await client.request(method, path)

    return asyncio.run(ask())


@dataclass
class Guest:
    """A paho client that has connected."""

    client: paho.Client
    session_present: bool = False
    messages: list[paho.MQTTMessage] = field(default_factory=list)
    farewells: list[int] = field(default_factory=list)  # reasons of DISCONNECT
    granted: set[int] = field(default_factory=set)

    def subscribe(self, topic_filter, qos=0):
        _, number = self.client.subscribe(topic_filter, qos)
        until(lambda: number in self.granted)

    def publish(self, topic, payload, qos=1, retain=False, properties=None):
        self.client.publish(topic, payload, qos, retain, properties).wait_for_publish(PATIENCE_S)


@contextmanager
def guest(side: Side, client_id: str, *, version=paho.MQTTv5, expiry_s=0, leave=True, **login):
    """A client that is connected for a while; with `leave=False` it is gone without a word."""
    five = version == paho.MQTTv5
    sessions = {} if five else {"clean_session": not expiry_s}
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2, client_id, protocol=version, reconnect_on_failure=False, **sessions
    )
    client.max_inflight_messages_set(20)
    visitor, connected = Guest(client), threading.Event()

    def on_connect(_, __, flags, reason, ___):
        visitor.session_present = flags.session_present
        assert reason == 0
        connected.set()

    client.on_connect = on_connect
    client.on_message = lambda _, __, message: visitor.messages.append(message)
    client.on_subscribe = lambda _, __, number, *___: visitor.granted.add(number)
    client.on_disconnect = lambda _, __, ___, reason, ____: visitor.farewells.append(reason.value)
    if login:
        client.username_pw_set(login["user"], login["password"])
    fresh = {"clean_start": expiry_s == 0, "properties": with_expiry(PacketTypes.CONNECT, expiry_s)} if five else {}
    client.connect(HOST, side.mqtt_port, keepalive=47, **fresh)
    client.loop_start()
    try:
        assert connected.wait(PATIENCE_S)
        yield visitor
    finally:
        if leave:
            client.disconnect()
        else:
            client.socket().close()
        client.loop_stop()


def with_expiry(packet_type, seconds):
    properties = Properties(packet_type)
    if packet_type == PacketTypes.CONNECT:
        properties.SessionExpiryInterval = seconds
    else:
        properties.MessageExpiryInterval = seconds
    return properties


def until(condition, patience_s=PATIENCE_S):
    """Wait for something that happens soon."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
