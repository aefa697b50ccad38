"""A keep alive that the server imposes (section 3.2.2.3.14)."""

from __future__ import annotations

import time

import pytest

from firelane.mqtt.reasons import Reason
from live.brokers import firelane, mosquitto
from live.conformance.statements import statement

SHORTEST_S = {"mosquitto": 10, "firelane": 1}  # that can be imposed


@pytest.fixture(scope="module", params=SHORTEST_S)
def broker(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "mosquitto":
        started = mosquitto(folder, max_keepalive=SHORTEST_S["mosquitto"])
    else:
        started = firelane(folder, "--set", f"exchange.keep_alive={SHORTEST_S['firelane']}s")
    with started as broker:
        yield broker


@statement("MQTT-3.1.2-21", "MQTT-3.2.2-21")
@pytest.mark.parametrize("asked_s", [0, 65_535])
def test_an_imposed_keep_alive_is_told_to_the_client(broker, join, asked_s):
    assert join(keep_alive_s=asked_s).connack.properties["server_keep_alive"] == SHORTEST_S[broker.name]


@statement("MQTT-3.1.2-22", "MQTT-3.2.2-21")
def test_an_imposed_keep_alive_holds_in_place_of_the_clients(broker, join):
    if SHORTEST_S[broker.name] > 1:
        pytest.skip(f"the shortest that {broker.name} imposes is too long to wait for")
    began = time.monotonic()
    wire = join(keep_alive_s=65_535)
    wire.expect_closed(Reason.KEEP_ALIVE_TIMEOUT)
    assert time.monotonic() - began > 1.4
