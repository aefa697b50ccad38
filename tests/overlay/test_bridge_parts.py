"""What a bridge does without a network: names, what messages say of samples, whom it cares for, and what waits."""

from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firelane.dds import PLAIN, Peer, Policies, RawSample
from firelane.mqtt.packets import Publish
from firelane.mqtt.topics import filter_problem, matches, topic_problem
from firelane.overlay.bridge import incoming, outgoing
from firelane.overlay.bridge.incoming import Incoming
from firelane.overlay.bridge.lan import (
    Lan,
    complaints,
    mark_of,
    mismatched,
    selecting,
    share_partition,
    sorted_out,
    tap_of,
)
from firelane.overlay.bridge.names import Names
from firelane.overlay.bridge.outgoing import Outgoing
from firelane.overlay.bridge.said import GONE, STATES, Said, SaidError, read_said

NAMES = Names("dds/0")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
FINE = Policies(reliable=True, durability=1, deadline_s=0.25)


def peer(topic="t", *, writes=False, policies=PLAIN, participant="p1", kind="f200", handle=1, partitions=()):
    return Peer(
        handle=handle,
        participant=participant,
        topic=topic,
        type_name="T",
        type_identity=kind,
        writes=writes,
        policies=policies,
        partitions=partitions,
        type_id=None,
    )


@given(name=TEXT, other=TEXT, key=st.binary())
@example(name="rt/chatter", other="rt", key=b"")
@example(name="100%", other="+/#", key=b"")
def test_a_dds_topic_is_one_level_and_can_be_read_back(name, other, key):
    topics = [NAMES.topic(name), NAMES.instance(name, "berlin", key, ("a",)), NAMES.kind(name, "f200")]
    plain, below = NAMES.filters(name)
    assert [topic_problem(one) for one in topics] == [None] * 3 or [*map(topic_problem, topics)] == [""] * 3
    assert not filter_problem(plain)
    assert not filter_problem(below)
    assert [NAMES.read(one)[0] for one in topics] == [name] * 3
    assert matches(plain, topics[0])
    assert all(matches(below, one) for one in topics[1:])
    if other != name:
        assert not any(matches(one, topic) for one in NAMES.filters(other) for topic in topics)


def test_instances_of_sites_and_partitions_are_apart():
    found = {
        NAMES.instance("t", site, key, partitions)
        for site in ("a", "b")
        for key in (b"1", b"2")
        for partitions in ((), ("x",), ("x", "y"))
    }
    assert len(found) == 12
    assert NAMES.is_instance(NAMES.instance("t", "a", b"1", ()), "a")
    assert not NAMES.is_instance(NAMES.instance("t", "ab", b"1", ()), "a")


@given(
    state=st.sampled_from(STATES),
    when_ns=st.integers(0, 2**63 - 1),
    partitions=st.lists(TEXT, max_size=3),
    key=st.binary(),
)
def test_what_is_said_of_a_sample_can_be_read(state, when_ns, partitions, key):
    said = Said(
        site="berlin", state=state, kind="f2", when_ns=when_ns, policies=FINE, partitions=tuple(partitions), key=key
    )
    assert read_said([("other", "x"), *said.properties()]) == said


@pytest.mark.parametrize(
    "text",
    ["", "1", "2 alive f2 0 - a", "1 dead f2 0 - a", "1 alive f2 -1 - a", "1 alive f2 x - a", "1 alive f2 0 nice a",
     "1 alive f2 9223372036854775808 - a", "1 alive f2 0 - a b"],
)  # fmt: skip
def test_what_cannot_be_understood(text):
    with pytest.raises(SaidError):
        read_said([("firelane-dds", text)])
    with pytest.raises(SaidError):
        read_said([("firelane-dds", "1 disposed f2 0 - a"), ("firelane-dds-key", "?")])


@given(st.lists(st.tuples(st.sampled_from(["firelane-dds", "firelane-dds-key", "firelane-dds-partition", "x"]), TEXT)))
@example([("firelane-dds", "1 alive f2 1 reliable=x a")])
@example([("firelane-dds", "1 alive f2 1 deadline_s=-1 a")])
def test_whatever_is_said_is_understood_or_not(properties):
    with suppress(SaidError):
        said = read_said(properties)
        assert (said is None) is not any(name == "firelane-dds" for name, _ in properties)


def test_endpoints_of_bridges_and_of_topics_left_out_are_nobodys():
    own = mark_of("dds/0", "b", 5)
    marks = {"other": mark_of("dds/1", "a", 1), "somebody": b"else"}
    peers = [
        peer("t"),
        peer("t", participant="other"),
        peer("t", participant="somebody"),
        peer("u", writes=True),
        peer("DCPSTopic"),
        peer("secret"),
    ]
    lan = sorted_out(peers, marks, own, selecting(["?", "x*"]))
    assert lan == Lan({"t": [peers[0], peers[2]]}, {"u": [peers[3]]})


def test_of_several_bridges_the_first_carries():
    marks = [mark_of("dds/0", site, boot) for site, boot in (("b", 9), ("a", 8), ("ab", 1), ("c", 0))]
    carrying = []
    for own in marks:
        others = {str(n): mark for n, mark in enumerate(marks) if mark != own}
        if not sorted_out([peer()], others, own, lambda topic: True).stands_by:
            carrying.append(own)
    assert carrying == [marks[1]]
    former = {"x": mark_of("dds/0", "a", 3), "y": b"firelane-bridge\0dds/0"}  # its own before a crash, and nonsense
    assert not sorted_out([peer()], former, marks[1], lambda topic: True).stands_by


def test_readers_become_subscriptions():
    readers = [peer(), peer(policies=FINE), peer(policies=Policies(deadline_s=2.0))]
    lan = Lan({"t": readers, "u": [peer("u")]}, {})
    wishes = lan.wishes()
    assert (wishes["t"].qos, wishes["t"].need) == (1, {"max-delay": "0.25 s"})
    assert (wishes["u"].qos, wishes["u"].need) == (0, None)


def test_only_wanted_topics_are_read_and_each_kind_of_writer_apart():
    kinds = [
        peer(writes=True),
        peer(writes=True, policies=Policies(deadline_s=1.0)),  # heard by the same
        peer(writes=True, policies=FINE),
        peer(writes=True, kind="f201"),
        peer(writes=True, kind=None),  # cannot be
    ]
    lan = Lan({}, {"t": kinds, "u": [peer("u", writes=True)]})
    assert lan.taps(lambda topic: topic == "t") == {tap_of(kinds[0]), tap_of(kinds[2]), tap_of(kinds[3])}
    assert list(complaints(lan)) == ['DDS topic "t": a writer of p1 does not tell its type (T), so it is not carried']


def test_what_is_not_kept_up_is_told_for_each_endpoint():
    lan = Lan({"t": [peer(policies=Policies(durability=2))]}, {"t": [peer(writes=True, policies=FINE)]})
    line = 'DDS topic "t": a reader of p1: durability transient is carried as transient-local'
    assert complaints(lan) == {line: "unsupported"}


def test_a_reader_that_asks_for_more_is_told():
    assert mismatched(peer(policies=PLAIN), FINE, "a") is None
    line = mismatched(peer(policies=FINE), PLAIN, "a")
    assert line.startswith('DDS topic "t": a reader of p1 gets nothing from a: it asks for reliable, but best-effort')
    assert "\n" not in line


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [((), (), True), ((), ("a",), False), (("a", "b"), ("b",), True), (("a*",), ("ab",), True),
     (("ab",), ("a*",), True), (("a*",), ("a*",), False), (("*",), (), True), ((), ("*",), True),
     (("a?",), ("a",), False)],
)  # fmt: skip
def test_partitions_in_common(one, other, same):
    assert share_partition(one, other) is same


class Waiting:
    """The side to readers, of which nothing is known but that they are there."""

    def __init__(self):
        self.done, self.lines = [], []
        catalogue = SimpleNamespace(get=lambda identity: None, ask=lambda peer: None, learn=lambda document: None)
        self.incoming = Incoming(
            None, catalogue, NAMES, "here", done=self.done.append, tell=lambda kind, line: self.lines.append(line)
        )
        self.incoming.have(Lan({"t": [peer()]}, {}))

    def came(self, payload=b"x", now=0.0, **said):
        properties = {"user_property": Said(**{"site": "a", "kind": "f2"} | said).properties()}
        self.incoming.came(Publish(topic="dds/0/t", payload=payload, qos=1, properties=properties), now)


def test_messages_wait_for_their_type_only_so_many_and_so_long():
    here = Waiting()
    for _ in range(incoming.MOST_WAITING + 10):
        here.came()
    assert len(here.done) == 10
    here.incoming.tick(incoming.PATIENCE_S - 0.1)
    assert len(here.done) == 10
    here.incoming.tick(incoming.PATIENCE_S + 0.1)
    assert len(here.done) == incoming.MOST_WAITING + 10
    expected = {"dropped: too much waits": 10, "dropped: its type is not known": incoming.MOST_WAITING}
    assert here.incoming.counts == expected


def test_bytes_that_wait_are_bounded_over_all():
    here = Waiting()
    size = incoming.MOST_WAITING_BYTES // 8
    for n in range(20):
        here.came(bytes(size), kind=f"f{n}")
    assert sum(here.incoming.counts.values()) == len(here.done) == 12


def test_kinds_of_writers_are_bounded():
    here = Waiting()
    for n in range(incoming.MOST_OUTLETS + 5):
        here.came(site=f"s{n}")
    assert len(here.incoming) == incoming.MOST_OUTLETS
    assert here.incoming.counts == {"dropped: too many kinds of writers elsewhere": 5}


def test_what_is_of_this_site_or_nobody_reads_goes_nowhere():
    here = Waiting()
    here.came(site="here")
    here.came(state=GONE)
    here.came(state="disposed", key=b"k")  # of a writer that was never heard of
    here.incoming.came(Publish(topic="dds/0/u", payload=b"x", qos=1), 0.0)
    assert (len(here.done), len(here.incoming)) == (4, 0)
    assert not here.incoming.counts


def test_a_site_that_is_gone_and_readers_that_have_left_take_their_writers_with_them():
    here = Waiting()
    here.came(site="a")
    here.came(site="b")
    here.incoming.gone("a")
    assert here.incoming.sites() == {"b"}
    here.incoming.have(Lan())
    assert (len(here.incoming), len(here.done)) == (0, 2)
    assert here.incoming.counts == {"dropped: its site is away": 1, "dropped: nobody reads it any more": 1}


def test_writers_that_have_gone_linger_and_a_new_sample_brings_them_back():
    here = Waiting()
    for state in ("alive", GONE):
        here.came(state=state, now=0.0)
    here.incoming.tick(incoming.PATIENCE_S + 0.1)  # what waited was given up
    here.incoming.tick(incoming.PATIENCE_S + 0.2)
    assert len(here.incoming) == 0
    here.came(now=10.0)
    here.came(state=GONE, now=10.0, kind=None)  # all of the site
    here.came(now=10.1)
    here.incoming.tick(12.0)
    assert len(here.incoming) == 1


class Tapped:
    """The side of writers, which never stop writing."""

    def __init__(self, policies):
        self.published, self.taken = [], 0
        self.peer = peer(writes=True, policies=policies)
        roster = SimpleNamespace(find=lambda handle: self.peer, marks={})
        kind = SimpleNamespace(keyed=False)
        self.outgoing = Outgoing(
            None,
            roster,
            SimpleNamespace(get=lambda identity: kind),
            NAMES,
            "here",
            publish=self.published.extend,
            most_bytes=5000,
            tell=lambda kind, line: None,
            follow=lambda readers: None,
        )
        self.outgoing._taps[tap_of(self.peer)] = self
        self.size, self.left = 10, 10_000

    def take(self, most):
        count = min(most, self.left)
        self.left -= count
        return [RawSample(writer=1, when_ns=n, data=bytes(self.size)) for n in range(count)]


def test_only_so_many_reliable_samples_are_under_way():
    here = Tapped(Policies(reliable=True))
    assert not here.outgoing.drain()  # the rest stays with the reader
    under_way = len(here.published)
    assert outgoing.WINDOW - 2 <= under_way <= outgoing.WINDOW
    assert len({one.packet_id for one in here.published}) == under_way
    for one in here.published[:100]:
        here.outgoing.settled(one.packet_id, 0)
    assert not here.outgoing.drain()
    assert under_way + 98 <= len(here.published) <= under_way + 100
    for one in here.published[100:200]:
        here.outgoing.settled(one.packet_id, 0x97)
    assert here.outgoing.counts["refused 0x97"] == 100


def test_best_effort_samples_do_not_wait_and_none_is_too_large():
    here = Tapped(PLAIN)
    here.left = 1000
    assert here.outgoing.drain()
    assert [one.qos for one in here.published] == [0] * 1000
    here.left, here.size = 7, 4900
    assert here.outgoing.drain()
    assert len(here.published) == 1000
    assert here.outgoing.counts["too large"] == 7


def test_what_other_bridges_write_is_left_alone():
    here = Tapped(PLAIN)
    here.left = 3
    here.outgoing._roster.marks["p1"] = mark_of("dds/1", "x", 1)
    assert here.outgoing.drain()
    assert (here.published, here.outgoing.counts) == ([], {"of other bridges": 3})
