"""What a message says of the DDS sample in it, as user properties.

    firelane-dds             1 STATE TYPE TIME POLICIES SITE
    firelane-dds-partition   a partition of the writer; one for each
    firelane-dds-key         the key of an instance that ended, base64; such a message has no payload

STATE is alive, disposed, unregistered, or gone (the last writer like this has left or is not alive; without a TYPE, all
of the site have); TYPE the identity of the type, - if unknown; TIME when it was written, in nanoseconds since 1970;
POLICIES what the writer offers; SITE the edge where it was written.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass

from firelane.dds import ALIVE, DISPOSED, PLAIN, UNREGISTERED, Policies, as_text, from_text

SAID, PARTITION, KEY = "firelane-dds", "firelane-dds-partition", "firelane-dds-key"
FORMAT = "1"
GONE = "gone"
STATES = (ALIVE, DISPOSED, UNREGISTERED, GONE)
UNKNOWN = "-"
MOST_PARTITIONS = 64
LATEST_NS = 2**63 - 1


class SaidError(ValueError):
    """What a message says of a sample cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Of one sample."""

    site: str
    state: str = ALIVE
    kind: str | None = None
    when_ns: int = 0
    policies: Policies = PLAIN
    partitions: tuple[str, ...] = ()
    key: bytes = b""

    def properties(self) -> list[tuple[str, str]]:
        """As user properties."""
        text = f"{FORMAT} {self.state} {self.kind or UNKNOWN} {self.when_ns} {as_text(self.policies)} {self.site}"
        found = [(SAID, text), *((PARTITION, one) for one in self.partitions)]
        return [*found, (KEY, b64encode(self.key).decode())] if self.key else found


def read_said(properties: Iterable[tuple[str, str]]) -> Said | None:
    """What user properties say; None if nothing, as with a message of a client that knows nothing of this."""
    found = list(properties)
    texts = [text for name, text in found if name == SAID]
    if not texts:
        return None
    partitions = tuple(text for name, text in found if name == PARTITION)
    keys = [text for name, text in found if name == KEY]
    try:
        version, state, kind, when, policies, site = texts[-1].split(" ")
        if version != FORMAT or state not in STATES or len(partitions) > MOST_PARTITIONS:
            raise SaidError("a sample that is told of in another format")
        when_ns = int(when)
        if not 0 <= when_ns <= LATEST_NS:
            raise SaidError("a sample of a time that cannot be")
        return Said(
            site=site,
            state=state,
            kind=None if kind == UNKNOWN else kind,
            when_ns=when_ns,
            policies=from_text(policies).carried,
            partitions=partitions,
            key=b64decode(keys[-1], validate=True) if keys else b"",
        )
    except SaidError:
        raise
    except ValueError:
        raise SaidError("a sample that is told of in a way that cannot be understood") from None
