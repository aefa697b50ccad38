"""Subscribers that bear more get a coarser stream of their own: its bound holds at every reading, and it costs less."""

import numpy as np
import pytest
from plans import a_plan
from sensor_ends import TOPIC, Device, Watcher, an_offer
from thin_link import a_fast_link, on_one_link

from firelane.mqtt.packets import Publish
from firelane.sense import Fire, ModelBank, SendingBank, fire_trace
from firelane.sense.offer import RESYNC, to_json
from firelane.sense.sending import SendingStream
from firelane.sense.state import SLOPE
from firelane.sense.updates import Updates
from firelane.sense.wire import Batch, decode, encode

ROUNDING = 1 + 1e-9
TICK_S = 0.1


def play(desk, device, watchers, trace, *, bounds=None):
    """Readings of a trace, all that happens meanwhile, and the largest error of each watcher in terms of its bound.

    It is looked at whenever there was a reading and what that brought about has arrived.
    """
    worst = [0.0] * len(watchers)
    start = desk.now - trace.times_s[0] + 0.05
    for time_s, readings in zip(trace.times_s, trace.values, strict=True):
        while desk.now + TICK_S <= start + time_s:
            desk.pass_time(TICK_S)
            device.tend()
        desk.now = start + time_s
        device.read(*readings)
        for place, (watcher, bound) in enumerate(zip(watchers, bounds, strict=True)):
            watcher.take()
            error = np.abs(watcher.stream.bank.predict(device.time_s) - readings).max()
            worst[place] = max(worst[place], error / bound)
    return worst


def coarser_of(desk, client_id="watcher", topic=TOPIC):
    return desk.broker.streams.find(topic).coarse.get(desk.session(client_id))


@pytest.mark.parametrize("ratio", [1.5, 2.0, 3.0, 7.0, 20.0])
def test_the_bound_holds_end_to_end(desk, ratio):
    trace = fire_trace(Fire(rooms=2, sensors=3, seconds=90, step_s=0.7, noise=0.1, seed=3))
    device = Device(desk, offer=an_offer(6, precision=0.5))
    watchers = [Watcher(desk, "fine", tolerance=0.5), Watcher(desk, tolerance=0.5 * ratio)]
    worst = play(desk, device, watchers, trace, bounds=[0.5, 0.5 * ratio])
    assert max(worst) < ROUNDING
    fine, coarse = watchers
    assert (coarser_of(desk) is None) == (ratio < 2)
    assert coarse.stream.delta == (0.5 if ratio < 2 else 0.5 * ratio)
    if ratio >= 3:
        assert coarse.stream.updates < fine.stream.updates
        assert desk.session("watcher").lanes[TOPIC].suppressed > 0
        assert worst[1] > 0.5 * 0.5 / ratio  # and it does use what it is given


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_holds_end_to_end_in_all_kinds_of_fires(desk, noise, seed):
    trace = fire_trace(Fire(rooms=3, sensors=2, seconds=300, step_s=0.9, noise=noise, seed=20 + seed))
    device = Device(desk, offer=an_offer(6, precision=0.5))
    ratios = [1, 1.5, 2, 2.5, 4, 10, 20]
    watchers = [Watcher(desk, f"w{ratio}", tolerance=0.5 * ratio) for ratio in ratios]
    worst = play(desk, device, watchers, trace, bounds=[0.5 * ratio for ratio in ratios])
    assert max(worst) < ROUNDING, worst
    sent = [one.stream.updates for one in watchers]
    assert sent[-1] < sent[-2] < sent[-3] < sent[0]


def test_who_comes_late_is_told_all_states_at_once(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    device.read(20, 30, 40)
    late = Watcher(desk, tolerance=5)
    desk.pass_time(0.1)
    assert late.take() == 1
    assert len(late.stream.missing()) == 0
    assert np.allclose(late.values, [20, 30, 40])


def test_the_tightest_get_what_the_publisher_can_afford(desk):
    """A publisher with little to do is more precise than it must be; that is not taken from those who need most."""
    device = Device(desk, offer=an_offer(precision=2.0))
    tight = Watcher(desk, "tight", tolerance=2)
    loose = Watcher(desk, "loose", tolerance=20)
    desk.pass_time(0.1)
    device.tend()
    device.send(device.sending.set_delta(device.time_s, 0.25))
    device.read(20, 30, 40)
    tight.take()
    loose.take()
    assert coarser_of(desk, "tight") is None
    assert (tight.stream.delta, loose.stream.delta) == (0.25, 20)


def test_without_a_tolerance_a_stream_comes_as_it_is_also_beside_one_with(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    recorder = desk.join("recorder")
    recorder.subscribe("#")
    both = Watcher(desk, "both", tolerance=9)
    both.line.subscribe("building/#")
    for number in range(5):
        device.read(20 + 3 * number, 30, 40)
        desk.pass_time(1)
    plain = recorder.payloads()
    both.take()
    assert [one.payload for one in both.messages] == plain
    assert coarser_of(desk, "both") is None


def test_a_shared_subscription_gets_it_as_it_is(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    shared = Watcher(desk, "shared", topic_filter=f"$share/crew/{TOPIC}", tolerance=9)
    for number in range(3):
        device.read(20 + 3 * number, 30, 40)
        desk.pass_time(1)
    assert shared.take() == 3


def test_on_a_paced_link_a_plan_widens_without_a_break(make_desk):
    desk = make_desk(scenario=on_one_link("watcher", link=a_fast_link()))
    trace = fire_trace(Fire(rooms=2, sensors=3, seconds=240, step_s=0.5, noise=0.1, seed=3))
    device = Device(desk, offer=an_offer(6, precision=0.5))
    watcher = Watcher(desk, tolerance=0.5)
    desk.pass_time(0.1)
    third = len(trace.times_s) // 3
    rates, boots = [], set()
    for turn, delta in enumerate((0.5, 5.0, 0.5)):
        desk.apply(widening(delta, turn + 1))
        part = trace.__class__(
            names=trace.names,
            times_s=trace.times_s[turn * third : (turn + 1) * third],
            values=trace.values[turn * third : (turn + 1) * third],
        )
        before = watcher.stream.updates
        [worst] = play(desk, device, [watcher], part, bounds=[delta])
        assert worst < ROUNDING, delta
        assert watcher.stream.delta == delta
        rates.append(watcher.stream.updates - before)
        boots |= {decode(one.payload).boot for one in watcher.messages}
    assert rates[1] < 0.6 * rates[0]
    assert len(boots) == 1
    assert watcher.stream.missed == 0
    lane = desk.session("watcher").lanes[TOPIC]
    assert lane.drop_rate == 0
    assert sum(lane.dropped) == 0
    assert lane.delivered == len(watcher.messages)


def test_what_a_wider_delta_leaves_out_counts_as_not_delivered(make_desk):
    """Ten times the tolerance leaves a third, by (10 - 1) ** -1/2; counts of deliveries are those of what was made."""
    desk = make_desk(scenario=on_one_link("watcher", link=a_fast_link()))
    device = Device(desk)
    watcher = Watcher(desk, tolerance=0.5)
    desk.pass_time(0.1)
    desk.apply(widening(5.0, 1))
    desk.pass_time(0.1)
    for step in range(40):
        desk.pass_time(1.0)
        device.read(20 + 4 * np.sin(step), 30, 40)
    watcher.take()
    rows = desk.broker.read(desk.now).metrics().table.to_pylist()
    row = next(one for one in rows if one["filter"] == TOPIC)
    assert row["success"] == pytest.approx(1 / 3)
    assert row["drop_rate"] == row["dropped_policy"] == 0
    assert row["offered_hz"] == pytest.approx(3 * row["delivered_hz"])
    device.line.publish("$sense/offer/" + TOPIC, b"", retain=True)
    assert desk.session("watcher").lanes[TOPIC].share == 1


def widening(delta, version, klass=0):
    plan = a_plan({("watcher", TOPIC): (klass, 0.5)}, version)
    plan.delta[0] = delta
    return plan


def test_a_tolerance_is_never_tightened_by_a_plan(make_desk):
    desk = make_desk(scenario=on_one_link("watcher", link=a_fast_link()))
    Device(desk)
    Watcher(desk, tolerance=2)
    desk.apply(widening(0.7, 1))
    assert desk.session("watcher").lanes[TOPIC].delta == 2


def test_on_a_paced_link_nothing_is_coarser_while_nothing_has_to_be(make_desk):
    desk = make_desk(scenario=on_one_link("watcher", link=a_fast_link()))
    device = Device(desk)
    watcher = Watcher(desk, tolerance=0.5)
    fine = Watcher(desk, "fine", tolerance=0.5)
    trace = fire_trace(Fire(rooms=1, sensors=3, seconds=120, noise=0.2, seed=8))
    worst = play(desk, device, [watcher, fine], trace, bounds=[0.5, 0.5])
    assert max(worst) < ROUNDING
    assert np.array_equal(watcher.stream.bank.state, fine.stream.bank.state)
    assert watcher.stream.updates == fine.stream.updates
    assert desk.session("watcher").lanes[TOPIC].suppressed == 0


def test_who_no_longer_gets_a_stream_of_its_own_is_told_where_the_other_one_is(desk):
    device = Device(desk)
    fine = Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=5)
    device.read(20, 30, 40)
    watcher.take()
    assert coarser_of(desk) is not None
    fine.line.unsubscribe(TOPIC)
    desk.pass_time(0.1)
    watcher.take()
    device.tend()
    for step in range(4):
        desk.pass_time(1)
        device.read(20 + 10 * step, 30, 40)
    watcher.take()
    assert coarser_of(desk) is None
    assert np.array_equal(watcher.stream.bank.state, device.sending._sending.bank.state)
    assert len(watcher.stream.missing()) == 0


def test_who_gets_the_other_stream_from_a_message_on_is_not_told_less_under_its_number(desk):
    device = Device(desk)
    fine = Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=5)
    device.read(20, 30, 40)
    watcher.take()
    fine.line.unsubscribe(TOPIC)
    desk.now += 1
    device.read(90, 30, 40)
    states, _lost = watcher.line.messages()
    watcher.stream.take(states.payload, desk.now)
    known = watcher.stream.read(desk.now)
    claimed = np.isfinite(known.bound)
    assert (np.abs(known.value - [90, 30, 40]) < known.bound)[claimed].all()


def test_who_was_away_is_told_everything_anew(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    line = desk.lasting("ann")
    line.subscribe(TOPIC, user_property=[("tolerance", "5")])
    device.read(20, 30, 40)
    lane = desk.session("ann").lanes[TOPIC]
    line.drop()
    due = lane.due
    for step in range(5):
        desk.pass_time(1)
        device.read(20 + 20 * step, 30, 40)
    assert lane.due == due  # nothing was due to who is not there
    again = desk.lasting("ann")
    desk.pass_time(0.1)
    [message] = again.messages()
    assert decode(message.payload).updates.whole.all()
    assert len(decode(message.payload).updates) == 3


def test_what_is_sent_reliably_waits_for_who_is_away(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    line = desk.lasting("ann")
    line.subscribe(TOPIC, qos=1, user_property=[("tolerance", "5")])
    device.send(device.sending.observe(device.time_s, np.array([20.0, 30.0, 40.0])), qos=1)
    line.take_in()
    line.drop()
    for step in range(1, 4):
        desk.pass_time(1)
        device.send(device.sending.observe(device.time_s, np.array([20.0 + 20 * step, 30.0, 40.0])), qos=1)
    again = desk.lasting("ann")
    numbers = [decode(payload).number for payload in again.take_in()]
    assert numbers == list(range(1, 1 + len(numbers)))
    assert len(numbers) >= 2


def test_silence_is_passed_on_and_so_are_heartbeats(desk):
    device = Device(desk, offer=an_offer(heartbeat_s=2.0))
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=50)
    watcher.stream.offer = device.offer
    device.read(20, 30, 40)
    heard = 0
    for _ in range(100):
        desk.pass_time(0.1)
        device.read(20, 30, 40)
        device.tend()
        heard += watcher.take()
    assert 4 <= heard <= 8  # in ten seconds, five beats
    assert not watcher.stream.read(desk.now).stale.any()
    for _ in range(100):
        desk.pass_time(0.1)
        watcher.take()
    assert watcher.stream.read(desk.now).lost.all()


def test_gone_sensors_are_passed_on(desk):
    device = Device(desk, offer=an_offer(2, heartbeat_s=1.0))
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=50)
    device.read(20, 30)
    for _ in range(50):
        desk.pass_time(0.1)
        device.send(device.sending.observe(device.time_s, np.array([20.0]), np.array([0])))
        device.tend()
    watcher.take()
    assert watcher.stream.gone.tolist() == [False, True]


def test_a_lost_message_of_the_publisher_makes_who_depends_on_it_unsure(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=3)
    device.read(20, 30, 40)
    watcher.take()
    desk.pass_time(1)
    device.sending.observe(device.time_s, np.array([90.0, 30.0, 40.0]))  # lost on its way
    desk.pass_time(1)
    device.read(91, 30, 80)
    watcher.take()
    assert watcher.stream.read(desk.now).bound[0] == np.inf  # nobody vouches for what may be wrong
    desk.pass_time(0.1)
    device.tend()  # it was asked for its states
    desk.pass_time(0.1)
    watcher.ask()
    watcher.take()
    assert len(watcher.stream.missing()) == 0
    assert (
        np.abs(watcher.stream.bank.predict(device.time_s) - device.sending._sending.bank.predict(device.time_s)).max()
        < 3
    )


def test_who_gets_a_stream_of_its_own_is_told_at_once_that_nothing_is_missing_any_more(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=3)
    device.read(20, 30, 40)
    watcher.take()
    desk.pass_time(1)
    device.sending.observe(device.time_s, np.array([20.6, 30.0, 40.0]))  # lost on its way
    device.send(device.sending.whole(device.time_s, np.array([2])))
    assert watcher.take() == 1
    assert np.isinf(watcher.stream.read(desk.now).bound).all()
    device.send(device.sending.whole(device.time_s))  # nothing in that is news to somebody who bears 3
    assert watcher.take() == 1
    assert (watcher.stream.read(desk.now).bound == 3).all()


def test_what_drifted_apart_while_nobody_was_sure_is_told_when_it_is_vouched_for_again(desk):
    """The first sensor rises as its own model predicts, so that no message names it; only the other one is healed."""
    device = Device(desk, offer=an_offer(2))
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=3)
    model = device.sending._sending.bank
    for second in range(12):
        device.read(20 + 0.7 * max(second - 8, 0), 30)
        desk.pass_time(1)
    assert model.state[0, SLOPE] > 0.1
    device.sending.observe(device.time_s, np.array([30.6]), np.array([1]))  # lost on its way
    for _ in range(40):
        desk.pass_time(1)
        device.send(device.sending.observe(device.time_s, model.predict(device.time_s)[:1], np.array([0])))
        device.send(device.sending.beat(device.time_s))
        device.line.take_all()  # so that it hears of no request
    watcher.take()
    assert np.isinf(watcher.stream.read(desk.now).bound).all()
    assert np.abs(watcher.stream.bank.predict(device.time_s) - model.predict(device.time_s))[0] > 3
    device.sending.observe(device.time_s, np.array([30.0]), np.array([1]))  # lost, too
    device.send(device.sending.whole(device.time_s, np.array([1])))
    watcher.take()
    known = watcher.stream.read(desk.now)
    assert (known.bound == 3).all()
    assert (np.abs(watcher.stream.bank.predict(device.time_s) - model.predict(device.time_s)) < 3).all()


def test_what_was_in_lost_messages_of_its_own_stream_is_told_by_their_numbers(desk):
    device = Device(desk)
    device.sending = SendingStream(device.offer, model="last-value")
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=3)
    device.read(20, 30, 40)
    watcher.take()
    desk.pass_time(1)
    device.read(20, 90, 40)
    assert len(watcher.line.take_all()) == 1  # which it never gets to see
    desk.pass_time(1)
    device.read(20, 90, 95)
    watcher.take()
    asked = watcher.stream.ledger.wanted(watcher.stream.bank)
    assert (asked.sensors, asked.batches) == ((), ((1, 1),))
    watcher.line.publish(RESYNC + TOPIC, to_json(asked))
    assert watcher.take() == 1
    assert decode(watcher.messages[-1].payload).updates.sensor.tolist() == [1]
    assert not len(watcher.stream.missing())


def test_who_lacks_states_is_told_those_of_its_own_stream(desk):
    device = Device(desk)
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=5)
    for step in range(6):
        device.read(20 + 4 * step, 30, 40)
        desk.pass_time(1)
    watcher.line.take_all()  # as if lost
    watcher.ask()
    watcher.take()
    assert len(watcher.stream.missing()) == 0
    own = coarser_of(desk).recoding.bank
    assert np.array_equal(watcher.stream.bank.state, own.state)
    for step in range(6, 12):
        device.read(20 + 4 * step, 30, 40)
        desk.pass_time(1)
        watcher.take()
        assert np.abs(watcher.stream.bank.predict(device.time_s) - [20 + 4 * step, 30, 40])[0] < 10
    assert watcher.stream.missed == 0


def test_messages_fit_what_a_client_takes(desk):
    device = Device(desk, offer=an_offer(50))
    Watcher(desk, "fine", tolerance=0.5)
    line = desk.join("small", maximum_packet_size=600)
    line.subscribe(TOPIC, user_property=[("tolerance", "5")])
    device.read(*range(50))
    sizes = [len(one.payload) for one in line.take_all() if isinstance(one, Publish)]
    assert len(sizes) > 5
    assert max(sizes) < 600
    assert desk.session("small").lanes[TOPIC].dropped == [0] * 6


def test_there_is_room_for_so_many_streams_of_their_own(make_desk):
    desk = make_desk(limits={"stream_sensors": 110})  # 10 and twice 50, as it counts for that at least
    device = Device(desk, offer=an_offer(10))
    Watcher(desk, "fine", tolerance=0.5)
    watchers = [Watcher(desk, f"w{number}", tolerance=5) for number in range(3)]
    device.read(*range(10))
    assert len(desk.broker.streams.find(TOPIC).coarse) == 2
    assert desk.broker.streams.crowded == 1
    assert all(one.take() for one in watchers)  # the others get it as it is
    assert len(desk.broker.streams.take_news()) == 1


def test_several_updates_of_one_sensor_in_one_message_are_all_within_the_bound(desk):
    """Readings five times a second, sent once a second: the rows that come make a history in which all of them fit."""
    device = Device(desk, offer=an_offer(1))
    Watcher(desk, "fine", tolerance=0.5)
    watcher = Watcher(desk, tolerance=2)
    bank = SendingBank(1, delta=0.5)
    readings = 20 + np.cumsum(np.random.default_rng(5).normal(size=200))
    history = ModelBank(1)
    for number, chunk in enumerate(np.split(readings, 40)):
        times_s = device.time_s + 0.2 * np.arange(5)
        made = joined([bank.observe(time_s, np.array([one])) for time_s, one in zip(times_s, chunk, strict=True)])
        desk.now += 0.8
        device.send(
            [
                encode(
                    Batch(
                        boot=7,
                        number=number,
                        sensors=1,
                        time_s=times_s[-1],
                        delta=0.5,
                        total=int(bank.bank.sequence.sum()),
                        updates=made,
                    )
                )
            ]
        )
        told = joined([decode(one.payload).updates for one in watcher.line.messages()])
        for time_s, reading in zip(times_s, chunk, strict=True):
            history.apply(told.pick(told.time_s <= time_s + 1e-9))
            assert abs(history.predict(time_s)[0] - reading) < 2 * ROUNDING
        desk.pass_time(0.2)
        history.apply(joined([decode(one.payload).updates for one in watcher.line.messages()]))
    assert desk.broker.streams.find(TOPIC).unreadable == 0


def joined(several):
    columns = ("sensor", "sequence", "time_s", "value", "delta", "model", "whole", "state")
    return (
        Updates(**{name: np.concatenate([getattr(one, name) for one in several]) for name in columns})
        if several
        else (ModelBank(1).whole())
    )
