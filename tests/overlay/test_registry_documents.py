"""What nodes hold can be read again, and what cannot be read is named."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.mqtt.topics import filter_problem
from firelane.overlay.registry.documents import (
    EdgeDocument,
    EndpointDocument,
    EpochDocument,
    FiltersDocument,
    HereDocument,
    LeaderDocument,
    Load,
    RouterDocument,
    TopicDocument,
    Wish,
    read,
    written,
)
from firelane.overlay.registry.packing import PART_BYTES, packed, part_of, parts_for, sorted_out
from firelane.overlay.registry.tree import RegistryError

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "overlay-registry.md"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
FILTERS = NAMES.filter(lambda name: not name.startswith("$") and filter_problem(name) is None)
WANTED = st.builds(
    Wish,
    qos=st.integers(0, 2),
    keeps=st.booleans(),
    need=st.none() | st.dictionaries(NAMES, NAMES, max_size=32),
)
COUNTS = st.integers(0, 2**63 - 1)
RATES = st.floats(0, 1e15)
LOADS = st.builds(Load, messages_hz=RATES, bytes_hz=RATES)
DOCUMENTS = st.one_of(
    st.builds(EdgeDocument, boot=COUNTS, locator=st.none() | NAMES, parts=COUNTS),
    st.builds(HereDocument, boot=COUNTS),
    st.builds(FiltersDocument, filters=st.dictionaries(FILTERS, WANTED)),
    st.builds(TopicDocument, router=st.none() | NAMES, epoch=COUNTS, topic=st.none() | NAMES),
    st.builds(EndpointDocument, count=COUNTS, rate_hz=st.none() | RATES),
    st.builds(RouterDocument, boot=COUNTS, locator=NAMES, topics=COUNTS, load=LOADS),
    st.builds(EpochDocument, epoch=COUNTS, router=NAMES, boot=COUNTS),
    st.builds(LeaderDocument, router=NAMES, boot=COUNTS),
)


@given(DOCUMENTS)
def test_every_document_is_read_as_it_was_written(document):
    data = written(document)
    assert json.loads(data)["format"] == 1
    assert read(type(document), data, "/somewhere") == document


@given(st.binary() | DOCUMENTS.map(written))
def test_whatever_is_there_ends_in_a_document_or_a_line(data):
    for kind in (EdgeDocument, FiltersDocument, RouterDocument):
        line = ""
        try:
            read(kind, data, "/edges/north")
        except RegistryError as problem:
            line = str(problem)
        assert not line or ("/edges/north" in line and "\n" not in line)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1]", "format None"),
        (b'{"boot": 1}', "format None"),
        (b'{"format": 2, "boot": 1}', "format 2"),
        (b'{"format": true, "boot": 1}', "format True"),
        (b'{"format": 1}', "boot: Field required"),
        (b'{"format": 1, "boot": 1, "parts": -1}', "parts: Input should be greater"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(data, told):
    with pytest.raises(RegistryError, match=told) as problem:
        read(EdgeDocument, data, "/edges/north")
    assert str(problem.value).startswith("/edges/north in the registry")


def test_fields_of_later_versions_are_passed_over():
    assert read(HereDocument, b'{"format":1,"boot":4,"mood":"fine"}', "/x") == HereDocument(boot=4)


@given(NAMES, st.integers(0, 8))
def test_twice_as_many_parts_split_each_into_two(name, power):
    parts = 2**power
    assert part_of(name, 2 * parts) in (part_of(name, parts), part_of(name, parts) + parts)


def test_parts_stay_small_and_their_number_does_not_flap():
    filters = {f"floor/{number}/sensor/{number % 7}/#": Wish(qos=1) for number in range(20_000)}
    parts = parts_for(filters, 0)
    data = [packed(one) for one in sorted_out(filters, parts)]
    assert sum(len(read(FiltersDocument, one, "/x").filters) for one in data) == len(filters)
    assert max(map(len, data)) < 2 * PART_BYTES
    fewer = dict(list(filters.items())[: len(filters) // 2])
    assert parts_for(fewer, parts) == parts
    assert parts_for({}, parts) == 1


def test_filters_too_large_for_a_node_are_refused():
    with pytest.raises(RegistryError, match="bytes in one node"):
        packed({"\x01" * 60_000 + str(number): Wish(qos=0) for number in range(4)})


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/edges/EDGE", EdgeDocument),
        ("/edges/EDGE/here", HereDocument),
        ("/edges/EDGE/filters-K", FiltersDocument),
        ("/topics/TOPIC", TopicDocument),
        ("/topics/TOPIC/pub/EDGE", EndpointDocument),
        ("/broker/ROUTER", RouterDocument),
        ("/leader/holder", LeaderDocument),
        ("/epoch", EpochDocument),
    ],
)
def test_every_document_is_in_the_reference_as_it_is_written(path, kind):
    rows = [
        line for line in REFERENCE.read_text().splitlines() if line.startswith(f"| `{path}`") and '"format"' in line
    ]
    (row,) = rows
    example = row.split("`{")[1].split("}`")[0]
    document = read(kind, f"{{{example}}}".encode(), path)
    assert json.loads(written(document)) == json.loads(f"{{{example}}}")
    assert all(f'"{one.name}"' in example or f"`{one.name}`" in row for one in fields(kind))
