"""A broker that starts while the registry is away serves its own clients, and joins the others once it is there."""

from __future__ import annotations

from contextlib import contextmanager

import paho.mqtt.client as paho
import pytest

from live.overlay.cluster import cluster, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]


@contextmanager
def client(member, name, wants=None):
    heard = []
    one = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    one.on_message = lambda client, data, message: heard.append(message.payload)
    one.connect("127.0.0.1", member.port)
    one.loop_start()
    if wants is not None:
        one.subscribe(wants, 1)
    try:
        yield one, heard
    finally:
        one.disconnect()
        one.loop_stop()


def test_an_edge_starts_without_its_registry_and_joins_when_that_is_there(tmp_path):
    with cluster(tmp_path, routers=("r1",)) as whole:
        a, b = whole["a"], whole["b"]
        with client(b, "ben", "alarm") as (_, heard), client(a, "ann") as (ann, _):
            until(lambda: ann.publish("alarm", b"first", qos=1) and heard)  # now its edge is known to want it
        b.kill()
        for server in whole.servers:
            server.kill()
        b.start()
        with client(b, "ben", "alarm") as (ben, heard), client(a, "ann") as (ann, _):
            ben.publish("alarm", b"here", qos=1).wait_for_publish(5)
            until(lambda: b"here" in heard)
            until(lambda: "does not answer" in b.output.read_text())
            ann.publish("alarm", b"from afar", qos=1).wait_for_publish(5)
            for server in whole.servers:
                server.start()
            until(lambda: b"from afar" in heard)
            until(lambda: "answers\n" in b.output.read_text())
            assert heard.count(b"here") == 1
