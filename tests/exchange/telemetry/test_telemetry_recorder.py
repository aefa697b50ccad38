"""What is noted on the event loop: which messages are sampled, and what happens when there is too much."""

import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from some_telemetry import BOOT, START_S, note, noted, take

from firelane.exchange.lanes.lane import hash64
from firelane.exchange.telemetry import Recorder, recorder, tables

MESSAGES = 200_000
SIGMAS = 5.5  # chance passes it once in twenty-six million tries


def sampled(share, count=MESSAGES):
    one, found, at = Recorder(sampling=share), np.zeros(count, bool), -1
    while (at := at + one.gap()) < count:
        found[at] = True
    return found


def rows(one):
    """The delivery records that a recorder makes of what it has seen."""
    return [row for batch in tables.deliveries(take(one), "site", BOOT) for row in batch.to_pylist()]


# ---- sampling


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5])
def test_the_share_of_sampled_messages_is_the_one_asked_for(share):
    spread = math.sqrt(MESSAGES * share * (1 - share))
    assert abs(sampled(share).sum() - MESSAGES * share) < SIGMAS * spread


@pytest.mark.parametrize("turns", [2, 5, 64, 100, 1000, 1024])
def test_publishers_that_take_turns_are_sampled_alike_and_not_in_turn(turns):
    share = 0.1
    each = MESSAGES // turns
    counts = sampled(share, each * turns).reshape(each, turns).sum(axis=0)
    z = (counts - each * share) / math.sqrt(each * share * (1 - share))
    spread = SIGMAS * math.sqrt(2 * turns)
    assert turns - spread < (z**2).sum() < turns + spread + SIGMAS**2  # chi-squared: neither uneven nor too even


@pytest.mark.parametrize("apart", [1, 2, 3, 5, 8, 1024])
def test_whether_one_message_is_sampled_says_nothing_about_another(apart):
    share = 0.1
    deviation = sampled(share) - share
    together = (deviation[apart:] * deviation[:-apart]).sum()
    assert abs(together) < SIGMAS * math.sqrt(MESSAGES - apart) * share * (1 - share)


@pytest.mark.parametrize("key", [0, 1, 0x9E37_79B9_7F4A_7C15, 0xFFFF_FFFF_FFFF_FFFF])
@pytest.mark.parametrize("drop_rate", [0.05, 0.5])
def test_sampled_messages_are_dropped_no_more_and_no_less_often_than_others(key, drop_rate):
    count, share = 50_000, 0.1
    threshold = round(drop_rate * 2**64)
    dropped = np.array([hash64(BOOT, sequence, key) < threshold for sequence in range(1, count + 1)])
    together = ((sampled(share, count) - share) * (dropped - drop_rate)).sum()
    spread = math.sqrt(count * share * (1 - share) * drop_rate * (1 - drop_rate))
    assert abs(together) < SIGMAS * spread


def test_a_sampled_message_stands_for_those_that_are_not():
    assert [Recorder(sampling=share).weight for share in (0.02, 1.0, 0.0)] == [50.0, 1.0, 0.0]
    assert sampled(1.0, 100).all()
    assert not sampled(0.0, 100).any()


# ---- records


def test_every_copy_and_every_drop_is_a_record_with_a_number_of_its_own():
    one = Recorder(sampling=0.01)
    one.plan_version = 7
    one.delivery(START_S, "chief", "a/+", b"a/b", 0, 1, 180, 0.0021, "delivered", 100.0)
    one.delivery(START_S + 0.5, "crew", "#", b"a/b", 8, 0, 180, None, "policy")
    assert rows(one) == [
        {
            "record_id": "000000000000b007-000000000000", "exchange": "site", "ingress_us": 1_770_000_000_000_000,
            "subscriber": "chief", "filter": "a/+", "topic": "a/b", "priority": 0, "qos": 1, "wire_bytes": 180,
            "delay_us": 2100, "outcome": "delivered", "weight": 100.0, "plan_version": 7,
        },
        {
            "record_id": "000000000000b007-000000000001", "exchange": "site", "ingress_us": 1_770_000_000_500_000,
            "subscriber": "crew", "filter": "#", "topic": "a/b", "priority": 8, "qos": 0, "wire_bytes": 180,
            "delay_us": None, "outcome": "policy", "weight": 1.0, "plan_version": 7,
        },
    ]  # fmt: skip


def test_numbers_run_on_over_takes_and_kinds():
    one, identifiers = Recorder(sampling=1.0), []
    for _ in range(3):
        note(one, 2)
        one.membership(START_S, "chief", "a/+", "subscribe")
        now = take(one)
        for batch in [*tables.deliveries(now, "site", BOOT), *tables.membership(now, "site", BOOT)]:
            identifiers += batch["record_id"].to_pylist()
    assert identifiers == [f"000000000000b007-{number:012d}" for number in range(9)]


def test_telemetry_says_nothing_of_its_own_messages():
    one = Recorder(sampling=1.0)
    one.delivery(START_S, "spark", "$firelane/#", b"$firelane/telemetry/deliveries", 15, 0, 60_000, None, "overflow")
    one.delivery(START_S, "spark", "$firelane/#", b"$firelane/alerts", 15, 0, 100, None, "overflow")
    assert [row["topic"] for row in rows(one)] == ["$firelane/alerts"]


def test_copies_of_one_message_have_one_ingress_however_the_clocks_are_read():
    one, ingress = Recorder(sampling=1.0), set()
    for unsteady_s in (0.0, 0.0004, -0.003):
        note(one, 1)
        for batch in tables.deliveries(one.take(START_S, 1.77e9 + unsteady_s), "site", BOOT):
            ingress.update(batch["ingress_us"].to_pylist())
    assert ingress == {1_770_000_000_000_000}


def test_a_clock_that_was_set_is_followed():
    one = Recorder(sampling=1.0)
    take(one)
    note(one, 1)
    [batch] = tables.deliveries(one.take(START_S, 1.78e9), "site", BOOT)
    assert batch["ingress_us"].to_pylist() == [1_780_000_000_000_000]


# ---- too much


@pytest.fixture
def little_room(monkeypatch):
    monkeypatch.setattr(recorder, "MOST_BYTES", 3000)  # ten records or so
    monkeypatch.setattr(recorder, "MOST_FOLDED_BYTES", 5000)  # and eight or nine folded


def test_a_flood_of_drops_is_folded_by_subscription_and_outcome(little_room):
    one = Recorder(sampling=1.0)
    for number in range(3000):
        outcome = "overflow" if number % 3 else "expired"
        one.delivery(START_S + number, f"client-{number % 2}", "a/+", b"a/b", 2, 0, 100 + number % 2, None, outcome)
    records = rows(one)
    assert len(records) < 20
    folded = [row for row in records if row["weight"] > 1]
    assert {(row["subscriber"], row["outcome"]) for row in folded} == {
        (f"client-{who}", outcome) for who in (0, 1) for outcome in ("overflow", "expired")
    }
    assert all(row["topic"] is None and row["delay_us"] is None and row["filter"] == "a/+" for row in folded)
    assert all(row["wire_bytes"] == 100 + int(row["subscriber"][-1]) for row in folded)
    weights = Counter()
    for row in records:
        weights[row["subscriber"], row["outcome"]] += row["weight"]
    assert weights == {
        (f"client-{who}", what): n for who in (0, 1) for what, n in (("overflow", 1000), ("expired", 500))
    }


def test_with_too_many_subscriptions_for_that_only_class_and_outcome_are_kept(little_room):
    one = Recorder(sampling=1.0)
    for number in range(3000):
        one.delivery(START_S, f"client-{number}", "a/+", b"a/b", number % 4, 0, 100, None, "overflow")
    records = rows(one)
    assert len(records) < 30
    nameless = [row for row in records if row["subscriber"] is None]
    assert sorted(row["priority"] for row in nameless) == [0, 1, 2, 3]
    assert all(row["filter"] is None and row["qos"] is None and row["outcome"] == "overflow" for row in nameless)
    assert sum(row["weight"] for row in records) == 3000


def test_there_is_room_again_after_a_take(little_room):
    one = noted(1000)
    rows(one)
    note(one, 5)
    assert [row["topic"] for row in rows(one)] == ["a/b"] * 5


_delivery = st.tuples(
    st.integers(0, 30), st.integers(0, 15), st.integers(0, 2), st.integers(10, 10_000),
    st.sampled_from([None, 0.001, 0.25]), st.sampled_from(["delivered", "policy", "overflow"]),
    st.sampled_from([1.0, 3.0, 100.0]),
)  # fmt: skip


@settings(phases=(Phase.reuse, Phase.generate))  # smaller examples would not overflow
@given(st.lists(_delivery, min_size=20, max_size=40))
def test_no_delivery_is_ever_missing_from_the_sums(deliveries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "MOST_BYTES", 3000)
        patch.setattr(recorder, "MOST_FOLDED_BYTES", 5000)
        one = Recorder(sampling=1.0)
        due, due_bytes = Counter(), Counter()
        for who, priority, qos, size, delay_s, outcome, weight in deliveries:
            one.delivery(START_S, f"client-{who}", "a/+", b"a/b", priority, qos, size, delay_s, outcome, weight)
            due[priority, outcome] += weight
            due_bytes[priority, outcome] += weight * size
        told, told_bytes = Counter(), Counter()
        for row in rows(one):
            told[row["priority"], row["outcome"]] += row["weight"]
            told_bytes[row["priority"], row["outcome"]] += row["weight"] * row["wire_bytes"]
    assert told == due
    for key, weight in due.items():
        assert abs(told_bytes[key] - due_bytes[key]) <= weight / 2  # a mean size is rounded


def test_the_delay_of_folded_deliveries_is_their_weighted_mean(little_room):
    one = noted(20)
    take(one)
    for number in range(2000):
        late = number % 2
        one.delivery(START_S, "chief", "a/+", b"a/b", 0, 0, 100, 0.004 if late else 0.001, "delivered", 1 + late)
    [folded] = [row for row in rows(one) if row["topic"] is None]
    assert folded["delay_us"] == pytest.approx((0.004 * 2 + 0.001) / 3 * 1e6, abs=1)


def test_what_a_hostile_client_makes_it_remember_is_bounded():
    one = Recorder(sampling=1.0)
    tracemalloc.start()
    try:
        for number in range(20_000):
            name = f"{number:05d}" * 400
            one.delivery(START_S, name, name + "/#", name.encode(), 0, 0, 100, None, "overflow")
            one.membership(START_S, name + "x", name, "subscribe")
        most = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    allowed = recorder.MOST_BYTES + recorder.MOST_FOLDED_BYTES + recorder.MOST_MEMBERSHIP_BYTES
    assert 0.5 * allowed < most < 1.2 * allowed
    now = take(one)
    assert len(now.membership) + now.membership_lost == 20_000
    assert now.membership_lost > 10_000


def test_short_records_take_no_more_memory_than_they_are_counted_for():
    one = Recorder(sampling=1.0)
    tracemalloc.start()
    try:
        for number in range(60_000):
            delay_s, ingress_s, size = number * 1e-6, START_S + number, 1000 + number
            one.delivery(ingress_s, "chief", "a/+", b"a/b", 0, 0, size, delay_s, "delivered", 1.0)
        most = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert most < 1.2 * recorder.MOST_BYTES
    assert len(take(one).deliveries) > 20_000
