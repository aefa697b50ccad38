"""The types that a bridge knows: asked of endpoints here, or sent by other sites."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from firelane.dds import DdsError, Kind, Participant, Peer, kind_of, read_kind

MOST_KINDS = 1000
WITHIN_S = 5.0
AGAIN_S = 10.0


class Catalogue:
    """By identity. Asking is done in a thread, as it waits for answers from the network; `came` is called then."""

    def __init__(self, participant: Participant, came: Callable[[], None], tell: Callable[[str, str], None]) -> None:
        self._participant, self._came, self._tell = participant, came, tell
        self._kinds: dict[str, Kind] = {}
        self._not_before: dict[str, float] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="firelane-dds-types")
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._kinds)

    def get(self, identity: str) -> Kind | None:
        """A type, if it is known."""
        return self._kinds.get(identity)

    def ask(self, peer: Peer) -> None:
        """Have an endpoint's type told, unless that is under way or was in vain a moment ago."""
        identity, now = peer.type_identity, monotonic()
        if identity is None or identity in self._kinds or self._not_before.get(identity, 0.0) > now:
            return
        if len(self._not_before) > MOST_KINDS:
            self._not_before.clear()
        self._not_before[identity] = now + AGAIN_S
        loop = asyncio.get_running_loop()

        def fetch() -> None:
            try:
                found: Kind | DdsError = kind_of(self._participant, peer.type_id, peer.type_name, within_s=WITHIN_S)
            except DdsError as problem:
                found = problem
            loop.call_soon_threadsafe(self._fetched, peer, found)

        self._thread.submit(fetch)

    def learn(self, document: bytes) -> None:
        """Take in a type that another site has sent."""
        try:
            kind = read_kind(document)
        except DdsError as problem:
            self.counts["bad types"] += 1
            self._tell("untyped", str(problem))
            return
        self._add(kind)

    def close(self) -> None:
        """Ask no more; waits for the answer that is under way."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _fetched(self, peer: Peer, found: Kind | DdsError) -> None:
        if isinstance(found, DdsError):
            self._tell("untyped", f'DDS topic "{peer.topic}" is not carried: {found}')
        else:
            self._add(found)
            self._came()

    def _add(self, kind: Kind) -> None:
        if kind.identity in self._kinds:
            return
        if len(self._kinds) >= MOST_KINDS:
            self.counts["types beyond the most"] += 1
            return
        self._kinds[kind.identity] = kind
