"""Measures of load against what was really done."""

from __future__ import annotations

import math
import resource
import threading
import time

import pytest

from firelane.errors import FirelaneError
from firelane.sense.load import LinkLoad, MessageLoad, ProcessorLoad


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_the_processors_share_is_that_of_all_threads_and_agrees_with_the_kernel():
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    measure = ProcessorLoad(now_s=began)
    threads = [threading.Thread(target=burn, args=(0.1,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.1)
    now = time.monotonic()
    load, after = measure.measure(now), resource.getrusage(resource.RUSAGE_SELF)
    used_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert load * (now - began) == pytest.approx(used_s, abs=0.05)
    assert load * (now - began) >= 0.2


def test_the_share_is_of_what_the_process_may_use_and_since_the_last_measurement():
    used = iter([1.0, 1.5, 2.75])
    measure = ProcessorLoad(now_s=10.0, cores=0.25, used_s=lambda: next(used))
    assert measure.measure(20.0) == pytest.approx(0.2)
    assert measure.measure(25.0) == pytest.approx(1.0)


def test_messages_and_bytes_are_relative_to_what_is_rated_and_may_pass_it():
    messages, link = MessageLoad(now_s=0.0, rated_hz=200.0), LinkLoad(now_s=0.0, link_bps=80_000)
    for _ in range(300):
        messages.count()
        link.count(100)
    assert messages.measure(1.0) == pytest.approx(1.5)
    assert link.measure(6.0) == pytest.approx(0.5)
    assert messages.measure(2.0) == 0.0


def test_no_time_is_no_load():
    measure = MessageLoad(now_s=5.0, rated_hz=1.0)
    assert math.isnan(measure.measure(5.0))
    assert math.isnan(ProcessorLoad(now_s=5.0).measure(4.0))
    assert measure.measure(6.0) == 0.0


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_none_is_refused(wrong):
    with pytest.raises(FirelaneError):
        MessageLoad(now_s=0.0, rated_hz=wrong)
    with pytest.raises(FirelaneError):
        LinkLoad(now_s=0.0, link_bps=wrong)
    with pytest.raises(FirelaneError):
        ProcessorLoad(now_s=0.0, cores=wrong)
