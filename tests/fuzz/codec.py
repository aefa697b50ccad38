"""Looks for bytes that break the codec or the broker, guided by the branches they reach.

    python tests/fuzz/codec.py SECONDS

Half of the time goes to the codec, half to the broker. An input for the codec is a byte that says which protocol
version, and a packet; one for the broker a byte that says how it is met, one that says how large the pieces are, and
any number of packets. What breaks something is left in a file, named at the end; run the script with `codec` or
`broker` and that file to see it again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "exchange"))
with atheris.instrument_imports(include=["firelane.mqtt", "firelane.exchange"]):
    from desk import Desk

    from firelane.mqtt.decode import decode, frame
    from firelane.mqtt.encode import encode
    from firelane.mqtt.packets import (
        V3,
        V5,
        Ack,
        Connack,
        Connect,
        Disconnect,
        Kind,
        Ping,
        Publish,
        Suback,
        Subscribe,
        Subscription,
        Unsubscribe,
        Will,
    )
    from firelane.mqtt.reasons import PacketError

MOST_BYTES = 268_435_460
FIVE, INTRODUCED, DURABLE = 1, 2, 4
LIMITS = {"queue": 3, "inflight": 3, "packet_bytes": 1000, "topic_aliases": 2}

folder = Path(tempfile.mkdtemp(prefix="firelane-fuzz-"))


def check_codec(data: bytes) -> None:
    """What can be read can be written, and reads the same again."""
    if len(data) < 2:
        return
    version = V5 if data[0] & FIVE else V3
    try:
        packet = decode(data[1], data[2:], version)
    except PacketError:
        return
    raw = encode(packet, version)
    place = frame(raw, 0, MOST_BYTES)
    assert place is not None
    assert place[1] == len(raw)
    assert decode(raw[0], raw[place[0] :], version) == packet


def check_broker(data: bytes) -> None:
    """Whatever one client sends, the books balance (the desk sees to it) and another is served."""
    if len(data) < 3:
        return
    how, version, size, data = data[0], V5 if data[0] & FIVE else V3, data[1] or len(data), data[2:]
    desk = Desk(folder / "log", limits=LIMITS, durability="fsync" if how & DURABLE else "memory")
    good, bad = desk.join("good"), desk.dial(version)
    good.subscribe("good")
    if how & INTRODUCED:
        properties = {"session_expiry_interval": 9, "topic_alias_maximum": 1} if version == V5 else {}
        bad.connect("bad", clean_start=False, properties=properties)
    for at in range(0, len(data), size):
        if not bad.closed:
            bad.send_raw(data[at : at + size])
    bad.drop()
    desk.pass_time(100)
    if not good.closed:  # or the other has taken its name
        good.take_all()
        good.publish("good", b"still here")
        assert good.payloads() == [b"still here"]
    desk.stop()
    for segment in (folder / "log").glob("*.log"):
        segment.unlink()


def packets(version: int) -> list[bytes]:
    """Something of every kind to begin with."""
    five = version == V5
    fit = {"user_property": [("a", "b")], "message_expiry_interval": 5} if five else {}
    connected = {"session_expiry_interval": 9, "receive_maximum": 2, "topic_alias_maximum": 1} if five else {}
    will = Will(topic="w", payload=b"w", qos=1)
    several = [
        Connect(client_id="c", version=version, user="u", password=b"p", will=will, properties=connected),
        Subscribe(packet_id=3, subscriptions=[Subscription(filter="#", qos=2), Subscription(filter="$share/g/a")]),
        Publish(topic="a", payload=b"x"),
        Publish(topic="a", payload=b"x", qos=1, packet_id=1, retain=True, properties=fit),
        Publish(topic="a", payload=b"x", qos=2, packet_id=2),
        *(Ack(kind=kind, packet_id=2) for kind in (Kind.PUBREL, Kind.PUBACK, Kind.PUBREC, Kind.PUBCOMP)),
        Unsubscribe(packet_id=4, filters=["#"]),
        Ping(Kind.PINGREQ),
        Disconnect(),
        Connack(),
        Suback(kind=Kind.SUBACK, packet_id=3, reasons=[0, 1]),
    ]
    return [encode(one, version) for one in several]


def codec_seeds() -> list[bytes]:
    found = []
    for version in (V3, V5):
        for wire in packets(version):
            start, end = frame(wire, 0, MOST_BYTES) or (0, 0)
            found.append(bytes((version == V5, wire[0])) + wire[start:end])
    return found


def broker_seeds() -> list[bytes]:
    found = []
    for version in (V3, V5):
        connect, *others = packets(version)
        for how in (INTRODUCED, INTRODUCED | DURABLE):
            found += [bytes((how | (version == V5), 0)) + wire for wire in others]
            found += [bytes((how | (version == V5), size)) + b"".join(others[:-2]) for size in (0, 1, 7)]
        found.append(bytes((DURABLE | (version == V5), 3)) + connect + b"".join(others[:-2]))
    return found


TARGETS = {"codec": (check_codec, codec_seeds), "broker": (check_broker, broker_seeds)}


def look(name: str, seconds: int) -> None:
    """Look for so long, in a process of its own, as the fuzzer ends the one it runs in."""
    check, seeds = TARGETS[name]
    corpus = folder / name
    corpus.mkdir()
    for number, seed in enumerate(seeds()):
        (corpus / f"seed{number}").write_bytes(seed)
    limits = [f"-max_total_time={seconds}", "-timeout=20", "-max_len=2000", "-rss_limit_mb=2048"]
    child = os.fork()
    if child == 0:
        atheris.Setup([sys.argv[0], str(corpus), *limits, f"-artifact_prefix={folder}/{name}-"], check)
        atheris.Fuzz()
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{name}: something breaks it, see above")


if __name__ == "__main__":
    if sys.argv[1] in TARGETS:
        TARGETS[sys.argv[1]][0](Path(sys.argv[2]).read_bytes())
    else:
        for target in TARGETS:
            look(target, int(sys.argv[1]) // 2)
