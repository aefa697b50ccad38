"""Single queues against textbook formulas, written out here, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.predict import queues

ONE_LANE = 1


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float64)


def test_mm1_is_one_over_spare_capacity_and_unknown_when_saturated():
    delay = queues.mm1_delay_s(floats(500, 1000, 2000), floats(1000, 1000, 1000))
    assert delay[0] == 1 / 500
    assert np.isnan(delay[1:]).all()


def test_fifo_is_pollaczek_khinchine():
    """Two streams, one fixed (E[S^2] = s^2), one exponential (2 s^2)."""
    rate, service = floats(200, 100), floats(1e-3, 4e-3)
    second = floats(1e-6, 2 * 16e-6)
    wait = (200 * 1e-6 + 100 * 32e-6) / 2 / (1 - 0.6)
    delay = queues.fifo_delay_s(rate, service, second, ints(0, 0), ONE_LANE)
    assert delay == pytest.approx(wait + service)


def test_the_papers_equation_4_is_processor_sharing():
    delay = queues.processor_sharing_delay_s(floats(200, 100), floats(1e-3, 4e-3))
    assert delay == pytest.approx(floats(1e-3, 4e-3) / (1 - 0.6))


def test_two_priority_classes_follow_cobham():
    rate, service = floats(200, 100), floats(1e-3, 4e-3)
    second = 2 * service**2
    residual = (200 * 2e-6 + 100 * 32e-6) / 2
    delay = queues.cobham_delay_s(rate, service, second, ints(0, 1), ints(0, 0), ONE_LANE)
    assert delay[0] == pytest.approx(residual / (1 - 0.2) + 1e-3)
    assert delay[1] == pytest.approx(residual / ((1 - 0.2) * (1 - 0.6)) + 4e-3)


def test_one_exponential_class_is_mm1_in_every_model():
    rate, service, none = floats(700), floats(1e-3), ints(0)
    expected = queues.mm1_delay_s(rate, floats(1000))
    second = 2 * service**2
    assert queues.fifo_delay_s(rate, service, second, none, 1) == pytest.approx(expected)
    assert queues.cobham_delay_s(rate, service, second, none, none, 1) == pytest.approx(expected)
    assert queues.collapsed_priority_delay_s(rate, service, none, none, 1) == pytest.approx(expected)
    assert queues.fan_out_delay_s(rate, service, second, floats(1), none, none, none, 1) == pytest.approx(expected)


@pytest.mark.parametrize("copies", [1, 2, 7])
def test_batches_of_fixed_size_in_one_class_are_a_batch_queue(copies):
    """M^[n]/D/1: work found is l (n s)^2 / 2 / (1 - rho); then half of one's own batch."""
    topic_rate, s = 50.0, 1e-3
    rate, service = np.full(copies, topic_rate), np.full(copies, s)
    zeros = np.zeros(copies, np.int64)
    delay = queues.fan_out_delay_s(rate, service, service**2, np.ones(copies), zeros, zeros, zeros, 1)
    rho = topic_rate * copies * s
    found = topic_rate * (copies * s) ** 2 / 2 / (1 - rho)
    assert delay == pytest.approx(found + (copies - 1) / 2 * s + s)


@pytest.mark.parametrize("copies", [1, 3, 8])
def test_batches_with_own_service_draws_are_the_m_x_m_1_queue(copies):
    """Time in M^[n]/M/1 is (1 + (n - 1) / 2) / (mu (1 - rho)) (Gross and Harris, section 3.1)."""
    topic_rate, mu = 40.0, 1000.0
    rate, service = np.full(copies, topic_rate), np.full(copies, 1 / mu)
    zeros = np.zeros(copies, np.int64)
    delay = queues.batch_fifo_delay_s(rate, service, 2 * service**2, zeros, zeros, 1, np.zeros(copies))
    rho = topic_rate * copies / mu
    assert delay == pytest.approx((1 + (copies - 1) / 2) / (mu * (1 - rho)))


@st.composite
def streams(draw, most_load=0.95):
    n = draw(st.integers(1, 12))
    topic = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), np.int64)
    klass = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), np.int64)
    topic_rate = np.array(draw(st.lists(st.floats(1, 100), min_size=5, max_size=5)))
    topic_service = np.array(draw(st.lists(st.floats(0.1, 10), min_size=5, max_size=5)))
    kept = np.array(draw(st.lists(st.floats(0.05, 1), min_size=n, max_size=n)))
    rate, service = topic_rate[topic] * kept, topic_service[topic]
    service = service * draw(st.floats(0.05, most_load)) / (rate * service).sum()
    return rate, service, kept, klass, topic


@given(streams())
def test_the_mean_work_does_not_depend_on_who_goes_first(some):
    """Kleinrock's conservation law, for batches: fixed sizes, any classes, the same total work.

    Total work = R + sum l_i s_i W_i, and also l E[batch work^2] / 2 / (1 - rho) summed over topics.
    """
    rate, service, kept, klass, topic = some
    zeros = np.zeros(len(rate), np.int64)
    wait = queues.fan_out_delay_s(rate, service, service**2, kept, klass, topic, zeros, 1) - service
    total = (rate * service**2).sum() / 2 + (rate * service * wait).sum()
    square = 0.0
    for one in np.unique(topic):
        mine = topic == one
        topic_rate = (rate[mine] / kept[mine])[0]
        mean, variance = kept[mine].sum(), (kept[mine] * (1 - kept[mine])).sum()
        square += topic_rate * (mean**2 + variance) * service[mine][0] ** 2
    rho = (rate * service).sum()
    assert total == pytest.approx(square / 2 / (1 - rho), rel=1e-9)


@given(streams())
def test_without_batches_fan_out_is_cobham(some):
    rate, service, kept, klass, _ = some
    zeros, alone = np.zeros(len(rate), np.int64), np.arange(len(rate))
    second = 2 * service**2
    fan_out = queues.fan_out_delay_s(rate, service, second, kept, klass, alone, zeros, 1)
    assert fan_out == pytest.approx(queues.cobham_delay_s(rate, service, second, klass, zeros, 1), rel=1e-12)


@given(streams(), st.data())
def test_a_better_class_never_waits_longer(some, data):
    rate, service, kept, klass, topic = some
    one = data.draw(st.integers(0, len(rate) - 1))
    zeros, second = np.zeros(len(rate), np.int64), 2 * service**2
    promoted = klass.copy()
    promoted[one] = 0
    before = queues.fan_out_delay_s(rate, service, second, kept, klass, topic, zeros, 1)[one]
    after = queues.fan_out_delay_s(rate, service, second, kept, promoted, topic, zeros, 1)[one]
    assert after <= before * (1 + 1e-9)


@given(streams(most_load=3.0))
def test_a_saturated_class_has_no_delay_and_those_above_it_do(some):
    rate, service, kept, klass, topic = some
    zeros = np.zeros(len(rate), np.int64)
    delay = queues.fan_out_delay_s(rate, service, 2 * service**2, kept, klass, topic, zeros, 1)
    for i in range(len(rate)):
        up_to = (rate * service)[klass <= klass[i]].sum()
        if abs(up_to - 1) > 1e-9:
            assert np.isnan(delay[i]) == (up_to >= 1)
    assert not (delay[~np.isnan(delay)] <= 0).any()


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_strict_priority_serves_from_the_top_until_the_link_is_full(loads):
    load = np.zeros((1, 16))
    load[0, :3] = loads
    served = queues.served_share(load)
    carried = (served * load)[0]
    assert carried.sum() == pytest.approx(min(1.0, sum(loads)))
    for k in range(2):
        if served[0, k] < 1:
            assert carried[k + 1] <= 1e-15  # rounding
