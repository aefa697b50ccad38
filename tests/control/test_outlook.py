"""What is planned for, and when a change is believed."""

from dataclasses import replace

import pytest

from firelane.control.outlook import Outlook
from firelane.exchange.measuring.observed import Observed, SeenTopic
from firelane.scenario.control_settings import ControlSettings

CALM = Observed(topics=(SeenTopic("a", 10.0, 100.0, 0.0, 10.0),), subscriptions=(), links={}, changed=1)


class Outdated:
    """A plan that no longer fits; there may be less and less traffic."""

    def __init__(self, falling=False):
        self.falling = falling

    def falls(self, observed, listened_s):
        return self.falling

    def outdated(self, observed, listened_s):
        return True

    def shift(self, observed, listened_s):
        return "more"

    def costs(self):
        return {"a": 0.1}


def test_while_traffic_is_changing_the_next_look_is_waited_for_once():
    outlook, changing = Outlook(ControlSettings()), replace(CALM, unsettled=True)
    assert outlook.moved(Outdated(), changing, 60.0, 1.0) is None
    assert outlook.moved(Outdated(), changing, 60.0, 2.0).kind == "load"
    assert outlook.moved(Outdated(), changing, 60.0, 3.0) is None  # another change


def test_a_plan_for_less_traffic_waits_some_seconds_while_there_is_less_and_less():
    outlook = Outlook(ControlSettings())
    falling = [outlook.moved(Outdated(falling=True), CALM, 60.0, float(second)) for second in range(22)]
    assert [second for second, cause in enumerate(falling) if cause is not None] == [10, 21]


def test_once_it_falls_no_more_it_is_planned_for():
    outlook = Outlook(ControlSettings())
    assert outlook.moved(Outdated(falling=True), CALM, 60.0, 1.0) is None
    assert outlook.moved(Outdated(), CALM, 60.0, 2.0).kind == "load"


def test_a_change_that_is_certain_is_not_waited_for():
    assert Outlook(ControlSettings()).moved(Outdated(), CALM, 60.0, 1.0).kind == "load"


def test_the_longer_a_trend_has_lasted_the_further_ahead_is_planned_for():
    """Seen rising by 2 a second from 100: a plan is made for as long ahead as it has risen."""
    outlook, expected = Outlook(ControlSettings()), {}
    for second in range(70):
        rate = 100.0 + 2 * second
        seen = replace(CALM, topics=(SeenTopic("a", rate, 100.0, 0.0, rate),))
        outlook.look(seen, {"a": 0.01}, float(second))
        if outlook.way == "trend":
            expected[second] = outlook.to_plan_for(seen, float(second))[0].observed.topics[0].rate_hz - rate
    first = min(expected)
    assert expected[first] == pytest.approx(2 * 20, rel=0.1)
    assert expected[69] == pytest.approx(2 * 60, rel=0.1)
    assert expected[first + 20] >= expected[first]
    reaches = [(one.observed.topics[0].rate_hz - rate) / 2 for one in outlook.to_plan_for(seen, 69.0)]
    assert reaches == pytest.approx([60, 40, 20], rel=0.1)  # nearer, if that cannot be planned for
    assert [one.held_s for one in outlook.to_plan_for(seen, 69.0)] == [60, 40, 20]
