from __future__ import annotations

from firelane.reproduce.wording import entry, paragraphs, percent, seconds, table


def test_seconds_show_as_many_digits_as_the_standard_error_warrants():
    assert seconds(entry(0.0127, 0.0058)) == "12.7 ± 5.8 ms"
    assert seconds(entry(0.757, 0.11)) == "757 ± 110 ms"
    assert seconds(entry(14.9, 1.5)) == "14.9 ± 1.5 s"
    assert seconds(entry(-0.0000751, 0.00072)) == "-0.08 ± 0.72 ms"


def test_seconds_without_an_error_are_plain():
    assert seconds(0.647) == "647 ms"
    assert seconds(0.9) == "900 ms"
    assert seconds(11.0) == "11 s"
    assert seconds(entry(0.01398, 0.1), error=False) == "13.98 ms"


def test_percentages():
    assert percent(0.58) == "58 %"
    assert percent(0.94, signed=True) == "+94 %"
    assert percent(0.99812, decimals=2) == "99.81 %"
    assert percent(entry(0.331, 0.0049), signed=True) == "+33.1 ± 0.5 %"
    assert percent(entry(0.331, 0.0049), error=False) == "33.1 %"


def test_nothing_has_no_sign():
    assert percent(-0.004, signed=True) == "0 %"
    assert percent(0.0, signed=True) == "0 %"
    assert percent(-0.0049, signed=True, decimals=1) == "-0.5 %"
    assert seconds(entry(-0.00001, 0.0058)) == "0.0 ± 5.8 ms"


def test_what_is_unknown_is_a_dash():
    assert percent(None) == "-"
    assert percent(entry(None)) == "-"
    assert seconds(entry(None)) == "-"


def test_empty_paragraphs_are_left_out():
    assert paragraphs("one", "", "two") == "one\n\ntwo"


def test_tables_are_markdown():
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
