"""Writers and readers between two participants on loopback: delivery, keys, histories, and bounds that hold."""

from contextlib import contextmanager

import pytest
from dds_rooms import QUICK, wait_until

from dds_domains import some_domain
from firelane.dds import Gone, Network, Participant, Reader, SensorUpdates, Writer
from firelane.dds.network import UNCONFIRMED_BYTES


@contextmanager
def two_participants(network=QUICK):
    domain = some_domain()
    with Participant(domain, network) as one, Participant(domain, QUICK) as other:
        yield one, other


def sample(number, stream="s", size=4):
    return SensorUpdates(stream=stream, payload=number.to_bytes(4, "big") * (size // 4))


def number(got):
    return int.from_bytes(got.payload[:4], "big")


def taken(reader, wanted):
    found = []
    wait_until(lambda: found.extend(reader.take()) or len(found) >= wanted)
    return found


@pytest.mark.parametrize("reliable", [False, True])
def test_what_is_written_is_read_in_order(reliable):
    with two_participants() as (one, other):
        writer, reader = Writer(one, "t", reliable=reliable), Reader(other, "t", reliable=reliable)
        wait_until(lambda: writer.statistics().matched == 1 == reader.statistics().matched)
        for i in range(50):
            assert writer.send(sample(i, stream=f"s{i % 3}"))
        got = taken(reader, 50)
        for key in range(3):  # order is kept for a key
            mine = [number(one) for one in got if one.stream == f"s{key}"]
            assert mine == list(range(key, 50, 3))
        assert writer.statistics().sent == 50 == reader.statistics().taken


def test_participants_of_other_domains_hear_nothing():
    with two_participants() as (one, _), Participant(one.domain + 1, QUICK) as stranger:
        writer, reader = Writer(one, "t"), Reader(stranger, "t")
        with pytest.raises(AssertionError):
            wait_until(lambda: writer.statistics().matched or reader.statistics().matched, within_s=0.5)


def test_only_the_last_of_each_key_are_kept_if_asked():
    with two_participants() as (one, other):
        writer = Writer(one, "t", reliable=True)
        reader = Reader(other, "t", reliable=True, history=3)
        wait_until(lambda: writer.statistics().matched == 1 == reader.statistics().matched)
        for i in range(40):
            assert writer.send(sample(i, stream=f"s{i % 2}"))
        assert writer.wait_confirmed(within_s=20)
        got = [(one.stream, number(one)) for one in reader.take()]
        assert sorted(got) == [("s0", 34), ("s0", 36), ("s0", 38), ("s1", 35), ("s1", 37), ("s1", 39)]


def test_a_best_effort_reader_that_is_not_emptied_keeps_no_more_than_its_bound_and_counts_the_rest():
    with two_participants() as (one, other):
        writer, reader = Writer(one, "t"), Reader(other, "t", most_samples=100)
        wait_until(lambda: writer.statistics().matched == 1 == reader.statistics().matched)
        wait_until(lambda: [writer.send(sample(0)) for _ in range(20)] and reader.statistics().rejected >= 200)
        got = []
        while batch := reader.take():
            got += batch
        assert len(got) == 100
        assert writer.statistics().refused == 0


def test_a_reliable_writer_refuses_beyond_its_bound_and_loses_nothing_that_it_took():
    with two_participants() as (one, other):
        writer = Writer(one, "t", reliable=True)
        reader = Reader(other, "t", reliable=True, most_samples=20)
        wait_until(lambda: writer.statistics().matched == 1 == reader.statistics().matched)
        accepted = 0
        while writer.send(sample(accepted, size=40_000)):
            accepted += 1
            assert accepted * 40_000 < 3 * UNCONFIRMED_BYTES, "it has no bound"
        assert accepted * 40_000 > UNCONFIRMED_BYTES / 2
        assert not writer.wait_confirmed(within_s=0.1)
        assert [number(got) for got in taken(reader, accepted)] == list(range(accepted))
        assert writer.wait_confirmed(within_s=20)
        assert writer.send(sample(1, size=40_000))
        assert writer.statistics().refused == 1


def test_readers_that_want_more_than_is_offered_are_counted_not_served():
    with two_participants() as (one, other):
        writer, reader = Writer(one, "t", reliable=False), Reader(other, "t", reliable=True)
        wait_until(lambda: writer.statistics().incompatible == 1 == reader.statistics().incompatible)
        assert writer.statistics().matched == 0 == reader.statistics().matched
        humble = Reader(other, "t", reliable=False)
        wait_until(lambda: writer.statistics().matched == 1 == humble.statistics().matched)


def test_a_reader_is_told_that_a_writer_has_ended():
    with two_participants() as (one, other):
        writer, reader = Writer(one, "t"), Reader(other, "t")
        wait_until(lambda: writer.statistics().matched == 1 == reader.statistics().matched)
        writer.send(sample(1, stream="s1"))
        assert [got.stream for got in taken(reader, 1)] == ["s1"]
        writer.close()
        (gone,) = taken(reader, 1)
        assert isinstance(gone, Gone)
        assert gone.key.stream == "s1"
        assert (reader.statistics().matched, reader.statistics().matched_ever) == (0, 1)


def test_emulated_loss_is_the_share_asked_for():
    """Of 5000 packets, within five standard deviations of the binomial distribution: 1500 +- 162."""
    with two_participants(Network(loss=0.3, lease_s=2.0)) as (one, other):
        writer, reader = Writer(one, "t"), Reader(other, "t")
        wait_until(lambda: writer.statistics().matched == 1 == reader.statistics().matched)
        got = []
        for i in range(5000):
            writer.send(sample(i))
            got += reader.take()
        wait_until(lambda: (writer.send(sample(9999)) and got.extend(reader.take())) or number(got[-1]) == 9999)
        lost = 5000 - len({number(one) for one in got} - {9999})
        assert 1338 <= lost <= 1662
