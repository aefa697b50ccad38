"""Partitions select at least what an MQTT filter matches; what more they select is told apart by the stream's name."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.dds import DdsError
from firelane.dds.partitions import LONGEST_NAME, partition_of, partitions_for
from firelane.mqtt.topics import matches

LEVELS = st.text(st.sampled_from("ab*?[]%$é "), max_size=3)
STREAMS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def patterns(draw):
    levels = draw(st.lists(st.one_of(LEVELS, st.just("+")), min_size=1, max_size=4))
    return "/".join([*levels, *draw(st.sampled_from([[], ["#"]]))]) or "#"


@given(pattern=patterns(), stream=STREAMS)
def test_every_stream_that_a_filter_matches_is_selected(pattern, stream):
    selected = any(fnmatchcase(partition_of(stream), partition) for partition in partitions_for(pattern))
    assert selected or not matches(pattern, stream)


@given(one=STREAMS, other=STREAMS)
def test_a_plain_name_selects_that_stream_and_no_other(one, other):
    (partition,) = partitions_for(one)
    assert fnmatchcase(partition_of(other), partition) == (one == other)


@pytest.mark.parametrize("name", ["", "a/+/b", "a/#", "a\0b", "x" * (LONGEST_NAME + 1)])
def test_names_that_no_stream_can_have(name):
    with pytest.raises(DdsError):
        partition_of(name)


@pytest.mark.parametrize("pattern", ["", "a/#/b", "a+", "x" * (LONGEST_NAME + 1)])
def test_filters_that_are_none(pattern):
    with pytest.raises(DdsError):
        partitions_for(pattern)
