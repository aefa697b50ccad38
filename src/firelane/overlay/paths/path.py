"""An edge's connection to a router, as an MQTT 5 client: it wants what the edge's clients want, and publishes there.

It connects again and again until it is closed. What cannot be written soon is not written at all: what matters is sent
again through another.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from firelane.errors import why_of
from firelane.exchange.clients.neighbours import EDGE
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Connect, Publish, Subscribe, Subscription, Unsubscribe
from firelane.mqtt.reasons import Reason, in_words
from firelane.overlay.asking import asking
from firelane.overlay.messages.notes import FOR, TO
from firelane.overlay.paths.dialling import dialled
from firelane.overlay.paths.line import SILENT_S, Line, Sent
from firelane.overlay.paths.locator import host_and_port
from firelane.overlay.registry import Wish

PATIENCE_S = 3.0
NO_ANSWER = "no answer"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 0.5
TAKEN_OVER_PAUSE_S = 5.0  # between two edges of one name that throw each other out
STEADY_S = 5.0  # a connection that has lasted as long was no accident
OF_ANOTHER_HOST = (62, 64)  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
NOT_LET_IN = frozenset({Reason.BAD_USER_NAME_OR_PASSWORD, Reason.NOT_AUTHORIZED, Reason.BAD_AUTHENTICATION_METHOD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How an edge shows a router who it is."""

    user: str | None = None
    password: bytes | None = None
    tls: ssl.SSLContext | None = None


class _Unusable(Exception):  # noqa: N818  what it is, not a fault
    """A connection that could be made and then not used."""


class Path:
    """To one router. `got` is called with what comes, `up` and `down` when it can be reached and no more.

    With `peer` it leads to that edge, of which nothing is wanted.
    """

    def __init__(
        self,
        edge: str,
        locator: str,
        credentials: Credentials,
        *,
        got: Callable[[Publish], None],
        up: Callable[[], None],
        down: Callable[[str], None],
        tell: Callable[[str], None] = lambda line: None,
        peer: str | None = None,
    ) -> None:
        self.locator = locator
        self._peer = peer
        self._edge, self._credentials = edge, credentials
        self._got, self._up, self._down, self._tell = got, up, down, tell
        self._own = {} if peer is not None else {f"{FOR}{edge}": Wish(qos=1), f"{TO}{edge}": Wish(qos=1)}
        self._wanted: Mapping[str, Wish] = {}
        self._line: Line | None = None
        self._up_at = 0.0  # when it was last connected
        self.dropped: Counter[str] = Counter()
        self.refused = 0  # filters, since it was last connected
        self._turned_down = self._noted = False  # since then, too: a message; whether a note has been sent

    @property
    def connected(self) -> bool:
        """Whether it can be used."""
        return self._line is not None and self._line.open

    @property
    def asking(self) -> bool:
        """Whether the router has not yet answered all that it was asked for."""
        return self._line is not None and self._line.unanswered > 0

    def want(self, filters: Mapping[str, Wish]) -> None:
        """All that the edge's clients want from now on."""
        before, self._wanted = self._wanted, dict(filters)
        if self._line is not None and self._line.open:
            gone = [one for one in before if one not in self._wanted]
            new = {
                one: wish for one, wish in self._wanted.items() if (was := before.get(one)) is not wish and was != wish
            }
            self._line.ask(_asking(new, gone))

    def publish(self, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> Sent:
        """Publish there; says what became of it."""
        sent = Sent.NO_PATH
        if self._line is not None and self._line.open:
            sent = self._line.publish(Publish(topic=topic, payload=payload, qos=qos, properties=properties))
        if sent is not Sent.YES:
            self.dropped[sent.value] += 1
        return sent

    def note(self, edge: str, said: bytes) -> Sent:
        """Tell another edge something. The first on each connection is to be acknowledged, so that it shows if edges
        may not write there: without notes nothing is known to have come."""
        sent = self.publish(f"{FOR}{edge}", said, int(not self._noted), {})
        self._noted = self._noted or sent is Sent.YES
        return sent

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            problem = await self._one_line()
            line, self._line = self._line, None
            if line is not None and monotonic() - self._up_at >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            if line is not None or problem:
                self._down(problem)
            if problem != NO_ANSWER:  # that has taken its time
                taken_over = line is not None and line.taken_over
                await asyncio.sleep((TAKEN_OVER_PAUSE_S if taken_over else pause_s) * random.uniform(0.5, 1.0))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _one_line(self) -> str:
        place = host_and_port(self.locator)
        if place is None:
            return f"{self.locator} is no HOST:PORT; start it with another --locator"
        try:
            line = await self._connected(*place)
        except TimeoutError:
            return NO_ANSWER
        except (OSError, ValueError, _Unusable) as problem:  # such as a name that is none
            return why_of(problem) or "the connection was closed"
        try:
            line.write(encode(self._hello(), V5))
            async with asyncio.timeout(PATIENCE_S):
                await line.entered.wait()
            if not line.open:
                return self._not_entered(line)
            self._line, self._up_at, self.refused = line, monotonic(), 0
            self._turned_down = self._noted = False
            line.ask(_asking(self._own, ()))  # whose answer comes first
            line.ask(_asking(self._wanted, ()))
            self._up()
            ended = await line.watch()
            if line.taken_over:
                return f"another edge uses the name {self._edge} here; start one of them with another --name"
            return ended
        except TimeoutError:
            return "no CONNACK"
        finally:
            line.abort()

    async def _connected(self, host: str, port: int) -> Line:
        tls = self._credentials.tls
        dialled_socket = await dialled(host, port, PATIENCE_S)
        try:
            async with asyncio.timeout(PATIENCE_S):
                _, line = await asyncio.get_running_loop().create_connection(
                    lambda: Line(self._got, self._refused, self._peer, not_taken=self._not_taken),
                    sock=dialled_socket,
                    ssl=tls,
                    server_hostname=None if tls is None else host,
                )
        except BaseException as problem:
            dialled_socket.close()
            if isinstance(problem, OSError) and not isinstance(problem, TimeoutError):
                raise _Unusable(self._no_tls(problem)) from None
            raise
        return line

    def _no_tls(self, problem: OSError) -> str:
        """Why a connection could be made and then not used."""
        if isinstance(problem, ssl.SSLCertVerificationError):
            return untrusted(problem)
        return f"{why_of(problem) or 'the connection was closed'}{self._about_tls()}"

    def _not_entered(self, line: Line) -> str:
        """Why this edge was not let in, and what to do."""
        if line.answer is None:
            return f"{line.problem}{self._about_tls()}"
        if line.answer not in NOT_LET_IN:
            return line.problem
        if self._credentials.user is None:
            return f"{line.problem}; this edge shows no user, set exchange.overlay.user"
        return f"{line.problem}; check user, password and access there"

    def _about_tls(self) -> str:
        """What whoever closes a connection at once may have expected."""
        return f"; is it {'TLS' if self._credentials.tls is None else 'without TLS'} there? (exchange.overlay.tls)"

    def _refused(self, reasons: list[int]) -> None:
        """Some of what clients want is not given there: it comes late, when its origin asks who lacks it."""
        if not self.refused:
            what = f"it refuses filters that clients want here ({in_words(reasons[0])})"
            self._tell(f"{what}; raise its exchange.limits.subscriptions, or check access there")
        self.refused += len(reasons)

    def _not_taken(self, reason: int) -> None:
        """A message is sent again through this router and others; somebody must know why it does not arrive."""
        self.dropped[f"refused by a router ({reason:#x})"] += 1
        if not self._turned_down:
            self._turned_down = True
            todo = f"check access there, also to {FOR}# and {TO}#"
            if reason == Reason.QUOTA_EXCEEDED:
                todo = "raise its exchange.limits"
            self._tell(f"it refuses what this edge sends ({in_words(reason)}); {todo}")

    def _hello(self) -> Connect:
        return Connect(
            client_id=f"{EDGE}{self._edge}",
            version=V5,
            clean_start=True,
            keep_alive_s=max(1, round(2 * SILENT_S)),
            user=self._credentials.user,
            password=self._credentials.password,
            properties={"receive_maximum": 65_535},
        )


def untrusted(problem: ssl.SSLCertVerificationError) -> str:
    """What is wrong with a certificate, and what to do."""
    if problem.verify_code in OF_ANOTHER_HOST:
        return f"its certificate is of another host ({problem.verify_message.rstrip('.')}); correct its --locator"
    return f"its certificate is not trusted ({problem.verify_message}); set exchange.overlay.ca"


def _asking(new: Mapping[str, Wish], gone: Iterable[str]) -> list[Subscribe | Unsubscribe]:
    some = ((Subscription(filter=one, qos=min(wish.qos, 1), no_local=True), wish.need) for one, wish in new.items())
    return asking(some, gone)
