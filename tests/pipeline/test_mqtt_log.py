"""The log under the source: what it keeps, what it cuts, what it takes for a repetition. No Spark, no broker."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from firelane.errors import StoreError
from firelane.pipeline.mqtt import notes
from firelane.pipeline.mqtt.blocks import HEADER_BYTES, Message
from firelane.pipeline.mqtt.log import SEGMENTS, Log
from firelane.pipeline.mqtt.segments import farthest, firsts, headers, messages, segment_path, stretches

CAP = 1_000_000
BOOT = "00112233445566aa"


def record(number, boot=BOOT):
    return f'{{"record_id":"{boot}-{number:012d}","weight":1.0}}'.encode()


def taken(folder, cap_bytes=CAP):
    log = Log.taken(folder, cap_bytes=cap_bytes)
    assert log is not None
    return log


def keep(log, payloads, now_us=0):
    return log.append([Message(topic="t", payload=one) for one in payloads], now_us)


def payloads(folder, start=0, end=None):
    end = notes.state(folder)["position"] if end is None else end
    return [one for batch in messages(folder, start, end) for one in batch.column("payload").to_pylist()]


@pytest.fixture
def log(tmp_path):
    log = taken(tmp_path / "log")
    yield log
    log.close()


def test_what_was_kept_is_read_back_in_order_with_topic_and_time(log):
    log.append([Message(topic="a/b", payload=b"one"), Message(topic="ä", payload=b"\xff\x00")], 1_700_000_000_123_456)
    keep(log, [b"three"], 1_700_000_000_999_999)
    (batch,) = messages(log.folder, 0, log.end)
    assert batch.column("topic").to_pylist() == ["a/b", "ä", "t"]
    assert batch.column("payload").to_pylist() == [b"one", b"\xff\x00", b"three"]
    micros = [one.value for one in batch.column("received")]
    assert micros == [1_700_000_000_123_456] * 2 + [1_700_000_000_999_999]


def test_a_position_between_two_appends_divides_them(log):
    keep(log, [b"before"])
    middle = log.end
    keep(log, [b"after"])
    assert payloads(log.folder, 0, middle) == [b"before"]
    assert payloads(log.folder, middle) == [b"after"]
    assert payloads(log.folder, middle, middle) == []


def test_only_one_process_writes_and_the_next_may_when_it_has_closed(tmp_path):
    first = taken(tmp_path / "log")
    assert Log.taken(tmp_path / "log", cap_bytes=CAP) is None
    first.close()
    taken(tmp_path / "log").close()


def test_the_log_goes_on_where_it_was_under_the_same_name(tmp_path):
    first = taken(tmp_path / "log")
    keep(first, [b"1"])
    end, name = first.end, first.name
    first.close()
    again = taken(tmp_path / "log")
    assert (again.end, again.name, again.cut_bytes) == (end, name, 0)
    keep(again, [b"2"])
    assert payloads(again.folder) == [b"1", b"2"]
    again.close()


@pytest.mark.parametrize("lost", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1])
def test_half_a_block_at_the_end_is_cut_and_the_whole_ones_stay(tmp_path, lost):
    log = taken(tmp_path / "log")
    keep(log, [record(1)])
    whole = log.end
    keep(log, [record(2)])
    end = log.end
    log.close()
    path = segment_path(log.folder, 0)
    os.truncate(path, end - lost)
    again = taken(log.folder)
    assert again.end == whole
    assert again.cut_bytes == end - lost - whole
    assert path.stat().st_size == whole
    assert keep(again, [record(1), record(2)]) == 1  # what was cut was never acknowledged: it comes again
    assert payloads(log.folder) == [record(1), record(2)]
    again.close()


def test_a_changed_byte_in_the_last_block_is_noticed(tmp_path):
    log = taken(tmp_path / "log")
    keep(log, [b"good"])
    whole = log.end
    keep(log, [b"bad"])
    log.close()
    path = segment_path(log.folder, 0)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    again = taken(log.folder)
    assert again.end == whole
    assert payloads(log.folder) == [b"good"]
    again.close()


def test_a_block_of_another_place_is_not_taken_for_one_of_this(tmp_path):
    log = taken(tmp_path / "log")
    start = log.end
    keep(log, [b"once"])
    end = log.end
    log.close()
    path = segment_path(log.folder, 0)
    data = path.read_bytes()
    path.write_bytes(data + data[start:end])  # as a file system may leave it behind
    again = taken(log.folder)
    assert again.end == end
    again.close()


def test_damage_in_what_is_asked_for_is_told_with_its_place(log):
    start = log.end
    keep(log, [b"x" * 100])
    path = segment_path(log.folder, 0)
    with path.open("r+b") as file:
        file.seek(start + HEADER_BYTES + 50)
        file.write(b"?")
    with pytest.raises(StoreError, match=f"damaged at position {start}"):
        payloads(log.folder)


def fill(log, blocks, size=10_000, first=0):
    for number in range(first, first + blocks):
        keep(log, [record(number) + b" " * size])


def test_segments_behind_all_readers_are_removed_and_no_others(log):
    fill(log, 40)  # 62 500 bytes a segment: seven blocks
    begun = firsts(log.folder)
    assert len(begun) >= 5
    notes.done(log.folder, "one", begun[3])
    notes.done(log.folder, "two", begun[2] + 1)
    log.trim(["one", "two"])
    assert firsts(log.folder) == begun[2:]
    assert len(payloads(log.folder, begun[2])) < 40
    with pytest.raises(StoreError, match="no longer has position 0"):
        payloads(log.folder)


def test_nothing_is_removed_before_every_expected_reader_has_said_something(log):
    fill(log, 40)
    begun = firsts(log.folder)
    log.trim()
    notes.done(log.folder, "one", log.end)
    log.trim(["one", "two"])
    assert firsts(log.folder) == begun
    notes.done(log.folder, "two", 0)
    log.trim(["one", "two"])
    log.trim()
    assert firsts(log.folder) == begun
    log.trim(["one"])  # the other one is not read any more
    assert firsts(log.folder) == begun[-1:]


def test_a_note_of_a_reader_that_a_crash_left_empty_keeps_everything(log):
    notes.done(log.folder, "one", log.end)
    (log.folder / "readers" / "one").write_text("")
    assert notes.readers(log.folder) == {"one": 0}


def test_a_log_is_full_at_its_cap_and_no_longer_when_readers_are_done(log):
    fill(log, 90)
    assert not log.full
    fill(log, 20, first=90)
    assert log.full
    notes.done(log.folder, "one", log.end)
    log.trim(["one"])
    assert not log.full
    assert log.size_bytes <= 2 * CAP / SEGMENTS


def test_one_block_larger_than_the_cap_does_not_fill_the_log_for_good(log):
    keep(log, [b"x" * (CAP + 1)])
    assert log.full
    notes.done(log.folder, "one", log.end)
    log.trim(["one"])
    assert not log.full
    keep(log, [b"next"])
    assert payloads(log.folder, firsts(log.folder)[0]) == [b"next"]


def test_stretches_follow_without_gap_end_at_blocks_and_keep_to_their_size(log):
    fill(log, 40)
    edges = {0, log.end, *(one.end for one in headers(log.folder, 0, log.end))}
    parts = list(stretches(log.folder, 0, log.end, 35_000))
    assert parts[0][0] == 0
    assert parts[-1][1] == log.end
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    assert all(end - start <= 35_000 and end in edges for start, end in parts)
    assert [one for part in parts for one in payloads(log.folder, *part)] == payloads(log.folder)


def test_a_block_larger_than_the_limit_is_taken_alone(log):
    start = log.end
    keep(log, [b"x" * 5000])
    after = log.end
    keep(log, [b"y"])
    assert farthest(log.folder, start, log.end, 100) == after


def test_what_is_in_the_log_is_not_taken_again(log):
    assert keep(log, [record(1), record(2)]) == 2
    assert keep(log, [record(1), record(2), record(3)]) == 1
    assert keep(log, [record(4), record(4)]) == 1
    assert keep(log, [record(1, boot="ffff")]) == 1
    assert payloads(log.folder) == [record(1), record(2), record(3), record(4), record(1, boot="ffff")]


def test_what_was_in_the_log_is_not_taken_again_after_restart_nor_after_its_segment_has_gone(tmp_path):
    log = taken(tmp_path / "log")
    fill(log, 40)
    notes.done(log.folder, "one", log.end)
    log.trim(["one"])
    assert firsts(log.folder)[0] > 0
    log.close()
    again = taken(log.folder)
    fill(again, 41)
    assert payloads(log.folder, log.end) == [record(40) + b" " * 10_000]
    again.close()


def test_messages_without_a_record_id_are_never_taken_for_repetitions(log):
    assert keep(log, [b"hello", b"hello", b'{"record_id":"x"}', b'{"record_id":"x"}']) == 4


def test_a_message_is_kept_if_any_of_its_records_is_new(log):
    keep(log, [record(1) + b"\n" + record(2)])
    assert keep(log, [record(2) + b"\n" + record(3)]) == 1
    assert keep(log, [record(3) + b"\n" + record(1)]) == 0


def test_after_a_failed_write_the_same_messages_may_be_given_again(log, monkeypatch):
    keep(log, [record(1)])

    def no_room(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_room)
        with pytest.raises(OSError, match="No space"):
            keep(log, [record(2)])
    assert keep(log, [record(1), record(2)]) == 1
    assert payloads(log.folder) == [record(1), record(2)]


def test_what_cannot_be_synced_is_not_kept(log, monkeypatch):
    def fails(_):
        raise OSError(5, "Input/output error")

    end = log.end
    with monkeypatch.context() as patch:
        patch.setattr("firelane.pipeline.mqtt.log._sync", fails)
        with pytest.raises(OSError, match="Input/output"):
            keep(log, [b"x"])
    assert notes.state(log.folder)["position"] == end


def test_a_write_that_fails_with_a_new_segment_does_not_make_its_messages_seen(log, monkeypatch):
    fill(log, 7)
    write, calls = os.pwrite, []

    def second_fails(*given):
        calls.append(given)
        if len(calls) == 2:  # the head of the new segment is there, the messages are not
            raise OSError(5, "Input/output error")
        return write(*given)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", second_fails)
        with pytest.raises(OSError, match="Input/output"):
            fill(log, 1, first=7)
    assert len(firsts(log.folder)) == 2
    assert keep(log, [record(7)]) == 1
    assert payloads(log.folder)[-1] == record(7)


WRITER = """
import sys
from pathlib import Path
from firelane.pipeline.mqtt.blocks import Message
from firelane.pipeline.mqtt.log import Log

log = Log.taken(Path(sys.argv[1]), cap_bytes=400_000)
number = int(sys.argv[2])
while True:
    made = [f'{{"record_id":"aa-{n:012d}"}}'.encode() for n in range(number, number + 7)]
    log.append([Message(topic="t", payload=one) for one in made], 0)
    number += 7
    print(number, flush=True)  # what has been said is on disk
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_instant_has_kept_all_it_said_and_nothing_twice(tmp_path):
    folder, chance, said = tmp_path / "log", random.Random(7), 0
    for _ in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(said)], stdout=subprocess.PIPE, text=True
        )
        lines = [writer.stdout.readline()]
        time.sleep(chance.uniform(0, 0.3))
        writer.kill()
        lines += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()
        said = int([one for one in lines if one.endswith("\n")][-1])
    log = taken(folder, cap_bytes=400_000)
    numbers = [int(one[-14:-2]) for one in payloads(folder)]
    assert numbers[:said] == list(range(said))
    assert len(numbers) in (said, said + 7)  # the last may be on disk without having been said
    assert len(set(numbers)) == len(numbers)
    log.close()
