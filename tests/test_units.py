"""Quantities as people write them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firelane.units import BANDWIDTH, DURATION, RATE, SHARE, SIZE, WEIGHT, si


@pytest.mark.parametrize(
    ("quantity", "written", "meant"),
    [
        (BANDWIDTH, "8 Mbps", 8e6),
        (BANDWIDTH, "8Mbps", 8e6),
        (BANDWIDTH, "2.5 Gbit/s", 2.5e9),
        (BANDWIDTH, 64_000, 64_000.0),
        (DURATION, "2 ms", 0.002),
        (DURATION, "250 us", 0.00025),
        (DURATION, "250 µs", 0.00025),
        (DURATION, "1.5 h", 5400.0),
        (DURATION, "7 d", 604_800.0),
        (SIZE, "120 B", 120.0),
        (SIZE, "2 kB", 2000.0),
        (SIZE, "2 KiB", 2048.0),
        (SIZE, "1 GB", 1e9),
        (SIZE, "1 GiB", 1_073_741_824.0),
        (RATE, "6 Hz", 6.0),
        (RATE, "50 kHz", 50_000.0),
        (RATE, "30 /min", 0.5),
        (RATE, 0, 0.0),
        (SHARE, "1 %", 0.01),
        (SHARE, 1, 1.0),
        (WEIGHT, "4", 4.0),
        (WEIGHT, ".5e1", 5.0),
    ],
)
def test_a_quantity_is_read_in_base_units(quantity, written, meant):
    assert quantity.parse(written) == pytest.approx(meant, rel=1e-15)


@pytest.mark.parametrize("quantity", [BANDWIDTH, DURATION, SIZE, RATE, SHARE, WEIGHT])
@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "x",
        "8 Mbsp",
        "8 8",
        "--1",
        "1..2",
        "1e999",
        "nan",
        "inf",
        math.nan,
        math.inf,
        -1,
        "-1",
        True,
        None,
        [1],
        10**400,
    ],
)
def test_what_is_not_a_quantity_gets_one_line_with_an_example(quantity, wrong):
    with pytest.raises(ValueError, match="write e\\.g\\.") as caught:
        quantity.parse(wrong)
    message = str(caught.value)
    assert quantity.name in message
    assert quantity.example in message
    assert len(message) < 150


def test_a_bandwidth_may_not_be_nothing_but_a_rate_may():
    with pytest.raises(ValueError, match="more than 0"):
        BANDWIDTH.parse("0 Mbps")
    assert RATE.parse("0 Hz") == 0


@pytest.mark.parametrize("wrong", ["101 %", 1.01, "2"])
def test_a_share_is_at_most_everything(wrong):
    with pytest.raises(ValueError, match="from 0 to 1"):
        SHARE.parse(wrong)


def test_the_example_of_every_quantity_is_itself_valid():
    for quantity in (BANDWIDTH, DURATION, SIZE, RATE, SHARE, WEIGHT):
        assert quantity.parse(quantity.example) > 0


@given(st.just(0.0) | st.floats(min_value=1, max_value=1e10), st.sampled_from(list(DURATION.units.items())))
def test_a_unit_multiplies_its_number(number, unit):
    name, scale = unit
    assert DURATION.parse(f"{number!r} {name}") == number * scale


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0021, "s", "2.1 ms"),
        (8e6, "bit/s", "8 Mbit/s"),
        (0, "s", "0 s"),
        (1e-7, "s", "100 ns"),
        (3.3e-5, "s", "33 µs"),
        (999.9, "Hz", "1 kHz"),
        (12.5, "s", "12.5 s"),
        (math.inf, "s", "inf s"),
    ],
)
def test_a_number_is_shown_with_the_prefix_a_person_would_use(value, unit, shown):
    assert si(value, unit) == shown


@pytest.mark.parametrize("value", [5e-324, 1e-10, 1e300, "1e-300 Hz", "1e16 Hz"])
def test_numbers_with_which_arithmetic_breaks_are_refused(value):
    with pytest.raises(ValueError, match="stay between 1e-09 and 1e"):
        RATE.parse(value)
