"""One need for several who are sent the same copy over the WAN: such that none of them is dropped what it keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from firelane.exchange.clients.needs import DEFAULT, NeedError, asked, said
from firelane.scenario.need import Need, changed

MOST_REMEMBERED = 1000  # texts of needs

Said = Mapping[str, str]  # as user properties of SUBSCRIBE say it


def joined(needs: Collection[Need]) -> Need:
    """The need that weighs most, with the tightest bound of any; only the latest is kept if all want no more."""
    heaviest = max(needs, key=lambda one: one.weight)
    return replace(
        heaviest,
        max_delay_s=_least(one.max_delay_s for one in needs),
        max_loss=_least(one.max_loss for one in needs),
        min_share=max(one.min_share for one in needs),
        keep="latest" if all(one.keep == "latest" for one in needs) else "all",
    )


def joined_said(needs: Collection[Said | None]) -> Said | None:
    """The same, as edges say it to each other."""
    first, *others = needs
    if all(one == first for one in others):
        return first
    return dict(said(joined([_read(tuple((one or {}).items())) for one in needs]))) or None


def _least(bounds: Iterable[float | None]) -> float | None:
    return min((one for one in bounds if one is not None), default=None)


@lru_cache(MOST_REMEMBERED)
def _read(properties: tuple[tuple[str, str], ...]) -> Need:
    """What another edge says that its clients need; one that cannot be read is nothing special."""
    try:
        return changed(DEFAULT, asked(properties))
    except (NeedError, ValueError):
        return DEFAULT
