"""What a client may ask for: aliases, packet sizes, expiries, rates, and a log that is full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firelane.exchange.journal import journal
from firelane.exchange.lanes.lane import Dropped
from firelane.exchange.protocol import publishing
from firelane.mqtt.packets import V3, Ack, Disconnect, Kind, Publish
from firelane.mqtt.reasons import Reason

# ------------------------------------------------------------------------------------------------ aliases


def test_a_topic_is_named_once_to_a_client_that_takes_aliases(desk):
    ann, ben = desk.join("ann", topic_alias_maximum=2), desk.join("ben")
    ann.subscribe("#", qos=2)
    for number, topic in enumerate(["one", "two", "one", "three", "two", "three", "one"]):
        ben.publish(topic, b"x", qos=number % 3)
    assert [(one.topic, one.properties.get("topic_alias")) for one in ann.messages()] == [
        ("one", 1), ("two", 2), ("", 1), ("three", None), ("", 2), ("three", None), ("", 1)]  # fmt: skip


def test_aliases_begin_anew_with_every_connection(desk):
    ann, ben = desk.lasting("ann", topic_alias_maximum=2), desk.join("ben")
    ann.subscribe("a", qos=1)
    ben.publish("a", b"1", qos=1)
    ben.publish("a", b"2", qos=1)
    ann.drop()
    ann = desk.lasting("ann", topic_alias_maximum=1)
    assert [one.topic for one in ann.messages()] == ["a", ""]
    ann.drop()
    assert [one.topic for one in desk.lasting("ann").messages()] == ["a", "a"]


def test_no_more_aliases_are_used_than_the_exchange_wants(make_desk):
    desk = make_desk(limits={"topic_aliases": 1})
    ann, ben = desk.join("ann", topic_alias_maximum=9), desk.join("ben")
    ann.subscribe("#")
    for topic in "abab":
        ben.publish(topic)
    assert [one.topic for one in ann.messages()] == ["a", "b", "", "b"]


def test_aliases_of_a_publisher_are_looked_up(make_desk):
    desk = make_desk(limits={"topic_aliases": 2})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("#")
    for topic, alias in [("a", 1), ("b", 2), ("", 1), ("c", 1), ("", 1), ("", 2)]:
        ben.publish(topic, properties={"topic_alias": alias})
    found = ann.messages()
    assert "".join(one.topic for one in found) == "abaccb"
    assert all(one.properties == {} for one in found)


@pytest.mark.parametrize(
    ("topic", "alias", "reason"), [("a", 3, Reason.TOPIC_ALIAS_INVALID), ("", 2, Reason.PROTOCOL_ERROR)]
)
def test_a_wrong_alias_ends_the_connection(make_desk, topic, alias, reason):
    desk = make_desk(limits={"topic_aliases": 2})
    ben = desk.join("ben")
    ben.publish(topic, properties={"topic_alias": alias})
    assert ben.take(Disconnect).reason == reason
    assert ben.closed


# ------------------------------------------------------------------------------------------------ sizes


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_too_large_for_a_client_is_dropped_and_counted_and_the_next_one_comes(desk, qos):
    ann, bea, ben = desk.lasting("ann", maximum_packet_size=100), desk.join("bea"), desk.join("ben")
    for line in (ann, bea):
        line.subscribe("a", qos=2)
    ben.publish("a", bytes(100), qos=qos)
    ben.publish("a", b"small", qos=qos)
    assert ann.take_in() == [b"small"]
    assert bea.take_in() == [bytes(100), b"small"]
    assert desk.session("ann").totals.dropped[Dropped.TOO_LARGE] == 1


def test_a_message_that_fits_only_without_an_alias_comes_without(desk):
    ann, ben = desk.join("ann", maximum_packet_size=100, topic_alias_maximum=5), desk.join("ben")
    ann.subscribe("a")
    for size in (94, 93, 91, 10):  # two bytes of header, three of topic, one of properties
        ben.publish("a", bytes(size))
    assert [(len(one.payload), one.topic) for one in ann.messages()] == [(94, "a"), (93, "a"), (91, "a"), (10, "")]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_in_flight_and_has_become_too_large_is_dropped(desk, qos):
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ben.publish("a", bytes(100), qos=qos)
    ann.drop()
    ann = desk.lasting("ann", maximum_packet_size=50)
    assert ann.messages() == []
    session = desk.session("ann")
    assert (session.totals.dropped[Dropped.TOO_LARGE], len(session.in_flight)) == (1, 0)


def test_a_packet_larger_than_allowed_ends_the_connection(make_desk):
    desk = make_desk(limits={"packet_bytes": 100})
    ann = desk.join("ann")
    ann.publish("a", bytes(94))
    assert not ann.closed
    ann.send_raw(b"\x30\x63")  # known from its header alone
    assert ann.take(Disconnect).reason == Reason.PACKET_TOO_LARGE
    assert ann.closed


# ------------------------------------------------------------------------------------------------ message expiry


def expiring(line, payload, qos, seconds):
    line.publish("a", payload, qos=qos, properties={"message_expiry_interval": seconds})


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_that_waits_too_long_in_memory_is_dropped(desk, qos):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ann.full()
    expiring(ben, b"short", qos, 10)
    expiring(ben, b"long", qos, 30)
    desk.pass_time(10)
    ann.full(False)
    (message,) = ann.messages()
    assert (message.payload, message.properties) == (b"long", {"message_expiry_interval": 20})
    assert desk.session("ann").totals.dropped[Dropped.EXPIRED] == 1


@pytest.mark.parametrize("crash", [True, False])
def test_a_message_that_waits_too_long_in_the_log_is_dropped(desk, crash):
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ann.drop()
    expiring(ben, b"short", 1, 10)
    expiring(ben, b"long", 2, 30)
    desk.pass_time(5)
    if crash:
        desk.crash()
    desk.pass_time(5)
    (message,) = desk.lasting("ann").messages()
    assert (message.payload, message.properties) == (b"long", {"message_expiry_interval": 20})
    assert desk.session("ann").totals.dropped[Dropped.EXPIRED] == 1


def test_a_fresh_message_has_all_its_time_left(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    for qos in (0, 1):
        expiring(ben, b"x", qos, 10)
    assert [one.properties for one in ann.messages()] == [{"message_expiry_interval": 10}] * 2


def test_a_retained_message_that_has_expired_is_not_sent(desk):
    ben = desk.join("ben")
    ben.publish("a", b"x", retain=True, properties={"message_expiry_interval": 10})
    desk.pass_time(4)
    ann = desk.join("ann")
    ann.subscribe("a")
    assert [one.properties for one in ann.messages()] == [{"message_expiry_interval": 6}]
    desk.pass_time(6)
    ann.subscribe("a")
    assert ann.messages() == []


# ------------------------------------------------------------------------------------------------ rates


def test_who_publishes_too_fast_is_read_from_no_further_and_loses_nothing(make_desk):
    desk = make_desk(limits={"publish_hz": 10.0})
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a")
    ben.send(*(Publish(topic="a", payload=b"%d" % number) for number in range(30)))
    assert not ben.connection.reading
    ben.publish("a", b"later")
    assert len(ann.messages()) == 30
    desk.pass_time(1.9)
    assert not ben.connection.reading
    desk.pass_time(0.2)
    assert ben.connection.reading
    assert ann.payloads() == [b"later"]


def test_who_keeps_to_the_rate_is_never_stopped(make_desk):
    desk = make_desk(limits={"publish_hz": 10.0})
    ben = desk.join("ben")
    for number in range(100):
        desk.pass_time(0.1)
        ben.publish("a", b"x", qos=number % 2)
        assert ben.connection.reading


# ------------------------------------------------------------------------------------------------ a full log


@pytest.fixture
def full(make_desk):
    """A desk whose log is full of messages for an absent client."""
    desk = make_desk(limits={"log_bytes": 3000})
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ann.drop()
    while not desk.log.full:
        ben.publish("a", bytes(100), qos=1)
    ben.leave()
    return desk


def test_in_mqtt_5_a_message_is_refused_while_the_log_is_full(full):
    ben = full.join("ben")
    watcher = full.join("watcher")
    watcher.subscribe("a", qos=2)
    ben.publish("a", b"0", qos=0)
    ben.publish("a", b"1", qos=1, packet_id=1)
    ben.publish("a", b"2", qos=2, packet_id=2)
    assert [one.reason for one in ben.take_all()] == [Reason.QUOTA_EXCEEDED] * 2
    assert watcher.payloads() == [b"0"]
    full.lasting("ann").take_in()
    ben.publish("a", b"2", qos=2, packet_id=2)
    assert ben.take(Ack).reason == Reason.SUCCESS
    assert watcher.payloads() == [b"2"]


def test_in_mqtt_3_messages_wait_while_the_log_is_full(full):
    ben = full.join("ben", V3)
    watcher = full.join("watcher")
    watcher.subscribe("a", qos=1)
    ben.publish("a", b"0", qos=0)
    ben.publish("a", b"1", qos=1, packet_id=1)
    ben.publish("a", b"2", qos=2, packet_id=2)
    ben.publish("a", b"3", qos=0)
    assert watcher.payloads() == [b"0", b"3"]
    full.pass_time(30)
    assert watcher.messages() == []
    assert ben.acks() == []
    full.lasting("ann").take_in()
    full.pass_time(2)
    assert watcher.payloads() == [b"1", b"2"]
    assert ben.acks() == [(Kind.PUBACK, 1), (Kind.PUBREC, 2)]
    assert full.broker.counts.publish_refused == 0


def test_in_mqtt_3_reading_stops_when_too_much_waits(full, monkeypatch):
    monkeypatch.setattr(publishing, "MOST_DEFERRED_BYTES", 100)
    ben = full.join("ben", V3)
    for number in range(1, 4):
        ben.publish("a", bytes(40), qos=1, packet_id=number)
    assert not ben.connection.reading
    full.lasting("ann").take_in()
    full.pass_time(2)
    assert ben.connection.reading
    assert ben.acks() == [(Kind.PUBACK, 1), (Kind.PUBACK, 2), (Kind.PUBACK, 3)]


def test_who_is_to_empty_a_full_log_may_publish_first(make_desk):
    desk = make_desk(limits={"log_bytes": 3000})
    both = desk.lasting("both", V3)
    both.subscribe("a", qos=1)
    both.drop()
    ben = desk.join("ben")
    while not desk.log.full:
        ben.publish("a", bytes(100), qos=1)
    both = desk.lasting("both", V3)
    both.publish("a", b"mine", qos=1, packet_id=77)
    both.take_in()
    desk.pass_time(2)
    assert not desk.log.full
    assert (Kind.PUBACK, 77) in both.acks()


def test_a_full_log_concerns_only_what_needs_it(full):
    ben, watcher = full.join("ben"), full.join("watcher")
    watcher.subscribe("live", qos=1)
    ben.publish("live", b"now", qos=1, packet_id=1)
    assert ben.take(Ack).reason == Reason.SUCCESS
    assert watcher.payloads() == [b"now"]


def test_what_cannot_be_retained_is_refused_and_what_is_no_longer_true_is_cleared(make_desk):
    desk = make_desk(limits={"retained": 1})
    ben = desk.join("ben")
    ben.publish("a", b"1", qos=1, packet_id=1, retain=True)
    ben.publish("b", b"2", qos=1, packet_id=2, retain=True)
    assert [one.reason for one in ben.take_all()] == [Reason.NO_MATCHING_SUBSCRIBERS, Reason.QUOTA_EXCEEDED]
    desk.broker.limits = replace(desk.broker.limits, log_bytes=1)
    ben.publish("a", b"3", qos=0, retain=True)
    assert desk.broker.retained.get(b"a") is None


def test_there_are_only_so_many_sessions(make_desk):
    desk = make_desk(limits={"sessions": 2})
    desk.lasting("ann").drop()
    desk.lasting("ben").drop()
    assert desk.dial().connect("eve").reason == Reason.QUOTA_EXCEEDED
    desk.lasting("ann")


def test_a_full_log_does_not_hold_back_who_was_only_too_fast(make_desk):
    desk = make_desk(limits={"log_bytes": 3000, "publish_hz": 10.0})
    ann = desk.lasting("ann", receive_maximum=1)
    ann.subscribe("a", qos=1)
    ben = desk.join("ben")
    while not desk.log.full:
        ben.publish("a", bytes(100), qos=1)
        desk.pass_time(0.1)
    ann.send(*[Publish(topic="b", payload=b"")] * 30)
    assert not ann.connection.reading
    desk.pass_time(10)
    assert ann.connection.reading


def test_who_writes_faster_than_the_disk_is_read_from_no_further_until_it_has_caught_up(make_desk, monkeypatch):
    monkeypatch.setattr(journal, "MOST_UNWRITTEN_BYTES", 1000)
    desk = make_desk(prompt=False)
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    ids = [ben.publish("a", bytes(500), qos=1) for _ in range(2)]
    assert not ben.connection.reading
    ids.append(ben.publish("a", b"later", qos=1))
    desk.pass_time(10)
    assert not ben.connection.reading
    assert len(ann.messages()) == 2
    desk.commit()
    desk.pass_time(0.1)
    assert ben.connection.reading
    assert ann.payloads() == [b"later"]
    desk.commit()
    assert ben.acks() == [(Kind.PUBACK, one) for one in ids]


def test_a_lasting_session_gets_no_new_subscription_while_the_log_is_full(full):
    assert full.lasting("ann").subscribe("b").reasons == [Reason.QUOTA_EXCEEDED]
    assert full.join("bea").subscribe("b").reasons == [0]
