"""Random histories of streams: losses, restarts, other precisions, requests and answers that are lost.

A bound that is claimed holds, who lacks nothing claims it, and all heals.
"""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest
from sensor_ends import TOPIC, Device, Watcher, an_offer

from firelane.sense import UpdateError
from firelane.sense.offer import GRANT, RESYNC, Resync, from_json, to_json
from firelane.sense.sending import SendingStream
from firelane.sense.subscriber import FollowedStream
from firelane.sense.wire import decode

SENSORS = 4
TICK_S = 0.1
SEEDS = range(3)
ONES = (None, 0.5, 0.8, 1.5, 3.0, 6.0)  # tolerances


class Channel:
    """Loses, doubles and holds back messages; `sound` if the latest of them has come."""

    def __init__(self, dice: random.Random, loss: float) -> None:
        self.dice, self.loss = dice, loss
        self.held: list[bytes] = []
        self.sound = False
        self.latest = -np.inf, 0, 0

    def through(self, payloads):
        came = []
        for payload in payloads:
            chance = self.dice.random()
            batch = decode(payload)
            time_s, boot, number = self.latest
            if batch.number >= number if batch.boot == boot else batch.time_s >= time_s:
                self.latest = batch.time_s, batch.boot, batch.number
                self.sound = chance >= self.loss
            if chance < 0.6 * self.loss:
                continue
            if chance < self.loss:
                self.held.append(payload)
                continue
            came.append(payload)
            if self.held and self.dice.random() < 0.5:  # overtaken by this one
                came.append(self.held.pop(self.dice.randrange(len(self.held))))
            if self.dice.random() < self.loss / 4:
                came.append(payload)
        return came


class World:
    """A publisher, an exchange that is driven by hand, and subscribers."""

    def __init__(self, desk, seed: int, loss: float, model: str) -> None:
        self.dice = random.Random(seed)
        self.noise = np.random.default_rng(seed)
        self.desk, self.loss, self.model = desk, loss, model
        self.up = Channel(self.dice, loss)
        self.boot = 0
        self.share = 1.0
        self.value = self.noise.normal(20, 5, SENSORS)
        self.slope = np.zeros(SENSORS)
        self.watchers: dict[str, tuple[Watcher, Channel]] = {}
        self.claims = self.complete = 0
        self.start()

    def start(self) -> None:
        """The publisher begins, or begins anew."""
        self.boot += 1
        offer = an_offer(SENSORS, boot=self.boot, precision=0.5, heartbeat_s=4.0)
        self.device = Device(self.desk, offer=offer)
        self.device.sending = SendingStream(offer, model=self.model)
        self.device.send = self.send
        self.device.sending.trail(self.dice.random() < 0.5)
        self.lacking: list[Resync] = []
        for watcher, _ in self.watchers.values():
            watcher.stream.offered(offer)

    def send(self, payloads):
        for payload in self.up.through(payloads):
            self.device.line.publish(TOPIC, payload)

    def read(self) -> None:
        """Some sensors are read, and what is claimed of them must hold."""
        self.slope = 0.9 * self.slope + self.noise.normal(0, 0.4, SENSORS)
        self.value = self.value + self.slope + (self.dice.random() < 0.05) * self.noise.normal(0, 9, SENSORS)
        chosen = np.flatnonzero(self.noise.random(SENSORS) < 0.8)
        if len(chosen):
            self.send(self.device.sending.observe(self.device.time_s, self.value[chosen], chosen))
            self.check(chosen)

    def take(self) -> None:
        for watcher, channel in self.watchers.values():
            came = [one.payload for one in watcher.line.take_all() if getattr(one, "topic", "") == TOPIC]
            for payload in channel.through(came):
                with contextlib.suppress(UpdateError):
                    watcher.stream.take(payload, self.desk.now)

    def check(self, chosen) -> None:
        self.take()
        if not self.up.sound:
            return
        for name, (watcher, channel) in self.watchers.items():
            stream = watcher.stream
            if not channel.sound or len(stream) < SENSORS:
                continue
            known = stream.read(self.desk.now, chosen)
            values = stream.bank.predict(self.device.time_s, chosen)
            claimed = np.isfinite(known.bound) & np.isfinite(values) & ~known.lost
            off = np.abs(values - self.value[chosen])
            assert (off[claimed] < known.bound[claimed]).all(), (name, off, known.bound, self.desk.now)
            self.claims += int(claimed.sum())
            self.check_complete(name, stream)

    def check_complete(self, name: str, stream) -> None:
        """Who has all updates of what it is told, and its last message, does not suspect anything."""
        there = self.desk.broker.streams.find(TOPIC)
        coarser = there.coarse.get(self.desk.session(name))
        own = self.device.sending._sending.bank if coarser is None else coarser.recoding.bank
        boot = self.boot if coarser is None else coarser.boot
        unsure = coarser is not None and there.unsure
        if stream.boot == boot and np.array_equal(stream.bank.sequence, own.sequence) and stream.bank.in_step.all():
            assert bool(len(stream.missing())) == unsure, name
            self.complete += 1

    def tick(self) -> None:
        self.desk.pass_time(TICK_S)
        for one in self.device.line.take_all():
            if getattr(one, "topic", "").startswith(GRANT) and one.payload:
                self.granted = one.payload
            elif getattr(one, "topic", "").startswith(RESYNC):
                self.lacking.append(from_json(Resync, one.payload))
        stream = self.desk.broker.streams.find(TOPIC)
        tightest = 0.5 if stream is None or stream.grant is None else stream.grant.tolerance or 0.5
        self.send(self.device.sending.set_delta(self.device.time_s, self.share * max(0.5, tightest)))
        for asked in self.lacking:
            if self.dice.random() >= self.up.loss:
                self.send(self.device.sending.whole(self.device.time_s, self.device.sending.wanted(asked)))
        self.lacking.clear()
        self.send(self.device.sending.beat(self.device.time_s))
        self.take()
        for watcher, channel in self.watchers.values():
            asked = watcher.stream.to_ask(self.desk.now) if len(watcher.stream) else Resync()
            if asked is not None and self.dice.random() >= channel.loss:
                watcher.line.publish(RESYNC + TOPIC, to_json(asked))
        for coarser in () if stream is None else stream.coarse.values():
            coarser.told.trailing = self.dice.random() < 0.5

    def join(self) -> None:
        name = self.dice.choice("abcd")
        before = self.watchers.get(name)
        tolerance = self.dice.choice(ONES)
        properties = {} if tolerance is None else {"tolerance": tolerance}
        if before is not None and self.dice.random() < 0.5:  # over the same connection
            before[0].subscribe(TOPIC, **properties)
            return
        watcher = Watcher(self.desk, name, **properties)
        watcher.stream = FollowedStream(TOPIC, lambda: self.desk.now) if before is None else before[0].stream
        watcher.stream.offered(self.device.offer)
        self.watchers[name] = watcher, Channel(self.dice, self.loss)

    def crash(self) -> None:
        self.desk.crash()
        sending, offer = self.device.sending, self.device.offer
        self.device = Device(self.desk, offer=offer)
        self.device.sending, self.device.send = sending, self.send
        self.lacking = [Resync()]
        for name, (watcher, _) in list(self.watchers.items()):
            again = Watcher(self.desk, name, tolerance=1.5)
            again.stream = watcher.stream
            self.watchers[name] = again, Channel(self.dice, self.loss)

    def go(self, steps: int) -> None:
        for _ in range(steps):
            chance = self.dice.random()
            if chance < 0.02:
                self.start()
            elif chance < 0.03:
                self.crash()
            elif chance < 0.08:
                self.join()
            elif chance < 0.12:
                self.share = self.dice.choice((1.0, 0.7, 0.3))
            self.tick()
            if self.dice.random() < 0.6:
                self.read()

    def calm(self) -> None:
        for channel in (self.up, *(one for _, one in self.watchers.values())):
            channel.loss = 0.0
            channel.held.clear()
        for _ in range(150):  # not four heartbeats: one to notice what is missing, some to ask again
            self.tick()
            self.read()
        for watcher, _ in self.watchers.values():
            assert not len(watcher.stream.missing())
            assert np.isfinite(watcher.stream.read(self.desk.now).bound).all()


@pytest.mark.parametrize("model", ["kalman", "auto"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_a_claim_holds_and_all_heals(desk, seed, loss, model):
    world = World(desk, seed, loss, model)
    world.go(400)
    world.calm()
    assert world.claims > 300
    assert world.complete > 100
