"""Our coding of a sample is the library's own, byte for byte."""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl._support import Endianness
from cyclonedds.idl.annotations import key
from cyclonedds.idl.types import byte, sequence
from hypothesis import given
from hypothesis import strategies as st

from firelane.dds import SensorUpdates

STREAMS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@dataclass
class Twin(IdlStruct, typename="firelane.SensorUpdates"):
    """The same type, coded by the library."""

    stream: str
    payload: sequence[byte]
    key("stream")


@given(stream=STREAMS, payload=st.binary(max_size=100), second=st.booleans())
def test_bytes_are_the_librarys_own(stream, payload, second):
    ours = SensorUpdates(stream=stream, payload=payload).serialize(use_version_2=second)
    assert ours == Twin(stream=stream, payload=list(payload)).serialize(use_version_2=second)


@given(stream=STREAMS, payload=st.binary(max_size=100), order=st.sampled_from(Endianness), second=st.booleans())
def test_what_the_library_wrote_is_read(stream, payload, order, second):
    written = Twin(stream=stream, payload=list(payload)).serialize(endianness=order, use_version_2=second)
    padded = written + b"\0" * (-len(written) % 4)  # as it travels
    assert SensorUpdates.deserialize(padded) == SensorUpdates(stream=stream, payload=payload)


def test_the_key_is_the_stream():
    twin = Twin(stream="building/3", payload=[1])
    assert SensorUpdates.deserialize_key(twin.serialize_key()).stream == "building/3"
    sample = SensorUpdates(stream="building/3", payload=b"1")
    assert sample.serialize_key() == twin.serialize_key()


def test_a_name_that_is_no_text_is_read_as_none():
    good = SensorUpdates(stream="abc", payload=b"12345").serialize()
    bad = SensorUpdates.deserialize(good.replace(b"abc", b"\xff\xfe\xfd"))
    assert (bad.stream, bad.payload) == ("", b"12345")


def test_others_know_the_type_by_its_octets():
    """What peers in other languages have of `sequence<octet>`: two types that differ in it would not be matched."""
    SensorUpdates.__idl__.populate()
    SensorUpdates.__idl__.fill_type_data()
    Twin.__idl__.populate()
    Twin.__idl__.fill_type_data()
    assert SensorUpdates.__idl__._xt_bytedata == Twin.__idl__._xt_bytedata
