"""Who may do what: the rules of `exchange.access`, and the passwords of `exchange.users`.

Rules are read in order and the first that fits decides; without any rule everything is allowed, and where no rule
fits nothing is. A client id is only claimed, so it never stands in for a user or role that rules name.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from threading import Lock
from typing import get_args

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from firelane.mqtt.topics import covers, intersection, matches, plain_filter
from firelane.scenario.settings import Action, ApiRole, ExchangeSettings, User
from firelane.sense.offer import GRANT, LOAD, OFFER, RESYNC, ROOT

EVERYBODY = "*"
MOST_DECISIONS = 16_384
LONGEST_REMEMBERED_TOPIC = 256  # so that decisions about huge topics cannot fill the memory

MOST_REMEMBERED = 1000
REMEMBERED_S = 300.0
THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A client as access rules see it: the user and roles are proven, the client id is claimed."""

    client_id: str
    user: str | None = None
    roles: tuple[str, ...] = ()
    inside: bool = False  # a part of the exchange itself, to which no rule applies


class Verdict(Enum):
    """How much of what a filter matches may be received; of `SOME`, every topic is checked on its own."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class Access:
    """The access rules of an exchange. Decisions on topics are remembered; build a new one for new rules."""

    def __init__(self, settings: ExchangeSettings) -> None:
        self._rules = settings.access
        self._proven = {*settings.users, *settings.tokens, *get_args(ApiRole)}
        self._proven.update(role for user in settings.users.values() for role in user.roles)
        # Any name may be that of a certificate, so none may be borrowed as a client id.
        self._trusts_client_ids = settings.tls is None or settings.tls.client_ca is None
        self._remembered = lru_cache(MOST_DECISIONS)(self._first_fit)

    def may_publish(self, who: Identity, topic: str) -> bool:
        """Whether this client may publish to the topic."""
        return self._may(who, "publish", topic)

    def may_receive(self, who: Identity, topic: str) -> bool:
        """Whether this client may be sent what is published to the topic."""
        return self._may(who, "subscribe", topic)

    def may_subscribe(self, who: Identity, topic_filter: str) -> Verdict:
        """How much of what the filter matches this client may receive.

        The first rule that covers the whole filter decides about all that earlier rules left open. Earlier rules
        about a part of it turn the verdict into SOME if they say the opposite, unless a rule before them has
        already settled that part. Parts settled only by several rules together are not recognised: then SOME is
        said for what is ALL or NONE, which costs a check for every message and lets nothing through.
        """
        if not self._rules or who.inside:
            return Verdict.ALL
        action, wanted = _stands_for("subscribe", plain_filter(topic_filter))
        settled: list[str] = []
        partly: set[bool] = set()
        for rule_filter, allowed in self._rules_for(who, action):
            part = intersection(rule_filter, wanted)
            if part is None or any(covers(earlier, part) for earlier in settled):
                continue
            if covers(rule_filter, wanted):
                return _verdict(partly | {allowed})
            settled.append(rule_filter)
            partly.add(allowed)
        return _verdict(partly | {False})

    def _may(self, who: Identity, action: Action, topic: str) -> bool:
        if not self._rules or who.inside:
            return True
        action, topic = _stands_for(action, topic)
        decide = self._remembered if len(topic) <= LONGEST_REMEMBERED_TOPIC else self._first_fit
        return decide(who, action, topic)

    def _first_fit(self, who: Identity, action: Action, topic: str) -> bool:
        fitting = (allowed for rule_filter, allowed in self._rules_for(who, action) if matches(rule_filter, topic))
        return next(fitting, False)

    def _rules_for(self, who: Identity, action: Action) -> Iterator[tuple[str, bool]]:
        """The filters of the rules about this client and action, and whether they allow it."""
        for rule in self._rules:
            if action in rule.actions and self._is(rule.who, who):
                yield rule.filter, rule.allow is not None

    def _is(self, name: str, who: Identity) -> bool:
        if name in (EVERYBODY, who.user) or name in who.roles:
            return True
        return name == who.client_id and self._trusts_client_ids and name not in self._proven


def _stands_for(action: Action, topic: str) -> tuple[Action, str]:
    """Rights about a stream of sensors are those on its topic.

    Who may publish it may offer it, and hear what is granted and asked for; who may subscribe to it may see the offer,
    and say what it lacks or can bear.
    """
    if not topic.startswith(ROOT):
        return action, topic
    if topic.startswith(OFFER):
        return action, topic.removeprefix(OFFER)
    word = next((one for one in (GRANT, LOAD, RESYNC) if topic.startswith(one)), None)
    if word is None:
        return action, topic
    return "publish" if action == "subscribe" else "subscribe", topic.removeprefix(word)


def _verdict(answers: set[bool]) -> Verdict:
    if len(answers) == 2:
        return Verdict.SOME
    return Verdict.ALL if True in answers else Verdict.NONE


def hashed(password: bytes) -> str:
    """The argon2id hash of a password, as `exchange.users` keeps it."""
    return PasswordHasher().hash(password)


class Passwords:
    """Checks passwords off the event loop, and remembers for a while which were right.

    An unknown user costs as much time as a known one. What is remembered is a hash under a key of this process.
    """

    def __init__(self, users: Mapping[str, User], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._hashes = {name: user.password for name, user in users.items() if user.password is not None}
        self._decoy = next(iter(self._hashes.values()), "")  # what unknown users are checked against, in vain
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._right_until: dict[bytes, float] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")

    async def verify(self, user: str, password: bytes) -> bool:
        """Whether this is the user's password."""
        if not self._hashes:
            return False
        stored = self._hashes.get(user)
        tag = self._tag(user, stored or self._decoy, password)
        if self._is_remembered(tag):
            return True
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._check, stored, password, tag)

    def close(self) -> None:
        """Let the threads end when they have answered those who wait for them."""
        self._pool.shutdown(wait=False)

    def _check(self, stored: str | None, password: bytes, tag: bytes) -> bool:
        if self._is_remembered(tag):  # another client gave the same while this one waited
            return True
        right = _fits(stored or self._decoy, password) and stored is not None
        if right:
            self._remember(tag)
        return right

    def _tag(self, user: str, stored: str, password: bytes) -> bytes:
        parts = (user.encode(), stored.encode(), password)
        digest = blake2b(key=self._key, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()

    def _is_remembered(self, tag: bytes) -> bool:
        return self._right_until.get(tag, 0.0) > self._clock()

    def _remember(self, tag: bytes) -> None:
        """Keep the newest; the first in the dict is the oldest."""
        with self._lock:
            self._right_until.pop(tag, None)
            self._right_until[tag] = self._clock() + REMEMBERED_S
            while len(self._right_until) > MOST_REMEMBERED:
                del self._right_until[next(iter(self._right_until))]


def _fits(stored: str, password: bytes) -> bool:
    try:
        return PasswordHasher().verify(stored, password)
    except (Argon2Error, InvalidHashError):
        return False
