"""Rolling Parquet files: what is in them, when they roll, which of them go."""

import json
import threading

import pyarrow as pa
import pytest
from pyarrow import parquet
from some_telemetry import AHEAD_S, BOOT, START_S, noted, parts, read, subscribers, take, taken, until, writer

from firelane.exchange.telemetry import Recorder, folder, payloads, recorder, tables
from firelane.exchange.telemetry import writer as writing
from firelane.exchange.telemetry.folder import Folder
from firelane.exchange.telemetry.records import DELIVERIES, EVENTS, MEMBERSHIP, OUTCOMES


def test_what_was_noted_is_read_back_from_the_folder(tmp_path):
    one = Recorder(sampling=0.5)
    one.plan_version = 3
    for number, outcome in enumerate(OUTCOMES):
        delay_s = 0.0021 if outcome == "delivered" else None
        one.delivery(START_S + number, f"crew-{number}", "bâtiment/+", "bâtiment/é".encode(), number, 1, 180, delay_s,
                     outcome, 2.0 if delay_s else 1.0)  # fmt: skip
    for number, event in enumerate(EVENTS):
        one.membership(START_S + number, f"crew-{number}", "bâtiment/+", event)
    with writer(tmp_path) as out:
        out.put(take(one))
    assert out.lost == 0
    assert out.files == 2

    deliveries = read(tmp_path / "deliveries")
    assert deliveries.schema.remove(13).equals(DELIVERIES.remove_metadata(), check_metadata=False)
    first, *others = deliveries.to_pylist()
    assert first == {
        "record_id": f"{BOOT:016x}-000000000000", "exchange": "site", "ingress_us": 1_770_000_000_000_000,
        "subscriber": "crew-0", "filter": "bâtiment/+", "topic": "bâtiment/é", "priority": 0, "qos": 1,
        "wire_bytes": 180, "delay_us": 2100, "outcome": "delivered", "weight": 2.0, "plan_version": 3,
        "day": "2026-02-02",
    }  # fmt: skip
    assert [row["outcome"] for row in others] == list(OUTCOMES[1:])
    assert {(row["delay_us"], row["weight"]) for row in others} == {(None, 1.0)}

    membership = read(tmp_path / "membership")
    assert membership.schema.remove(6).equals(MEMBERSHIP, check_metadata=False)
    assert [(row["time_us"], row["client"], row["event"]) for row in membership.to_pylist()] == [
        (1_770_000_000_000_000 + number * 1_000_000, f"crew-{number}", event) for number, event in enumerate(EVENTS)
    ]
    assert len({*deliveries["record_id"].to_pylist(), *membership["record_id"].to_pylist()}) == 10


def test_large_takes_keep_their_order_and_numbers(tmp_path):
    with writer(tmp_path) as out:
        out.put(taken(tables.STEP_ROWS * 3 + 7))
    rows = read(tmp_path / "deliveries")
    assert rows["subscriber"].to_pylist() == [f"client-{number}" for number in range(tables.STEP_ROWS * 3 + 7)]
    assert rows["record_id"].to_pylist() == [f"{BOOT:016x}-{number:012d}" for number in range(rows.num_rows)]


# ---- rolling


def test_a_file_rolls_when_it_is_old_enough_also_if_nothing_more_comes(tmp_path):
    with writer(tmp_path, roll_s=60.0) as out:
        out.put(taken(3, 0))
        out.put(taken(3, 59, start=3))
        out.put(taken(0, 60))
        until(lambda: out.files)
        assert subscribers(tmp_path) == list(range(6))
        out.put(taken(3, 61, start=6))
    assert [parquet.read_metadata(one).num_rows for one in parts(tmp_path / "deliveries")] == [6, 3]


def test_a_file_rolls_when_it_has_enough_records(tmp_path):
    with writer(tmp_path, roll_rows=1000) as out:
        for number in range(5):
            out.put(taken(500, number, start=number * 500))
            until(out._waiting.empty)
    assert [parquet.read_metadata(one).num_rows for one in parts(tmp_path / "deliveries")] == [1000, 1000, 500]


def test_a_file_rolls_before_its_strings_take_too_much_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "ROLL_BYTES", 1_000_000)
    one = Recorder(sampling=1.0)
    for number in range(100):
        one.delivery(START_S, "chief", "#", b"%04d" % number * 10_000, 0, 0, 100, 0.1, "delivered")
    with writer(tmp_path) as out:
        out.put(take(one))
    monkeypatch.setattr(tables, "STEP_ROWS", 5)
    for number in range(100):
        one.delivery(START_S, "chief", "#", b"%04d" % number * 10_000, 0, 0, 100, 0.1, "delivered")
    with writer(tmp_path) as out:
        out.put(take(one, 1))
    assert [parquet.read_metadata(one).num_rows for one in parts(tmp_path / "deliveries")] == [100, 25, 25, 25, 25]


def test_a_file_has_records_of_one_day_and_lies_in_the_folder_of_that_day(tmp_path):
    midnight_s = 86_400 - (START_S + AHEAD_S) % 86_400  # counted from the start
    with writer(tmp_path) as out:
        out.put(taken(2, midnight_s - 0.5))
        out.put(taken(2, midnight_s + 0.5, start=2))
    rows = read(tmp_path / "deliveries").sort_by("subscriber").to_pylist()
    assert [(row["subscriber"], row["day"]) for row in rows] == [
        ("client-0", "2026-02-02"), ("client-1", "2026-02-02"),
        ("client-2", "2026-02-03"), ("client-3", "2026-02-03"),
    ]  # fmt: skip


def test_names_sort_by_time_and_say_which_exchange_wrote_them(tmp_path):
    with writer(tmp_path, roll_s=1.0) as out:
        for second in range(12):
            out.put(taken(1, float(second), start=second))
            until(out._waiting.empty)
    files = parts(tmp_path / "deliveries")
    firsts = [parquet.read_table(one)["subscriber"][0].as_py() for one in files]
    assert firsts == [f"client-{number}" for number in range(0, 12, 2)]
    assert files[0].name == f"part-20260202T024000.000000Z-{BOOT:016x}-000001.parquet"


# ---- the cap


def table(number):
    return pa.Table.from_batches(tables.deliveries(taken(20, number, start=number * 20), "site", BOOT))


def test_the_oldest_files_give_way_before_the_cap_is_passed(tmp_path):
    kept = Folder(tmp_path, boot=BOOT, cap_bytes=50_000)
    for number in range(40):
        kept.write(table(number), 1.77e9 + number)
        sizes = [one.stat().st_size for one in parts(tmp_path)]
        assert kept.bytes == sum(sizes) <= 50_000
    assert 3 < len(sizes) < 40
    ids = [int(one[7:]) for one in read(tmp_path)["subscriber"].to_pylist()]
    assert sorted(ids) == list(range(800 - 20 * len(sizes), 800))


def test_not_even_a_draft_passes_the_cap(tmp_path, monkeypatch):
    real, seen = folder.os.replace, []

    def replace(draft, path):
        seen.append(sum(one.stat().st_size for one in tmp_path.rglob("*part-*")))
        real(draft, path)

    monkeypatch.setattr(folder.os, "replace", replace)
    kept = Folder(tmp_path, boot=BOOT, cap_bytes=50_000)
    for number in range(40):
        kept.write(table(number), 1.77e9 + number)
    assert 30_000 < max(seen) <= 50_000


def test_a_smaller_cap_holds_from_the_start_and_days_that_are_empty_go(tmp_path):
    before = Folder(tmp_path, boot=BOOT, cap_bytes=10**9)
    for day in range(5):
        before.write(table(day), 1.77e9 + day * 86_400)
    newest = parts(tmp_path)[-2:]
    after = Folder(tmp_path, boot=BOOT + 1, cap_bytes=sum(one.stat().st_size for one in newest))
    after.open()
    assert parts(tmp_path) == newest
    assert sorted(tmp_path.iterdir()) == [one.parent for one in newest]


def test_a_file_larger_than_the_cap_pushes_nothing_out(tmp_path):
    kept = Folder(tmp_path, boot=BOOT, cap_bytes=10_000)
    first = kept.write(table(0), 1.77e9)
    large = pa.Table.from_batches(tables.deliveries(take(noted(5000)), "site", BOOT))
    with pytest.raises(OSError, match="File too large"):
        kept.write(large, 1.77e9 + 1)
    assert parts(tmp_path) == [first]


def test_a_flood_of_deliveries_pushes_no_membership_out(tmp_path):
    out = writer(tmp_path, keep_bytes=10_000_000)
    caps = [rolling._folder._cap_bytes for rolling in out._rolling]
    assert caps == [9_000_000, 1_000_000]


def test_files_deleted_by_others_are_no_trouble(tmp_path):
    kept = Folder(tmp_path, boot=BOOT, cap_bytes=20_000)
    for number in range(20):
        path = kept.write(table(number), 1.77e9 + number)
        path.unlink()
    assert kept.bytes <= 20_000


# ---- the thread


def test_a_writer_that_cannot_keep_up_loses_what_it_says_and_no_more(tmp_path, monkeypatch):
    entered, leave = threading.Event(), threading.Event()
    real = folder.sync_data

    def slow(file):
        entered.set()
        assert leave.wait(30)
        real(file)

    monkeypatch.setattr(folder, "sync_data", slow)
    told = []
    with writer(tmp_path, told.append, roll_s=1.0) as out:
        out.put(taken(10, 0.0))
        out.put(taken(0, 1.0))
        assert entered.wait(30)
        for second in range(2, 12):
            out.put(taken(10, float(second), start=second * 10))
        assert out._waiting.qsize() == writing.MOST_WAITING
        assert out.lost == 10 * (10 - writing.MOST_WAITING)
        assert told == ["telemetry: it cannot be written as fast as it comes; records are lost"]
        leave.set()
        until(out._waiting.empty)
        out.put(taken(10, 20.0, start=200))
    assert told[1:] == [f"telemetry is recorded again; {out.lost} records were lost"]
    kept = subscribers(tmp_path)
    assert len(kept) + out.lost == 120
    assert kept == [*range(10), *range(20, 20 + 10 * writing.MOST_WAITING), *range(200, 210)]


def test_membership_without_room_is_told_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_MEMBERSHIP_BYTES", 1000)
    one, told = Recorder(sampling=1.0), []
    with writer(tmp_path, told.append) as out:
        for _ in range(3):
            for number in range(100):
                one.membership(START_S, f"client-{number}", "a/+", "subscribe")
            out.put(take(one))
        out.put(take(one))
    kept = read(tmp_path / "membership").num_rows
    assert 0 < kept < 20
    assert kept + out.lost == 300
    assert told == [
        "telemetry: too many clients subscribe and unsubscribe; records are lost",
        f"telemetry is recorded again; {out.lost} records were lost",
    ]


def test_nothing_is_written_without_files(tmp_path):
    with writer(tmp_path, files=False) as out:
        out.put(taken(10))
    assert not list(tmp_path.iterdir())


# ---- messages


def test_payloads_are_lines_of_json_that_say_what_the_files_say(tmp_path):
    published, one = [], noted(2000)
    one.delivery(START_S, "chief", "é/+", "é/b".encode(), 0, 0, 10, None, "policy")
    one.membership(START_S, "chief", "é/+", "subscribe")
    with writer(tmp_path, publish=lambda *message: published.append(message), topics=True) as out:
        out.put(take(one))
    by_topic = {}
    for topic, payload in published:
        assert len(payload) <= payloads.MOST_BYTES
        by_topic.setdefault(topic, []).extend(json.loads(line) for line in payload.splitlines())
    assert len(published) < 20
    for kind in ("deliveries", "membership"):
        rows = read(tmp_path / kind)
        expected = rows.drop_columns(["day"]).to_pylist()
        assert by_topic[f"$firelane/telemetry/{kind}".encode()] == expected


def test_a_record_too_large_for_others_beside_it_has_a_payload_of_its_own():
    one = noted(1)
    one.delivery(START_S, "chief", "#", b"x" * 65_000, 0, 0, 10, None, "policy")
    one.delivery(START_S, "chief", "#", b"y", 0, 0, 10, None, "policy")
    lines = [len(payload.splitlines()) for payload in payloads.payloads(tables.deliveries(take(one), "site", BOOT))]
    assert lines == [1, 1, 1]


def test_nothing_is_published_unless_asked_for(tmp_path):
    published = []
    with writer(tmp_path, publish=lambda *message: published.append(message)) as out:
        out.put(taken(10))
    assert not published
