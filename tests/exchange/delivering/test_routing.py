"""Who gets a message, and how: overlapping filters, identifiers, no local, shared groups, access rules."""

from __future__ import annotations

from collections import Counter

import pytest

from firelane.exchange.lanes.lane import Dropped
from firelane.exchange.protocol.system import SystemTopics
from firelane.mqtt.packets import V3, Ack, Kind, Subscription
from firelane.mqtt.reasons import Reason
from firelane.scenario.model import Scenario
from firelane.scenario.settings import AccessRule, ExchangeSettings


def test_overlapping_filters_bring_one_copy_at_the_highest_qos_with_all_identifiers(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a/+", qos=0, subscription_identifier=[1])
    ann.subscribe("a/#", qos=2, subscription_identifier=[2])
    ann.subscribe("a/b", qos=1)
    ben.publish("a/b", b"1", qos=2)
    (message,) = ann.messages()
    assert message.qos == 2
    assert sorted(message.properties["subscription_identifier"]) == [1, 2]
    assert desk.session("ann").totals.due == 1


def test_identifiers_survive_waiting_in_the_log(make_desk):
    desk = make_desk(limits={"queue": 1, "inflight": 1})
    ann, ben = desk.lasting("ann"), desk.join("ben")
    ann.subscribe("a", qos=1, subscription_identifier=[268_435_455])
    ann.drop()
    ben.publish("a", b"1", qos=1)
    assert desk.lasting("ann").messages()[0].properties["subscription_identifier"] == [268_435_455]


def test_a_filter_subscribed_again_is_replaced(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=2, subscription_identifier=[1])
    ann.subscribe("a", qos=0)
    ben.publish("a", b"1", qos=2)
    (message,) = ann.messages()
    assert (message.qos, message.properties) == (0, {})
    assert desk.broker.routes.count == 1


def test_no_local_keeps_a_clients_own_messages_from_it(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe(Subscription(filter="a/#", qos=1, no_local=True))
    for qos in range(3):
        ann.publish("a/b", b"own", qos=qos)
    ben.publish("a/b", b"other", qos=1)
    assert ann.payloads() == [b"other"]
    assert desk.session("ann").totals.due == 1


def test_no_local_on_one_filter_leaves_the_other_its_copy(desk):
    ann = desk.join("ann")
    ann.subscribe(Subscription(filter="a/#", qos=2, no_local=True), subscription_identifier=[1])
    ann.subscribe("a/b", qos=1, subscription_identifier=[2])
    for qos in (0, 2):
        ann.publish("a/b", b"own", qos=qos)
    assert [(one.qos, one.properties) for one in ann.messages()] == [
        (0, {"subscription_identifier": [2]}),
        (1, {"subscription_identifier": [2]}),
    ]


def test_the_retain_flag_is_passed_on_only_where_it_was_asked_for(desk):
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    ann.subscribe(Subscription(filter="a", qos=1, retain_as_published=True))
    bea.subscribe("a", qos=1)
    for qos in (0, 1):
        ben.publish("a", b"x", qos=qos, retain=True)
    assert [one.retain for one in ann.messages()] == [True, True]
    assert [one.retain for one in bea.messages()] == [False, False]


def test_topics_of_the_exchange_are_not_matched_by_wildcards_in_the_first_level(desk):
    ann = desk.join("ann")
    ann.subscribe("#", "+/broker/uptime")
    SystemTopics(desk.broker, "1", desk.now, lambda: 0).publish(desk.now)
    desk.settle()
    assert ann.messages() == []
    ann.subscribe("$SYS/broker/uptime")
    assert [one.topic for one in ann.messages()] == ["$SYS/broker/uptime"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_nobody_can_publish_what_the_exchange_says_about_itself(desk, qos):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("$SYS/broker/uptime")
    SystemTopics(desk.broker, "1", desk.now, lambda: 0).publish(desk.now)
    desk.settle()
    assert len(ann.messages()) == 1
    ben.publish("$SYS/broker/uptime", b"forged", qos=qos)
    ben.publish("$SYS/broker/uptime", b"forged", qos=qos, retain=True)
    assert ann.messages() == []
    if qos:
        assert ben.take(Ack).reason == Reason.NOT_AUTHORIZED


def test_unsubscribing_ends_it_and_what_is_on_its_way_still_arrives(desk):
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a", qos=1)
    ann.full()
    ben.publish("a", b"1", qos=1)
    assert ann.unsubscribe("a", "b").reasons == [0, Reason.NO_SUBSCRIPTION_EXISTED]
    ben.publish("a", b"2", qos=1)
    ann.full(False)
    assert ann.payloads() == [b"1"]


def test_too_many_filters_or_levels_are_refused_one_by_one(make_desk):
    desk = make_desk(limits={"subscriptions": 2})
    ann, bea = desk.join("ann"), desk.join("bea", V3)
    deep = "/".join("a" * 300)
    assert ann.subscribe("a", deep, "b", "c", "a", qos=1).reasons == [1, 0x8F, 1, 0x97, 1]
    assert bea.subscribe("a", deep, "b", "c", "a", qos=1).reasons == [1, 0x80, 1, 0x80, 1]


# ------------------------------------------------------------------------------------------------ shared groups


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_group_takes_turns(desk, qos):
    members, ben = [desk.join(f"m{number}") for number in range(3)], desk.join("ben")
    for member in members:
        member.subscribe("$share/g/a", qos=2)
    for number in range(9):
        ben.publish("a", b"%d" % number, qos=qos)
    assert [len(member.messages()) for member in members] == [3, 3, 3]


def test_every_group_and_every_subscriber_gets_a_copy(desk):
    ann, bea, cal, ben = (desk.join(name) for name in ("ann", "bea", "cal", "ben"))
    ann.subscribe("$share/g/a")
    bea.subscribe("$share/h/a")
    cal.subscribe("a")
    ben.publish("a", b"1")
    assert ann.payloads() == bea.payloads() == cal.payloads() == [b"1"]


def test_a_member_with_a_full_socket_is_passed_over(desk):
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    for member in (ann, bea):
        member.subscribe("$share/g/a")
    bea.full()
    for number in range(4):
        ben.publish("a", b"%d" % number)
    assert len(ann.messages()) == 4
    assert desk.session("bea").totals.due == 0


def test_an_absent_member_is_passed_over_while_another_is_there(desk):
    ann, bea, ben = desk.lasting("ann"), desk.lasting("bea"), desk.join("ben")
    for member in (ann, bea):
        member.subscribe("$share/g/a", qos=1)
    ann.drop()
    for number in range(4):
        ben.publish("a", b"%d" % number, qos=1)
    assert len(bea.messages()) == 4
    bea.drop()
    for number in range(4):
        ben.publish("a", b"%d" % number, qos=1)
    assert desk.session("ann").owed == 2
    assert desk.session("bea").owed == 6  # those in flight among them
    ben.publish("a", b"", qos=0)
    dropped = Counter(sum(desk.session(name).totals.dropped) for name in ("ann", "bea"))
    assert dropped == {0: 1, 1: 1}
    assert (
        desk.session("ann").totals.dropped[Dropped.DISCONNECTED]
        + desk.session("bea").totals.dropped[Dropped.DISCONNECTED]
        == 1
    )


def test_a_group_that_empties_is_no_more(desk):
    ann = desk.join("ann")
    ann.subscribe("$share/g/a")
    assert desk.broker.routes.shared_count == 1
    ann.unsubscribe("$share/g/a")
    assert desk.broker.routes.shared_count == 0
    ben = desk.join("ben")
    ben.publish("a", b"1", qos=1)
    assert ben.take(Ack).reason == Reason.NO_MATCHING_SUBSCRIBERS


def test_a_group_gets_no_retained_messages(desk):
    desk.join("ben").publish("a", b"1", retain=True)
    ann = desk.join("ann")
    ann.subscribe("$share/g/a")
    assert ann.messages() == []


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("away", [True, False])
def test_a_client_in_groups_and_outside_gets_every_copy_and_can_acknowledge_each(desk, qos, away):
    ann, ben = desk.lasting("ann"), desk.lasting("ben")
    ann.subscribe("a", qos=2, subscription_identifier=[1])
    ann.subscribe("$share/g/a", qos=1, subscription_identifier=[2])
    ann.subscribe("$share/h/a", qos=2, subscription_identifier=[3])
    if away:
        ann.drop()
    packet_id = ben.publish("a", b"x", qos=qos)
    if qos == 2:
        ben.ack(Kind.PUBREL, packet_id)
    if away:
        ann = desk.lasting("ann")
    copies = ann.messages()
    assert sorted((one.properties["subscription_identifier"], one.qos) for one in copies) == [
        ([1], qos),
        ([2], 1),
        ([3], qos),
    ]
    ann.ack(Kind.PUBACK if copies[0].qos == 1 else Kind.PUBREC, copies[0].packet_id)
    desk.crash()
    ann = desk.lasting("ann")
    assert len(ann.messages()) == 2
    desk.check()


# ------------------------------------------------------------------------------------------------ access


def rules(*several):
    return tuple(
        AccessRule(who=who, filter=filter_, **{verb: ("publish", "subscribe")}) for verb, who, filter_ in several
    )


SECRETS = rules(("deny", "ann", "a/secret/#"), ("allow", "*", "#"))


def test_of_a_filter_that_is_allowed_in_part_only_the_allowed_topics_are_sent(make_desk):
    desk = make_desk(access=SECRETS)
    ben = desk.join("ben")
    ben.publish("a/secret/r", b"r", retain=True)
    ben.publish("a/open", b"r", retain=True)
    ann, bea = desk.join("ann"), desk.join("bea")
    for line in (ann, bea):
        assert line.subscribe("a/#", qos=1).reasons == [1]
    for qos in (0, 1, 2):
        ben.publish("a/secret", b"1", qos=qos)
        ben.publish("a/secret/x", b"1", qos=qos)
        ben.publish("a/open", b"1", qos=qos)
    assert {one.topic for one in ann.messages()} == {"a/open"}
    assert {one.topic for one in bea.messages()} == {"a/open", "a/secret", "a/secret/x", "a/secret/r"}


def test_of_a_group_only_members_who_may_have_a_topic_get_it(make_desk):
    desk = make_desk(access=SECRETS)
    ann, bea, ben = desk.join("ann"), desk.join("bea"), desk.join("ben")
    for line in (ann, bea):
        line.subscribe("$share/g/a/#")
    for _ in range(4):
        ben.publish("a/secret", b"1")
    assert ann.messages() == []
    assert len(bea.messages()) == 4


def test_a_filter_that_is_denied_is_refused(make_desk):
    desk = make_desk(access=SECRETS)
    assert desk.join("ann").subscribe("a/secret/#", "a/open").reasons == [Reason.NOT_AUTHORIZED, 0]
    assert desk.join("ann", V3).subscribe("$share/g/a/secret/x", "a/secret", "b").reasons == [0x80, 0x80, 0]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_may_not_be_published_is_refused_and_not_passed_on(make_desk, qos):
    desk = make_desk(access=SECRETS)
    ann, watcher = desk.join("ann"), desk.join("watcher")
    watcher.subscribe("#", qos=2)
    for _ in range(2):
        watcher.publish("a/secret", b"right", qos=qos)
        ann.publish("a/secret", b"wrong", qos=qos)
        assert [one.reason for one in ann.take_all()] == [Reason.NOT_AUTHORIZED] * (qos > 0)
        ann.publish("b", b"right", qos=qos)
        ann.take_all()
    assert watcher.take_in() == [b"right"] * 4
    assert desk.broker.counts.publish_refused == 2


def test_a_message_of_mqtt_3_that_is_refused_is_acknowledged_all_the_same(make_desk):
    desk = make_desk(access=SECRETS)
    ann = desk.join("ann", V3)
    packet_id = ann.publish("a/secret", b"wrong", qos=1)
    assert ann.acks() == [(Kind.PUBACK, packet_id)]


def test_new_rules_hold_for_those_who_are_there(make_desk):
    desk = make_desk()
    ann, ben = desk.join("ann"), desk.join("ben")
    ann.subscribe("a/#")
    ben.publish("a/secret", b"1")
    ben.publish("a/open", b"1")
    desk.broker.reload(Scenario(name="desk", exchange=ExchangeSettings(access=SECRETS)), desk.now)
    ben.publish("a/secret", b"2")
    ben.publish("a/open", b"2")
    assert [one.payload for one in ann.messages() if one.topic == "a/secret"] == [b"1"]
    ann.publish("a/secret", b"3", qos=1)
    assert ann.take(Ack).reason == Reason.NOT_AUTHORIZED
