"""The estimate of what a link carries, against links whose capacity is known."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from fluid import Fluid
from hypothesis import given, settings
from hypothesis import strategies as st

from firelane.control.bandwidth import FLOOR, LONGEST_WAIT_S, PROBE_SEGMENTS, SEGMENT_BITS, STEP, Bandwidth, State
from firelane.exchange.sockets.kernel import SeenKernel

MBPS = 1e6
CONFIGURED = 10 * MBPS
PACE = 0.97
LOOK_S, HURRIED_S = 0.25, 0.1
NEAR = 0.15  # of the real rate


class Run:
    """A link and its estimate, looked at as the exchange does."""

    def __init__(self, link: Fluid, **more: float) -> None:
        self.link = link
        self.estimate = Bandwidth(CONFIGURED, PACE, **more)
        self.now = 0.0
        self.known = []  # (time, estimate)
        self.states = []  # (time, state), as it changes

    def until(self, end, wanted=lambda estimate: False):
        """Let time pass, at most until the estimate is as wanted; says when that was."""
        while self.now < end:
            estimate = self.estimate
            look_s = HURRIED_S if estimate.hurried else LOOK_S
            seen = self.link.run(look_s, estimate.pace_bps, probing=estimate.probing)
            self.now += seen.window_s
            estimate.look(self.now, seen)
            self.known.append((self.now, estimate.bandwidth_bps))
            if not self.states or self.states[-1][1] is not estimate.state:
                self.states.append((self.now, estimate.state))
            if wanted(estimate):
                break
        return self.now

    def near(self, bps):
        return lambda estimate: abs(estimate.bandwidth_bps - bps) <= NEAR * bps


def overloaded(capacity_bps=CONFIGURED, **more):
    return Fluid(**{"capacity_bps": capacity_bps, "offered_bps": 2 * CONFIGURED, **more})


def a_look(**fields):
    plain = {"window_s": 0.25, "paced_bytes": 300_000, "acked_bytes": 300_000, "shortest_s": 0.001, "grown_s": 0.0}
    return SeenKernel(**{**plain, "held": 0.0, "waiting": False, "withheld": 0, **fields})


def test_a_link_that_carries_what_it_should_is_left_alone():
    run = Run(overloaded(noise_s=0.004))
    run.until(60)
    assert {bps for _, bps in run.known} == {CONFIGURED}
    assert run.estimate.known_by == "configured"
    assert run.estimate.pace_bps == PACE * CONFIGURED


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.8])
def test_a_slower_link_is_noticed_in_a_second_and_probed_step_by_step_when_it_is_as_fast_as_before(share):
    run = Run(overloaded(noise_s=0.002))
    run.until(5)
    run.link.capacity_bps = share * CONFIGURED
    assert run.until(30, run.near(share * CONFIGURED)) - 5 < 1.0
    assert run.estimate.known_by == "acknowledged"
    run.until(20)
    assert run.near(share * CONFIGURED)(run.estimate)
    run.link.capacity_bps = CONFIGURED
    rates = share * CONFIGURED * (1 + STEP) ** np.arange(math.ceil(math.log(1 / share) / math.log(1 + STEP)))
    probing_s = sum(LOOK_S + PROBE_SEGMENTS * SEGMENT_BITS / rates)
    assert run.until(60, lambda one: one.bandwidth_bps == CONFIGURED) - 20 < LONGEST_WAIT_S + 1.0 + probing_s
    assert run.estimate.known_by == "probed"


def test_the_queue_is_gone_soon_after_the_link_has_become_slower():
    run = Run(overloaded())
    run.until(5)
    run.link.capacity_bps = CONFIGURED / 2
    run.until(7)
    assert 8 * run.link.queue / run.link.capacity_bps < 0.01


def test_load_below_what_the_link_still_carries_changes_nothing():
    run = Run(Fluid(capacity_bps=CONFIGURED / 2, offered_bps=0.4 * CONFIGURED, noise_s=0.004))
    run.until(30)
    assert {bps for _, bps in run.known} == {CONFIGURED}


@pytest.mark.parametrize("acked", [0, 20_000])
def test_want_of_traffic_says_nothing_even_if_clients_acknowledge_late(acked):
    estimate = Bandwidth(CONFIGURED, PACE)
    for look in range(100):
        estimate.look(look * LOOK_S, a_look(paced_bytes=acked, acked_bytes=acked, grown_s=0.04))
    assert estimate.bandwidth_bps == CONFIGURED


def test_an_exchange_that_has_no_time_to_send_is_no_slow_link():
    estimate = Bandwidth(CONFIGURED, PACE)
    for look in range(100):  # half of what it should, something waits, but the kernel has nothing left to send
        late = a_look(paced_bytes=150_000, acked_bytes=150_000, grown_s=0.04, waiting=True)
        estimate.look(look * LOOK_S, late)
    assert estimate.bandwidth_bps == CONFIGURED


def test_what_waits_for_a_slow_client_is_no_slow_link():
    estimate = Bandwidth(CONFIGURED, PACE)
    for look in range(100):  # the kernel's record leaves such a client out, but its messages wait
        estimate.look(look * LOOK_S, a_look(paced_bytes=50_000, acked_bytes=50_000, waiting=True))
    assert estimate.bandwidth_bps == CONFIGURED


def test_a_connection_that_is_full_says_nothing_as_long_as_round_trips_are_short():
    estimate = Bandwidth(CONFIGURED, PACE)
    for look in range(100):
        estimate.look(look * LOOK_S, a_look(acked_bytes=200_000, grown_s=0.003, held=1.0, waiting=True))
    assert estimate.bandwidth_bps == CONFIGURED


def looked_at(estimate, looks, seen):
    for _ in range(looks):
        estimate.look(0.0, seen)


def test_many_thin_connections_that_no_window_holds_up_fill_a_link_too():
    estimate = Bandwidth(CONFIGURED, PACE)
    looked_at(estimate, 3, a_look(paced_bytes=300_000, acked_bytes=150_000, grown_s=0.1))
    assert estimate.bandwidth_bps == 8 * 150_000 / 0.25


def test_a_trickle_is_not_taken_for_nothing():
    estimate = Bandwidth(CONFIGURED, PACE)
    looked_at(estimate, 3, a_look(acked_bytes=10, grown_s=1.0, held=1.0, waiting=True))
    assert estimate.bandwidth_bps == FLOOR * CONFIGURED


def probing(grown_s=0.0):
    estimate = Bandwidth(CONFIGURED, PACE, known_bps=CONFIGURED / 2)
    estimate.look(0.0, a_look(paced_bytes=150_000, acked_bytes=150_000, waiting=True, grown_s=grown_s))
    assert estimate.probing
    return estimate


def test_a_probe_proves_no_more_than_was_sent_in_it():
    """After a loss is made good, much is acknowledged at once that was sent before."""
    estimate = probing()
    estimate.look(1.0, a_look(paced_bytes=165_000, acked_bytes=300_000))
    assert estimate.bandwidth_bps == 8 * 165_000 / 0.25


def test_after_a_probe_only_its_own_queue_is_drained():
    estimate = probing(grown_s=0.05)
    estimate.look(1.0, a_look(paced_bytes=165_000, acked_bytes=150_000, grown_s=0.07))
    assert estimate.state is State.DRAINING
    estimate.look(2.0, a_look(grown_s=0.052))
    assert estimate.state is State.STEADY


def test_a_queue_is_gone_when_no_more_comes_out_than_goes_in_however_late_the_mean_round_trip_says_so():
    estimate = Bandwidth(CONFIGURED, PACE)
    looked_at(estimate, 3, a_look(acked_bytes=150_000, grown_s=0.2, held=1.0, waiting=True))
    looked_at(estimate, 1, a_look(paced_bytes=75_000, acked_bytes=150_000, grown_s=0.2))
    looked_at(estimate, 1, a_look(paced_bytes=75_000, acked_bytes=70_000, grown_s=0.2, held=0.5))  # a loss
    assert estimate.state is State.DRAINING
    looked_at(estimate, 1, a_look(paced_bytes=75_000, acked_bytes=75_000, grown_s=0.1))
    assert estimate.state is State.STEADY


def test_one_bad_look_or_two_are_not_enough():
    slow = a_look(acked_bytes=150_000, grown_s=0.1, held=1.0, waiting=True)
    estimate = Bandwidth(CONFIGURED, PACE)
    for look in range(60):
        estimate.look(look * LOOK_S, a_look() if look % 3 == 2 else slow)
    assert estimate.bandwidth_bps == CONFIGURED


def test_an_outage_is_not_taken_for_a_slow_link():
    estimate = Bandwidth(CONFIGURED, PACE)
    for look in range(60):
        estimate.look(look * LOOK_S, a_look(acked_bytes=0, grown_s=1.0, held=1.0, waiting=True))
    assert estimate.bandwidth_bps == CONFIGURED


def test_probes_make_no_queue_worth_mentioning_and_become_rare():
    run = Run(overloaded(), known_bps=CONFIGURED / 2)
    run.link.capacity_bps = CONFIGURED / 2
    run.until(5)
    run.link.longest_queue_s = 0.0
    run.until(65)
    assert 0 < run.link.longest_queue_s <= (1 + STEP) * LOOK_S - LOOK_S + 0.005
    probes = [when for when, state in run.states if state is State.PROBING]
    assert 10 <= len(probes) <= 17
    assert all(gap >= LONGEST_WAIT_S for gap in [later - earlier for earlier, later in pairwise(probes)][3:])
    assert run.estimate.bandwidth_bps == pytest.approx(CONFIGURED / 2, rel=0.03)


def test_a_probe_sends_a_bounded_step_more_and_never_more_than_is_configured():
    run = Run(overloaded(), known_bps=CONFIGURED / 2)
    paces = []
    while run.now < 20:
        before = run.estimate.bandwidth_bps
        paces.append(run.estimate.pace_bps)
        assert paces[-1] <= min((1 + STEP) * before, CONFIGURED)
        run.until(run.now + 1e-9)
    assert max(paces) > PACE * CONFIGURED


def test_without_anything_to_send_more_there_are_no_probes():
    run = Run(Fluid(capacity_bps=CONFIGURED, offered_bps=0.3 * CONFIGURED), known_bps=CONFIGURED / 2)
    run.until(30)
    assert run.states == [(pytest.approx(LOOK_S), State.STEADY)]


def test_what_is_dropped_on_purpose_fills_a_probe():
    offered = {"offered_bps": 0.45 * CONFIGURED, "dropped_bps": CONFIGURED}
    run = Run(Fluid(capacity_bps=CONFIGURED, **offered), known_bps=CONFIGURED / 2)
    assert run.until(30, lambda one: one.bandwidth_bps == CONFIGURED) < 10


def test_without_enough_to_send_the_link_is_believed_to_carry_what_it_should_unless_something_speaks_against_it():
    run = Run(Fluid(capacity_bps=CONFIGURED, offered_bps=0.52 * CONFIGURED), known_bps=CONFIGURED / 2)
    run.until(30)
    assert run.estimate.bandwidth_bps == CONFIGURED


def test_what_was_too_much_is_not_believed_again_without_proof():
    fluid = Fluid(capacity_bps=0.56 * CONFIGURED, offered_bps=0.8 * CONFIGURED)
    run = Run(fluid)
    run.until(10)
    assert run.estimate.bandwidth_bps < 0.65 * CONFIGURED
    fluid.offered_bps = 0.54 * CONFIGURED  # so that probes have not enough to send
    run.until(120)
    assert run.estimate.bandwidth_bps < 0.65 * CONFIGURED
    fluid.capacity_bps, fluid.offered_bps = CONFIGURED, 0.75 * CONFIGURED
    run.until(150)
    assert run.estimate.bandwidth_bps == CONFIGURED


def test_over_a_long_way_probes_wait_for_what_they_ask():
    run = Run(overloaded(shortest_s=0.6), known_bps=CONFIGURED / 2)
    run.until(30, lambda one: one.probing)
    began = run.now
    run.until(began + 10, lambda one: one.bandwidth_bps > CONFIGURED / 2)
    assert run.now - began >= 4 * 0.6


def test_round_trips_that_grew_for_good_do_not_stop_the_growth():
    run = Run(overloaded(), known_bps=CONFIGURED / 2)
    run.link.noise_s = 0.001

    def longer(seconds, pace_bps, *, probing=False, play=run.link.run):
        seen = play(seconds, pace_bps, probing=probing)
        return SeenKernel(**{name: getattr(seen, name) for name in seen.__slots__} | {"grown_s": seen.grown_s + 0.05})

    run.link.run = longer
    assert run.until(30, lambda one: one.bandwidth_bps == CONFIGURED) < 12


def test_headers_that_nobody_counted_do_not_keep_a_queue_for_ever():
    """The link carries 20 % less than what is acknowledged seems to say: it is believed less and less."""
    estimate = Bandwidth(CONFIGURED, PACE)
    looks = 0
    while estimate.pace_bps > 0.8 * CONFIGURED or estimate.state is not State.STEADY:
        queued = estimate.state is State.STEADY
        paced = estimate.pace_bps / 8 * LOOK_S
        grown_s = 0.1 if queued else 0.0
        held = a_look(paced_bytes=paced, acked_bytes=1.2 * paced, grown_s=grown_s, held=float(queued), waiting=queued)
        estimate.look(looks * LOOK_S, held)
        looks += 1
        assert looks < 60


@settings(max_examples=60, deadline=None)
@given(
    share=st.floats(0.05, 1.5),
    offered=st.floats(0.0, 3.0),
    noise_s=st.floats(0.0, 0.05),
    window=st.floats(20_000, 1_000_000),
    seed=st.integers(0, 1000),
)
def test_the_estimate_stays_within_what_is_configured_whatever_happens(share, offered, noise_s, window, seed):
    link = Fluid(
        capacity_bps=share * CONFIGURED,
        offered_bps=offered * CONFIGURED,
        noise_s=noise_s,
        window_bytes=window,
        seed=seed,
    )
    run = Run(link)
    run.until(20)
    link.capacity_bps = CONFIGURED
    run.until(30)
    assert all(FLOOR * CONFIGURED <= bps <= CONFIGURED for _, bps in run.known)
    assert run.estimate.pace_bps <= CONFIGURED


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0.05, 1.0), window=st.floats(100_000, 1_000_000), seed=st.integers(0, 1000))
def test_a_link_that_is_full_is_known_to_fifteen_per_cent(share, window, seed):
    run = Run(overloaded(share * CONFIGURED, noise_s=0.002, window_bytes=window, seed=seed))
    run.until(30)
    assert run.near(share * CONFIGURED)(run.estimate)
