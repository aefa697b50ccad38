"""Health, readiness and metrics."""

import paho.mqtt.client as paho
from prometheus_client.parser import text_string_to_metric_families
from web_side import guest, until, web_side

from firelane.scenario.settings import Limits


def measured(side):
    """Every sample as Prometheus would read it: (name, value of its label) -> value."""
    answer = side.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            assert sample.name.startswith("firelane_")
            assert sample.name.endswith("_total") == (family.type == "counter")
            (label,) = sample.labels.values() or ("",)
            assert (sample.name, label) not in found
            found[sample.name, label] = sample.value
    return found


def owed(found):
    return found["firelane_deliveries_owed", ""]


def test_metrics_count_what_clients_did(side):
    with guest(side, "old", version=paho.MQTTv311) as old, guest(side, "new", expiry_s=100) as new:
        old.subscribe("a/#", qos=1)
        new.subscribe("$share/g/b")
        with guest(side, "away", expiry_s=100) as away:
            away.subscribe("a/b", qos=1)
        until(lambda: len(side.items("clients")) == 2)
        for qos in (0, 0, 1, 1, 2):
            new.publish("a/b", b"12345", qos=qos)
        new.publish("a/kept", b"x", retain=True)
        until(lambda: len(old.messages) == 6)
        until(lambda: owed(measured(side)) == 3)
        found = measured(side)
    expected = {
        ("connected_clients", "3.1.1"): 1,
        ("connected_clients", "5"): 1,
        ("connections", ""): 2,
        ("connections_opened_total", ""): 3,
        ("connections_accepted_total", ""): 3,
        ("connections_refused_total", ""): 0,
        ("protocol_errors_total", ""): 0,
        ("sessions", ""): 3,
        ("subscriptions", ""): 3,
        ("shared_subscriptions", ""): 1,
        ("publications_received_total", ""): 6,
        ("publications_received_bytes_total", ""): 26,
        ("deliveries_due_total", ""): 11,
        ("deliveries_delivered_total", ""): 6,
        ("deliveries_dropped_total", "disconnected"): 2,
        ("deliveries_dropped_total", "overflow"): 0,
        # CONNECT, SUBSCRIBE, PUBLISH, PUBREL, PUBACK, DISCONNECT
        ("mqtt_packets_total", "in"): 3 + 3 + 6 + 1 + 4 + 1,
        # CONNACK, SUBACK, PUBACK, PUBREC, PUBCOMP, PUBLISH
        ("mqtt_packets_total", "out"): 3 + 3 + 3 + 1 + 1 + 6,
        ("log_failed", ""): 0,
    }
    for (name, label), value in expected.items():
        assert found[f"firelane_{name}", label] == value, name
    assert found["firelane_mqtt_bytes_total", "in"] > 100
    assert found["firelane_mqtt_bytes_total", "out"] > 100
    assert 0 < found["firelane_log_live_bytes", ""] <= found["firelane_log_bytes", ""]
    assert found["firelane_process_resident_memory_bytes", ""] > 10_000_000
    assert found["firelane_process_open_fds", ""] > 5
    assert found["firelane_process_cpu_seconds_total", ""] > 0


def test_what_is_owed_in_the_metrics_is_what_the_sessions_are_owed(side):
    with guest(side, "a", expiry_s=100) as a, guest(side, "b", version=paho.MQTTv311, expiry_s=100) as b:
        a.subscribe("#", qos=2)
        b.subscribe("#", qos=1)
    with guest(side, "c") as c:
        for number in range(10):
            c.publish(f"t/{number}", b"x", qos=number % 3)
    assert owed(measured(side)) == sum(one["owed"] for one in side.items("sessions")) == 12


def test_more_clients_and_topics_make_no_more_series(side):
    before = set(measured(side))
    for number in range(5):
        with guest(side, f"c{number}", expiry_s=100) as visitor:
            visitor.subscribe(f"t/{number}")
            visitor.publish(f"t/{number}", b"x", retain=True)
    assert set(measured(side)) == before


def test_clients_that_break_the_rules_are_counted(side):
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "", clean_session=True, protocol=paho.MQTTv311)
    client.connect("127.0.0.1", side.mqtt_port)
    client.socket().sendall(b"\xf0\x00")  # AUTH, which is not in 3.1.1, as the very first packet
    until(lambda: measured(side)["firelane_protocol_errors_total", ""] == 1)
    client.socket().close()


def test_an_exchange_that_is_alive_says_so(side):
    assert side.http.get("/healthz").text == "alive\n"
    assert side.http.get("/readyz").text == "ready\n"


def not_ready(side):
    answer = side.http.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert side.http.get("/healthz").status_code == 200
    return answer.json()["detail"]


def test_an_exchange_whose_log_is_full_is_not_ready_but_alive(side):
    side.call(setattr, side.exchange.log, "cap_bytes", 0)
    assert "the log is full" in not_ready(side)


def test_an_exchange_whose_log_cannot_be_written_is_not_ready_but_alive(side, monkeypatch):
    monkeypatch.setattr(type(side.exchange.log), "failed", property(lambda log: "Input/output error"))
    assert "Input/output error" in not_ready(side)
    assert measured(side)["firelane_log_failed", ""] == 1


def test_an_exchange_that_has_all_the_clients_it_may_have_is_not_ready_but_alive(tmp_path):
    with web_side(tmp_path, limits=Limits(connections=2)) as side, guest(side, "a"):
        assert side.http.get("/readyz").status_code == 200
        with guest(side, "b"):
            assert "2 connections" in not_ready(side)
