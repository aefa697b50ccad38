"""Types of others: sent on as documents, and refused when there is something in them that should not be."""

import json
from base64 import b64encode
from dataclasses import dataclass
from hashlib import md5

import pytest
from cyclonedds.idl import IdlStruct, make_idl_struct
from cyclonedds.idl.annotations import appendable, key, mutable
from cyclonedds.idl.types import array, float64, int32, sequence
from dds_rooms import QUICK, wait_until

from dds_domains import some_domain
from firelane.dds import DdsError, Participant, Roster, Writer, identity_of, kind_of, read_kind
from firelane.dds.kinds import MOST_BYTES


@dataclass
class Inner(IdlStruct, typename="kinds.Inner"):
    x: float64
    rows: array[int32, 3]


@dataclass
@mutable
class Outer(IdlStruct, typename="kinds.Outer"):
    number: int32
    key("number")
    inner: sequence[Inner]


@dataclass
@appendable
class Plain(IdlStruct, typename="kinds.Plain"):
    text: str


def document_of(made):
    """A type as another site would send it, from the library's own description of it."""
    made.__idl__.populate()
    made.__idl__.fill_type_data()
    pairs = made.__idl__.get_type_mapping().identifier_object_pair_complete
    objects = {
        identity_of(one.type_identifier): b64encode(one.type_object.serialize(use_version_2=True)[4:]).decode()
        for one in pairs
    }
    identity = identity_of(made.__idl__.get_type_id())
    return json.dumps({"format": 1, "name": made.__name__, "type": identity, "objects": objects}).encode()


@pytest.mark.parametrize(("kind", "keyed"), [(Outer, True), (Plain, False)])
def test_a_type_is_the_same_after_it_was_asked_for_and_sent_on(kind, keyed):
    domain = some_domain()
    with Participant(domain, QUICK) as one, Participant(domain, QUICK) as other:
        writer = Writer(one, "t", kind)
        roster = Roster(other)
        wait_until(lambda: roster.look() or roster.peers)
        (peer,) = roster.peers.values()
        asked = kind_of(other, peer.type_id, peer.type_name)
        sent = read_kind(asked.document())
        roster.close()
        writer.close()
    for found in (asked, sent, read_kind(document_of(kind))):
        assert found.keyed is keyed
        assert found.identity == peer.type_identity
        assert identity_of(found.made.__idl__.get_type_id()) == peer.type_identity
    sample = Outer(number=5, inner=[Inner(x=1.5, rows=[1, 2, 3])]) if keyed else Plain(text="Lövdalen")
    again = sent.made.deserialize(sample.serialize())
    assert again.serialize() == sample.serialize()


def test_names_that_python_would_run_are_refused():
    done = []
    __builtins__["_dds_done"] = done  # what a bad name would reach
    try:
        name = "a: int = _dds_done.append(1), b"
        made = make_idl_struct("Bad", "kinds.Bad", {name: int32}, dataclassify=False)
        with pytest.raises(DdsError, match="has a name in it that is none"):
            read_kind(document_of(made))
        assert done == []
    finally:
        del __builtins__["_dds_done"]


def test_documents_that_are_no_type():
    good = json.loads(document_of(Outer))
    parts = good["objects"]
    first, second = parts
    bad = [
        good | {"format": 2},
        good | {"type": first[:-1] + "0"},
        good | {"objects": {}},
        good | {"objects": {first: parts[first]}},
        good | {"objects": {first: parts[second], second: parts[first]}},
        good | {"objects": parts | {"zz": "AAAA"}},
        good | {"objects": parts | {first: "not base64"}},
        good | {"objects": [1]},
        {},
        [],
        None,
    ]
    for one in bad:
        with pytest.raises(DdsError):
            read_kind(json.dumps(one).encode())
    junk = b"\x01\x02\x03"
    identity = "f2" + md5(junk).hexdigest()[:28]
    named = good | {"type": identity, "objects": {identity: b64encode(junk).decode()}}
    for one in (b"", b"{", b"\xff", b"[" * 5000, b" " * (MOST_BYTES + 1), json.dumps(named).encode()):
        with pytest.raises(DdsError):
            read_kind(one)
