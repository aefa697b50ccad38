"""Kills and pauses under load: nothing acknowledged is lost, QoS 2 comes once and in order, traffic is soon back."""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest

from live.overlay.cluster import cluster, until
from live.overlay.history import History, Publisher, Subscriber

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zookeeper")]

TOPICS = {"plain/1": 1, "plain/2": 1, "once/1": 2, "once/2": 2}
BACK_S = 5.0  # after a failure was noticed; on a quiet machine less than one
SILENT_S = 2.0  # until a router that hangs is taken for dead
CALM_S = 2.0


def kill_router(whole, chance):
    chance.choice(whole.routers).kill()
    return 0.0


def pause_router(whole, chance):
    chosen = chance.choice(whole.routers)
    chosen.pause()
    whole.paused.append(chosen)
    return SILENT_S


def kill_leader(whole, chance):
    whole.leader.kill()
    return 0.0


def restart_receiving_edge(whole, chance):
    whole["b"].kill()
    whole["b"].start()
    return 60.0  # as long as starting takes


def restart_sending_edge(whole, chance):
    whole["a"].kill()
    whole["a"].start()
    return 60.0


def lose_zookeeper(whole, chance):
    for server in whole.servers:
        server.kill()
    time.sleep(4.0)
    for server in whole.servers:
        server.start()
    return 0.0


FAULTS = [kill_router, pause_router, kill_leader, restart_receiving_edge, restart_sending_edge, lose_zookeeper]


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_fails_nothing_is_lost_or_doubled_and_traffic_is_soon_back(tmp_path, fault):
    chance, history = random.Random(fault.__name__), History()
    with cluster(tmp_path) as whole:
        whole.paused = []
        ben = Subscriber(history, "ben", whole["b"].port, "#")
        until(lambda: whole["a"].state()["registry"]["edges"]["b"]["filters"] == 1)
        publisher = Publisher(history, whole["a"].port, TOPICS)
        until(lambda: len(history.arrived["ben", "once/1"]) > 20)
        time.sleep(chance.uniform(0.0, 1.0))
        failed_at = time.monotonic()
        noticed_s = fault(whole, chance)
        time.sleep(CALM_S + min(noticed_s, SILENT_S))
        for one in whole.paused:
            one.resume()
        publisher.stop()
        with suppress(AssertionError):
            until(lambda: not history.problems(["ben"]))
        time.sleep(0.5)  # for what might come twice
        ben.stop()
    assert history.problems(["ben"]) == []
    assert sum(map(len, history.acknowledged.values())) > 200
    silence_s = history.silence_s("ben", failed_at)
    print(f"silent for {silence_s:.2f} s, of which {noticed_s:g} s may pass until it is noticed")
    assert silence_s < noticed_s + BACK_S


def test_the_checker_sees_what_is_wrong():
    history = History()
    history.qos |= {"once": 2, "plain": 1}
    history.acknowledged |= {"once": {1, 2, 3}, "plain": {1, 2}}
    history.arrived |= {("ben", "once"): [1, 2, 3], ("ben", "plain"): [1, 1, 2]}
    assert history.problems(["ben"]) == []
    history.arrived["ben", "once"] = [1, 3]
    assert history.problems(["ben"]) == ["ben never got once [2], 1 in all"]
    history.arrived["ben", "once"] = [1, 2, 2, 3]
    assert history.problems(["ben"]) == ["ben got once [2] more than once"]
    history.arrived["ben", "once"] = [2, 1, 3]
    assert history.problems(["ben"]) == ["ben got once 1 after 2"]
