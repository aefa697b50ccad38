"""Who misses messages knows whether it lacks anything: never too little, and nothing where nothing is missing."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.sense.asking import ASK_AFTER_S, ASK_AGAIN_S, ASK_SOON_S, LONGEST_ASK_S, Asker
from firelane.sense.numbering import MOST_GAPS, MOST_LACKING, Numbering
from firelane.sense.offer import Offer, Resync
from firelane.sense.receiving import ReceivingStream
from firelane.sense.sending import SendingStream
from firelane.sense.told import told_among
from firelane.sense.wire import WRAP, decode

COUNT = 12
CONTINUOUS, DISCRETE = {"precision": 0.5}, {"precision": None, "kind": "discrete"}


def offer(count: int = COUNT, **more) -> Offer:
    said = {"boot": 7, "heartbeat_s": 3.0, **CONTINUOUS} | more
    return Offer(sensors=tuple(f"T{number}" for number in range(count)), **said)


class Sender:
    """A publisher whose readings change at random; it remembers what was told up to each of its messages."""

    def __init__(self, seed: int, *, boot: int, trail: bool, most_bytes: int, kind: dict) -> None:
        self.random = np.random.default_rng([seed, boot])
        self.sending = SendingStream(offer(boot=boot, **kind), most_bytes=most_bytes)
        self.sending.trail(trail)
        self.value = self.random.normal(20, 5, COUNT)
        self.told: list[np.ndarray] = []  # the last sequence of every sensor, by numbers of messages
        self.made: list[np.ndarray] = []  # with what follows at once, as it does not fit

    def step(self, second: float) -> list[bytes]:
        """What has to be sent: updates, heartbeats, precisions."""
        self.value = self.value + self.random.normal(0, 0.3, COUNT)
        chosen = np.flatnonzero(self.random.random(COUNT) < 0.7)
        made = self.noted(self.sending.observe(second, self.value[chosen], chosen, apart=self.random.random() < 0.3))
        made += self.noted(self.sending.beat(second))
        if self.random.random() < 0.05 and not self.sending.offer.discrete:
            made += self.noted(self.sending.set_delta(second, self.random.choice([0.3, 0.5, 1.0])))
        return made

    def answer(self, second: float, asked: Resync) -> list[bytes]:
        return self.noted(self.sending.whole(second, self.sending.wanted(asked)))

    def noted(self, made: list[bytes]) -> list[bytes]:
        for message in made:
            batch = decode(message)
            last = self.told[-1].copy() if self.told else np.zeros(COUNT, np.int64)
            if batch.trail is not None:  # of messages before this one
                assert (batch.trail.sequence <= last[batch.trail.sensor]).all()
            last[batch.updates.sensor] = batch.updates.sequence
            assert batch.number == len(self.told)
            self.told.append(last)
        self.made += self.told[-1:] * len(made)
        assert all(decode(message).total == self.made[-1].sum() for message in made)  # as is documented
        return made


class Channel:
    """Loses messages, doubles them, and lets others overtake them."""

    def __init__(self, random: np.random.Generator, loss: float) -> None:
        self.random, self.loss = random, loss
        self.held: list[bytes] = []

    def through(self, messages: list[bytes]) -> list[bytes]:
        came = []
        for message in messages:
            fate = self.random.random()
            if fate < 0.7 * self.loss:
                continue
            if fate < self.loss:
                self.held.append(message)
                continue
            came += [message] * (1 + (self.random.random() < self.loss / 4))
            if self.held and self.random.random() < 0.4:
                came.append(self.held.pop(self.random.integers(len(self.held))))
        return came


KINDS = pytest.mark.parametrize("kind", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])


@KINDS
@pytest.mark.parametrize("trail", [False, True])
@pytest.mark.parametrize("loss", [0.1, 0.5])
@pytest.mark.parametrize("seed", range(2))
def test_a_claim_is_made_where_and_only_where_nothing_is_missing(seed, loss, trail, kind):
    """Losses, doubles, late ones, restarts, requests and answers that are lost; checked after every message."""
    random, known, claims, whole_claims = np.random.default_rng(seed), ReceivingStream(), 0, 0
    channel, asker, second = Channel(random, loss), Asker(), 0.0
    for boot in range(3):
        sender = Sender(seed, boot=boot, trail=trail, most_bytes=int(random.choice([200, 60_000])), kind=kind)
        newest, channel.held = -1, []
        known.expect(sender.sending.offer)
        for _ in range(60):
            second += 0.5
            made = sender.step(second)
            asked = asker.to_ask(known.ledger, known.bank, second) if len(known) else None
            if asked is not None and random.random() >= loss:
                made += sender.answer(second, asked)
            for message in channel.through(made):
                known.take(message, second)
                newest = max(newest, decode(message).number)
                held, there = known.bank.sequence, sender.told[newest]
                sure = np.isfinite(known.read(second).bound)
                assert (held[sure] == there[sure]).all()
                if np.array_equal(held, sender.made[newest]) and known.bank.in_step[held > 0].all():
                    assert not len(known.missing())
                    whole_claims += 1
                claims += np.count_nonzero(sure)
    assert claims > 500
    assert whole_claims > 0


@KINDS
@pytest.mark.parametrize("trail", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_heals_with_a_heartbeat_and_one_answer(seed, trail, kind):
    random, known = np.random.default_rng(seed), ReceivingStream()
    sender = Sender(seed, boot=1, trail=trail, most_bytes=300, kind=kind)
    channel = Channel(random, 0.4)
    for second in range(60):
        for message in channel.through(sender.step(float(second))):
            known.take(message, float(second))
    for message in sender.noted(sender.sending.beat(100.0)):
        known.take(message, 100.0)
    asked = known.ledger.wanted(known.bank)
    for message in sender.answer(100.5, asked):
        known.take(message, 100.5)
    assert not len(known.missing())
    assert known.ledger.wanted(known.bank) is None
    assert np.array_equal(known.bank.sequence, sender.told[-1])
    assert kind is DISCRETE or np.array_equal(known.bank.state, sender.sending._sending.bank.state)


def test_a_lost_message_without_updates_makes_nobody_unsure():
    sending, known = SendingStream(offer()), ReceivingStream()
    known.take(sending.observe(0.0, np.zeros(COUNT))[0], 0.0)
    for second in (4.0, 8.0):
        sending.beat(second)  # lost
    sending.set_delta(9.0, 2.0)
    sending.whole(9.5)
    known.take(sending.beat(12.0)[0], 12.0)
    assert known.missed == 4
    assert (known.read(12.0).bound == 2.0).all()  # and the precision is that of every header


def test_what_was_in_messages_that_never_came_is_asked_for_by_their_numbers_and_only_that_is_told():
    sending, known = SendingStream(offer(), model="last-value"), ReceivingStream()
    known.take(sending.observe(0.0, np.zeros(COUNT))[0], 0.0)
    sending.observe(1.0, np.array([9.0, 9.0]), np.array([3, 5]))  # lost
    sending.observe(1.5, np.array([9.0]), np.array([7]))  # lost
    known.take(sending.observe(2.0, np.array([18.0]), np.array([5]))[0], 2.0)
    sending.beat(2.5)  # lost
    known.take(sending.observe(3.0, np.array([9.0]), np.array([1]))[0], 3.0)
    asked = known.ledger.wanted(known.bank)
    assert asked == Resync(sensors=(5,), batches=((1, 2), (4, 4)))  # of one it knows that it is not in step
    (answer,) = sending.whole(4.0, sending.wanted(asked))
    assert decode(answer).updates.sensor.tolist() == [3, 5, 7]
    known.take(answer, 4.0)
    assert not len(known.missing())


def test_a_trail_says_whose_updates_were_lost_and_only_they_are_suspect():
    sending, known = SendingStream(offer()), ReceivingStream()
    sending.trail(True)
    known.take(sending.observe(0.0, np.zeros(COUNT))[0], 0.0)
    sending.observe(1.0, np.array([9.0, 9.0]), np.array([3, 5]))  # lost
    sending.observe(1.5, np.array([9.0]), np.array([7]))  # lost
    known.take(sending.beat(4.0)[0], 4.0)
    assert known.missing().tolist() == [3, 5, 7]
    assert known.ledger.wanted(known.bank) == Resync(sensors=(3, 5, 7))


def test_a_burst_longer_than_the_trail_makes_all_suspect_and_is_asked_for_by_numbers():
    sending, known = SendingStream(offer(20)), ReceivingStream()
    sending.trail(True)
    known.take(sending.observe(0.0, np.zeros(20))[0], 0.0)
    for sensor in range(9):
        sending.observe(1.0, np.array([9.0]), np.array([sensor]))  # lost
    known.take(sending.beat(4.0)[0], 4.0)
    assert len(known.missing()) == 20
    asked = known.ledger.wanted(known.bank)
    assert asked.batches == ((1, 9),)
    known.take(sending.whole(5.0, sending.wanted(asked))[0], 5.0)
    assert not len(known.missing())


def test_an_old_message_that_comes_late_is_no_proof_that_nothing_is_missing():
    """Its total is that of what is held here, and the newest message's is not."""
    sending, known = SendingStream(offer()), ReceivingStream()
    known.take(sending.observe(0.0, np.zeros(COUNT))[0], 0.0)
    late = sending.beat(1.0)[0]
    sending.observe(2.0, np.full(COUNT, 9.0))  # lost
    known.take(sending.beat(5.0)[0], 5.0)
    known.take(late, 5.1)
    assert np.isinf(known.read(5.1).bound).all()


def test_totals_wrap_like_numbers_do():
    sending, known = SendingStream(offer()), ReceivingStream()
    sending._sending.bank.sequence[:] = 0
    first = sending.observe(0.0, np.zeros(COUNT))
    sending._sending.bank.sequence[0] += WRAP - COUNT - 1
    sending._told.total += WRAP - COUNT - 1
    for message in (*first, *sending.whole(1.0), *sending.observe(2.0, np.full(COUNT, 9.0)), *sending.beat(4.0)):
        known.take(message, 4.0)
    assert decode(message).total == COUNT - 1
    assert not len(known.missing())


def test_the_sensors_told_in_some_messages_are_found_also_where_numbers_wrap():
    """Against the plain definition, number by number."""
    random = np.random.default_rng(1)
    for base in (0, 1000, WRAP - 40):
        for _ in range(50):
            told_in = (base + random.integers(0, 100, 30)) % WRAP
            told_in[random.random(30) < 0.1] = -1
            ranges = [(int(first), int(first + long)) for first, long in random.integers(0, 60, (5, 2))]
            asked = {(base + one) % WRAP for first, last in ranges for one in range(first, last + 1)}
            found = told_among(told_in, [((base + first) % WRAP, (base + last) % WRAP) for first, last in ranges])
            assert found.tolist() == [place for place, one in enumerate(told_in) if int(one) in asked]
    assert not len(told_among(told_in, ()))


# ---- what is asked for, and when


def lose(numbering: Numbering, *numbers: int) -> None:
    from test_numbering import batch

    for number in numbers:
        numbering.take(batch(number))


def test_gaps_are_those_since_nothing_was_missing_and_not_too_many():
    numbering = Numbering()
    lose(numbering, 0, 3)
    assert numbering.gaps() is None  # before the first message, who knows
    numbering.settle()
    assert numbering.gaps() == ()
    lose(numbering, 5, 9, 7)
    assert numbering.gaps() == ((4, 4), (6, 6), (8, 8))
    lose(numbering, *range(11, 11 + 2 * MOST_GAPS, 2))
    assert numbering.gaps() is None
    numbering.settle()
    assert numbering.gaps() == ()
    lose(numbering, 10_000)  # more than are remembered
    assert numbering.gaps() is None
    assert len(numbering._lacking) <= MOST_LACKING


def test_who_is_not_answered_asks_more_and_more_seldom_and_who_is_soon_again():
    sending, known, asker = SendingStream(offer()), ReceivingStream(), Asker()
    known.take(sending.observe(0.0, np.zeros(COUNT))[0], 0.0)
    assert asker.to_ask(known.ledger, known.bank, 0.0) is None
    sending.observe(1.0, np.full(COUNT, 9.0))  # lost
    known.take(sending.beat(1.0)[0], 1.0)
    asked = []
    for tenth in range(10, 2000):
        wanted = asker.to_ask(known.ledger, known.bank, tenth / 10)
        if wanted is not None:
            asked.append((tenth / 10, wanted))
    pauses = np.diff([when for when, _ in asked])
    assert asked[0][0] == pytest.approx(1.0 + ASK_AFTER_S)
    expected = [ASK_SOON_S, ASK_AGAIN_S, 2.0, 4.0, 8.0, 16.0, *[LONGEST_ASK_S] * (len(pauses) - 6)]
    assert pauses.tolist() == pytest.approx(expected, abs=0.11)  # as far as it is looked at
    assert asked[0][1].batches == ((1, 1),)
    assert asked[1][1] == Resync()  # numbers did not help
    known.take(sending.whole(200.0)[0], 200.0)
    assert asker.to_ask(known.ledger, known.bank, 200.0) is None
    assert not asker.lacks
