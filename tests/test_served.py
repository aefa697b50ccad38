"""An exchange as a process of its own: it answers, says in one line what is wrong, and never outlives its starter."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from child_processes import children, running
from firelane.errors import FirelaneError
from firelane.metrics import DROP_REASONS
from firelane.scenario import from_data
from firelane.scenario.plan import plain_plan
from firelane.scenario.routes import routes
from firelane.scenario.save import save
from firelane.served import HOST, Counts, Exchange, served, starting

SMALL = {
    "name": "small",
    "links": {"own": {"bandwidth": "800 kbit/s"}},
    "topics": {"room/a": {"size": "250 B"}},
    "publishers": {"one": {"publishes": {"room/a": 100.0}}},
    "subscribers": {"first": {"link": "own", "subscribes": {"room/a": {"weight": 2}}}},
}


@pytest.fixture(scope="module")
def small():
    return routes(from_data(SMALL))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary files go meanwhile."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def ended(pid, within_s=10.0):
    """Whether a process is gone, or at most waits for whoever inherited it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not running(pid):
            return True
        time.sleep(0.05)
    return False


@contextmanager
def answering(raw):
    """Something that says this to whoever asks, once, and hangs up."""
    with socket.create_server((HOST, 0)) as server:

        def answer():
            asking, _ = server.accept()
            with asking:
                asking.recv(4096)
                asking.sendall(raw)

        thread = Thread(target=answer)
        thread.start()
        yield Exchange(pid=0, mqtt_port=0, http_port=server.getsockname()[1])
        thread.join()


# ------------------------------------------------------------------------------------------------ what it says


def test_drops_count_whatever_their_reason():
    assert Counts(due=10, delivered=4, dropped={"policy": 2, "overflow": 3}, queued=1).dropped_total == 5


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "does not answer: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "does not answer: "),
        (b"HTTP/1.1 503 No\r\nContent-Length: 8\r\n\r\ntoo busy", "refused GET /api/v1/plan: too busy"),
    ],
    ids=["nothing", "half", "no"],
)
def test_a_bad_answer_is_an_error_in_one_line(raw, problem):
    with answering(raw) as exchange, pytest.raises(FirelaneError, match=problem):
        exchange.plan()


def test_who_is_not_there_does_not_answer():
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    gone = Exchange(pid=process.pid, mqtt_port=0, http_port=port)
    with pytest.raises(FirelaneError, match=r"does not answer: .*refused"):
        gone.counts()
    assert gone.processor_s() is None


def test_processor_time_is_finer_than_the_ticks_of_which_the_kernel_tells():
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint('burnt', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        it = Exchange(pid=process.pid, mqtt_port=0, http_port=0)
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        assert process.stdout.readline() == b"burnt\n"
        time.sleep(0.1)  # it waits for its input now
        exact_s = it.processor_s()
        assert abs(exact_s - process_ticks(process.pid) * tick_s) <= 2 * tick_s  # user and system, each cut off
        assert exact_s * os.sysconf("SC_CLK_TCK") % 1
        assert it.processor_s() == exact_s
        process.stdin.close()


def process_ticks(pid):
    """User and system time, as proc(5) has it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.slow
def test_it_keeps_to_its_plan_and_answers_what_it_is_asked(small):
    with served(small.scenario, plain_plan(small)) as exchange:
        first = exchange.plan()
        exchange.apply(plain_plan(small))
        assert exchange.plan()["version"] == first["version"] + 1
        assert exchange.plan()["made_by"] == first["made_by"] == "plain"
        assert exchange.counts() == Counts(due=0, delivered=0, dropped=dict.fromkeys(DROP_REASONS, 0), queued=0)
        assert exchange.metrics()["subscriptions"] == []
        assert exchange.processor_s() > 0


# ------------------------------------------------------------------------------------- how it starts and ends


@pytest.mark.slow
def test_two_start_side_by_side(small, folder):
    before = children()
    with starting(small.scenario) as one, starting(small.scenario, plain_plan(small)) as other:
        assert len(children() - before) == 2
        both = one(), other()
        assert len({exchange.http_port for exchange in both}) == 2
        assert all(exchange.counts().due == 0 for exchange in both)
    assert children() <= before
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_it_ends_whatever_goes_wrong(small, folder):
    with pytest.raises(ZeroDivisionError), served(small.scenario, plain_plan(small)) as exchange:
        raise ZeroDivisionError
    assert ended(exchange.pid, within_s=0.1)
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_it_ends_when_whoever_started_it_is_killed(small, tmp_path):
    save(small.scenario, tmp_path / "small.yaml")
    script = (
        "import sys, time; from firelane.scenario import load; from firelane.served import served\n"
        "with served(load(sys.argv[1])) as exchange:\n"
        "    print(exchange.pid, flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "small.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)}) as process:
        try:
            pid = int(process.stdout.readline())
        finally:
            process.kill()
    try:
        assert ended(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_one_that_cannot_start_says_why_in_one_line(small, folder, monkeypatch):
    before = children()
    monkeypatch.setattr("firelane.served.SETTINGS", ("durability=nonsense",))
    with pytest.raises(FirelaneError, match=r"did not start: .*durability"), served(small.scenario):
        pass
    assert children() <= before
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_it_takes_settings_and_an_address(small, folder):
    settings = ("limits.clients=0",)
    with pytest.raises(FirelaneError, match=r"did not start: .*clients"), served(small.scenario, settings=settings):
        pass
    with served(small.scenario, host="127.0.0.3") as exchange:
        socket.create_connection(("127.0.0.3", exchange.mqtt_port), timeout=10).close()


@pytest.mark.slow
def test_one_that_is_never_ready_is_given_up(small, folder, monkeypatch):
    before = children()
    monkeypatch.setattr("firelane.served.START_S", 0.2)
    monkeypatch.setattr("firelane.served.ATTACHED", "import time; time.sleep(60)")
    with pytest.raises(FirelaneError, match=r"did not start: not ready within 0.2 s"), served(small.scenario):
        pass
    assert children() <= before


@pytest.mark.slow
def test_one_that_does_not_stop_is_ended(small, tmp_path, monkeypatch):
    too_late = tmp_path / "too-late"
    stubborn = (
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('mqtt://there:1 http://there:2', flush=True); time.sleep(20)\n"
        f"pathlib.Path({str(too_late)!r}).touch()\n"
    )
    monkeypatch.setattr("firelane.served.STOP_S", 0.2)
    monkeypatch.setattr("firelane.served.ATTACHED", stubborn)
    with served(small.scenario) as exchange:
        assert (exchange.mqtt_port, exchange.http_port) == (1, 2)
    assert ended(exchange.pid, within_s=0.1)
    assert not too_late.exists()
