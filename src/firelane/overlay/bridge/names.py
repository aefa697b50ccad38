"""Where a DDS topic is among MQTT topics.

    PREFIX/TOPIC             samples
    PREFIX/TOPIC/SITE:HASH   samples of one instance of a site, where each instance's last one is retained
    PREFIX/TOPIC/type:TYPE   what is needed to know the type, retained

A name of a DDS topic is one level: what MQTT would take for something else is percent-encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import quote, unquote

TYPE = "type:"
UNCHANGED = " !'()*,-.:;=@[]^_`{|}~&"


@dataclass(frozen=True, slots=True)
class Names:
    """Of one domain: all below one prefix."""

    prefix: str

    def topic(self, name: str) -> str:
        """Of a DDS topic's samples."""
        return f"{self.prefix}/{quote(name, safe=UNCHANGED)}"

    def instance(self, name: str, site: str, key: bytes, partitions: Sequence[str]) -> str:
        """Of samples of one instance that a site's writers of these partitions have."""
        content = b"\0".join((key, *(one.encode() for one in partitions)))
        return f"{self.topic(name)}/{site}:{blake2b(content, digest_size=16).hexdigest()}"

    def is_instance(self, topic: str, site: str) -> bool:
        """Whether it is that of an instance of this site."""
        return self.read(topic)[1].startswith(f"{site}:")

    def kind(self, name: str, identity: str) -> str:
        """Of the document with a type."""
        return f"{self.topic(name)}/{TYPE}{identity}"

    def filters(self, name: str) -> tuple[str, str]:
        """What to subscribe to for all there is of a DDS topic."""
        return self.topic(name), f"{self.topic(name)}/+"

    def read(self, topic: str) -> tuple[str, str]:
        """The DDS topic, and what is said behind it: nothing, an instance or a type."""
        level, _, rest = topic.removeprefix(f"{self.prefix}/").partition("/")
        return unquote(level, errors="replace"), rest
