"""Requested and offered are compared as the library itself does it, and policies survive being told as text."""

import math
from dataclasses import replace

import pytest
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from dds_rooms import QUICK
from hypothesis import given, settings
from hypothesis import strategies as st

from dds_domains import some_domain
from firelane.dds import Participant, Policies, SensorUpdates, as_text, from_text, mismatches, unsupported
from firelane.dds.policies import offering, policies_of

SPANS_S = st.sampled_from([0.5, 1.0, 2.0, math.inf])
SCOPES = (
    Policy.PresentationAccessScope.Instance,
    Policy.PresentationAccessScope.Topic,
    Policy.PresentationAccessScope.Group,
)
LEASES = (Policy.Liveliness.Automatic, Policy.Liveliness.ManualByParticipant, Policy.Liveliness.ManualByTopic)
DURABLE = (Policy.Durability.Volatile, Policy.Durability.TransientLocal)

POLICIES = st.builds(
    Policies,
    reliable=st.booleans(),
    durability=st.integers(0, 1),
    deadline_s=SPANS_S,
    budget_s=st.sampled_from([0.0, 1.0, math.inf]),
    liveliness=st.integers(0, 2),
    lease_s=SPANS_S,
    exclusive=st.booleans(),
    by_source=st.booleans(),
    scope=st.integers(0, 1),
    ordered=st.booleans(),
)


def span(seconds):
    return duration(infinite=True) if seconds == math.inf else duration(seconds=seconds)


def endpoint(own):
    """By hand, not by the code under test."""
    source, reception = Policy.DestinationOrder.BySourceTimestamp, Policy.DestinationOrder.ByReceptionTimestamp
    return Qos(
        Policy.Reliability.Reliable(0) if own.reliable else Policy.Reliability.BestEffort,
        DURABLE[own.durability],
        Policy.Deadline(span(own.deadline_s)),
        Policy.LatencyBudget(span(own.budget_s)),
        LEASES[own.liveliness](span(own.lease_s)),
        Policy.Ownership.Exclusive if own.exclusive else Policy.Ownership.Shared,
        source if own.by_source else reception,
    )


def group(own):
    return Qos(SCOPES[own.scope](coherent_access=own.coherent, ordered_access=own.ordered))


@pytest.fixture(scope="module")
def topic():
    with Participant(some_domain(), QUICK) as participant:
        assert isinstance(participant.entity, DomainParticipant)
        yield participant.entity, Topic(participant.entity, "t", SensorUpdates)


@given(offered=POLICIES, requested=POLICIES)
@settings(max_examples=150, deadline=None)
def test_what_fits_is_what_the_library_matches(topic, offered, requested):
    participant, made = topic
    writer = DataWriter(Publisher(participant, group(offered)), made, endpoint(offered))
    reader = DataReader(Subscriber(participant, group(requested)), made, endpoint(requested))
    matched = writer.get_publication_matched_status().current_count == 1
    refused = reader.get_requested_incompatible_qos_status().total_count == 1
    for entity in (reader, writer):
        entity.__del__()
    assert matched is not refused
    assert (mismatches(offered, requested) == []) is matched


@given(own=POLICIES)
@settings(max_examples=100, deadline=None)
def test_a_reader_that_fits_the_one_fits_what_is_offered_in_its_place(topic, own):
    participant, made = topic
    writer = DataWriter(participant, made, offering(own.carried, version_2=False))
    seen = policies_of(writer.get_qos())
    writer.__del__()
    assert seen == own.carried


def test_each_difference_is_told():
    requested = Policies(reliable=True, durability=2, deadline_s=0.5, liveliness=2, lease_s=1, exclusive=True)
    assert mismatches(Policies(), requested) == [
        "reliable, but best-effort is offered",
        "transient, but volatile is offered",
        "a deadline of 0.5 s, but inf s is offered",
        "manual-by-topic (1 s) liveliness, but automatic is offered",
        "exclusive ownership, but shared ownership is offered",
    ]


def test_what_is_not_kept_up_is_told():
    found = unsupported(Policies(durability=3, coherent=True, ordered=True, scope=2))
    assert found == [
        "durability persistent is carried as transient-local",
        "coherent changes are carried one by one",
        "the order of changes in a group is carried for each topic alone",
    ]
    assert unsupported(Policies(reliable=True, durability=1, exclusive=True)) == []


@given(own=POLICIES, strength=st.integers(0, 2**31 - 1), lifespan_s=st.floats(0, 1e9))
def test_policies_survive_being_told(own, strength, lifespan_s):
    own = replace(own, strength=strength, lifespan_s=lifespan_s)
    text = as_text(own)
    assert " " not in text
    assert from_text(text) == own


@pytest.mark.parametrize(
    "text", ["", "x", "reliable=1", "deadline_s", "deadline_s=", "deadline_s=-1", "deadline_s=nan", "durability=9",
             "liveliness=-1", "strength=1e3", "strength=-2", "scope=x", "reliable,,", "__class__=1"],
)  # fmt: skip
def test_text_that_is_no_policy(text):
    with pytest.raises(ValueError, match=r"polic|invalid|could not|strength"):
        from_text(text)
