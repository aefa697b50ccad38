"""A compromised client among the subscribers of streams: what it can do to others stays within what is documented."""

import json

import numpy as np
import pytest
from sensor_ends import TOPIC, Device, Watcher, an_offer

from firelane.sense import Fire, fire_trace
from firelane.sense.offer import GRANT, LOAD, OFFER, RESYNC, to_json
from firelane.sense.wire import Batch, encode

ROUNDING = 1 + 1e-9
PERIOD_S, FLOOR, MOST = 120.0, 0.05, 0.8


def grant_of(desk):
    message = desk.broker.retained.get((GRANT + TOPIC).encode())
    return None if message is None else json.loads(message.payload)


def played(desk, device, watchers, bounds, trace, nuisance):
    """A fire, and a nuisance after every reading; the largest errors in terms of the bounds, and all grants."""
    worst, grants = np.zeros(len(watchers)), []
    start = desk.now - trace.times_s[0]
    for step, (time_s, readings) in enumerate(zip(trace.times_s, trace.values, strict=True)):
        while desk.now + 0.1 <= start + time_s:
            desk.pass_time(0.1)
            device.tend()
        desk.now = start + time_s
        device.read(*readings)
        nuisance(step)
        for place, (watcher, bound) in enumerate(zip(watchers, bounds, strict=True)):
            watcher.take()
            error = np.abs(watcher.stream.bank.predict(device.time_s) - readings).max()
            worst[place] = max(worst[place], error / bound)
        if grant_of(desk) is not None:
            grants.append((desk.now, grant_of(desk)))
    return worst, grants


def trace_of(sensors, seconds=120.0):
    return fire_trace(Fire(rooms=1, sensors=sensors, seconds=seconds, noise=0.1, seed=9))


@pytest.fixture
def site(make_desk):
    """A device with two good watchers, one of which gets a stream of its own, and a client that is not good."""
    desk = make_desk(limits={"streams": 40, "stream_sensors": 400})
    device = Device(desk, offer=an_offer(4, load=MOST))
    watchers = [Watcher(desk, "fine", tolerance=0.5), Watcher(desk, "loose", tolerance=5)]
    evil = Watcher(desk, "evil", tolerance=0.5)
    return desk, device, watchers, evil


def test_absurd_load_signals_lower_the_target_slowly_and_not_below_the_floor(site):
    desk, device, watchers, evil = site
    watchers[0].line.publish(LOAD + TOPIC, b'{"format":1,"load":0.8}')
    absurd = [b'{"format":1,"load":0}', b'{"format":1,"load":-5}', b'{"format":1,"load":1e999}', b"[]", b"\xff" * 100,
              b'{"format":1,"load":"NaN"}', b'{"format":1,"load":1e-300}']  # fmt: skip

    def nuisance(step):
        for payload in absurd * 3:
            evil.line.publish(LOAD + TOPIC, payload)
        for number in range(3):  # and under other names, as one who subscribes and one who does not
            other = desk.join(f"evil-{step}-{number}")
            if number:
                other.subscribe(TOPIC)
            other.publish(LOAD + TOPIC, absurd[0])
            other.drop()

    worst, grants = played(desk, device, watchers, [0.5, 5], trace_of(4, 300.0), nuisance)
    assert worst.max() < ROUNDING  # precision is as it was promised, whatever the load
    began_s = grants[0][0]
    for now, grant in grants:
        least = MOST * 0.5 ** (1 + (now - began_s) / PERIOD_S)
        assert grant["load"] is None or grant["load"] >= max(FLOOR, 0.99 * least), now - began_s
        assert grant["tolerance"] == 0.5
    assert desk.broker.streams.refused["load"] > 1000
    assert len(desk.broker.streams.find(TOPIC).loads) <= 5


def test_floods_of_resync_cost_their_sender_only(site):
    desk, device, watchers, evil = site
    answers = 0

    def nuisance(step):
        nonlocal answers
        ranges = json.dumps({"format": 1, "batches": [[one, 2**32 - 1 - one] for one in range(256)]}).encode()
        too_many = json.dumps({"format": 1, "batches": [[one, one] for one in range(257)]}).encode()
        bad = (
            b'{"format":1,"sensors":[70000]}',
            b'{"format":1,"batches":[[-1,2]]}',
            b'{"format":1,"batches":[7]}',
            b"{",
        )
        for payload in (b'{"format":1}', b'{"format":1,"sensors":[0,1]}', ranges, too_many, *bad):
            for _ in range(10):
                evil.line.publish(RESYNC + TOPIC, payload)
        answers += evil.take()

    before = [len(one.messages) for one in watchers]
    trace = trace_of(4)
    worst, _ = played(desk, device, watchers, [0.5, 5], trace, nuisance)
    assert worst.max() < ROUNDING
    assert [one.stream.missed for one in watchers] == [0, 0]
    sent = device.sending.messages
    assert len(watchers[0].messages) - before[0] <= sent  # nobody else got anything of it
    assert answers <= sent + 4 * np.ptp(trace.times_s) + 1  # as few states as these, four times a second
    assert not any(one.topic.startswith(RESYNC) for one in device.line.messages())


def test_nobody_else_speaks_for_a_stream_nor_takes_all_the_room(site):
    desk, device, watchers, evil = site
    bogus = encode(
        Batch(
            boot=7, number=0, sensors=4, time_s=0.0, delta=99.0, total=9, updates=device.sending._sending.bank.whole()
        )
    )

    def nuisance(step):
        evil.line.publish(OFFER + TOPIC, to_json(an_offer(2, boot=step)), retain=True)
        evil.line.publish(OFFER + TOPIC, b"", retain=True)
        evil.line.publish(TOPIC, bogus)
        evil.line.publish(GRANT + TOPIC, b'{"format":1,"tolerance":99,"load":1,"subscribers":0}', retain=True)
        evil.line.publish(f"{OFFER}mine/{step}", to_json(an_offer(1)), retain=True)
        evil.line.publish(f"{OFFER}huge/{step}", to_json(an_offer(350)), retain=True)

    worst, grants = played(desk, device, watchers, [0.5, 5], trace_of(4), nuisance)
    assert worst.max() < ROUNDING
    assert {grant["tolerance"] for _, grant in grants} == {0.5}
    streams = desk.broker.streams
    assert streams.find(TOPIC).offer == device.offer
    assert sum(one.owner == "evil" for one in streams.followed.values()) == 10  # a quarter
    late = Device(desk, "late", topic="late", offer=an_offer(20))
    assert streams.find("late").owner == "late"
    late.line.drop()
    assert streams.refused["foreign"] > 100
    assert streams.refused["offer"] > 200
    assert len(streams.take_news()) <= 2


def test_nonsense_from_the_publisher_itself_harms_nobody_elses_stream(make_desk):
    desk = make_desk()
    good, bad = Device(desk, offer=an_offer(4)), Device(desk, "bad", topic="bad", offer=an_offer(4))
    watchers = [Watcher(desk, "fine", tolerance=0.5), Watcher(desk, "loose", tolerance=5)]
    victim = Watcher(desk, "victim", topic="bad", tolerance=9)
    Watcher(desk, "tight", topic="bad", tolerance=0.5)
    draw = np.random.default_rng(3)
    sound = SoundPayloads(bad)

    def nuisance(step):
        payload = bytearray(sound.next())
        for _ in range(int(draw.integers(0, 4))):
            payload[int(draw.integers(0, len(payload)))] = int(draw.integers(0, 256))
        bad.line.publish("bad", bytes(payload))
        victim.line.take_all()

    worst, _ = played(desk, good, watchers, [0.5, 5], trace_of(4), nuisance)
    assert worst.max() < ROUNDING
    assert desk.broker.streams.find("bad").messages > 10
    assert not bad.line.closed


class SoundPayloads:
    """Messages of a device that make sense."""

    def __init__(self, device):
        self.device, self.draw = device, np.random.default_rng(4)

    def next(self):
        made = []
        while not made:
            self.device.desk.now += 1e-4
            made = self.device.sending.observe(self.device.time_s, 20 + 9 * self.draw.normal(size=4))
        return made[0]


def test_what_is_kept_of_streams_is_bounded_whoever_comes_and_goes(make_desk):
    desk = make_desk(limits={"streams": 8, "stream_sensors": 500, "subscriptions": 5})
    device = Device(desk, offer=an_offer(20))
    Watcher(desk, "fine", tolerance=0.5)
    for number in range(60):
        guest = Watcher(desk, f"guest{number}", tolerance=5)
        device.read(*(20 + number * np.arange(20) / 10))
        guest.ask()
        guest.line.publish(LOAD + TOPIC, b'{"format":1,"load":0.2}')
        desk.pass_time(0.1)
        if number % 3:
            guest.line.drop()
    stream = desk.broker.streams.find(TOPIC)
    assert len(stream.coarse) <= 9  # each counts for 50 sensors, of 480
    desk.pass_time(0.1)
    assert len(stream.asked) <= 21
    for session in list(desk.broker.sessions):
        if session.startswith("guest"):
            desk.broker.end_session(session, desk.now)
    desk.pass_time(0.1)
    assert (len(stream.coarse), len(stream.asked), len(stream.loads)) == (0, 0, 0)
