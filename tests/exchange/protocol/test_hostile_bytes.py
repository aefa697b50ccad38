"""Bytes of any kind, in pieces of any size: nobody else notices, and the size of the pieces does not matter."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from desk import Desk
from hypothesis import given, settings
from hypothesis import strategies as st
from some_packets import chunks, damaged, streams, versions

from firelane.mqtt.packets import V3, V5

LIMITS = {"queue": 4, "inflight": 3, "topic_aliases": 2, "packet_bytes": 1000}

WRONG = [b"\x00\x00", b"\x36\x00", b"\x82\x00", b"\xc1\x00", b"\x30\xff\xff\xff\xff\x01", b"\x32\x02\x00\x05"]


@contextmanager
def a_desk(**settings_):
    folder = Path(tempfile.mkdtemp(prefix="firelane-"))
    desk = Desk(folder, limits=LIMITS, **settings_)
    try:
        yield desk
    finally:
        desk.stop()
        shutil.rmtree(folder)


def talk(line, pieces):
    for piece in pieces:
        if line.closed:
            return
        line.send_raw(piece)


@settings(max_examples=150)
@given(data=st.data(), version=versions, durability=st.sampled_from(["fsync", "memory"]))
def test_damaged_bytes_harm_only_their_sender(data, version, durability):
    with a_desk(durability=durability) as desk:
        good = desk.lasting("good")
        good.subscribe("good/#", qos=2)
        for raw in data.draw(st.lists(damaged(version), min_size=1, max_size=3)):
            talk(desk.dial(version), data.draw(chunks(raw)))
            assert not good.closed
        good.take_in()
        desk.pass_time(data.draw(st.sampled_from([0.1, 5, 100])))
        if durability == "fsync" and data.draw(st.booleans()):
            desk.crash()
            good = desk.lasting("good")
        assert not good.closed
        good.publish("good/one", b"still here", qos=2)
        assert b"still here" in good.take_in()


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_bytes_that_are_no_mqtt_at_all_harm_nobody(pieces):
    with a_desk() as desk:
        good, bad = desk.join("good"), desk.dial(V3)
        good.subscribe("#")
        talk(bad, pieces)
        assert good.take_all() == []
        assert desk.broker.counts.connected == 1


@pytest.mark.parametrize("version", [V3, V5])
@given(data=st.data(), wrong=st.sampled_from(WRONG))
def test_whoever_says_something_wrong_is_closed(version, wrong, data):
    with a_desk() as desk:
        good, bad = desk.join("good", keep_alive_s=0), desk.dial(version)
        talk(bad, data.draw(chunks(data.draw(streams(version)) + wrong)))
        assert bad.closed
        assert not good.closed
        assert bad.connection not in desk.broker.connections


@given(data=st.data(), version=versions)
def test_the_same_comes_out_however_the_bytes_are_cut(data, version):
    raw = data.draw(streams(version, most=20))
    outcomes = []
    for pieces in ([raw], data.draw(chunks(raw)), [raw[at : at + 1] for at in range(len(raw))]):
        with a_desk(durability="memory") as desk:
            watcher = desk.join("watcher")
            watcher.subscribe("#", qos=2)
            line = desk.dial(version)
            talk(line, pieces)
            counts = desk.broker.counts
            outcomes.append((line.bytes, watcher.bytes, line.closed, counts.packets_received, counts.publish_received))
    assert outcomes[0] == outcomes[1] == outcomes[2]
