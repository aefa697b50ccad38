"""What one does on a shared link costs the others nothing: overload, a client that stops reading, a long replay."""

import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from firelane.metrics import DROP_REASONS
from firelane.mqtt.encode import encode
from firelane.mqtt.packets import V5, Ack, Publish
from firelane.scenario import from_data
from firelane.scenario.model import Need, Subscriber
from firelane.scenario.routes import routes
from live.lanes.clients import Client, Place
from live.lanes.page import note
from live.lanes.scenarios import LINK, at_load, lanes, nine_classes
from live.lanes.schedule import schedule
from live.lanes.served import Asked, check_law, close, judged, live, run, served

pytestmark = pytest.mark.xdist_group("load")

BUFFER = 60
SHARE = 0.05


def crowded(classes, **link):
    """Sixteen topics with two subscribers each at twice the capacity of a link, spread over so many classes."""
    names = [f"room/{n:02}" for n in range(16)]
    data = {
        "name": "crowded",
        "priorities": 16,
        "links": {LINK: {"bandwidth": 4e6, "buffer": BUFFER, **link}},
        "topics": {name: {"size": 500} for name in names},
        "publishers": {"floor": {"publishes": dict.fromkeys(names, 10.0)}},
        "subscribers": {f"user-{n}": {"link": LINK, "subscribes": dict.fromkeys(names)} for n in range(2)},
    }
    network = routes(at_load(from_data(data), 2.0))
    return network, lanes(network, [names.index(f) * classes // 16 for f in network.filters], made_by="by topic")


# ------------------------------------------------------------------------------------------------------- the buffer


class Watched:
    """How many messages wait on the link, asked for again and again."""

    def __init__(self, asked):
        self.queued, self._asked, self._done = [], asked, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self._done.wait(0.05):
            self.queued.append(sum(row["queued"] for row in self._asked.metrics()["subscriptions"]))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("classes", [1, 16])
def test_the_bound_of_the_buffer_holds_over_all_classes_together(classes, tmp_path):
    network, plan = crowded(classes)
    with served(tmp_path, network.scenario, plan) as broker, Watched(Asked(broker.http_port)) as watched:
        asked, pid = Asked(broker.http_port), broker.process.pid
        one = run(schedule(network, seconds=3, seed=1), plan, Place(port=broker.port), asked=asked, pid=pid)
    check_law(one)
    assert max(watched.queued) <= BUFFER
    assert max(watched.queued) > 0.9 * BUFFER  # and it is used
    success = [row.success for row in one.rows()]
    assert min(success[: max(1, classes // 4)]) == (1 if classes > 1 else pytest.approx(0.5, abs=0.1))
    result = f"at most {max(watched.queued)} of {BUFFER} waited"
    note("fairness", f"Buffer at twice the capacity, {classes} class{'es' * (classes > 1)}", {"result": result})


@pytest.mark.slow
def test_a_guaranteed_low_class_is_never_starved(tmp_path):
    lowest, seconds = 15, 5
    network, plan = crowded(16, guaranteed={lowest: SHARE})
    one = live(tmp_path, schedule(network, seconds=seconds, seed=1), plan)
    check_law(one)
    _, priority, _ = plan.per_subscription(network)
    mine = (priority[one.got.subscription(plan)] == lowest) & (one.got.received_ns - one.got.started_ns < seconds * 1e9)
    share = one.got.service_s[mine].sum() / seconds
    gaps_s = np.diff(np.sort(one.got.received_ns[mine])) / 1e9
    print(f"share {share:.4f}, longest gap {gaps_s.max():.3f} s", *one.rows(), sep="\n")
    assert share > 0.9 * SHARE
    assert gaps_s.max() < 1.0
    others = [row.success for row in one.rows()]
    assert others[0] == 1
    assert others[lowest - 1] < 0.1  # which has no guarantee
    result = f"{100 * share:.1f} % of the link, never {1000 * gaps_s.max():.0f} ms without a message"
    note(
        "fairness", f"Lowest of 16 classes with {100 * SHARE:.0f} % guaranteed, twice the capacity", {"result": result}
    )


# ------------------------------------------------------------------------------------------------ who stops reading


def with_another(network, plan, name, filters, klass):
    """The scenario with one more subscriber on the link, and the plan for it."""
    scenario = network.scenario
    wanted = Subscriber(link=LINK, subscribes=dict.fromkeys(filters, Need()))
    scenario = replace(scenario, subscribers=scenario.subscribers | {name: wanted})
    more = routes(scenario)
    known = dict(zip(zip(plan.subscriber, plan.filter, strict=True), plan.flow_priority.tolist(), strict=True))
    names = [more.subscribers[one] for one in more.subscription_subscriber.tolist()]
    classes = [known.get(key, klass) for key in zip(names, more.filters, strict=True)]
    return scenario, lanes(more, classes, made_by="with another")


class Stalled(Client):
    """A subscriber with little room for what it gets, and that reads none of it."""

    def __init__(self, place, name, filters):
        super().__init__(_Small(port=place.port), name)
        self.subscribe(filters)


class _Small(Place):
    __slots__ = ()

    def connected(self):
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(10)
        link.connect((self.host, self.port))
        return link


@pytest.mark.slow
def test_a_best_class_subscriber_that_stops_reading_changes_nobodys_delay(tmp_path):
    network, plan = nine_classes(0.8)
    planned_load = schedule(network, seconds=6, seed=1)
    scenario, larger = with_another(network, plan, "stalled", network.topics[:9], 0)

    def attempt(n):
        before = live(tmp_path / f"without-{n}", planned_load, plan)
        with served(tmp_path / f"with-{n}", scenario, larger) as broker:
            place, asked = Place(port=broker.port), Asked(broker.http_port)
            stalled = Stalled(place, "stalled", network.topics[:9])
            after = run(planned_load, plan, place, asked=asked, pid=broker.process.pid)
            stalled.leave()
        return before, after

    def check(before, after):
        check_law(before, lossless=True)
        its_own = [row for row in after.metrics["subscriptions"] if row["subscriber"] == "stalled"]
        after.metrics["subscriptions"] = [row for row in after.metrics["subscriptions"] if row not in its_own]
        check_law(after, lossless=True)
        assert sum(row["queued"] for row in its_own) > 100, "it did not stall"
        for one, other, same in zip(before.rows(), after.rows(), after.same_rows(), strict=True):
            assert close(other.mean_s, one.mean_s), f"{before}\n{after}"
            assert close(other.mean_s, same.mean_s), after

    before, after = judged(attempt, check)
    changes = [b.mean_s / a.mean_s - 1 for a, b in zip(before.rows(), after.rows(), strict=True)]
    print(before, after, sep="\n")
    result = f"mean delays of nine classes changed by {100 * min(changes):+.1f} to {100 * max(changes):+.1f} %"
    note("fairness", "A best-class subscriber stops reading, load 0.8", {"result": result})


# ---------------------------------------------------------------------------------------------------- a long replay

RETAINED = 100_000


def retain(place):
    """Many retained messages, and the word that all of them are there."""
    publisher = Client(place, "archivist")
    for start in range(0, RETAINED, 1000):
        several = [Publish(topic=f"kept/{n}", payload=b"x" * 20, retain=True) for n in range(start, start + 1000)]
        publisher.link.sendall(b"".join(encode(one, V5) for one in several))
    publisher.ask(Publish(topic="kept/0", payload=b"x", retain=True, qos=1, packet_id=1), Ack)
    publisher.leave()


@contextmanager
def subscriber_of_everything(port, output):
    """A program of its own that writes the topic of everything it gets, a line each."""
    command = ["mosquitto_sub", "-p", str(port), "-V", "mqttv5", "-i", "history", "-t", "#", "-F", "%t"]
    with output.open("wb") as file, subprocess.Popen(command, stdout=file) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.mark.parametrize("klass", [pytest.param(0, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.soak)])
def test_a_subscriber_of_everything_that_replays_100_000_messages_evicts_nobody(klass, tmp_path):
    network, plan = nine_classes(0.5)
    small = {LINK: replace(network.scenario.links[LINK], buffer_messages=200)}
    network = routes(replace(network.scenario, links=small))
    planned_load = schedule(network, seconds=6, seed=1)
    scenario, larger = with_another(network, plan, "history", ["#"], klass)
    output = tmp_path / "everything.txt"
    with served(tmp_path, scenario, larger) as broker:
        place, asked = Place(port=broker.port), Asked(broker.http_port)
        retain(place)
        with subscriber_of_everything(broker.port, output):
            one = run(planned_load, plan, place, asked=asked, pid=broker.process.pid)
            during = output.read_bytes().count(b"kept/")
            wait_until(lambda: output.read_bytes().count(b"kept/") >= RETAINED)
            rows = asked.metrics()["subscriptions"]
    history = [row for row in one.metrics["subscriptions"] if row["subscriber"] == "history"]
    one.metrics["subscriptions"] = [row for row in one.metrics["subscriptions"] if row not in history]
    check_law(one, lossless=True)
    assert all(row[f"dropped_{reason}"] == 0 for row in [*history, *rows] for reason in DROP_REASONS)
    assert during > 1000  # while the others had their say
    assert output.read_bytes().count(b"kept/") == RETAINED
    assert output.read_bytes().count(b"room/") == len(planned_load.at_s)
    print(one)
    result = f"nobody lost anything with a buffer of 200; {during} came while the others were served at load 0.5"
    note("fairness", f"100 000 retained messages for a subscriber of `#` in class {klass}", {"result": result})


def wait_until(true):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)
