"""The bottleneck is as narrow as it says, towards subscribers only, and leaves nothing behind."""

import socket

import numpy as np
import pytest

from firelane.reproduce.namespaces import NAMESPACES
from firelane.scenario.routes import routes
from live.lanes.bottleneck import FAR, bottleneck, entered
from live.lanes.load import drive
from live.lanes.scenarios import at_load, planemqx
from live.lanes.schedule import schedule

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("load")]
RATE_BPS = 10e6


@pytest.fixture(scope="module")
def overloaded():
    """Twice what the link carries, for a short while."""
    return schedule(routes(at_load(planemqx(bandwidth_bps=RATE_BPS, overhead_bytes=None), 2.0)), seconds=2, seed=1)


def test_mosquitto_delivers_through_it_no_faster_than_its_rate(overloaded, tmp_path):
    with bottleneck(RATE_BPS) as narrow, narrow.mosquitto(tmp_path) as broker:
        before = narrow.sent_bytes()
        got = drive(overloaded, *narrow.places(broker), broker_pid=broker.process.pid)
        bits = 8 * (narrow.sent_bytes() - before)
    got.check()
    took_s = (got.received_ns.max() - got.sent_ns[0]) / 1e9
    assert 8 * got.size_bytes.sum() < bits  # headers count
    assert bits / took_s < 1.01 * RATE_BPS
    assert took_s > 1.5 * overloaded.seconds
    assert np.median(got.end_to_end_s) > 0.2


def test_firelane_can_run_behind_it(overloaded, tmp_path):
    with bottleneck(100e6) as wide, wide.firelane(tmp_path) as broker:
        drive(overloaded, *wide.places(broker), broker_pid=broker.process.pid).check()


def test_nothing_is_left_even_after_a_failure():
    made = []

    def fail():
        with bottleneck(RATE_BPS) as narrow:
            made.extend((NAMESPACES / narrow.near, NAMESPACES / narrow.far))
            assert all(one.exists() for one in made)
            raise RuntimeError("on purpose")

    before = socket.if_nameindex()
    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert len(made) == 2
    assert not any(one.exists() for one in made)
    assert socket.if_nameindex() == before


def test_a_thread_comes_home_and_its_sockets_stay():
    with bottleneck(RATE_BPS) as narrow:
        with entered(narrow.far), socket.create_server((FAR, 0)) as listener:
            with entered(narrow.near):
                socket.create_connection(listener.getsockname(), timeout=5).close()
            listener.accept()[0].close()
        with pytest.raises(OSError, match="assign"):
            socket.create_server((FAR, 0))
