"""`exchange.telemetry` as people write it."""

import pytest
from pydantic import TypeAdapter, ValidationError

from firelane.scenario.telemetry_settings import TelemetrySettings

READ = TypeAdapter(TelemetrySettings).validate_python


def test_quantities_have_units():
    settings = READ({"sampling": "5 %", "keep": "2 GB", "roll": "10 min", "roll_rows": 1000, "topics": True})
    assert settings == TelemetrySettings(
        sampling=0.05, keep_bytes=2_000_000_000, roll_s=600.0, roll_rows=1000, topics=True
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling": "110 %"},
        {"keep": "1 MB"},
        {"roll": "1 ms"},
        {"roll_rows": 0},
        {"roll_rows": "many"},
        {"samples": 1},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValidationError):
        READ(wrong)


def test_it_can_be_switched_off():
    assert READ({}).wanted
    assert READ({"files": False, "topics": True}).wanted
    assert not READ({"files": False}).wanted
