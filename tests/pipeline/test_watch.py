"""The job `watch`: the same tables as the batch job's, with rejects and late records counted."""

from __future__ import annotations

import json
import math
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import parquet

from firelane.errors import FirelaneError
from firelane.pipeline.mqtt import notes
from firelane.pipeline.mqtt.address import Address
from firelane.pipeline.mqtt.session import BrokerSession, Wishes
from firelane.pipeline.watch.telling import Alert, Teller
from live.brokers import mosquitto

pytestmark = pytest.mark.slow

SECOND_US = 1_000_000
START_US = 1_767_225_600 * SECOND_US  # 2026-01-01T00:00:00Z
TOPIC = "$firelane/telemetry/deliveries"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Batches follow each other without a pause."""
    monkeypatch.setattr("firelane.pipeline.watch.watching.EVERY_S", {"tables": 0.0, "alerts": 0.0})


def row(number, at_s, **given):
    return {
        "record_id": f"00000000000000aa-{number:012d}",
        "exchange": "e",
        "ingress_us": START_US + round(at_s * SECOND_US),
        "subscriber": f"s{number % 3}",
        "filter": "a/#",
        "topic": f"a/{number % 2}",
        "priority": number % 2,
        "qos": 0,
        "wire_bytes": 100 + number % 7,
        "delay_us": 1000 + 37 * (number % 50),
        "outcome": "delivered" if number % 5 else "overflow",
        "weight": 1.0,
        "plan_version": 3,
    } | given


def rows(count, seconds):
    return [row(n, n * seconds / count) for n in range(count)]


def table(folder, name):
    """A table as any reader of Parquet sees it, in a fixed order."""
    if not (folder / name).exists():
        return []
    read = ds.dataset(folder / name, partitioning="hive").to_table().to_pylist()
    return sorted(json.dumps(one, default=str, sort_keys=True) for one in read)


def write_files(folder, given, files=4):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        part = given[number * len(given) // files : (number + 1) * len(given) // files]
        parquet.write_table(pa.Table.from_pylist(part), folder / f"part-{number}.parquet")
        time.sleep(0.01)


def write_damaged(path, given):
    parquet.write_table(pa.Table.from_pylist(given), path)
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:100] + b"\xff" * half + whole[100 + half :])


@contextmanager
def watched(spark, source, output, **settings):
    from firelane.pipeline.watch.watching import Watch, watching

    watch = Watch(source=source, output=output, **settings)
    with watching(spark, watch, complain=pytest.fail) as running:
        yield running


def until(running, what, seconds=90.0):
    deadline = time.monotonic() + seconds
    while not what():
        running.check()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def broker_in(tmp_path):
    (tmp_path / "broker").mkdir()
    with mosquitto(tmp_path / "broker") as broker:
        yield Address(host=broker.host, port=broker.port)


def connected(output):
    folder = output / ".watch" / "log"
    return (folder / "state").exists() and (notes.state(folder) or {}).get("connected")


def publish(address, lines, per_message=20):
    groups = [lines[at : at + per_message] for at in range(0, len(lines), per_message)]
    with BrokerSession(address, Wishes(client_id="publisher")) as session:
        session.publish([(TOPIC, "\n".join(group).encode()) for group in groups])


def test_windows_of_files_that_appear_are_those_of_the_batch_job(spark, tmp_path):
    from firelane.pipeline import jobs

    records = rows(400, seconds=38)
    write_files(tmp_path / "in", records)
    jobs.deliveries(spark, source=tmp_path / "in", output=tmp_path / "batch", window_s=10.0)
    closing = tmp_path / "in" / "part-last.parquet"
    with watched(spark, tmp_path / "in", tmp_path / "out", window_s=10.0, late_s=20.0) as running:
        until(running, lambda: running.sink.counts["windows"] >= 1)
        parquet.write_table(pa.Table.from_pylist([row(9999, 60.0)]), closing)  # ends all windows before
        until(running, lambda: running.sink.counts["windows"] >= 4)
    for name in ("metrics", "loads"):
        assert table(tmp_path / "out", name) == table(tmp_path / "batch", name) != []


def test_records_of_a_broker_come_out_as_those_of_files_and_half_lines_are_refused(spark, tmp_path):
    from firelane.pipeline import jobs

    records = rows(300, seconds=28)
    write_files(tmp_path / "in", records)
    jobs.deliveries(spark, source=tmp_path / "in", output=tmp_path / "batch", window_s=10.0)
    lines = [json.dumps(one) for one in records]
    bad = [
        lines[0][:50],
        "hello",
        json.dumps(row(1000, -START_US / SECOND_US - 5)),
        json.dumps(row(1001, 1, outcome="vanished")),
        json.dumps(row(1002, 1, priority="high")),
        json.dumps(row(1003, 10**9)),  # a clock that is far ahead must not close windows
    ]
    with broker_in(tmp_path) as address, watched(spark, address, tmp_path / "out", late_s=10.0) as running:
        until(running, lambda: connected(tmp_path / "out"))
        publish(address, [*lines[:100], *bad, *lines[100:]])
        publish(address, lines[:40])  # again, in other company
        publish(address, [json.dumps(row(5000, 60.0))])
        until(running, lambda: running.sink.counts["windows"] >= 3 and running.sink.counts["rejects"] >= len(bad))
    for name in ("metrics", "loads"):
        assert table(tmp_path / "out", name) == table(tmp_path / "batch", name) != []
    assert running.sink.reasons == {
        "not a record in JSON": 3,
        "ingress_us is no time": 1,
        "outcome is unknown": 1,
        "ingress_us is in the future": 1,
    }
    refused = [json.loads(one) for one in table(tmp_path / "out", "rejects")]
    assert sorted(one["row"] for one in refused) == sorted(one[:300] for one in bad)


def test_late_records_are_left_out_and_counted(spark, tmp_path):
    from firelane.pipeline.watch.run import Tally

    tally = Tally()
    write_files(tmp_path / "in", [row(n, n) for n in range(50)], files=1)
    with watched(spark, tmp_path / "in", tmp_path / "out", late_s=5.0) as running:
        until(running, lambda: running.sink.counts["windows"] >= 4)
        late = [row(n, 0.5) for n in range(100, 107)] + [row(200, 70.0)]
        parquet.write_table(pa.Table.from_pylist(late), tmp_path / "in" / "part-late.parquet")
        until(running, lambda: running.sink.counts["windows"] >= 5)
        tally.look(running)
    assert tally.late == 7
    offered = sum(json.loads(one)["offered_hz"] * 10 for one in table(tmp_path / "out", "metrics"))
    assert offered == pytest.approx(50)


def test_what_comes_after_a_silence_is_counted(spark, tmp_path):
    from firelane.pipeline.watch.run import Tally

    tally, often = Tally(), "spark.sql.streaming.noDataProgressEventInterval"
    (tmp_path / "in").mkdir()
    spark.conf.set(often, "100")  # milliseconds of silence, in which a query says that there is nothing
    try:
        with watched(spark, tmp_path / "in", tmp_path / "out", late_s=5.0) as running:

            def after_a_silence(name, given):
                seen = len(running.queries[0].recentProgress)
                until(running, lambda: tally.look(running) or len(running.queries[0].recentProgress) >= seen + 3)
                parquet.write_table(pa.Table.from_pylist(given), tmp_path / "in" / name)

            after_a_silence("some.parquet", [row(n, n) for n in range(40)])
            until(running, lambda: running.sink.counts["windows"] >= 3)
            after_a_silence("late.parquet", [row(n, 0.5) for n in range(100, 107)])
            until(running, lambda: tally.look(running) or tally.rows >= 47, seconds=20)
    finally:
        spark.conf.unset(often)
    assert (tally.rows, tally.late) == (47, 7)


def test_files_that_nothing_of_can_be_used_are_refused_and_do_no_harm(spark, tmp_path):
    write_files(tmp_path / "in", [row(n, n) for n in range(40)], files=1)
    (tmp_path / "in" / "half.parquet").write_bytes((tmp_path / "in" / "part-0.parquet").read_bytes()[:500])
    parquet.write_table(pa.table({"record_id": ["x"], "priority": ["high"]}), tmp_path / "in" / "other.parquet")
    write_damaged(tmp_path / "in" / "damaged.parquet", [row(n, n / 1000) for n in range(1000, 9000)])
    with watched(spark, tmp_path / "in", tmp_path / "out", late_s=5.0) as running:
        until(running, lambda: running.sink.counts["windows"] >= 3)
    assert running.sink.reasons == {
        "not a whole Parquet file": 1,
        "priority is of another type": 1,
        "damaged inside, so that some or all of its records are not read": 1,
    }
    refused = [json.loads(one) for one in table(tmp_path / "out", "rejects")]
    names = ["damaged.parquet", "half.parquet", "other.parquet"]
    assert sorted(Path(one["source"]).name for one in refused) == names


def test_folders_are_called_what_they_are_called(spark, tmp_path):
    source, output = (tmp_path / f"{name} sp ace [1] {{a,b}} 50%20 # é?*" for name in ("in", "out"))
    write_files(source, [row(n, n) for n in range(40)], files=1)
    with watched(spark, source, output, late_s=5.0) as running:
        until(running, lambda: running.sink.counts["windows"] >= 3)
    assert sorted(one.name for one in (output / ".watch").iterdir()) == ["lock", "settings.json", "tables"]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([source.name, output.name])


def test_only_parquet_files_are_looked_at_wherever_they_are_but_for_drafts(spark, tmp_path):
    records = [row(n, n) for n in range(60)]
    write_files(tmp_path / "in" / "day=2026-01-01" / "more", records[:20], files=1)
    write_files(tmp_path / "in", records[20:40], files=1)
    write_files(tmp_path / "in" / "_draft", records[40:], files=1)
    write_files(tmp_path / "in" / ".draft", records[40:], files=1)
    (tmp_path / "in" / "_draft" / "half.parquet").write_bytes(b"half")
    (tmp_path / "in" / "notes.txt").write_text("hello")
    parquet.write_table(pa.Table.from_pylist(records[40:]), tmp_path / "in" / "other.data")
    with watched(spark, tmp_path / "in", tmp_path / "out", late_s=5.0) as running:
        until(running, lambda: running.sink.counts["windows"] >= 3)
    assert running.sink.counts["records"] == 30
    assert running.sink.reasons == {}


def test_alerts_that_wait_are_told_in_silence_when_a_watch_ends_and_when_it_goes_on(spark, tmp_path):
    now, output = datetime.now(UTC), tmp_path / "out"
    one, other = (
        Alert(id=name, window_start=now, window_end=now, kind="drift", subject="a", measured=2.0, bound=1.0, n=10)
        for name in ("one", "other")
    )

    ann = Wishes(client_id="ann", filters=("$firelane/alerts",), expiry_s=600)

    def told(seconds=20.0):
        with BrokerSession(address, ann) as session:
            got = session.receive(seconds)
            session.acknowledge(got)
        return [json.loads(message.payload)["id"] for message in got]

    with broker_in(tmp_path) as address:
        assert told(0.1) == []
        with watched(spark, address, output) as running:
            running.teller._again_s = math.inf  # as if the broker had just been away
            running.teller.tell([one], query="drift", batch=1)
            assert running.teller.waiting == 1
        assert told() == ["one"]
        with watched(spark, address, output) as running:
            running.teller._again_s = math.inf
            running.teller.tell([replace(one, id="silent")], query="drift", batch=2)
            running.check()
            assert running.teller.waiting == 1
            running.teller._again_s = 0.0  # no data comes, but time has passed
            running.check()
            assert running.teller.waiting == 0
            assert told() == ["silent"]
        nobody = {"address": Address(host="127.0.0.1", port=9), "topic": "a", "client_id": "a", "complain": print}
        Teller(output / "alerts", output / ".watch" / "untold.parquet", **nobody).tell([other], query="drift", batch=3)
        with watched(spark, address, output):
            assert told() == ["other"]


def test_two_watches_do_not_share_an_output_and_other_settings_are_refused(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("firelane.pipeline.watch.output.PATIENCE_S", 0.1)
    (tmp_path / "in").mkdir()
    twin = watched(spark, tmp_path / "in", tmp_path / "out")
    taken = pytest.raises(FirelaneError, match="another watch is using this folder")
    with watched(spark, tmp_path / "in", tmp_path / "out"), taken, twin:
        pass
    other = watched(spark, tmp_path / "in", tmp_path / "out", window_s=20.0)
    with pytest.raises(FirelaneError, match=r"was begun with window_s 10\.0, not 20\.0"), other:
        pass


def test_a_broker_that_is_not_there_is_one_line(spark, tmp_path):
    nobody = watched(spark, Address(host="127.0.0.1", port=9), tmp_path / "out")
    with pytest.raises(FirelaneError, match=r"^mqtt://127.0.0.1:9: connection refused$"), nobody:
        pass
