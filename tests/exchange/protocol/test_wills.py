"""What a client leaves behind, and when it is sent: on loss, with a delay, at the end of its session."""

from __future__ import annotations

import pytest

from firelane.mqtt.packets import Will
from firelane.mqtt.reasons import Reason
from firelane.scenario.settings import AccessRule


def will(payload=b"gone", **fields):
    delay_s = fields.pop("delay_s", None)
    properties = {} if delay_s is None else {"will_delay_interval": delay_s}
    return Will(topic="w", payload=payload, properties=properties, **fields)


@pytest.fixture
def watcher(desk):
    line = desk.join("watcher")
    line.subscribe("w", qos=2)
    return line


def test_a_will_is_sent_when_a_client_is_lost(desk, watcher):
    desk.join("ann", will=will(qos=1)).drop()
    (message,) = watcher.messages()
    assert (message.payload, message.qos) == (b"gone", 1)


def test_a_will_is_forgotten_when_a_client_takes_its_leave(desk, watcher):
    desk.join("ann", will=will()).leave()
    assert watcher.messages() == []


def test_a_client_may_leave_with_its_will(desk, watcher):
    desk.join("ann", will=will()).leave(reason=Reason.DISCONNECT_WITH_WILL)
    assert watcher.payloads() == [b"gone"]


def test_a_client_that_breaks_the_protocol_leaves_its_will(desk, watcher):
    ann = desk.join("ann", will=will())
    ann.send_raw(b"\xff\x00")
    assert ann.closed
    assert watcher.payloads() == [b"gone"]


def test_a_will_waits_for_its_delay(desk, watcher):
    desk.lasting("ann", will=will(delay_s=10)).drop()
    desk.pass_time(9)
    assert watcher.messages() == []
    desk.pass_time(1)
    assert watcher.payloads() == [b"gone"]
    desk.pass_time(200)
    assert watcher.messages() == []


def test_a_will_is_not_sent_when_the_client_is_back_before_its_delay(desk, watcher):
    desk.lasting("ann", will=will(delay_s=10)).drop()
    desk.pass_time(9)
    desk.lasting("ann")
    desk.pass_time(100)
    assert watcher.messages() == []


def test_a_will_is_sent_at_the_end_of_its_session_at_the_latest(desk, watcher):
    desk.lasting("ann", will=will(delay_s=500)).drop()
    desk.pass_time(99)
    assert watcher.messages() == []
    desk.pass_time(1)
    assert watcher.payloads() == [b"gone"]


def test_a_will_with_a_delay_is_sent_at_once_when_the_session_ends_at_once(desk, watcher):
    desk.join("ann", will=will(delay_s=500)).drop()
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize(
    ("delay_s", "clean_start", "sent"), [(0, False, True), (0, True, True), (10, False, False), (10, True, True)]
)
def test_taking_over_sends_the_will_unless_it_may_wait_and_the_session_goes_on(
    desk, watcher, delay_s, clean_start, sent
):
    desk.lasting("ann", will=will(delay_s=delay_s))
    desk.join("ann", clean_start=clean_start, session_expiry_interval=100)
    assert bool(watcher.messages()) is sent
    desk.pass_time(50)
    assert watcher.messages() == []


def test_a_clean_start_of_an_absent_client_sends_the_will_that_waited(desk, watcher):
    desk.lasting("ann", will=will(delay_s=50)).drop()
    desk.join("ann")
    assert watcher.payloads() == [b"gone"]


def test_a_will_is_retained_if_it_says_so(desk, watcher):
    desk.join("ann", will=will(retain=True)).drop()
    late = desk.join("late")
    late.subscribe("w")
    assert [(one.payload, one.retain) for one in late.messages()] == [(b"gone", True)]


def test_a_will_of_a_client_that_may_not_publish_it_is_not_sent(make_desk):
    desk = make_desk(access=(AccessRule(who="ann", filter="w", deny=("publish",)),
                             AccessRule(who="*", filter="#", allow=("publish", "subscribe"))))  # fmt: skip
    watcher = desk.join("watcher")
    watcher.subscribe("w")
    desk.join("ann", will=will()).drop()
    assert watcher.messages() == []


def test_nobody_can_leave_a_will_about_the_exchange(desk):
    watcher = desk.join("watcher")
    watcher.subscribe("$SYS/#")
    desk.join("ann", will=Will(topic="$SYS/broker/uptime", payload=b"forged", retain=True)).drop()
    assert watcher.messages() == []


def test_a_will_survives_a_crash_with_its_session(desk):
    desk.lasting("watcher").subscribe("w", qos=1)
    desk.lasting("ann", will=will(delay_s=10, qos=1))
    desk.crash()
    watcher = desk.lasting("watcher")
    desk.pass_time(9)
    assert watcher.messages() == []
    desk.pass_time(1)
    assert watcher.payloads() == [b"gone"]
