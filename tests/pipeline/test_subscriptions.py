"""Membership records to the number of clients subscribed to a filter per minute: by hand, and minute by minute."""

from __future__ import annotations

import numpy as np

from firelane.pipeline.schemas import MEMBERSHIP

MINUTE_US = 60_000_000
BOOT, LATER_BOOT = 0xFFFF_0000_0000_0001, 0x1  # random numbers, that do not tell which came first


def events(*rows, boot=BOOT, exchange="site", first=0):
    """Records of (minutes, client, filter, event)."""
    return [
        (f"{boot:016x}-{number:012d}", exchange, round(minutes * MINUTE_US), client, topic_filter, event)
        for number, (minutes, client, topic_filter, event) in enumerate(rows, first)
    ]


def counts(spark, rows, step_s=60):
    """{filter: {minute: subscribers}}"""
    from firelane.pipeline.membership import subscribers
    from firelane.pipeline.telemetry import once

    table = subscribers(once(spark.createDataFrame(rows, MEMBERSHIP).repartition(3)), step_s=step_s)
    found = {}
    for time_s, topic, count, messages_hz, bytes_hz in table.collect():
        assert (messages_hz, bytes_hz) == (None, None)
        assert found.setdefault(topic, {}).setdefault(time_s / 60, count) == count
    return found


def test_clients_count_once_in_every_minute_they_were_subscribed_in(spark):
    rows = events(
        (10.2, "ann", "a", "subscribe"),
        (10.3, "ann", "a", "unsubscribe"),  # within one minute, twice
        (10.5, "ann", "a", "subscribe"),
        (10.6, "ann", "a", "lost"),
        (11.9, "ben", "a", "subscribe"),
        (12.1, "ben", "a", "subscribe"),  # again, which changes nothing
        (14.0, "ben", "a", "unsubscribe"),  # the moment at which minute 14 begins: not in it any more
        (12.5, "cid", "a", "subscribe"),  # to the end of the data
        (13.5, "cid", "b", "subscribe"),
        (13.5, "cid", "b", "unsubscribe"),  # in no time
        (13.6, "dan", "c", "unsubscribe"),  # so it was there from the beginning
        (15.5, "eve", "d", "lost"),
        (15.7, "eve", "d", "unsubscribe"),  # not there any more; says nothing
        (16.0, "ann", "e", "subscribe"),  # the last moment of all
    )
    assert counts(spark, [*rows, *rows[::2]][::-1]) == {
        "a": {10: 1, 11: 1, 12: 2, 13: 2, 14: 1, 15: 1, 16: 1},
        "b": {13: 1},
        "c": {10: 1, 11: 1, 12: 1, 13: 1},
        "d": dict.fromkeys(range(10, 16), 1),
        "e": {16: 1},
    }


def test_a_started_exchange_knows_nobody_and_a_client_at_two_exchanges_is_one(spark):
    before = events((0, "ann", "a", "subscribe"), (1, "ben", "a", "subscribe"))
    after = events((5.5, "ben", "a", "subscribe"), (7, "ben", "a", "lost"), boot=LATER_BOOT)
    elsewhere = events((3, "ben", "a", "subscribe"), (8, "ben", "a", "lost"), exchange="yard", boot=2, first=50)
    # Nobody said goodbye when the first run ended, before minute 5.5; ann did not come back.
    assert counts(spark, before + after + elsewhere) == {"a": {0: 1, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 1, 7: 1}}


def minute_by_minute(rows):
    """The same by going through the minutes, for one run of one exchange."""
    begin, end = min(row[2] for row in rows), max(row[2] for row in rows)
    present = {}
    for key in {(row[3], row[4]) for row in rows}:
        told = sorted((row[2], row[0], row[5]) for row in rows if (row[3], row[4]) == key)
        at, inside = begin, told[0][2] != "subscribe"
        for time_us, _, event in [*told, (end + 1, "", "end")]:
            if inside:
                minutes = range(at // MINUTE_US, max(at, time_us - 1) // MINUTE_US + 1)
                present.setdefault(key, set()).update(minutes)
            at, inside = time_us, event == "subscribe"
    found = {}
    for (_, topic_filter), minutes in present.items():
        for minute in minutes:
            of_filter = found.setdefault(topic_filter, {})
            of_filter[minute] = of_filter.get(minute, 0) + 1
    return found


def test_random_comings_and_goings_agree_with_a_walk_through_the_minutes(spark):
    chance = np.random.default_rng(3)
    times = np.sort(chance.integers(0, 240 * 20, 1500)) / 20  # many at the same moment, and on whole minutes
    said = chance.choice(["subscribe", "subscribe", "unsubscribe", "lost"], len(times)).tolist()
    who, what = chance.integers(15, size=len(times)).tolist(), chance.choice(list("abc"), len(times)).tolist()
    rows = events(*zip(times.tolist(), (f"client-{one}" for one in who), what, said, strict=True))
    expected = minute_by_minute(rows)
    assert sum(len(minutes) for minutes in expected.values()) > 500
    assert counts(spark, rows) == expected


def test_steps_may_be_longer_and_a_long_stay_is_one_row_a_step(spark):
    day = 24 * 60
    rows = events((0, "ann", "a", "subscribe"), (3 * day, "ann", "a", "lost"), (3 * day, "ben", "b", "subscribe"))
    assert counts(spark, rows, step_s=3600)["a"] == {float(hour * 60): 1 for hour in range(72)}


def test_bad_membership_records_are_told_apart_with_the_reason(spark):
    from firelane.pipeline.membership import membership_fault

    good = ("1-1", "site", 5, "ann", "a", "lost")
    bad = {
        "no record_id": [(None, *good[1:])],
        "no exchange": [(good[0], None, *good[2:])],
        "time_us is no time": [(*good[:2], one, *good[3:]) for one in (None, -1, 2**62)],
        "no client": [(*good[:3], None, *good[4:]), (*good[:3], "", *good[4:])],
        "no filter": [(*good[:4], "", good[5])],
        "event is unknown": [(*good[:5], None), (*good[:5], "left")],
        None: [good],
    }
    rows = [row for many in bad.values() for row in many]
    judged = spark.createDataFrame(rows, MEMBERSHIP).coalesce(1).select(membership_fault().alias("fault"))
    assert [row.fault for row in judged.collect()] == [reason for reason, many in bad.items() for _ in many]
