"""The control loop of a served exchange with real clients: floods, phases, alerts, and what is known of it later."""

from __future__ import annotations

import json
import signal
import threading
import time

import httpx
import paho.mqtt.client as paho
import pyarrow.dataset as ds
import pytest

from live.brokers import firelane

pytestmark = pytest.mark.slow

SITE = """
name: site
links:
  uplink: {bandwidth: 400 kbps, buffer: 200}
subscribers:
  post: {link: uplink, match: {client_id: post}, subscribes: {alarms: {weight: 10, max_delay: 200 ms}, video: {}}}
exchange:
  phases:
    search: [{filter: video, need: {weight: 50}}]
"""
SIZE = 200


class Publisher(threading.Thread):
    """Publishes on two topics at rates that the test may change."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.rates = {"alarms": 20.0, "video": 40.0}
        self.going = True
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, "source")
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def run(self):
        owed, last = dict.fromkeys(self.rates, 0.0), time.monotonic()
        while self.going:
            time.sleep(0.01)
            now = time.monotonic()
            for topic, rate_hz in self.rates.items():
                owed[topic] += rate_hz * (now - last)
                for _ in range(int(owed[topic])):
                    self.client.publish(topic, bytes(SIZE))
                owed[topic] %= 1
            last = now

    def stop(self):
        self.going = False
        self.join()
        self.client.disconnect()
        self.client.loop_stop()


class Site:
    """A served exchange with a subscriber and a publisher, and questions to it."""

    def __init__(self, broker):
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{broker.http_port}", timeout=10)
        self.post = paho.Client(paho.CallbackAPIVersion.VERSION2, "post")
        self.post.connect("127.0.0.1", broker.port)
        self.post.subscribe([("alarms", 0), ("video", 0)])
        self.post.loop_start()
        self.source = Publisher(broker.port)
        self.source.start()

    def decisions(self, **narrowed):
        answer = self.http.get("/api/v1/decisions", params=narrowed)
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]

    def plans(self):
        """The plans that were applied, the oldest first."""
        return [one for one in reversed(self.decisions()) if one["version"] != one["version_before"]]

    def until(self, what, seconds=60.0):
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, self.decisions()
            time.sleep(0.05)

    def close(self):
        self.source.stop()
        self.post.disconnect()
        self.post.loop_stop()
        self.http.close()


@pytest.fixture
def served(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    with firelane(tmp_path, str(path)) as broker:
        site = Site(broker)
        try:
            yield broker, site
        finally:
            site.close()


def test_a_flood_takes_two_plans_at_most_a_phase_one_and_all_is_known_after_kill_9(served):
    broker, site = served
    site.until(lambda: any(one["verdict"] == "kept" for one in site.decisions()))
    before = len(site.plans())

    site.source.rates["video"] = 1000.0  # four times what the link carries
    site.until(lambda: len(site.plans()) > before)
    time.sleep(8.0)
    flood = site.plans()[before:]
    assert 1 <= len(flood) <= 2
    assert flood[0]["kind"] in ("load", "bound")
    assert flood[-1]["predicted"]["missed"] == 0
    rows = {row["filter"]: row for row in site.http.get("/api/v1/metrics").json()["subscriptions"]}
    assert rows["alarms"]["success"] > 0.99
    assert rows["alarms"]["delay_mean_s"] < 0.2
    assert rows["video"]["success"] < 0.5

    site.until(lambda: site.decisions()[0]["verdict"] != "pending")
    before = len(site.plans())
    answer = site.http.post("/api/v1/phase", json={"phase": "search"})
    assert answer.status_code == 200, answer.text
    site.until(lambda: len(site.plans()) > before)
    time.sleep(4.0)
    (phase,) = site.plans()[before:]
    assert (phase["kind"], phase["phase"]) == ("phase", "search")

    known = {one["id"]: one for one in site.decisions()}
    time.sleep(0.5)
    broker.kill()
    rows = ds.dataset(broker.data_dir / "decisions", format="parquet").to_table().to_pylist()
    kept = {row["id"]: row for row in rows}
    assert kept.keys() >= known.keys()
    for key, one in known.items():
        assert (kept[key]["kind"], kept[key]["cause"], kept[key]["version"]) == (
            one["kind"],
            one["cause"],
            one["version"],
        )
    assert any(row["measured"] is not None for row in kept.values())


def test_an_alert_that_is_published_is_a_cause(served):
    _, site = served
    site.until(lambda: site.decisions() and site.http.get("/api/v1/plan").json()["version"])
    alert = {"id": "w1", "kind": "bound", "subject": "post alarms", "measured": 0.4, "bound": 0.2}
    for _ in range(2):
        site.source.client.publish("$firelane/alerts", json.dumps(alert))
    site.until(lambda: site.decisions(kind="alert"))
    time.sleep(2.0)
    (one,) = site.decisions(kind="alert")
    assert one["cause"] == "bound of post alarms: 0.4 measured, bound 0.2"
    text = site.http.get("/metrics").text
    assert 'firelane_decisions_total{kind="alert"} 1' in text


def test_requirements_that_cannot_be_planned_for_and_a_data_set_that_is_not_there_leave_the_last_plan(tmp_path):
    """By reloading: first it plans by prediction, then by what is missing, then by prediction again."""
    path = tmp_path / "site.yaml"
    categories = """
categories: {calls: {max_delay: 200 ms, max_loss: 0 %}, film: {max_loss: 90 %}}
topics: {alarms: {size: 200 B}, video: {size: 200 B}}
publishers: {source: {publishes: {alarms: 20 Hz, video: 40 Hz}}}
"""
    text = SITE.replace("{weight: 10, max_delay: 200 ms}", "{category: calls}").replace(
        "video: {}", "video: {category: film}"
    )
    plain = text.replace("exchange:\n", categories + "exchange:\n  control: {planner: plan}\n")
    path.write_text(plain)
    with firelane(tmp_path, str(path)) as broker:
        site = Site(broker)
        got = []
        site.post.on_message = lambda *one: got.append(one[2].topic)
        try:
            site.until(site.plans)
            for wrong, named in (
                (
                    plain.replace("planner: plan", f"planner: plan, data: {tmp_path}/nowhere"),
                    "there is no such data set",
                ),
                (plain.replace("max_delay: 200 ms, max_loss", "max_delay_p95: 200 ms, max_loss"), "percentiles"),
            ):
                version = site.http.get("/api/v1/plan").json()["version"]
                path.write_text(wrong)
                broker.process.send_signal(signal.SIGHUP)
                site.until(lambda named=named: named in broker.output.read_text())
                assert "the old one stays" in broker.output.read_text()
                assert site.http.get("/api/v1/plan").json()["version"] == version
                count = len(got)
                site.until(lambda count=count: len(got) > count + 10)
                assert site.decisions()[0]["verdict"] == "failed"
            path.write_text(plain)
            broker.process.send_signal(signal.SIGHUP)
            site.until(lambda: site.http.get("/api/v1/plan").json()["version"] > version)
        finally:
            site.close()
