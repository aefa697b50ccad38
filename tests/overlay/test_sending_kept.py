"""What the origin of a message keeps, and for how long."""

import random
from collections import Counter
from itertools import chain

import pytest

from firelane.overlay.interest import Edge, Interest
from firelane.overlay.messages import sending as module
from firelane.overlay.messages.actions import Acknowledge, Copy, Forward, Tell
from firelane.overlay.messages.keeping import EXPIRY, LONGEST_SILENCE_S
from firelane.overlay.messages.notes import Missing, Nothing
from firelane.overlay.messages.sending import Sending
from firelane.overlay.registry import Wish


def sending(*edges):
    interest = Interest()
    for name in edges:
        interest.change(name, Edge(here=True, filters={"#": Wish(qos=1)}))
    one = Sending("a", 1, interest)
    one.routers_listener(["r"], 0.0)
    one.path_up("r", 0.0)
    return one


def changed(one, name, now=0.0, *, here=True, wants="#"):
    one._interest.change(name, Edge(here=here, filters={wants: Wish(qos=1, keeps=True)}))
    return one.edges_changed({name}, now)


def publish(one, number=1, topic="t", now=0.0, payload=b"x", **properties):
    copy = Copy(topic=topic, payload=payload, qos=1, number=number, packet_id=number, properties=properties)
    return one.published(copy, now) + one.topic_node_listener(topic, None, now)


def acknowledged(actions):
    return [action.packet_id for action in actions if isinstance(action, Acknowledge)]


def forwards(actions):
    return [one for one in actions if isinstance(one, Forward)]


def test_what_is_sent_again_has_only_the_rest_of_its_time():
    one = sending("b")
    assert [action.copy.properties[EXPIRY] for action in forwards(publish(one, message_expiry_interval=10))] == [10]
    again = forwards(one.tick(4.5))
    assert [action.copy.properties[EXPIRY] for action in again] == [6]


def test_what_has_expired_is_not_sent_again_but_counted_and_acknowledged_once():
    one = sending("b", "c")
    publish(one, message_expiry_interval=3)
    actions = one.tick(3.5)
    assert forwards(actions) == []
    assert [action for action in actions if isinstance(action, Acknowledge)] == [Acknowledge(1, 1)]
    assert dict(one.dropped) == {"expired": 1}
    assert one.kept == 0


def test_what_nobody_can_be_sent_is_given_up_once():
    one = sending("b")
    publish(one)
    assert one.given_up(1) == [Acknowledge(1, 1)]
    assert one.given_up(1) == []


def test_an_edge_that_is_away_for_long_misses_the_oldest_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("b", "c")
    changed(one, "c", here=False)
    for number in range(1, 101):
        assert len(forwards(publish(one, number))) == 1
        one.came("b", [number])
    assert one.kept == 10
    assert dict(one.dropped) == {"edge away for too long": 90}
    changed(one, "c", here=True)
    owed = one.missing("c", Missing(topic="t", last=0, before=100), 1.0)
    assert [action.copy.number for action in forwards(owed)] == list(range(91, 100))  # and that there is no more
    assert [action.note.nothing for action in owed if isinstance(action, Tell)] == [(Nothing(topic="t", before=91),)]


def test_what_an_edge_lacks_that_is_there_is_never_dropped(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("b", "c")
    for number in range(1, 31):
        publish(one, number)
    assert one.kept == 30
    assert not one.dropped


def test_what_was_kept_for_an_edge_goes_out_as_soon_as_it_is_there():
    one = sending("c")
    changed(one, "c", here=False)
    publish(one)
    assert forwards(one.tick(100.0)) == forwards(one.tick(200.0)) == []
    changed(one, "c", 300.0, here=True)
    assert [action.edge for action in forwards(one.tick(300.1))] == ["c"]


# ---- an edge that is there and acknowledges nothing: routers refuse it

SOON = module.LOOK_EVERY_S


def looked(one, since, until):
    """What is done meanwhile."""
    actions, now = [], since
    while now < until:
        now += SOON
        actions += one.tick(now)
    return actions


def test_an_edge_that_is_there_and_does_not_answer_holds_up_others_no_longer_than_it_may_be_silent(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("b", "c")
    one.tick(0.0)
    for number in range(1, 31):
        publish(one, number)
        one.came("b", [number])
    assert acknowledged(looked(one, 0.0, LONGEST_SILENCE_S - 1.0)) == []
    assert acknowledged(looked(one, LONGEST_SILENCE_S - 1.0, LONGEST_SILENCE_S + 1.0)) == list(range(1, 21))
    assert one.kept == 10
    assert dict(one.dropped) == {"edge away for too long": 20}
    assert acknowledged(publish(one, 31, now=32.0)) == [21]
    assert acknowledged(one.came("b", [31])) == acknowledged(one.tick(33.0)) == []
    assert one.kept == 10


def test_what_there_is_room_for_is_kept_for_an_edge_that_does_not_answer():
    one = sending("c")
    publish(one)
    looked(one, 0.0, 3 * LONGEST_SILENCE_S)
    assert one.kept == 1
    assert not one.dropped


def test_an_edge_that_answers_again_loses_nothing_from_then_on(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("c")
    for number in range(1, 31):
        publish(one, number)
    looked(one, 0.0, LONGEST_SILENCE_S + 1.0)
    assert one.kept == 10
    one.came("c", [21])
    for number in range(31, 61):
        publish(one, number, now=32.0)
    looked(one, 32.0, 32.0 + LONGEST_SILENCE_S - 1.0)
    assert one.kept == 39
    assert one.dropped.total() == 20


def test_nobody_is_silent_whom_nothing_could_be_sent(monkeypatch):
    """This edge is cut off itself."""
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("c")
    one.path_down("r", 0.0)
    for number in range(1, 31):
        publish(one, number)
    looked(one, 0.0, 2 * LONGEST_SILENCE_S)
    one.path_up("r", 60.0)
    looked(one, 60.0, 60.0 + LONGEST_SILENCE_S - 1.0)
    assert one.kept == 30


def test_when_it_goes_away_others_go_on_though_nothing_more_can_be_published(monkeypatch):
    """The exchange hands over nothing while so much is under way, so nothing is published."""
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("b", "c")
    for number in range(1, 31):
        publish(one, number)
        one.came("b", [number])
    assert acknowledged(changed(one, "c", here=False)) == list(range(1, 21))


def test_what_only_edges_lack_that_are_away_is_found_behind_however_much_others_lack(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 1000)
    one = sending()
    changed(one, "b", wants="x")
    changed(one, "c", wants="y", here=False)
    for number in range(1, 501):
        publish(one, number, "x")
    for number in range(501, 2001):
        publish(one, number, "y")
    assert one.kept == 1000
    assert dict(one.dropped) == {"edge away for too long": 1000}
    assert acknowledged(publish(one, 2001, "y")) == [1501]


def test_what_lies_before_is_dropped_as_soon_as_only_edges_lack_it_that_are_away(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("b", "c")
    changed(one, "c", here=False)
    for number in range(1, 21):
        publish(one, number)
    assert one.kept == 20
    one.came("b", range(11, 21))
    assert acknowledged(publish(one, 21)) == list(range(11, 21))
    one.came("b", range(1, 11))
    assert acknowledged(publish(one, 22)) == [1, 2]


def test_large_messages_for_an_edge_that_is_away_take_no_more_memory_than_they_may(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 10_000)
    one = sending("b", "c")
    changed(one, "c", here=False)
    for number in range(1, 101):
        publish(one, number, payload=bytes(1000))
        one.came("b", [number])
    assert one.kept == 10
    assert dict(one.dropped) == {"edge away for too long": 90}
    changed(one, "c", here=True)
    one.came("c", range(1, 101))
    assert one._keeping.kept_bytes == 0


def test_an_edge_that_wants_less_is_owed_less_and_news_of_others_are_no_work():
    one = sending("b", "c")
    for number in range(1, 11):
        publish(one, number, f"t/{number % 2}")
    one.came("b", range(1, 11))
    one._interest.change("c", Edge(here=True, filters={"t/0": Wish(qos=1)}))
    assert one.edges_changed([], 1.0) == one.edges_changed({"b"}, 1.0) == []
    assert acknowledged(one.edges_changed({"b", "c"}, 1.0)) == [1, 3, 5, 7, 9]
    one._interest.change("c", None)
    assert acknowledged(one.edges_changed({"c"}, 1.0)) == [2, 4, 6, 8, 10]
    assert one.kept == 0


@pytest.mark.parametrize("seed", range(100))
def test_who_lacks_what_is_right_after_any_history(monkeypatch, seed):
    """Counts by message, messages by edge, and bytes agree; what is dropped only those lack that are away."""
    monkeypatch.setattr(module, "MOST_KEPT", 5)
    chance, now = random.Random(seed), 0.0
    here = dict.fromkeys("bcd", True)
    one, lacks = sending(*here), {name: set() for name in here}
    for number in range(1, 201):
        name, new, actions = chance.choice("bcd"), set(), []
        what = chance.choice(["publish", "publish", "came", "away", "tick"])
        match what:
            case "publish":
                actions, new = publish(one, number, now=now), {number}
            case "came":
                came = {each for each in lacks[name] if chance.random() < 0.5}
                actions = one.came(name, came)
                lacks[name] -= came
            case "away":
                here[name] = not here[name]
                actions = changed(one, name, now, here=here[name])
            case "tick":
                now += SOON
                actions = one.tick(now)
        needed = set().union(*(lacks[each] for each in here if here[each]))
        over = set(acknowledged(actions))
        assert not over & needed
        lacks = {each: lacked - over | new for each, lacked in lacks.items()}
        kept = set.union(*lacks.values())
        assert set(one._keeping.messages) == kept
        assert {each: set(one._keeping.lacked(each)) for each in here} == lacks
        assert {each: kept.lacking for each, kept in one._keeping.messages.items()} == Counter(chain(*lacks.values()))
        assert one._keeping.kept_bytes == len(kept)
        assert what == "came" or len(kept) <= 5 or kept - new <= needed
    assert one.dropped.total() > 0


def test_what_this_edge_has_slept_through_is_nobodys_silence(monkeypatch):
    """Paused, it has not read yet what others have said meanwhile."""
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("b")
    for number in range(1, 31):  # b acknowledges, only not as fast as is published
        now = number / 10
        publish(one, number, now=now)
        if number % 5 == 0:
            one.came("b", [number // 5])
        one.tick(now)
    one.tick(3.3)
    assert acknowledged(one.tick(3.3 + 2 * LONGEST_SILENCE_S)) == []
    assert not one.dropped
    ticks = range(int(LONGEST_SILENCE_S * 5))
    gone = [number for tick in ticks for number in acknowledged(one.tick(64.0 + tick / 5))]
    assert gone == list(range(7, 21))  # it really does not answer


def test_properties_are_bytes_as_well(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 1_000_000)
    one = sending("b")
    for number in range(1, 18):
        assert not one.full
        publish(one, number, payload=b"", user_property=[("trace", "x" * 60_000)])
    assert one.full
    one.came("b", range(1, 18))
    assert one._keeping.kept_bytes == 0


def test_what_is_retained_is_not_kept_for_who_is_away_each_time_it_is_told_again():
    """They are told it when they are back; what is published is kept for them."""
    one = sending("b")
    changed(one, "c", here=False)
    publish(one, 1)
    for number in range(2, 50):
        copy = Copy(topic="t", payload=b"x", qos=1, number=number, packet_id=number, retain=True, first=1)
        one.published(copy, 0.0)
        one.came("b", [number])
    assert list(one._keeping.lacked("c")) == [1]
    changed(one, "b", here=False)
    copy = Copy(topic="t", payload=b"x", qos=1, number=50, packet_id=50, retain=True, first=1)
    assert acknowledged(one.published(copy, 0.0)) == [50]
