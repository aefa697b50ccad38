"""Clients, sessions, subscriptions and retained messages, as real clients make them; and putting an end to them."""

import asyncio
import base64
import time
from datetime import UTC, datetime
from itertools import count

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from web_side import guest, until, user, web_side, with_expiry

from firelane.exchange.journal.retained import Kept, RetainedMessages
from firelane.exchange.lanes.message import Message
from firelane.exchange.protocol.connecting import OVERLAY
from firelane.exchange.sockets import server
from firelane.web.clients import OfClient, list_clients
from firelane.web.pages import Paging, page, skip

ADMINISTRATIVE_ACTION = 0x98

NOTHING = {"policy": 0, "overflow": 0, "expired": 0, "disconnected": 0, "too_large": 0, "superseded": 0}


def everything(side, path, limit, **parameters):
    """All items, page by page."""
    items, offset = [], 0
    while offset is not None:
        answer = side.http.get(f"/api/v1/{path}", params={"limit": limit, "offset": offset, **parameters}).json()
        assert len(answer["items"]) <= limit
        items += answer["items"]
        offset = answer["next_offset"]
    return items


def test_connected_clients_are_shown_as_they_are(tmp_path):
    before = datetime.now(UTC)
    with (
        web_side(tmp_path, users={"ada": user("secret")}) as side,
        guest(side, "old", version=paho.MQTTv311) as old,
        guest(side, "new", user="ada", password="secret") as new,
    ):
        old.subscribe("a/#", qos=1)
        new.publish("a/b", b"x")
        until(lambda: old.messages)
        until(lambda: side.items("clients", client_id="old")[0]["delivered"] == 1)
        first, second = side.items("clients")
    assert before <= datetime.fromisoformat(first.pop("since")) <= datetime.now(UTC)
    assert first == {
        "client_id": "old", "user": None, "address": "127.0.0.1", "protocol": "3.1.1", "keep_alive_s": 47,
        "in_flight": 0, "owed": 0, "delivered": 1, "dropped": NOTHING,
    }  # fmt: skip
    assert (second["client_id"], second["user"], second["protocol"]) == ("new", "ada", "5")


def test_a_client_that_has_left_is_not_connected_but_its_session_is_there(side):
    with guest(side, "here", expiry_s=100):
        with guest(side, "gone", expiry_s=3600) as gone:
            gone.subscribe("a", qos=1)
            gone.subscribe("b")
        until(lambda: not side.items("clients", client_id="gone"))
        with guest(side, "sender") as sender:
            sender.publish("a", b"x")
            sender.publish("b", b"x", qos=0)
            sender.publish("a", b"x")
        until(lambda: len(side.items("sessions")) == 2)
        here, gone = side.items("sessions")
        assert (here["connected"], here["expires_at"], here["expiry_s"]) == (True, None, 100)
        left_s = (datetime.fromisoformat(gone.pop("expires_at")) - datetime.now(UTC)).total_seconds()
        assert 3500 < left_s <= 3600
        assert gone == {
            "client_id": "gone", "user": None, "connected": False, "expiry_s": 3600, "subscriptions": 2, "in_flight": 0,
            "owed": 2, "delivered": 0, "dropped": {**NOTHING, "disconnected": 1},
        }  # fmt: skip
        assert side.items("clients", client_id="gone") == side.items("clients", client_id="nobody") == []


def test_a_session_that_never_ends_says_so(side):
    with guest(side, "old", version=paho.MQTTv311, expiry_s=1):
        pass
    until(lambda: not side.items("sessions")[0]["connected"])
    (session,) = side.items("sessions", client_id="old")
    assert session["expiry_s"] is None
    assert session["expires_at"] is None


def test_pages_together_are_the_whole_list(side):
    names = [f"c/{number} ü" for number in range(7)]
    for name in names:
        with guest(side, name, expiry_s=100) as visitor:
            for topic in ("x/#", "y", f"own/{name}"):
                visitor.subscribe(topic)
    for limit in (1, 2, 3, 7, 8, 1000):
        assert [one["client_id"] for one in everything(side, "sessions", limit)] == names
        assert len(everything(side, "subscriptions", limit)) == 21
        assert [one["client_id"] for one in everything(side, "subscriptions", limit, filter="y")] == names
        assert len(everything(side, "subscriptions", limit, client_id=names[3])) == 3
    assert len(everything(side, "subscriptions", 5, client_id=names[3], filter=f"own/{names[3]}")) == 1
    assert everything(side, "subscriptions", 5, client_id=names[3], filter=f"own/{names[4]}") == []
    assert side.http.get("/api/v1/sessions?limit=7").json()["next_offset"] is None
    assert side.http.get("/api/v1/sessions?offset=99").json() == {"items": [], "next_offset": None}


def test_a_page_looks_no_further_than_it_must():
    looked_at = count()
    found = (next(looked_at) for _ in range(1000))
    first = page(found, Paging(limit=10, offset=5), lambda one: one)
    assert first.items == list(range(5, 15))
    assert first.next_offset == 15
    assert next(looked_at) == 16


def test_retained_messages_may_come_and_go_while_pages_are_skipped():
    retained = RetainedMessages(lambda session, topic: True)
    topics = [f"{number % 7}/{number}" for number in range(3000)]
    for topic in topics:
        retained.keep(Kept(Message(topic.encode(), b"x", 0, True, None, 1)))
    found, seen = retained.matching("#"), []

    async def skip_and_change():
        async with asyncio.TaskGroup() as group:
            group.create_task(skip(found, 2500))
            for topic in topics[::2]:
                await asyncio.sleep(0)
                retained.clear(topic.encode())

    asyncio.run(skip_and_change())
    seen += [kept.message.topic.decode() for kept in found]
    assert 0 < len(seen) <= 500
    assert set(seen) <= set(topics[1::2])


def test_skipping_ends_where_the_list_does():
    found = iter(range(2500))
    asyncio.run(skip(found, 2000))
    assert next(found) == 2000
    asyncio.run(skip(found, 1_000_000_000))
    assert next(found, None) is None


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("offset=-1", "offset"),
        ("offset=99999999999999999999", "offset"),
        ("clientid=x", "clientid"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(side, query, named):
    for path in ("clients", "sessions", "subscriptions", "retained"):
        answer = side.http.get(f"/api/v1/{path}?{query}")
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert set(problem) == {"title", "status", "detail"}
        assert named in problem["detail"]
        assert "\n" not in problem["detail"]


@pytest.mark.parametrize("path", ["clients", "sessions", "retained"])
def test_what_is_to_end_must_be_named_and_be_there(side, path):
    name = "topic" if path == "retained" else "client_id"
    assert side.http.delete(f"/api/v1/{path}").status_code == 422
    answer = side.http.delete(f"/api/v1/{path}", params={name: "no\nbody"})
    assert answer.status_code == 404
    assert "no\\nbody" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["clients", "sessions"])
def test_a_part_of_the_exchange_itself_is_not_ended(side, path):
    answer = side.http.delete(f"/api/v1/{path}", params={"client_id": OVERLAY})
    assert answer.status_code == 409
    assert "part of the exchange" in answer.json()["detail"]


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
def test_a_client_that_is_kicked_is_gone_and_finds_its_session_again(side, version):
    with guest(side, "noisy/ü", version=version, expiry_s=100) as noisy:
        noisy.subscribe("a")
        assert side.http.delete("/api/v1/clients", params={"client_id": "noisy/ü"}).status_code == 204
        until(lambda: noisy.farewells)
        if version == paho.MQTTv5:
            assert noisy.farewells == [ADMINISTRATIVE_ACTION]
        assert side.items("clients") == []
        assert side.http.delete("/api/v1/clients", params={"client_id": "noisy/ü"}).status_code == 404
    with guest(side, "noisy/ü", version=version, expiry_s=100) as again:
        assert again.session_present
    assert side.items("sessions")[0]["subscriptions"] == 1


def test_a_kick_takes_effect_at_once_whatever_else_happens(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "TICK_S", 3600.0)
    with web_side(tmp_path, system_interval_s=0.0) as side, guest(side, "noisy") as noisy:
        assert side.http.delete("/api/v1/clients?client_id=noisy").status_code == 204
        until(lambda: noisy.farewells)


def test_a_connection_that_is_about_to_close_is_no_client(side):
    async def kick_and_list():
        side.exchange.broker.kick("c", time.monotonic())
        return await list_clients(side.exchange, OfClient())

    with guest(side, "c"):
        assert len(side.items("clients")) == 1
        assert asyncio.run_coroutine_threadsafe(kick_and_list(), side.loop).result().items == []


@pytest.mark.parametrize("connected", [True, False])
def test_a_session_that_is_ended_leaves_nothing_behind_not_even_after_a_restart(tmp_path, connected):
    with web_side(tmp_path) as side:
        with guest(side, "old", expiry_s=3600) as old:
            old.subscribe("a/#", qos=1)
            if connected:
                assert side.http.delete("/api/v1/sessions", params={"client_id": "old"}).status_code == 204
                until(lambda: old.farewells == [ADMINISTRATIVE_ACTION])
        if not connected:
            until(lambda: not side.items("clients"))
            with guest(side, "sender") as sender:
                sender.publish("a/b", b"x")
            assert side.items("sessions", client_id="old")[0]["owed"] == 1
            assert side.http.delete("/api/v1/sessions", params={"client_id": "old"}).status_code == 204
        assert side.items("sessions", client_id="old") == side.items("subscriptions") == []
        assert side.http.delete("/api/v1/sessions", params={"client_id": "old"}).status_code == 404
    with web_side(tmp_path) as side:
        assert side.items("sessions") == []
        with guest(side, "old", expiry_s=3600) as old:
            assert not old.session_present


def test_a_session_that_ends_with_its_connection_can_be_ended_too(side):
    with guest(side, "brief") as brief:
        assert side.http.delete("/api/v1/sessions?client_id=brief").status_code == 204
        until(lambda: brief.farewells)
        assert side.items("sessions") == []


def test_subscriptions_are_shown_with_their_options(tmp_path):
    with web_side(tmp_path) as side, guest(side, "c") as visitor:
        options = paho.SubscribeOptions(qos=2, noLocal=True, retainAsPublished=True)
        _, number = visitor.client.subscribe("a/+", options=options)
        until(lambda: number in visitor.granted)
        visitor.subscribe("$share/group/b/#", qos=1)
        plain, shared = side.items("subscriptions", client_id="c")
    assert plain == {
        "client_id": "c", "filter": "a/+", "qos": 2, "shared_group": None, "no_local": True,
        "retain_as_published": True, "identifier": None, "restricted": False,
        "priority": 8, "drop_rate": 0.0, "link": "default",
        "due": 0, "delivered": 0, "dropped": NOTHING, "merged": 0, "owed": 0,
    }  # fmt: skip
    assert (shared["filter"], shared["shared_group"], shared["qos"]) == ("$share/group/b/#", "group", 1)


def test_retained_messages_are_shown_as_bytes_and_where_they_can_be_as_text(side):
    payloads = {"r/text": "grün".encode(), "r/bytes": b"\xff\0", "r/long": b"x" + "ü".encode() * 600, "s/other": b"1"}
    with guest(side, "c") as visitor:
        for topic, payload in payloads.items():
            visitor.publish(topic, payload, retain=True)
    found = {one["topic"]: one for one in side.items("retained")}
    assert set(found) == set(payloads)
    for topic, one in found.items():
        assert one["size_bytes"] == len(payloads[topic])
        assert base64.b64decode(one["payload_base64"]) == payloads[topic][:1024]
        assert one["truncated"] == (topic == "r/long")
    assert found["r/text"]["payload_text"] == "grün"
    assert found["r/bytes"]["payload_text"] is None
    assert found["r/long"]["payload_text"] == "x" + "ü" * 511  # the byte after is half a letter
    assert {one["topic"] for one in side.items("retained", filter="r/+")} == set(payloads) - {"s/other"}
    assert len(everything(side, "retained", 1, filter="+/#")) == 4
    assert side.items("retained", filter="r/text") == [found["r/text"]]
    assert side.http.get("/api/v1/retained?filter=a/%23/b").status_code == 422


def test_a_retained_message_that_has_expired_is_not_shown(side):
    with guest(side, "c") as visitor:
        visitor.publish("long", b"x", retain=True, properties=with_expiry(PacketTypes.PUBLISH, 3600))
        visitor.publish("short", b"x", retain=True, properties=with_expiry(PacketTypes.PUBLISH, 1))
    until(lambda: len(side.items("retained")) == 1)
    (kept,) = side.items("retained")
    assert kept["topic"] == "long"
    assert 3000 < kept["expires_in_s"] < 3600


def test_a_retained_message_that_is_cleared_stays_away_after_a_restart(tmp_path):
    with web_side(tmp_path) as side:
        with guest(side, "c") as visitor:
            for topic in ("a/b", "a/c"):
                visitor.publish(topic, b"x", retain=True)
        assert side.http.delete("/api/v1/retained", params={"topic": "a/b"}).status_code == 204
        assert side.http.delete("/api/v1/retained", params={"topic": "a/b"}).status_code == 404
    with web_side(tmp_path) as side:
        assert [one["topic"] for one in side.items("retained")] == ["a/c"]


def test_the_exchange_keeps_its_own_topics(side):
    until(lambda: side.items("retained", filter="$SYS/#"))
    assert side.http.delete("/api/v1/retained", params={"topic": "$SYS/broker/version"}).status_code == 409
    assert side.items("retained", filter="$SYS/broker/version")


def test_a_change_that_the_log_does_not_take_is_reported(side, monkeypatch):
    with guest(side, "c") as visitor:
        visitor.publish("a", b"x", retain=True)
    monkeypatch.setattr(type(side.exchange.log), "failed", property(lambda log: "No space left on device"))
    answer = side.http.delete("/api/v1/retained?topic=a")
    assert answer.status_code == 503
    assert "No space left" in answer.json()["detail"]
