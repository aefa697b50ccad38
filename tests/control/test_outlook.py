"""What is planned for, and when a change is believed."""

from dataclasses import replace

from firelane.control.outlook import Outlook
from firelane.exchange.observed import Observed, SeenTopic
from firelane.scenario.control_settings import ControlSettings

CALM = Observed(topics=(SeenTopic("a", 10.0, 100.0, 0.0, 10.0),), subscriptions=(), links={}, changed=1)


class Outdated:
    """A plan that no longer fits."""

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


def test_a_change_that_is_certain_is_not_waited_for():
    assert Outlook(ControlSettings()).moved(Outdated(), CALM, 60.0, 1.0).kind == "load"
