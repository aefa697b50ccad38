"""Who is on which link and wants what, as of the last change, for whoever plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from firelane.exchange.lanes.link import Link
from firelane.exchange.measuring.observed import SeenBandwidth, SeenSubscription
from firelane.scenario import model
from firelane.scenario.model import DEFAULT_LINK

if TYPE_CHECKING:
    from firelane.exchange.broker import Broker
    from firelane.exchange.clients.session import Session


@dataclass(slots=True)
class Live:
    """Subscriptions, and links as they are known; an own link that carries less than configured has its own name."""

    subscriptions: tuple[SeenSubscription, ...] = ()
    links: dict[str, model.Link] = field(default_factory=dict)
    _paced: dict[str, Link] = field(default_factory=dict)

    @classmethod
    def of(cls, broker: Broker) -> Live:
        """What is live at a broker."""
        live = cls(links=dict(broker.links.scenario.links))
        live.subscriptions = tuple(one for session in broker.sessions.values() for one in live._seat(session))
        return live

    def bandwidths(self) -> dict[str, SeenBandwidth]:
        """What is known of the bandwidth of each link, up to now."""
        return {name: _seen(link) for name, link in self._paced.items()}

    def _seat(self, session: Session) -> Iterator[SeenSubscription]:
        name = DEFAULT_LINK if session.link is None else self._name(session.link, session.client_id)
        for one in session.subscriptions.values():
            yield SeenSubscription(
                subscriber=session.name,
                filter=one.filter,
                need=one.lane.need,
                best_class=one.lane.best_class,
                link=name,
                qos=one.qos,
            )

    def _name(self, link: Link, client_id: str) -> str:
        if not link.paced:
            return link.name
        narrow = link.narrow
        name = f"{link.name}:{client_id}" if link.own and narrow else link.name
        if narrow:
            self.links[name] = replace(link.described, bandwidth_bps=link.bandwidth_bps, each=False)
        if narrow or not link.own:
            self._paced[name] = link
        return name


def _seen(link: Link) -> SeenBandwidth:
    configured_bps = link.described.bandwidth_bps
    assert configured_bps is not None
    return SeenBandwidth(configured_bps=configured_bps, known_bps=link.bandwidth_bps, known_by=link.known_by)
