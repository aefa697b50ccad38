"""A real exchange with a thin link, known traffic, and what the jobs make of the records it leaves behind."""

from __future__ import annotations

import re
import time

import httpx
import pyarrow.parquet as pq
import pytest

from firelane.pipeline.jobs import deliveries, subscriptions
from live.brokers import firelane
from live.test_telemetry import Client, until

pytestmark = pytest.mark.slow

COUNT = 400
SCENARIO = """
name: site
links:
  thin: {bandwidth: 200 kbps, buffer: 30}
subscribers:
  ann: {link: thin, subscribes: {a/#: {}}}
"""


def totals(broker):
    """What the exchange counted itself: {name or name{label}: value}."""
    text = httpx.get(f"http://{broker.host}:{broker.http_port}/metrics").text
    return {name: float(value) for name, value in re.findall(r"^firelane_(\S+) (\S+)$", text, re.MULTILINE)}


def test_the_tables_agree_with_the_clients_and_with_the_exchange(spark, tmp_path):
    (tmp_path / "site.yaml").write_text(SCENARIO)
    began_s = time.time()
    with firelane(
        tmp_path, str(tmp_path / "site.yaml"), "--set", "exchange.telemetry.sampling=100%",
        "--set", "exchange.telemetry.roll=1s",
    ) as broker:  # fmt: skip
        ann, ben, publisher = Client(broker, "ann"), Client(broker, "ben"), Client(broker, "publisher")
        ann.subscribe("a/#")
        ben.subscribe("a/+", 1)
        for number in range(COUNT):
            publisher.paho.publish(f"a/{number % 4}", b"x" * 150, qos=1)
        until(lambda: len(ben.got) == COUNT)
        until(lambda: totals(broker)["deliveries_owed"] == 0, seconds=30)
        counted = totals(broker)
        until(lambda: len(ann.got) == counted["deliveries_delivered_total"] - COUNT)
        for one in (ann, ben, publisher):
            one.leave()
    result = deliveries(spark, source=broker.data_dir, output=tmp_path / "out", window_s=10)
    rows = pq.read_table(tmp_path / "out" / "metrics").to_pylist()
    assert result.rejects == {}
    assert len(ann.got) < COUNT  # or the link was not thin

    def sums(column, **only):
        chosen = [row for row in rows if all(row[name] == value for name, value in only.items())]
        return sum(row[column] * (row["window_s"] if column.endswith("_hz") else 1) for row in chosen)

    for client, topic_filter in ((ann, "a/#"), (ben, "a/+")):
        name = client.paho._client_id.decode()
        assert {row["filter"] for row in rows if row["subscriber"] == name} == {topic_filter}
        assert sums("offered_hz", subscriber=name) == pytest.approx(COUNT, rel=1e-12)
        assert sums("delivered_hz", subscriber=name) == pytest.approx(len(client.got), rel=1e-12)
    dropped = {name[len("dropped_") :]: sums(name) for name in rows[0] if name.startswith("dropped_")}
    assert dropped == {why: counted[f'deliveries_dropped_total{{reason="{why}"}}'] for why in dropped}
    waited_s = sum(row["delay_mean_s"] * row["delivered_hz"] * row["window_s"] for row in rows if row["delay_mean_s"])
    assert waited_s == pytest.approx(
        sum(v for k, v in counted.items() if k.startswith("delay_seconds_total")), rel=1e-3
    )
    loads = pq.read_table(tmp_path / "out" / "loads").to_pylist()
    for topic in ("a/0", "a/1", "a/2", "a/3"):
        due = sum(row["messages_hz"] * 10 for row in loads if row["topic"] == topic)
        assert due == pytest.approx(2 * COUNT / 4, rel=1e-12)

    subscriptions(spark, source=broker.data_dir, output=tmp_path / "members")
    members = pq.read_table(tmp_path / "members" / "loads").to_pylist()
    minutes = range(int(began_s // 60) * 60, int(time.time()) + 1, 60)
    assert {row["topic"]: row["subscribers"] for row in members} == {"a/#": 1, "a/+": 1}
    assert {row["time_s"] for row in members} <= set(minutes)
