"""Offers, grants, load signals and wishes to be told the state: JSON that is read strictly and refused in a line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.sense.offer import (
    Grant,
    LoadSignal,
    Offer,
    OfferError,
    Resync,
    SensorType,
    delta_in_force,
    from_json,
    to_json,
)

OFFER = Offer(boot=3, sensors=("T1", "T2"), precision=0.5, type=SensorType(name="Temperature", unit="C"), load=0.7)


@pytest.mark.parametrize(
    "thing", [OFFER, Offer(boot=1, sensors=("door",), kind="discrete"), Grant(tolerance=0.5, subscribers=2),
              LoadSignal(load=0.4), Resync(), Resync(sensors=(1, 5)), Resync(batches=((3, 3), (2**32 - 1, 5)))]
)  # fmt: skip
def test_what_is_said_is_understood(thing):
    assert from_json(type(thing), to_json(thing)) == thing


def test_what_a_later_release_adds_does_no_harm():
    data = json.loads(to_json(OFFER)) | {"colour": "red"}
    assert from_json(Offer, json.dumps(data).encode()) == OFFER


@pytest.mark.parametrize(
    ("change", "word"),
    [({"format": 2}, "format"), ({"boot": -1}, "boot"), ({"sensors": []}, "sensors"), ({"sensors": ["a", "a"]}, "same"),
     ({"precision": 0}, "precision"), ({"precision": float("nan")}, "precision"), ({"precision": None}, "precision"),
     ({"kind": "fluid"}, "kind"), ({"load": 2}, "load"),
     ({"heartbeat_s": 0}, "heartbeat_s"), ({"boot": 2**32}, "boot")],
)  # fmt: skip
def test_an_offer_that_makes_no_sense_is_refused_in_a_line(change, word):
    data = json.loads(to_json(OFFER)) | change
    with pytest.raises(OfferError, match=word) as raised:
        from_json(Offer, json.dumps(data).encode())
    assert "\n" not in str(raised.value)


@given(st.binary(max_size=100))
def test_what_is_no_json_is_refused(payload):
    for kind in (Offer, Grant, LoadSignal):
        with pytest.raises(OfferError):
            from_json(kind, payload)


def test_a_request_may_not_be_stricter_than_the_offer():
    OFFER.meets(0.5)
    OFFER.meets(None, "Temperature")
    with pytest.raises(OfferError, match="stricter"):
        OFFER.meets(0.49)
    with pytest.raises(OfferError, match="type"):
        OFFER.meets(0.5, "Pressure")


def test_the_tightest_grant_counts_but_no_more_is_promised_than_offered():
    assert delta_in_force(OFFER, None) == 0.5
    assert delta_in_force(OFFER, Grant(tolerance=2.0)) == 2.0
    assert delta_in_force(OFFER, Grant(tolerance=0.1)) == 0.5
