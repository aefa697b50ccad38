"""Traces from CSV files: read as they are, or refused in one line."""

from __future__ import annotations

import numpy as np
import pytest

from firelane.sense import Trace, TraceError, read_trace

GOOD = "TIME,a,b\n0,1,2.5\n1.5,1e1,-3\n"


def written(folder, text):
    path = folder / "trace.csv"
    path.write_text(text)
    return path


def test_times_names_and_values_are_read(tmp_path):
    trace = read_trace(written(tmp_path, GOOD))
    assert trace.names == ("a", "b")
    assert trace.times_s.tolist() == [0.0, 1.5]
    assert trace.values.tolist() == [[1.0, 2.5], [10.0, -3.0]]


def test_sensors_are_chosen_by_pattern_and_others_need_not_be_good(tmp_path):
    path = written(tmp_path, "TIME,TC_1,TC_2,SM,note\n0,1,2,,x\n1,3,4,nan,y\n")
    assert read_trace(path, sensors="TC*").names == ("TC_1", "TC_2")
    with pytest.raises(TraceError, match='no sensor matches "X\\*"; the first of its sensors: TC_1, TC_2, SM, note'):
        read_trace(path, sensors="X*")


def test_what_was_saved_reads_back_to_the_last_bit(tmp_path):
    draw = np.random.default_rng(1)
    names = ("plain", "with, comma", 'with "quotes"')
    saved = Trace(names=names, times_s=np.cumsum(draw.random(50)), values=draw.normal(0, 1e3, (50, 3)))
    saved.save(tmp_path / "x.csv")
    read = read_trace(tmp_path / "x.csv")
    assert read.names == names
    assert np.array_equal(read.times_s, saved.times_s)
    assert np.array_equal(read.values, saved.values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TIME,a\n0,1\n1,nan\n", 'sensor "a" reads nan at 1 s'),
        ("TIME,a\n0,1\n1,inf\n", 'sensor "a" reads inf at 1 s'),
        ("TIME,a,b\n0,1,2\n1,,3\n", 'sensor "a" reads nan at 1 s'),
        ("TIME,a\n0,1\n1,1e200\n", 'sensor "a" reads 1e\\+200 at 1 s'),
        ("TIME,a\n0,1\n2,1\n1,1\n", "time does not go forward in row 3: 1 s after 2 s"),
        ("TIME,a\n0,1\n0,1\n", "time does not go forward in row 2: 0 s after 0 s"),
        ("TIME,a\n0,1\ninf,1\n", "row 2 has the time inf"),
        ("TIME,a,b\n0,1,\n1,1,\n", 'the column "b" is empty; leave it out'),
        ("TIME,a\ns,C\n0,1\n", 'the column "a" has "C" in row 1; write a number'),
        ("TIME,a\n2026-01-01,1\n", 'the column "TIME" has "2026-01-01" in row 1; write a number'),
        ("TIME,a,a\n0,1,2\n", 'the sensor "a" is there twice'),
        ("TIME,a\n", "there are no readings in it"),
        ("TIME\n0\n", "no sensor matches"),
        ("TIME,a\n0,1\n1\n", "this cannot be read"),
        ("", "this cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(TraceError, match=message) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused_in_one_line(tmp_path):
    with pytest.raises(TraceError, match="there is no such file"):
        read_trace(tmp_path / "none.csv")
