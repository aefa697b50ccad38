"""`exchange.control` as people write it."""

import pytest

from firelane.errors import ScenarioError
from firelane.scenario import from_data
from firelane.scenario.control_settings import ControlSettings


def read(settings):
    return from_data({"name": "x", "exchange": {"control": settings}}).exchange.control


def test_what_is_not_said_is_as_usual():
    assert read({}) == ControlSettings(planner="tune", proactive=True, horizon_s=10.0, replans=20)
    found = read({"planner": "plan", "proactive": False, "horizon": "30 s", "replans": 6})
    assert found == ControlSettings(planner="plan", proactive=False, horizon_s=30.0, replans=6)


@pytest.mark.parametrize(
    "wrong",
    [{"planner": "magic"}, {"horizon": "1 h"}, {"horizon": "1 ms"}, {"replans": 0}, {"replans": "many"}, {"x": 1}],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ScenarioError):
        read(wrong)
