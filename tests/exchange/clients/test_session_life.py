"""The life of connections and sessions: taking over, expiring, passwords, silence."""

from __future__ import annotations

import pytest

from firelane.exchange.clients.access import Identity
from firelane.exchange.lanes.lane import Dropped
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V3, V5, Connack, Connect, Disconnect, Kind, Ping, Publish, Will
from firelane.mqtt.reasons import Reason
from firelane.scenario.settings import User

FOREVER = 0xFFFF_FFFF


def will(payload=b"gone", **fields):
    delay_s = fields.pop("delay_s", None)
    properties = {} if delay_s is None else {"will_delay_interval": delay_s}
    return Will(topic="w", payload=payload, properties=properties, **fields)


@pytest.fixture
def watcher(desk):
    line = desk.join("watcher")
    line.subscribe("w", qos=2)
    return line


# ------------------------------------------------------------------------------------------------ sessions


@pytest.mark.parametrize("version", [V3, V5])
def test_a_clean_session_ends_with_its_connection(desk, version):
    ann, ben = desk.join("ann", version), desk.join("ben")
    ann.subscribe("a", qos=1)
    ben.publish("a", b"1", qos=1)
    ann.drop()
    assert "ann" not in desk.broker.sessions
    assert desk.broker.counts.ended.dropped[Dropped.DISCONNECTED] == 1
    ben.publish("a", b"2", qos=1)
    ann = desk.join("ann", version, clean_start=False)
    assert not ann.connack.session_present
    assert ann.messages() == []
    assert desk.broker.routes.count == 0


def test_a_session_of_mqtt_3_without_clean_session_lasts(desk):
    ann = desk.join("ann", V3, clean_start=False)
    ann.subscribe("a", qos=1)
    ann.leave()
    desk.pass_time(1e6)
    desk.join("ben").publish("a", b"1", qos=1)
    ann = desk.join("ann", V3, clean_start=False)
    assert ann.connack.session_present
    assert ann.payloads() == [b"1"]


def test_a_session_expires_so_long_after_its_connection(desk):
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    desk.pass_time(500)
    ann.drop()
    ben.publish("a", b"1", qos=1)
    desk.pass_time(99)
    assert "ann" in desk.broker.sessions
    desk.pass_time(1)
    assert "ann" not in desk.broker.sessions
    assert desk.broker.counts.sessions_expired == 1
    assert desk.broker.counts.ended.dropped[Dropped.DISCONNECTED] == 1
    assert desk.log.live_bytes == 0


def test_coming_back_stops_the_clock(desk):
    desk.lasting("ann").drop()
    desk.pass_time(90)
    ann = desk.lasting("ann")
    desk.pass_time(90)
    ann.drop()
    desk.pass_time(90)
    assert desk.lasting("ann").connack.session_present


def test_a_session_that_has_expired_is_not_resumed_even_if_nobody_has_looked_yet(desk):
    desk.lasting("ann").drop()
    desk.now += 100
    assert not desk.lasting("ann").connack.session_present
    assert desk.broker.counts.sessions_expired == 1


def test_a_client_may_end_or_shorten_its_session_when_it_leaves(desk):
    ann = desk.lasting("ann")
    ann.subscribe("a", qos=1)
    ann.leave(session_expiry_interval=0)
    assert "ann" not in desk.broker.sessions
    desk.lasting("ann").leave(session_expiry_interval=10)
    desk.pass_time(10)
    assert "ann" not in desk.broker.sessions


def test_a_session_that_was_to_end_cannot_be_prolonged(desk):
    ann = desk.join("ann")
    ann.leave(session_expiry_interval=10)
    assert ann.take(Disconnect).reason == Reason.PROTOCOL_ERROR
    assert "ann" not in desk.broker.sessions


def test_the_longest_expiry_is_the_exchanges(make_desk):
    desk = make_desk(limits={"session_expiry_s": 50.0})
    ann = desk.join("ann", clean_start=False, session_expiry_interval=FOREVER)
    assert ann.connack.properties["session_expiry_interval"] == 50
    ann.leave(session_expiry_interval=FOREVER)
    bea = desk.join("bea", V3, clean_start=False)
    bea.drop()
    desk.pass_time(50)
    assert not desk.broker.sessions


def test_a_clean_start_ends_the_session_before(desk):
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    ann.drop()
    ben.publish("a", b"1", qos=1)
    ann = desk.join("ann", session_expiry_interval=100)
    assert not ann.connack.session_present
    assert ann.messages() == []
    ben.publish("a", b"2", qos=1)
    assert ann.messages() == []
    assert desk.broker.counts.ended.dropped[Dropped.DISCONNECTED] == 1


def test_a_session_resumed_without_an_expiry_ends_with_that_connection(desk):
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=2)
    ann.drop()
    for qos in (1, 2):
        ben.publish("a", b"%d" % qos, qos=qos)
    ann = desk.join("ann", clean_start=False)
    assert ann.connack.session_present
    for one in ann.messages():
        ann.ack(Kind.PUBACK if one.qos == 1 else Kind.PUBREC, one.packet_id)
    ben.publish("a", b"3", qos=2)
    ann.drop()
    assert "ann" not in desk.broker.sessions
    assert desk.log.live_bytes == 0


def test_a_session_resumed_without_an_expiry_is_not_there_after_a_crash(desk):
    ann = desk.lasting("ann")
    ann.subscribe("a", qos=1)
    ann.drop()
    desk.join("ben").publish("a", b"1", qos=1)
    ann = desk.join("ann", clean_start=False)
    assert ann.take_in() == [b"1"]
    desk.crash()
    ann = desk.lasting("ann")
    assert not ann.connack.session_present
    assert ann.messages() == []
    assert desk.broker.routes.count == 0


@pytest.mark.parametrize("version", [V3, V5])
def test_a_second_connection_takes_over_and_the_first_is_told(desk, version):
    ann, ben = desk.lasting("ann", version), desk.join("ben")
    ann.subscribe("a", qos=1)
    ben.publish("a", b"1", qos=1)
    again = desk.lasting("ann", version)
    assert ann.closed
    if version == V5:
        assert ann.take(Disconnect).reason == Reason.SESSION_TAKEN_OVER
    assert again.connack.session_present
    assert [(one.payload, one.duplicate) for one in again.messages()] == [(b"1", True)]
    ben.publish("a", b"2", qos=1)
    assert again.payloads() == [b"2"]
    assert desk.broker.counts.connected == 2


def test_what_was_ready_when_a_client_took_its_leave_is_still_written(desk):
    ann = desk.lasting("ann")
    ann.subscribe("a")
    ann.send(Publish(topic="a", payload=b"1"), Disconnect())
    session = desk.session("ann")
    assert (session.totals.due, session.totals.delivered, sum(session.totals.dropped)) == (1, 1, 0)


def test_taking_over_a_clean_session_makes_a_new_one(desk):
    desk.join("ann").subscribe("a")
    again = desk.join("ann", clean_start=False)
    assert not again.connack.session_present
    desk.join("ben").publish("a", b"1")
    assert again.messages() == []


def test_a_client_without_an_id_is_given_one(desk):
    ann = desk.join("")
    assert ann.connack.properties["assigned_client_identifier"] in desk.broker.sessions
    bea = desk.join("", V3)
    assert not bea.closed
    cal = desk.dial(V3)
    assert cal.connect("", clean_start=False).reason == 2
    assert cal.closed


def test_a_client_that_takes_only_the_smallest_packets_can_still_be_closed(desk):
    ann = desk.join("ann", maximum_packet_size=1)
    desk.join("ann", maximum_packet_size=1)
    assert ann.closed


# ------------------------------------------------------------------------------------------------ connections


def test_a_client_that_falls_silent_is_closed_after_one_and_a_half_keep_alives(desk, watcher):
    ann = desk.join("ann", keep_alive_s=10, will=will())
    for _ in range(5):
        desk.pass_time(9)
        ann.send(Ping(Kind.PINGREQ))
    desk.pass_time(14)
    assert not ann.closed
    desk.pass_time(2)
    assert ann.take(Disconnect).reason == Reason.KEEP_ALIVE_TIMEOUT
    assert ann.closed
    assert watcher.payloads() == [b"gone"]


def test_without_a_keep_alive_silence_is_no_matter(desk):
    ann = desk.join("ann")
    desk.pass_time(1e6)
    assert not ann.closed


def test_whoever_does_not_introduce_itself_is_closed(desk):
    mute = desk.dial()
    desk.pass_time(10)
    assert not mute.closed
    desk.pass_time(1)
    assert mute.closed


def test_whoever_never_finishes_a_packet_is_closed(desk):
    ann = desk.join("ann")
    ann.send_raw(b"\x30\x0a\x00")
    for _ in range(5):
        desk.pass_time(10)
        ann.send_raw(b"a")
    assert not ann.closed
    desk.pass_time(11)
    assert ann.closed


def test_the_first_packet_must_be_connect_and_come_once(desk):
    early = desk.dial()
    early.send(Publish(topic="a", payload=b""))
    assert early.closed
    for second in (encode(Connect(client_id="ann"), V5), b"\x10\x0a\0\4MQTT\x09\0\0\0"):
        ann = desk.join("ann")
        ann.send_raw(second)
        assert ann.closed
        assert ann.take(Disconnect).reason == Reason.PROTOCOL_ERROR


HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b+dWRWJTmaaJObG"


def test_a_password_is_checked_by_somebody_else_while_the_client_waits(make_desk):
    desk = make_desk(users={"ann": User(password=HASH, roles=("crew",))}, anonymous="never")
    ann = desk.dial()
    ann.send(Connect(client_id="c", user="ann", password=b"x"), Publish(topic="a", payload=b"early"))
    watcher = desk.dial()
    watcher.send(Connect(client_id="d", user="ann", password=b"x"))
    assert desk.broker.to_check == [ann.connection, watcher.connection]
    assert not ann.connection.reading
    assert ann.got == []
    desk.broker.verified(watcher.connection, True, desk.now)
    desk.settle()
    assert watcher.take(Connack).reason == 0
    watcher.subscribe("a")
    desk.broker.verified(ann.connection, True, desk.now)
    desk.settle()
    assert ann.take(Connack).reason == 0
    assert watcher.payloads() == [b"early"]
    assert desk.session("c").identity.roles == ("crew",)


def test_a_wrong_password_or_none_is_refused(make_desk):
    desk = make_desk(users={"ann": User(password=HASH)}, anonymous="never")
    wrong = desk.dial(V3)
    wrong.send(Connect(client_id="c", version=V3, user="ann", password=b"x"))
    desk.broker.verified(wrong.connection, False, desk.now)
    desk.settle()
    assert wrong.take(Connack).reason == 4
    assert wrong.closed
    nobody = desk.dial()
    assert nobody.connect("c").reason == Reason.NOT_AUTHORIZED
    gone = desk.dial()
    gone.send(Connect(client_id="c", user="ann", password=b"x"))
    gone.drop()
    desk.broker.verified(gone.connection, True, desk.now)
    assert not desk.broker.sessions


def test_too_many_connections_and_too_fast_are_refused(make_desk):
    desk = make_desk(limits={"connections": 2})
    desk.join("a"), desk.join("b")
    assert desk.dial().connect("c").reason == Reason.QUOTA_EXCEEDED
    desk = make_desk(limits={"connect_hz": 2.0})
    desk.join("a"), desk.join("b")
    assert desk.dial().connect("c").reason == Reason.CONNECTION_RATE_EXCEEDED
    desk.pass_time(0.5)
    desk.join("d")


def test_somebody_can_be_sent_away(desk):
    ann = desk.lasting("ann")
    assert desk.broker.kick("ann", desk.now)
    desk.settle()
    assert ann.take(Disconnect).reason == Reason.ADMINISTRATIVE_ACTION
    assert not desk.broker.kick("ann", desk.now)


def test_at_the_end_everybody_is_told(desk):
    ann, bea = desk.join("ann"), desk.join("bea", V3)
    desk.broker.shut_down()
    desk.settle()
    assert ann.take(Disconnect).reason == Reason.SERVER_SHUTTING_DOWN
    assert ann.closed
    assert bea.closed


def test_nobody_comes_back_to_the_session_of_another_user(make_desk):
    desk = make_desk()
    desk.lasting("dur").drop()
    desk.broker.sessions["dur"].identity = Identity(client_id="dur", user="bob")
    assert desk.dial().connect("dur", clean_start=False).reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert "dur" in desk.broker.sessions


def test_retained_messages_still_to_be_sent_are_sent_after_a_lost_connection(desk):
    ben = desk.join("ben")
    for number in range(20):
        ben.publish(f"r/{number}", b"%d" % number, qos=1, retain=True)
    ann = desk.lasting("ann", receive_maximum=3)
    ann.subscribe("r/#", qos=1)
    assert len(ann.messages()) == 3
    ann.drop()
    ann = desk.lasting("ann", receive_maximum=3)
    assert sorted(map(int, ann.take_in())) == list(range(20))


def test_sessions_that_have_ended_leave_no_timers_behind(desk):
    desk.join("cat", session_expiry_interval=5).drop()
    for _ in range(500):
        desk.join("ann", session_expiry_interval=1000).drop()  # the next one begins anew
    assert len(desk.broker._timers) < 100
    desk.pass_time(10)
    assert "cat" not in desk.broker.sessions
    desk.pass_time(1000)
    assert not desk.broker.sessions
