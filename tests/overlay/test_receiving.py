"""What the receiving edge holds for want of a message before it, and how much of that."""

from firelane.overlay import receiving
from firelane.overlay.actions import Deliver
from firelane.overlay.receiving import Receiving
from firelane.overlay.stamp import Stamp

SIZE = 1000


def arrive(one, number, after, now=0.0):
    return one.arrived("t", bytes(SIZE), {}, Stamp("far", 1, number, after, 0, 1), "r", now)


def test_what_is_held_is_bounded_in_bytes_and_comes_again_later(monkeypatch):
    monkeypatch.setattr(receiving, "MOST_HELD_BYTES", 5 * SIZE)
    one = Receiving("near", 1)
    for number in range(2, 12):
        assert arrive(one, number, number - 1) == []
    assert one.held == 5
    assert one.counts["no room"] == 5
    delivered = arrive(one, 1, 0)
    assert [action.stamp.number for action in delivered if isinstance(action, Deliver)] == [1, 2, 3, 4, 5, 6]
    assert one.held == 0
    again = [action for number in range(7, 12) for action in arrive(one, number, number - 1)]
    assert [action.stamp.number for action in again] == [7, 8, 9, 10, 11]
    for number in range(22, 30):  # what was let go made room
        arrive(one, number, number - 1)
    assert one.held == 5
