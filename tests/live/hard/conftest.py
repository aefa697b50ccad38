"""A broker of its own for every test of this folder, and a witness who must stay served."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from firelane.mqtt.packets import V5
from live.brokers import firelane
from live.hard.witness import Witness
from live.wire import Wire


@pytest.fixture
def broker(request, tmp_path):
    """Firelane's exchange, with the settings that a test asks for by `settings`; it must not stumble over anything."""
    mark = request.node.get_closest_marker("settings")
    # Telemetry has bounds of its own, with tests of their own: here it is the broker that is weighed.
    wanted = ("exchange.telemetry.files=false", *(mark.args if mark else ()))
    settings = [argument for one in wanted for argument in ("--set", one)]
    with firelane(tmp_path, *settings) as broker:
        yield broker
        assert broker.process.poll() is None
        assert "Traceback" not in broker.output.read_text()


@pytest.fixture
def witness(broker):
    with Witness(broker) as witness:
        witness.wait(3)
        yield witness
        witness.wait(3)


@pytest.fixture
def join(broker):
    """Opens connections and introduces a client."""
    with ExitStack() as open_ones:

        def joined(client_id=None, version=V5, **fields):
            wire = open_ones.enter_context(Wire(broker.port, version))
            assert wire.connect(client_id, **fields).reason == 0
            return wire

        yield joined


def pytest_configure(config):
    config.addinivalue_line("markers", "settings(*texts): settings of the exchange, as `--set` takes them")
