"""One broker of each kind for all tests; every test has its own topics and clients."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack, contextmanager

import pytest

from firelane.mqtt.packets import V3, V5
from live.brokers import HOST, accepts, firelane, free_port, mosquitto
from live.wire import Wire, unique


@contextmanager
def with_websocket(name, folder):
    """A broker that listens for MQTT over WebSocket too, at `websocket_port`."""
    if name == "mosquitto":
        port = free_port()
        with mosquitto(folder, listener=f"{port} {HOST}", protocol="websockets") as broker:
            while not accepts(port):
                time.sleep(0.01)
            broker.websocket_port = port
            yield broker
    else:
        with firelane(folder, "--set", "exchange.websocket.port=0", "--set", "exchange.system_interval=1s") as broker:
            broker.websocket_port = int(re.search(r"ws://[\d.]+:(\d+)", broker.output.read_text())[1])
            yield broker


def pytest_configure(config):
    config.addinivalue_line("markers", "statement(*numbers): normative statements that the test checks")
    config.addinivalue_line("markers", "differs(why, version): where mosquitto is known to differ, and why")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "broker" in parameters:
            item.add_marker(pytest.mark.slow)
        for mark in item.iter_markers("differs"):
            version = mark.kwargs["version"]
            if parameters.get("broker") == "mosquitto" and version in (None, parameters.get("version")):
                item.add_marker(pytest.mark.xfail(reason=f"mosquitto: {mark.args[0]}", strict=True))


@pytest.fixture(scope="session", params=["mosquitto", "firelane"])
def broker(request, tmp_path_factory):
    with with_websocket(request.param, tmp_path_factory.mktemp(request.param)) as broker:
        yield broker


@pytest.fixture(params=[V3, V5], ids=["3.1.1", "5"])
def version(request):
    return request.param


@pytest.fixture
def dial(broker):
    """Opens connections, on which nothing has been said yet."""
    with ExitStack() as open_ones:
        strict = broker.name == "firelane"  # to say why one hangs up is good manners (SHOULD), not a duty
        yield lambda version=V5: open_ones.enter_context(Wire(broker.port, version, strict=strict))


@pytest.fixture
def join(dial):
    """Opens connections and introduces a client; its CONNACK is `wire.connack`."""

    def joined(version=V5, client_id=None, **fields):
        wire = dial(version)
        wire.connack = wire.connect(client_id, **fields)
        assert wire.connack.reason == 0
        return wire

    return joined


@pytest.fixture
def topic():
    """A topic that no other test uses."""
    return unique("t")
