"""Packets that clients send: few names and numbers, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

from firelane.mqtt.encode import encode
from firelane.mqtt.packets import (
    V3,
    V5,
    Ack,
    Auth,
    Connect,
    Disconnect,
    Kind,
    Ping,
    Publish,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)

topics = st.sampled_from(["a", "a/b", "b", "$SYS/broker/uptime", "/", "ä"])
filters = st.sampled_from(["a", "a/b", "#", "+", "a/#", "+/b", "$share/g/a", "$share/g/#", "$SYS/#"])
ids = st.integers(1, 4)
payloads = st.binary(max_size=5)
qualities = st.integers(0, 2)
versions = st.sampled_from([V3, V5])


def optional(version: int, **values: st.SearchStrategy) -> st.SearchStrategy:
    """Some of these properties, which MQTT 3.1.1 does not have."""
    return st.fixed_dictionaries({}, optional=values) if version == V5 else st.just({})


def connects(version: int) -> st.SearchStrategy:
    """A client that introduces itself under one of few names."""
    will = st.builds(
        Will, topic=topics, payload=payloads, qos=qualities, retain=st.booleans(),
        properties=optional(version, will_delay_interval=st.integers(0, 9)),
    )  # fmt: skip
    properties = optional(
        version,
        session_expiry_interval=st.sampled_from([0, 5, 0xFFFF_FFFF]),
        receive_maximum=st.integers(1, 3),
        maximum_packet_size=st.integers(1, 40),
        topic_alias_maximum=st.integers(0, 2),
    )
    return st.builds(
        Connect, client_id=st.sampled_from(["x", "y"]), version=st.just(version), clean_start=st.booleans(),
        keep_alive_s=st.integers(0, 9), will=st.none() | will, properties=properties,
    )  # fmt: skip


@st.composite
def publications(draw: st.DrawFn, version: int) -> Publish:
    qos = draw(qualities)
    fit = optional(version, message_expiry_interval=st.integers(0, 9), topic_alias=st.integers(1, 3),
                   content_type=st.just("text"))  # fmt: skip
    return Publish(
        topic=draw(topics), payload=draw(payloads), qos=qos, retain=draw(st.booleans()),
        duplicate=bool(qos) and draw(st.booleans()), packet_id=draw(ids) if qos else 0, properties=draw(fit),
    )  # fmt: skip


def wishes(version: int) -> st.SearchStrategy:
    """Filters with options; MQTT 5 has more of those."""
    five = st.booleans() if version == V5 else st.just(False)
    handling = st.integers(0, 2) if version == V5 else st.just(0)
    return st.builds(
        Subscription, filter=filters, qos=qualities, no_local=five, retain_as_published=five, retain_handling=handling
    )


def packets(version: int) -> st.SearchStrategy:
    """Anything that a client may send once it is let in, and some of what it may not."""
    acks = st.sampled_from([Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP])
    reasons = st.sampled_from([0, 0, 0x80, 0x92]) if version == V5 else st.just(0)
    identifier = optional(version, subscription_identifier=st.lists(st.integers(1, 300), min_size=1, max_size=1))
    return st.one_of(
        publications(version),
        publications(version),
        st.builds(Ack, kind=acks, packet_id=ids, reason=reasons),
        st.builds(
            Subscribe,
            packet_id=ids,
            subscriptions=st.lists(wishes(version), min_size=1, max_size=3),
            properties=identifier,
        ),
        st.builds(Unsubscribe, packet_id=ids, filters=st.lists(filters, min_size=1, max_size=2)),
        st.just(Ping(Kind.PINGREQ)),
        st.sampled_from([Ping(Kind.PINGRESP), Disconnect(), *([Auth(reason=0x18)] if version == V5 else [])]),
    )


@st.composite
def streams(draw: st.DrawFn, version: int, most: int = 12) -> bytes:
    """The bytes of a client that mostly behaves."""
    several = [draw(connects(version)), *draw(st.lists(packets(version), max_size=most))]
    return b"".join(encode(one, version) for one in several)


@st.composite
def damaged(draw: st.DrawFn, version: int) -> bytes:
    """The same with bytes changed, put in or taken out."""
    raw = bytearray(draw(streams(version)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(["change", "insert", "remove", "cut"])):
            case "change" if place < len(raw):
                raw[place] = draw(st.integers(0, 255))
            case "insert":
                raw[place:place] = draw(st.binary(max_size=4))
            case "remove":
                del raw[place : place + draw(st.integers(1, 4))]
            case "cut":
                del raw[place:]
    return bytes(raw)


@st.composite
def chunks(draw: st.DrawFn, raw: bytes) -> list[bytes]:
    """The same bytes in pieces."""
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
