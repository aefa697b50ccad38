"""Samples as bytes, and who is there as it changes."""

from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import appendable, key, mutable
from cyclonedds.idl.types import int32, sequence
from dds_rooms import QUICK, wait_until

from dds_domains import some_domain
from firelane.dds import (
    DISPOSED,
    UNREGISTERED,
    DdsError,
    Participant,
    Policies,
    RawReader,
    RawWriter,
    Reader,
    Roster,
    Writer,
    is_version_2,
    key_of,
)

RELIABLE = Policies(reliable=True)


@dataclass
class Thing(IdlStruct, typename="raw.Thing"):
    number: int32
    key("number")
    values: sequence[int32]


@dataclass
@mutable
class Newer(IdlStruct, typename="raw.Newer"):
    text: str
    number: int32
    key("number")


@dataclass
@appendable
class Single(IdlStruct, typename="raw.Single"):
    text: str


@pytest.fixture
def ends():
    domain = some_domain()
    with Participant(domain, QUICK) as one, Participant(domain, QUICK, mark=b"marked") as other:
        yield one, other


def collected(reader, count):
    found = []
    wait_until(lambda: found.extend(reader.take(2)) or len(found) >= count)
    assert len(found) == count
    return found


@pytest.mark.parametrize(
    ("kind", "sample"), [(Thing, Thing(number=7, values=[1, 2, 3])), (Newer, Newer(text="Lövdalen", number=7))]
)
def test_bytes_are_passed_on_as_they_are(ends, kind, sample):
    one, other = ends
    writer, reader = Writer(one, "in", kind, reliable=True), RawReader(other, "in", kind, RELIABLE)
    out = RawWriter(other, "out", kind, RELIABLE, version_2=kind is Newer)
    into = Reader(one, "out", kind, reliable=True)
    wait_until(lambda: writer.statistics().matched == 1 == out.matched)
    wait_until(lambda: into.statistics().matched == 1)
    writer.send(sample)
    (raw,) = collected(reader, 1)
    assert raw.data == sample.serialize().ljust(len(raw.data), b"\0")
    assert is_version_2(raw.data) is (kind is Newer)
    assert key_of(kind, raw.data) == sample.serialize_key(use_version_2=kind is Newer)
    assert out.write(raw.data, raw.when_ns)
    got = []
    wait_until(lambda: got.extend(into.take()) or got)
    assert got == [sample]
    assert got[0].sample_info.source_timestamp == raw.when_ns
    assert out.end_instance(key_of(kind, raw.data), DISPOSED, raw.when_ns + 1)
    wait_until(lambda: got.extend(into.take()) or len(got) == 2)
    assert got[1].key.number == 7


def test_a_topic_without_keys_ends_too(ends):
    one, other = ends
    writer, reader = Writer(one, "in", Single, reliable=True), RawReader(other, "in", Single, RELIABLE)
    out, into = RawWriter(other, "out", Single, RELIABLE, version_2=True), RawReader(one, "out", Single, RELIABLE)
    wait_until(lambda: writer.statistics().matched == 1 == out.matched)
    wait_until(lambda: into.alive == 1)
    writer.send(Single(text="x"))
    (sample,) = collected(reader, 1)
    writer._writer.dispose(Single(text="x"))
    (ended,) = collected(reader, 1)
    assert out.write(sample.data, sample.when_ns)
    assert out.end_instance(ended.key, ended.state, ended.when_ns)
    again = collected(into, 2)
    assert [(raw.data, raw.state) for raw in again] == [(sample.data, "alive"), (b"", DISPOSED)]
    assert again[0].when_ns == sample.when_ns < again[1].when_ns <= ended.when_ns


def test_ends_of_instances_come_after_their_last_sample(ends):
    one, other = ends
    writer, reader = Writer(one, "t", Thing, reliable=True), RawReader(other, "t", Thing, RELIABLE)
    wait_until(lambda: writer.statistics().matched == 1)
    first, second = Thing(number=1, values=[]), Thing(number=2, values=[])
    for sample in (first, second, first):
        writer.send(sample)
    writer._writer.dispose(first)
    wait_until(lambda: writer.wait_confirmed(within_s=1))
    found = collected(reader, 4)
    of_first = [raw for raw in found if (raw.key or key_of(Thing, raw.data)) == first.serialize_key()]
    assert [raw.state for raw in of_first] == ["alive", "alive", DISPOSED]
    writer.close()
    (ended,) = collected(reader, 1)
    assert (ended.state, ended.key) == (DISPOSED, second.serialize_key())  # as writers do that go in order


def spoilt(sample, key, draw):
    """Some bytes of it are others, and it may be cut."""
    data = bytearray(draw.choice((sample, key)))
    for _ in range(draw.randint(1, 4)):
        data[draw.randrange(len(data))] = draw.choice((0, 1, 255, draw.randrange(256)))
    return bytes(data[: draw.choice((len(data), draw.randrange(len(data) + 1)))])


@pytest.mark.parametrize(
    ("kind", "good"), [(Thing, Thing(number=1, values=[5])), (Newer, Newer(text="Lövdalen", number=1))]
)
def test_what_is_no_sample_is_refused_and_holds_nobody_up(ends, kind, good):
    one, other = ends
    out = RawWriter(one, "t", kind, RELIABLE, version_2=kind is Newer)
    into = Reader(other, "t", kind, reliable=True)
    wait_until(lambda: out.matched == 1 == into.statistics().matched)
    sample, key = good.serialize(), good.serialize_key(use_version_2=kind is Newer)
    for junk in (b"", b"\0", sample[:4], b"\xff" * 64, b"\xff" * 4 + sample[4:], sample[:3] + b"\4" + sample[4:]):
        with pytest.raises(DdsError, match='topic "t" cannot be written'):
            out.write(junk, 1)
        with pytest.raises(DdsError, match='topic "t" cannot be written'):
            out.end_instance(junk[:4] + key[4:] if len(junk) > 4 else junk, UNREGISTERED, 1)
    draw = Random(1)
    for _ in range(300):
        bad = spoilt(sample, key, draw)
        for act in (out.write, lambda data, when: out.end_instance(data, DISPOSED, when)):
            with suppress(DdsError):
                act(bad, 1)
    assert out.write(sample, 2)
    got = []
    wait_until(lambda: got.extend(into.take()) or good in got[-1:])


def test_a_key_that_cannot_be_read_is_told():
    sample = Newer(text="abcd", number=1).serialize()
    assert key_of(Newer, sample)
    with pytest.raises(DdsError, match="whose key cannot be read"):
        key_of(Newer, sample.replace(b"abcd", b"\xff\xfe\xfd\xfc"))  # what C takes for a string, Python does not


def test_a_reader_holds_only_so_many_and_its_writer_waits(ends):
    one, other = ends
    out, reader = RawWriter(one, "t", Thing, RELIABLE), RawReader(other, "t", Thing, RELIABLE, most_samples=10)
    wait_until(lambda: out.matched == 1 == reader.alive)
    for n in range(30):
        assert out.write(Thing(number=0, values=[n]).serialize(), n)
    wait_until(lambda: reader.rejected)
    found = []
    while len(found) < 30:
        wait_until(lambda: found.extend(reader.take(5)) or len(found) % 5 == 0)
        assert len(found) <= 30
    assert [raw.data for raw in found] == [Thing(number=0, values=[n]).serialize() for n in range(30)]


def test_its_own_writers_are_not_heard(ends):
    one, _ = ends
    out, reader = RawWriter(one, "t", Thing, RELIABLE), RawReader(one, "t", Thing, RELIABLE)
    other = Reader(one, "t", Thing, reliable=True)
    out.write(Thing(number=0, values=[]).serialize(), 1)
    assert (out.matched, reader.alive, reader.take(10)) == (0, 0, [])  # nobody of its participant
    other.close()


def test_who_is_there_is_followed(ends):
    one, other = ends
    roster, seen = Roster(one), Roster(other)
    reader = RawReader(other, "t", Thing, Policies(reliable=True, durability=1))
    wait_until(lambda: roster.look() and len(roster.peers) == 1 and roster.marks)
    (peer,) = roster.peers.values()
    assert (peer.topic, peer.writes, peer.partitions) == ("t", False, ("*",))
    assert (peer.policies.reliable, peer.policies.durability) == (True, 1)
    assert list(roster.marks.values()) == [b"marked"]
    assert roster.find(peer.handle) is peer
    assert not roster.look()
    reader.close()
    wait_until(roster.look)
    assert not roster.peers
    assert roster.find(peer.handle) is peer  # samples of it may still come
    assert roster.find(12345) is None
    seen.look()
    assert not seen.marks
    assert not seen.peers  # nothing of its own
    roster.close()
    seen.close()
