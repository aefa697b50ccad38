"""A participant: the place in a DDS domain from which a process writes, reads and sees who else is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Self

from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.topic import Topic

from firelane.dds.network import LOOPBACK, MOST_HERE, DdsError, Network

_numbers = count(100_000)  # of domains in this process, away from those that others may have made here


class Participant:
    """One participant of a domain, with network settings of its own; use it as a context manager.

    Several in one process, also of the same domain, do not know of each other but over the network.
    """

    def __init__(self, domain: int = 0, network: Network = LOOPBACK, *, mark: bytes = b"") -> None:
        """`mark` is what others see of it in discovery (user data)."""
        self.domain = domain
        self._mark = mark
        self.network = network
        self.entity: Any = None  # the library's participant, while this one is open
        self._domain_entity: Any = None

    def __enter__(self) -> Self:
        configuration = self.network.configuration(self.domain)
        number = next(_numbers)
        place = f"domain {self.domain} on interface {self.network.interface}"
        with told(f"no participant in {place} (a machine has room for {MOST_HERE})"):
            self._domain_entity = Domain(number, configuration)
            try:
                self.entity = DomainParticipant(number, Qos(Policy.Userdata(self._mark)) if self._mark else None)
            except DDSException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Everything that was made with this participant ends with it."""
        for entity in (self.entity, self._domain_entity):
            end(entity)
        self.entity = self._domain_entity = None

    def topic(self, name: str, kind: type) -> Any:
        """The library's topic of that name and type."""
        if self.entity is None:
            raise DdsError("the participant is closed; use it as a context manager")
        with told(f'no topic "{name}" of type {kind.__name__}'):
            return Topic(self.entity, name, kind)


def end(entity: Any) -> None:
    """Delete what an object of the library stands for now, not when Python forgets the object."""
    if entity is not None:
        entity.__del__()


@contextmanager
def told(what: str) -> Iterator[None]:
    """What the library refuses, as one line."""
    try:
        yield
    except DDSException as problem:
        _, reason = DDSException.error_message_mapping.get(problem.code, ("", f"error {problem.code}"))
        raise DdsError(f"{what}: {reason[0].lower()}{reason[1:]}") from None
