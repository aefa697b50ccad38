"""Starts an exchange from a scenario: log, broker, listeners, the clock of $SYS; and ends it in order."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from firelane import __version__
from firelane.errors import ServeError
from firelane.exchange.broker import Broker
from firelane.exchange.clients.access import Passwords
from firelane.exchange.clients.session import Session, Subscription
from firelane.exchange.journal.journal import Journal
from firelane.exchange.journal.numbering import reserved
from firelane.exchange.lanes.link import KnownBy, Link
from firelane.exchange.log import Log
from firelane.exchange.measuring.live import Live
from firelane.exchange.measuring.measuring import Reading
from firelane.exchange.measuring.observed import Observed
from firelane.exchange.protocol.publishing import publish
from firelane.exchange.protocol.system import SystemTopics
from firelane.exchange.sockets.kernel import Kernel, SeenKernel
from firelane.exchange.sockets.server import Driver, Server, allow_many_files
from firelane.exchange.sockets.upstream import Bridge
from firelane.exchange.telemetry import Recorder, Writer
from firelane.garbage import memory_bytes
from firelane.scenario.model import Need, Scenario
from firelane.scenario.plan import Plan
from firelane.scenario.settings import ExchangeSettings, Tls
from firelane.sense.warm import warm_up

SEGMENT_BYTES = 16_000_000
RECORD_EVERY_S = 1.0


@dataclass(slots=True)
class Exchange:
    """A running exchange: its broker, its sockets, and where it can be reached."""

    broker: Broker
    server: Server
    log: Log
    addresses: dict[str, str] = field(default_factory=dict)
    recorder: Recorder = field(default_factory=lambda: Recorder(sampling=0.0))
    telemetry: Writer | None = None
    kernel: Kernel = field(init=False)
    _live: tuple[int, Live] | None = None  # as of which change

    def __post_init__(self) -> None:
        self.kernel = Kernel(self.server)

    def reload(self, scenario: Scenario) -> None:
        """Go on with other settings."""
        settings = scenario.exchange
        self.server.passwords.close()
        self.server.passwords = Passwords(settings.users)
        self.log.cap_bytes = settings.limits.log_bytes
        self.broker.reload(scenario, time.monotonic())
        self.server.settle()

    def publish(self, topic: bytes, payload: bytes) -> None:
        """Say something on a topic of the exchange's own."""
        now = time.monotonic()
        publish(self.broker, self.broker.new_message(topic, payload, 0, False, None), now)
        self.server.settle()

    @property
    def plan(self) -> Plan | None:
        """The plan in force."""
        return self.broker.treatment.plan

    def apply(self, plan: Plan) -> None:
        """Treat every subscription as a plan says; PlanError if its version is not newer."""
        self.broker.apply(plan, time.monotonic())
        self.server.carry_on()

    def observed(self, now: float) -> Observed:
        """What was seen lately, for whoever plans."""
        broker = self.broker
        if self._live is None or self._live[0] != broker.changed:
            self._live = broker.changed, Live.of(broker)
        live = self._live[1]
        return Observed(
            topics=broker.routes.seen_topics(now),
            subscriptions=live.subscriptions,
            links=dict(live.links),
            bandwidths=live.bandwidths(),
            streams=broker.streams.deltas(),
            unsettled=broker.routes.traffic.unsettled,
            changed=broker.changed,
        )

    def seen_kernel(self, now: float) -> list[tuple[Link, SeenKernel]]:
        """What the kernel says became of what paced links have sent since this was last asked."""
        return self.kernel.look(now)

    def repace(self, link: Link, pace_bps: float, *, probing: bool) -> None:
        """Send as fast as this on a link from now on; nobody is disconnected, and nothing that waits is reordered."""
        link.probing = probing
        link.repace(pace_bps)
        self.broker.serving.serve(link, time.monotonic())
        self.server.settle()

    def know_bandwidth(self, link: Link, bandwidth_bps: float, known_by: KnownBy) -> None:
        """A link carries this much, as whoever plans shall know too."""
        link.bandwidth_bps, link.known_by = bandwidth_bps, known_by
        self.broker.changed += 1
        self.server.resize(link)

    def read(self) -> Reading:
        """What became of every subscription since the plan in force was applied, or since the start.

        Its `metrics` may be made in another thread, as they take a while where there are thousands.
        """
        return self.broker.read(time.monotonic())

    async def read_gently(self) -> Reading | None:
        """The same for whoever looks often: without percentiles and links, and nobody's messages wait for it.

        None if meanwhile a plan was applied, so that another window has begun.
        """
        steps = self.broker.read_in_steps(time.monotonic())
        while True:
            try:
                next(steps)
            except StopIteration as end:
                reading: Reading | None = end.value
                return reading
            await asyncio.sleep(0)

    def on_alert(self, call: Callable[[bytes], None]) -> None:
        """Have somebody told of what is published on `$firelane/alerts`."""
        self.broker.alerted = call

    def override_need(self, subscriber: str, topic_filter: str, need: Need | None) -> None:
        """Set a subscription's need from above, or take that back."""
        self.broker.needs.override(subscriber, topic_filter, need)
        for session in self.broker.sessions.values():
            wanted = session.subscriptions.get(topic_filter)
            if wanted is not None and session.name == subscriber:
                self._grant_anew(session, [wanted])

    @property
    def phase(self) -> str | None:
        """The phase that was declared, if any."""
        return self.broker.needs.phase

    @property
    def phases(self) -> list[str]:
        """The phases that may be declared."""
        return self.broker.needs.phases

    def enter(self, phase: str | None) -> None:
        """Declare a phase, or that there is none: what subscriptions need changes at once."""
        self.broker.needs.enter(phase)
        for session in self.broker.sessions.values():
            self._grant_anew(session, session.subscriptions.values())

    def _grant_anew(self, session: Session, subscriptions: Collection[Subscription]) -> None:
        treated_anew = False
        for one in subscriptions:
            self.broker.grant(one)
            treated_anew |= self.broker.treat(session, one.lane)
        if treated_anew:
            self.broker.routes.forget_those_of(session)
        session.rank()


@asynccontextmanager
async def running(
    scenario: Scenario, *, host: str, mqtt_port: int, data_dir: Path, tell: Callable[[str], None]
) -> AsyncIterator[Exchange]:
    """An exchange that accepts connections; it is closed in order when the block ends.

    `tell` is given a line now and then: what was recovered, what failed, what works again.
    """
    allow_many_files()
    settings = scenario.exchange
    durable = settings.durability == "fsync"
    folder = data_dir / ("log" if durable else "overflow")
    if not durable:
        _clear(folder)
    with Log.open(folder, cap_bytes=settings.limits.log_bytes, segment_bytes=SEGMENT_BYTES, sync=durable) as log:
        now = time.monotonic()
        broker = Broker(scenario, Journal(log, durable=durable, wall_ahead_s=time.time() - now))
        broker.streams.ready = False
        broker.recover(now)
        # Numbers grow from one start to the next, whatever was not in the log: other sites know messages by them.
        broker.numbers.last = max(broker.numbers.last, reserved(broker.retained), time.time_ns() // 1000)
        _report(log, tell)
        server = Server(broker, Passwords(settings.users), tell)
        loop = asyncio.get_running_loop()

        def failed(why: str | None) -> None:
            loop.call_soon_threadsafe(_report_failure, why, tell)

        log.start(server.committed, failed)
        exchange = Exchange(broker, server, log)
        _start_telemetry(exchange, data_dir, tell)
        await _listen(exchange, settings, host, mqtt_port)
        stop = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(server.run(stop))
                beside = [group.create_task(one) for one in _beside(exchange, settings, tell)]
                try:
                    yield exchange
                finally:
                    for task in beside:
                        task.cancel()
                    stop.set()
        finally:
            server.passwords.close()
            if exchange.telemetry is not None:
                exchange.telemetry.put(exchange.recorder.take(time.monotonic(), time.time()))
                exchange.telemetry.close()


def _start_telemetry(exchange: Exchange, data_dir: Path, tell: Callable[[str], None]) -> None:
    broker = exchange.broker
    settings = broker.settings.telemetry
    if not settings.wanted:
        return
    loop = asyncio.get_running_loop()

    def say(topic: bytes, payload: bytes) -> None:
        loop.call_soon_threadsafe(exchange.publish, topic, payload)

    def complain(line: str) -> None:
        loop.call_soon_threadsafe(tell, line)

    name = broker.links.scenario.name
    exchange.recorder.sample(settings.sampling)
    exchange.telemetry = Writer(
        data_dir / "telemetry", settings, exchange=name, boot=broker.boot, tell=complain, publish=say
    )
    exchange.telemetry.start()
    broker.record(exchange.recorder)


async def _record(exchange: Exchange) -> None:
    assert exchange.telemetry is not None
    while True:
        await asyncio.sleep(RECORD_EVERY_S)
        exchange.telemetry.put(exchange.recorder.take(time.monotonic(), time.time()))


def _beside(
    exchange: Exchange, settings: ExchangeSettings, tell: Callable[[str], None]
) -> Iterator[Coroutine[None, None, None]]:
    yield _follow_streams(exchange)
    if settings.system_interval_s:
        yield _publish_system(exchange)
    if settings.upstream is not None:
        yield Bridge(exchange.server, settings.upstream, tell).run()
    if exchange.telemetry is not None:
        yield _record(exchange)


def _report(log: Log, tell: Callable[[str], None]) -> None:
    """Say what a crash left behind, if it did."""
    found = log.recovered
    if found is not None and found.cut_bytes:
        tell(f"the log ended in {found.cut_bytes} bytes that were never confirmed to anybody; cut, and kept in "
             f"{found.cut_file}")  # fmt: skip


def _report_failure(why: str | None, tell: Callable[[str], None]) -> None:
    if why is None:
        tell("the log can be written again; nothing was lost")
    else:
        tell(f"the log cannot be written ({why}); QoS 1 and 2 are refused until it can")


async def _listen(exchange: Exchange, settings: ExchangeSettings, host: str, mqtt_port: int) -> None:
    server, addresses = exchange.server, exchange.addresses
    shown = f"[{host}]" if ":" in host else host
    port = await server.listen(Driver, host, mqtt_port)
    addresses["mqtt"] = f"mqtt://{shown}:{port}"
    if settings.tls is not None:
        context = tls_context(settings.tls)
        port = await server.listen(Driver, host, settings.tls.port, context, setting="exchange.tls.port")
        addresses["mqtts"] = f"mqtts://{shown}:{port}"
    if settings.websocket is not None:
        from firelane.exchange.sockets.websocket import WebSocketDriver

        chosen_at = "exchange.websocket.port"
        port = await server.listen(WebSocketDriver, host, settings.websocket.port, setting=chosen_at)
        addresses["ws"] = f"ws://{shown}:{port}"
    if settings.mqtt_sn is not None:
        from firelane.exchange.gateway.listener import Listener

        datagrams = Listener(server, settings.mqtt_sn)
        port = await server.listen_for_datagrams(datagrams, host, settings.mqtt_sn.port)
        server.at_ticks.append(datagrams.tick)
        addresses["mqtt-sn"] = f"mqtt-sn://{shown}:{port}"


def tls_context(tls: Tls) -> ssl.SSLContext:
    """What TLS needs from its files; one line if they are no good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password="")  # never ask on the terminal
    except (OSError, ssl.SSLError) as problem:
        raise ServeError(
            f"exchange.tls: certificate {tls.certificate} with key {tls.key} cannot be used ({_why(problem)}); "
            "give a PEM certificate and its own key"
        ) from None
    if tls.client_ca is not None:
        try:
            context.load_verify_locations(tls.client_ca)
        except (OSError, ssl.SSLError) as problem:
            raise ServeError(
                f"exchange.tls.client_ca: {tls.client_ca} cannot be used ({_why(problem)}); give a PEM file"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _why(problem: OSError) -> str:
    reason: str | None = getattr(problem, "reason", None)
    return reason or problem.strerror or str(problem)


async def _follow_streams(exchange: Exchange) -> None:
    """Load the machine code of sensors' models once there is a stream, which takes too long for others to wait for."""
    streams, offered = exchange.broker.streams, asyncio.Event()
    streams.on_offer = offered.set
    if not streams.followed:
        await offered.wait()
    await asyncio.to_thread(warm_up)
    streams.begin()
    exchange.server.settle()


async def _publish_system(exchange: Exchange) -> None:
    broker = exchange.broker
    topics = SystemTopics(broker, __version__, time.monotonic(), memory_bytes)
    while True:
        topics.publish(time.monotonic())
        exchange.server.settle()
        await asyncio.sleep(broker.settings.system_interval_s)


def _clear(folder: Path) -> None:
    """What did not fit memory in an earlier run is of no use any more."""
    for path in folder.glob("*.log") if folder.is_dir() else ():
        path.unlink(missing_ok=True)
