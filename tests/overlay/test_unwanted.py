"""What other sites retain and nobody here wants any more is forgotten, a few steps at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from firelane.exchange.journal.retained import ORIGIN, Kept, RetainedMessages, origin_of
from firelane.exchange.lanes.message import Message, user_property, without_length
from firelane.mqtt.properties import write_properties
from firelane.overlay.local import unwanted as module
from firelane.overlay.local.unwanted import Unwanted


@dataclass
class Journal:
    over: list[str] = field(default_factory=list)

    def unretained(self, kept):
        self.over.append(kept.message.topic.decode())


def broker(far=(), near=()):
    retained, journal = RetainedMessages(lambda session, topic: True), Journal()
    for topics, properties in ((far, user_property(ORIGIN, "a 7")), (near, b"")):
        for topic in topics:
            message = Message(topic.encode(), b"x", 1, True, None, 1)
            message.properties = properties
            retained.keep(Kept(message))
    return SimpleNamespace(retained=retained, journal=journal)


def test_what_is_of_this_site_or_still_wanted_stays():
    it = broker(far=["t/1", "t/2", "u"], near=["t/3"])
    unwanted = Unwanted(it)
    unwanted.add(["t/+"])
    unwanted.look(lambda topic: topic == "t/2")
    assert it.journal.over == ["t/1"]
    assert {kept.message.topic for kept in it.retained} == {b"t/2", b"t/3", b"u"}
    assert not unwanted.busy


@pytest.mark.parametrize("filters", [["#"], [f"x{number}/#" for number in range(4)]])
def test_a_look_is_bounded_also_where_nothing_is_found(monkeypatch, filters):
    monkeypatch.setattr(module, "AT_ONCE", 50)
    it, asked = broker(far=[f"t/{number}" for number in range(200)]), []
    unwanted = Unwanted(it)
    unwanted.add(filters)
    looks = 0
    while unwanted.busy:
        before = len(asked)
        unwanted.look(lambda topic: asked.append(topic) or False)
        assert len(asked) - before <= 50
        looks += 1
    assert looks >= (4 if filters == ["#"] else 1)
    assert len(it.retained) == (0 if filters == ["#"] else 200)


def test_many_wildcards_that_go_at_once_are_one_walk():
    """Each is one of everything, at worst: others would hear no news of this site for minutes."""
    it = broker(far=[f"site/{number}" for number in range(1000)], near=["t/here"])
    unwanted = Unwanted(it)
    unwanted.add([f"+/+/user-{number}" for number in range(1000)])
    looks = 0
    while unwanted.busy:
        unwanted.look(lambda topic: topic != "site/7")
        looks += 1
    assert looks <= 2
    assert it.journal.over == ["site/7"]


def test_all_of_it_can_be_forgotten_at_once():
    it = broker(far=[f"t/{number}" for number in range(20_000)], near=["t/here"])
    unwanted = Unwanted(it)
    unwanted.add(["#"])
    unwanted.finish(lambda topic: False)
    assert len(it.retained) == 1
    assert not unwanted.busy


LOOKS_LIKE_IT = user_property(ORIGIN, "far 1 2")


def retained_with(**properties):
    message = Message(b"t", b"x", 1, True, None, 1)
    message.properties = without_length(write_properties(properties))
    return message


@pytest.mark.parametrize(
    "properties",
    [
        {"correlation_data": LOOKS_LIKE_IT},
        {"correlation_data": LOOKS_LIKE_IT[:-3]},
        {"user_property": [("own", "1"), (f"{ORIGIN}s", "far 1 2")], "correlation_data": b"&" + LOOKS_LIKE_IT},
    ],
)
def test_what_a_client_writes_among_other_properties_does_not_say_where_a_message_is_from(properties):
    assert origin_of(retained_with(**properties)) is None


@pytest.mark.parametrize("others", [{}, {"content_type": "text"}, {"correlation_data": LOOKS_LIKE_IT[:-2] + b"9 "}])
def test_where_a_message_is_from_is_found_among_other_properties(others):
    pairs = [("own", "1")] * 1500 + [(ORIGIN, "a 1f 2")]
    assert origin_of(retained_with(user_property=pairs, **others)) == "a 1f 2"


def test_a_message_that_only_looks_like_one_of_another_site_is_not_forgotten():
    it = broker()
    it.retained.keep(Kept(retained_with(correlation_data=LOOKS_LIKE_IT)))
    unwanted = Unwanted(it)
    unwanted.add(["#"])
    unwanted.finish(lambda topic: False)
    assert len(it.retained) == 1
