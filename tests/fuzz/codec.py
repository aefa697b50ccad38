"""Looks for bytes that break the codec or the broker, guided by the branches they reach.

    python tests/fuzz/codec.py SECONDS

An input is a byte that says where it goes (protocol version, codec or broker, introduced or not), a byte that says
how large the pieces are, and the bytes themselves. What breaks something is left in a file, named at the end; run
the script with that file in the place of the seconds to see it again.
"""

from __future__ import annotations

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
FIVE, TO_BROKER, INTRODUCED, DURABLE = 1, 2, 4, 8
LIMITS = {"queue": 3, "inflight": 3, "packet_bytes": 1000, "topic_aliases": 2}

folder = Path(tempfile.mkdtemp(prefix="firelane-fuzz-"))


def check(data: bytes) -> None:
    """One input."""
    if len(data) > 2:
        where, size, rest = data[0], data[1], data[2:]
        version = V5 if where & FIVE else V3
        if where & TO_BROKER:
            check_broker(rest, version, size or len(rest), where)
        else:
            check_codec(rest, version)


def check_codec(data: bytes, version: int) -> None:
    """What can be read can be written, and reads the same again."""
    try:
        packet = decode(data[0], data[1:], version)
    except PacketError:
        return
    raw = encode(packet, version)
    place = frame(raw, 0, MOST_BYTES)
    assert place is not None
    assert place[1] == len(raw)
    assert decode(raw[0], raw[place[0] :], version) == packet


def check_broker(data: bytes, version: int, size: int, where: int) -> None:
    """Whatever one client sends, the books balance (the desk sees to it) and another is served."""
    desk = Desk(folder / "log", limits=LIMITS, durability="fsync" if where & DURABLE else "memory")
    good, bad = desk.join("good"), desk.dial(version)
    good.subscribe("good")
    if where & INTRODUCED:
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


def seeds() -> list[bytes]:
    """Something of every kind to begin with."""
    found = []
    for version in (V3, V5):
        five = version == V5
        fit = {"user_property": [("a", "b")], "message_expiry_interval": 5} if five else {}
        will = Will(topic="w", payload=b"w", qos=1)
        packets = [
            Connect(client_id="c", version=version, user="u", password=b"p", will=will),
            Connack(),
            Publish(topic="a", payload=b"x"),
            Publish(topic="a", payload=b"x", qos=1, packet_id=1, retain=True, properties=fit),
            Publish(topic="a", payload=b"x", qos=2, packet_id=2),
            *(Ack(kind=kind, packet_id=2) for kind in (Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP)),
            Subscribe(packet_id=3, subscriptions=[Subscription(filter="#", qos=2), Subscription(filter="$share/g/a")]),
            Suback(kind=Kind.SUBACK, packet_id=3, reasons=[0, 1]),
            Unsubscribe(packet_id=4, filters=["#"]),
            Ping(Kind.PINGREQ),
            Disconnect(),
        ]
        wires = [encode(one, version) for one in packets]
        for wire in wires:
            start, end = frame(wire, 0, MOST_BYTES) or (0, 0)
            found.append(bytes((five, 0, wire[0])) + wire[start:end])
            found.append(bytes((five | TO_BROKER | INTRODUCED, 0)) + wire)
        flow = [wires[at] for at in (9, 3, 5, 4, 7, 6, 8, 11, 13)]
        for how in (INTRODUCED, INTRODUCED | DURABLE):
            found += [bytes((five | TO_BROKER | how, size)) + b"".join(flow) for size in (0, 1, 7)]
        found.append(bytes((five | TO_BROKER | DURABLE, 3)) + wires[0] + b"".join(flow))
    return found


def main(argument: str) -> None:
    """Look for so many seconds, or at one file."""
    if Path(argument).is_file():
        check(Path(argument).read_bytes())
        return
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds()):
        (corpus / f"seed{number}").write_bytes(seed)
    limits = [f"-max_total_time={int(argument)}", "-timeout=20", "-max_len=2000", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], str(corpus), *limits, f"-artifact_prefix={folder}/"], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1])
