"""Specification files of PlanIoT and PlanEMQX as scenarios.

Implements: planemqx, section V-C: its environments of devices, topics, applications of four categories and one link.
Differs:    what a Scenario has no place for is named, never silently left out. What a file says is lost of a category
            is taken as what it can bear; bounds on delay, which these files do not have, are left to the user.
Symbols:    IoTdevices -> publishers, applications -> subscribers, systemBandwidth -> the link's bandwidth.
Checked by: tests/scenario/test_planiot.py
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firelane.errors import ScenarioError
from firelane.scenario.load import from_data
from firelane.scenario.model import Scenario

LINK = "link"
LOSS = "commChannelLoss"
CATEGORIES = {"RT": "real-time", "ST": "streaming", "VS": "streaming", "TS": "transactional", "AN": "analytics"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A scenario, and what of its file has no place in it."""

    scenario: Scenario
    unused: tuple[str, ...]


def read_planiot(path: str | Path) -> Imported:
    """The scenario in a specification file."""
    try:
        raw = Path(path).read_bytes()
        data = json.loads(raw.decode("utf-8-sig"))
    except OSError as problem:
        raise ScenarioError(f"this file cannot be read: {problem.strerror}", source=str(path)) from None
    except (ValueError, RecursionError):
        raise ScenarioError("this is not JSON, as specifications of PlanIoT are", source=str(path)) from None
    if not isinstance(data, dict) or "IoTdevices" not in data or "applications" not in data:
        raise ScenarioError(
            "this is no specification of PlanIoT: IoTdevices and applications are missing", source=str(path)
        )
    return _Reading(str(path), data).imported()


@dataclass(slots=True)
class _Reading:
    source: str
    data: dict[str, Any]
    unused: dict[str, None] = field(default_factory=dict)  # in the order found

    def imported(self) -> Imported:
        publishers, topics = self._devices()
        subscribers = self._applications(topics)
        self._check_topics(publishers, subscribers)
        scenario = {
            "name": Path(self.source).stem or "planiot",
            "links": {LINK: self._link()},
            "topics": topics,
            "publishers": publishers,
            "subscribers": subscribers,
            **self._brokers(),
            "categories": self._categories(),
        }
        self._rest()
        return Imported(scenario=from_data(scenario, source=self.source), unused=tuple(self.unused))

    def _devices(self) -> tuple[dict[str, Any], dict[str, Any]]:
        publishers: dict[str, Any] = {}
        sizes: dict[str, tuple[float, float]] = {}  # of each topic: messages a second, and bytes in them
        for number, device in enumerate(self._list("IoTdevices")):
            key = f"IoTdevices.{number}"
            self._only(device, key, "deviceId", "deviceName", "publishFrequency", "messageSize", "distribution",
                       "publishesTo")  # fmt: skip
            rate, size = self._number(device, key, "publishFrequency"), self._number(device, key, "messageSize")
            self._distribution(device, key)
            wanted = self._names(device, key, "publishesTo")
            publishers[self._name(device, key, "deviceId", publishers)] = {"publishes": dict.fromkeys(wanted, rate)}
            for topic in wanted:
                hz, total = sizes.get(topic, (0.0, 0.0))
                if hz and abs(total / hz - size) > 1e-9 * size:
                    self.unused[f"devices publish messages of different sizes to {topic}: their mean is used"] = None
                sizes[topic] = hz + rate, total + rate * size
        topics = {name: {"size": total / hz if hz else 0.0, "sizes": "fixed"} for name, (hz, total) in sizes.items()}
        return publishers, topics

    def _distribution(self, device: dict[str, Any], key: str) -> None:
        """When messages come, not how long they are: here always by chance (Poisson)."""
        kind = str(device.get("distribution", "exponential"))
        if kind.lower() not in ("exponential", "poisson"):
            self.unused[f"{key}.distribution {kind}: publications are Poisson here"] = None

    def _applications(self, topics: dict[str, Any]) -> dict[str, Any]:
        subscribers: dict[str, Any] = {}
        for number, application in enumerate(self._list("applications")):
            key = f"applications.{number}"
            self._only(application, key, "applicationId", "applicationName", "applicationCategory", "priority",
                       "processingRate", "processingDistribution", "subscribesTo")  # fmt: skip
            code = str(application.get("applicationCategory", ""))
            need = {"category": self._category(code)} if code else {}
            if application.get("priority"):
                self.unused["applications.priority: `firelane plan` decides on priorities"] = None
            if application.get("processingRate"):
                self.unused["applications.processingRate: subscribers are as fast as their link"] = None
            wanted = self._names(application, key, "subscribesTo")
            for topic in wanted:
                if topic not in topics:
                    self.unused[f"{key}.subscribesTo {topic}: no device publishes to it"] = None
            name = self._name(application, key, "applicationId", subscribers)
            subscribers[name] = {
                "link": LINK,
                "subscribes": {topic: need for topic in wanted if topic in topics},
            }
        return subscribers

    def _check_topics(self, publishers: dict[str, Any], subscribers: dict[str, Any]) -> None:
        """What `topics` says again must be what devices and applications said."""
        for number, topic in enumerate(self._list("topics")):
            name = str(topic.get("topicId", ""))
            self._only(topic, f"topics.{number}", "topicId", "topicName", "publishers", "subscribers")
            for people, word, kind in (
                (publishers, "publishes", "publishers"),
                (subscribers, "subscribes", "subscribers"),
            ):
                told = set(self._names(topic, f"topics.{number}", kind))
                known = {person for person, one in people.items() if name in one[word]}
                for one in sorted(told ^ known if kind in topic else set()):
                    side = "only here" if one in told else "missing here"
                    self.unused[f"topics.{name}.{kind}: {one} is {side}; what devices and applications say counts"] = (
                        None
                    )

    def _link(self) -> dict[str, Any]:
        link: dict[str, Any] = {"overhead": 0, "pace": 1}
        if "systemBandwidth" in self.data:
            link["bandwidth"] = 1e6 * self._number(self.data, "", "systemBandwidth")
        sized = [(number, one) for number, one in enumerate(self._list("broker")) if one.get("bufferSize")]
        if sized:
            link["buffer"] = max(
                1, int(min(self._number(one, f"broker.{number}", "bufferSize") for number, one in sized))
            )
        return link

    def _brokers(self) -> dict[str, Any]:
        brokers = self._list("broker")
        for number, broker in enumerate(brokers):
            self._only(broker, f"broker.{number}", "brokerId", "brokerName", "bufferSize", "processingRate", "topics")
        if len(brokers) > 1:
            self.unused[f"broker: {len(brokers)} of them; the first one's rate and the smallest buffer are used"] = None
        if not brokers or not brokers[0].get("processingRate"):
            return {}
        return {"brokers": {"main": {"input_rate": self._number(brokers[0], "broker.0", "processingRate")}}}

    def _category(self, code: str) -> str:
        """Our name of a category, or the file's own."""
        named = {
            str(one.get("categoryId")): str(one.get("categoryName")) for one in self._list("applicationCategories")
        }
        return CATEGORIES.get(code.upper(), named.get(code, code))

    def _categories(self) -> dict[str, Any]:
        bears: dict[str, Any] = {}
        for key in self.data:
            if key.startswith(LOSS) and (loss := self._number(self.data, "", key)):
                category = self._category(key.removeprefix(LOSS))
                bears[category] = {"max_loss": loss}
                self.unused[f"{key} {loss:g}: taken as what {category} can bear, categories.{category}.max_loss"] = None
        return bears

    def _rest(self) -> None:
        used = {"IoTdevices", "applications", "applicationCategories", "topics", "broker", "systemBandwidth"}
        for key, value in self.data.items():
            if key in used or key.startswith(LOSS) or value in (None, "", "none", "shared", "default", -1, []):
                continue
            told = {
                "bandwidthPolicy": f"bandwidthPolicy {value}: all applications share one link here",
                "brokerCapacity": f"brokerCapacity {value}: a broker has its rate and the link its buffer",
                "virtualSensors": "virtualSensors: left out; make publishers and subscribers of them",
                "actuators": "actuators: left out; make subscribers of them",
            }
            self.unused[told.get(key, f"{key}: not known")] = None

    # ------------------------------------------------------------------------------------ plain data

    def _list(self, key: str) -> list[dict[str, Any]]:
        value = self.data.get(key) or []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ScenarioError("this must be a list of objects, [{...}, ...]", key=key, source=self.source)
        return value

    def _only(self, thing: dict[str, Any], key: str, *names: str) -> None:
        for name in thing:
            if name not in names:
                self.unused[f"{key.split('.', maxsplit=1)[0]}.{name}: not known"] = None

    def _name(self, thing: dict[str, Any], key: str, name: str, taken: Collection[str]) -> str:
        if not thing.get(name):
            raise ScenarioError("this is missing; give it a name", key=f"{key}.{name}", source=self.source)
        found = str(thing[name])
        if found in taken:
            raise ScenarioError(f'"{found}" is the name of another already', key=f"{key}.{name}", source=self.source)
        return found

    def _names(self, thing: dict[str, Any], key: str, name: str) -> list[str]:
        value = thing.get(name) or []
        if not isinstance(value, list):
            raise ScenarioError("this must be a list of names", key=f"{key}.{name}", source=self.source)
        return [str(one) for one in value]

    def _number(self, thing: dict[str, Any], key: str, name: str) -> float:
        value = thing.get(name)
        where = f"{key}.{name}" if key else name
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ScenarioError(f'"{value}" is not a number', key=where, source=self.source) from None
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf
        if not 0 <= number < 1e15:
            raise ScenarioError(f"{number:g} is out of range", key=where, source=self.source)
        return number
