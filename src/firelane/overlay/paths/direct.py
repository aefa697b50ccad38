"""An edge's connections to other edges, for second copies of what clients there want by a deadline.

There is one to each edge that has such a wish, from when it is known until it is taken back, so that also the first
message finds it. What cannot be sent on it, or is more than may be, goes through the router alone.

Implements: pubsubcoord, section 2.4.2 and Figure 3: an additional path of one hop between edge brokers.
Differs:    how many edges and how much traffic there may be is limited at the sender, too.
Symbols:    none of the paper's.
Checked by: tests/overlay/test_direct.py
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from firelane.mqtt.packets import Publish
from firelane.overlay.messages.actions import Direct
from firelane.overlay.messages.addressing import addressed
from firelane.overlay.paths.allowance import Allowance
from firelane.overlay.paths.line import Sent
from firelane.overlay.paths.path import Credentials, Path
from firelane.scenario.overlay_settings import DirectSettings


class Directly:
    """Of the edge `name`."""

    def __init__(
        self, name: str, settings: DirectSettings, credentials: Credentials, tell: Callable[[str], None]
    ) -> None:
        self._name, self._settings, self._credentials, self._tell = name, settings, credentials, tell
        self._paths: dict[str, tuple[Path, asyncio.Task[None]]] = {}
        self._left_out: set[str] = set()  # edges beyond the most
        self._allowance = Allowance(settings.rate_hz)
        self.sent: Counter[str] = Counter()  # by edge
        self.refused: Counter[str] = Counter()  # by why

    def statistics(self) -> dict[str, Any]:
        """Where they lead, what was sent on them, and what was not."""
        return {
            "paths": {
                name: {"locator": path.locator, "connected": path.connected, "sent": self.sent[name]}
                for name, (path, _) in self._paths.items()
            },
            "left_out": sorted(self._left_out),
            "refused": dict(sum((path.dropped for path, _ in self._paths.values()), self.refused)),
        }

    def edges_changed(self, locators: Mapping[str, str], group: asyncio.TaskGroup) -> None:
        """These edges have deadlines: connect to them while there may be more, and to no others."""
        for name in [name for name, (path, _) in self._paths.items() if locators.get(name) != path.locator]:
            path, task = self._paths.pop(name)
            task.cancel()
            self.refused += path.dropped
            self.sent.pop(name, None)
        for name in sorted(locators.keys() - self._paths.keys()):
            if len(self._paths) < self._settings.edges:
                self._paths[name] = self._begun(name, locators[name], group)
        self._leave_out(locators.keys() - self._paths.keys())

    def send(self, action: Direct, now: float) -> None:
        """A second copy, if that may be and can be."""
        known = self._paths.get(action.edge)
        if known is None:
            self.refused["too many edges"] += 1
        elif not self._allowance.allows(action.copy.topic, now):
            self.refused["too often"] += 1
        else:
            topic, properties = addressed(action.edge, action.copy, action.stamp)
            self.sent[action.edge] += known[0].publish(topic, action.copy.payload, 0, properties) is Sent.YES

    def _begun(self, name: str, locator: str, group: asyncio.TaskGroup) -> tuple[Path, asyncio.Task[None]]:
        said = ""

        def up() -> None:
            nonlocal said
            said = ""
            self._tell(f"edge {name} at {locator}: connected directly")

        def down(problem: str) -> None:
            nonlocal said
            if problem != said:  # once, not at every try
                said = problem
                self._tell(f"edge {name} at {locator}: {problem}; what has a deadline goes through routers alone")

        path = Path(self._name, locator, self._credentials, got=self._strange, up=up, down=down, peer=name)
        return path, group.create_task(path.run())

    def _strange(self, packet: Publish) -> None:
        self.refused["nothing was asked for"] += 1

    def _leave_out(self, names: set[str]) -> None:
        for name in sorted(names - self._left_out):
            self._tell(
                f"edge {name}: there are {self._settings.edges} direct paths already (exchange.overlay.direct.edges); "
                "what has a deadline there goes through routers alone"
            )
        self._left_out = names
