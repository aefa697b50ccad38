"""What the origin of a message keeps, and for how long."""

from firelane.overlay import sending as module
from firelane.overlay.actions import Acknowledge, Copy, Forward, Tell
from firelane.overlay.interest import Edge, Interest, Wish
from firelane.overlay.notes import Missing, Nothing
from firelane.overlay.sending import EXPIRY, Sending


def sending(*edges):
    interest = Interest()
    for name in edges:
        interest.change(name, Edge(here=True, filters={"#": Wish(qos=1)}))
    one = Sending("a", 1, interest)
    one.routers_listener(["r"], 0.0)
    one.path_up("r", 0.0)
    return one


def publish(one, number=1, **properties):
    actions = one.published(
        Copy(topic="t", payload=b"x", qos=1, number=number, packet_id=9, properties=properties), 0.0
    )
    return actions + one.topic_node_listener("t", None, 0.0)


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
    assert [action for action in actions if isinstance(action, Acknowledge)] == [Acknowledge(9, 1)]
    assert dict(one.dropped) == {"expired": 1}
    assert one.kept == 0


def test_what_nobody_can_be_sent_is_given_up_once():
    one = sending("b")
    publish(one)
    assert one.given_up(1) == [Acknowledge(9, 1)]
    assert one.given_up(1) == []


def test_an_edge_that_is_away_for_long_misses_the_oldest_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    one = sending("b", "c")
    one._interest.change("c", Edge(here=False, filters={"#": Wish(qos=1, keeps=True)}))
    for number in range(1, 101):
        assert len(forwards(publish(one, number))) == 1
        one.came("b", [number])
    assert one.kept == 10
    assert dict(one.dropped) == {"edge away for too long": 90}
    one._interest.change("c", Edge(here=True, filters={"#": Wish(qos=1)}))
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
    one._interest.change("c", Edge(here=False, filters={"#": Wish(qos=1, keeps=True)}))
    publish(one)
    assert forwards(one.tick(100.0)) == forwards(one.tick(200.0)) == []
    one._interest.change("c", Edge(here=True, filters={"#": Wish(qos=1)}))
    one.edges_changed(300.0)
    assert [action.edge for action in forwards(one.tick(300.1))] == ["c"]
