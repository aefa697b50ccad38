"""A writer that is killed, and a disk that is full: what has its name is whole, and the rest is counted."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyarrow import parquet
from some_telemetry import BOOT, parts, read, subscribers, taken, until, writer

from firelane.exchange.telemetry import folder
from firelane.exchange.telemetry.folder import Folder

HERE = str(Path(__file__).parent)

WRITE = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import pyarrow as pa
from some_telemetry import taken
from firelane.exchange.telemetry import folder, tables

boot, when = int(sys.argv[3]), sys.argv[4]
real_write, files = folder.write_all, 0

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def half(file, data, offset):
    real_write(file, data[: len(data) // 2], offset)
    die()

kept = folder.Folder(Path(sys.argv[2]), boot=boot, cap_bytes=10**9)
kept.open()
print("ready", flush=True)
while True:
    if files == 3 and when == "half written":
        folder.write_all = half
    if files == 3 and when == "before its name":
        folder.os.replace = die
    batches = tables.deliveries(taken(50, files, start=files * 50), "site", boot)
    path = kept.write(pa.Table.from_batches(batches), 1.77e9 + boot + files / 1000)
    print(path, flush=True)
    files += 1
"""


def writing(path, boot, when="any time"):
    command = [sys.executable, "-c", WRITE, HERE, str(path), str(boot), when]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check(path, named):
    """Everything that got its name is there, and everything there is whole."""
    found = parts(path)
    assert set(named) <= {str(one) for one in found}
    assert [parquet.read_table(one).num_rows for one in found] == [50] * len(found)
    assert read(path).num_rows == 50 * len(found)


@pytest.mark.parametrize("when", ["half written", "before its name"])
def test_a_file_that_was_not_finished_is_seen_by_nobody_and_gone_after_the_next_start(tmp_path, when):
    with writing(tmp_path, BOOT, when) as process:
        _, *named = process.communicate(timeout=60)[0].split("\n")[:-1]
    assert process.returncode == -signal.SIGKILL
    assert len(named) == 3
    assert [str(one) for one in parts(tmp_path)] == named
    assert len(list(tmp_path.rglob("*"))) == 5  # the day, three files and a draft
    check(tmp_path, named)
    Folder(tmp_path, boot=BOOT, cap_bytes=10**9).open()
    assert sorted(str(one) for one in tmp_path.rglob("*") if one.is_file()) == named


def test_killed_at_any_time_it_has_lost_nothing_that_had_a_name(tmp_path):
    draw, named = random.Random(4), []
    for boot in range(1, 4):
        with writing(tmp_path, boot) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(draw.uniform(0.05, 0.4))
            process.kill()
            named += [line for line in process.communicate(timeout=60)[0].split("\n")[:-1] if line.endswith(".parquet")]
        check(tmp_path, named)
    assert len(named) > 3


FILL = """
import contextlib, resource, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from some_telemetry import noted, subscribers, take, until, writer

place, ballast = Path(sys.argv[2]), Path(sys.argv[2]) / "ballast"

def make_scarce():
    if sys.argv[3] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    else:
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass

def make_room():
    if sys.argv[3] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        ballast.unlink()

told = []
with writer(place / "telemetry", told.append, roll_s=1.0) as out:
    def put(numbers):
        for second in numbers:
            out.put(take(noted(100, start=second * 100), float(second)))
            until(out._waiting.empty)
        out.put(take(noted(0), numbers[-1] + 10.0))
        until(out._waiting.empty)

    make_scarce()
    put(range(0, 30))
    until(lambda: out.lost == 3000)
    assert not list(place.rglob("*.draft"))
    make_room()
    put(range(50, 60))
assert subscribers(place / "telemetry") == list(range(5000, 6000))
assert out.lost == 3000, out.lost
print(*told, sep="\\n")
"""


def full(place, reason):
    return (
        f"telemetry: {place}/telemetry/deliveries cannot be written ({reason}); records are lost\n"
        "telemetry is recorded again; 3000 records were lost\n"
    )


def test_files_that_may_not_grow_lose_records_with_one_line(tmp_path):
    command = [sys.executable, "-c", FILL, HERE, tmp_path, "limit"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == full(tmp_path, "File too large"), done.stderr


def test_a_full_file_system_loses_records_with_one_line(tmp_path):
    inside = 'mount -t tmpfs -o size=1m none "$3" && exec "$0" -c "$1" "$2" "$3" space'
    if not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount")
    command = ["unshare", "-m", "sh", "-c", inside, sys.executable, FILL, HERE, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == full(tmp_path, "No space left on device"), done.stderr


def test_a_folder_that_cannot_be_made_is_tried_again_with_every_file(tmp_path):
    blocked = tmp_path / "telemetry"
    blocked.write_text("in the way")
    told = []
    with writer(blocked, told.append, roll_s=1.0) as out:
        for second in range(3):
            out.put(taken(10, float(second)))
            until(lambda: out._waiting.empty() and out.lost >= 10 * second)  # noqa: B023
        blocked.unlink()
        out.put(taken(10, 10.0, start=100))
    assert subscribers(blocked)[-10:] == list(range(100, 110))
    assert out.lost + len(subscribers(blocked)) == 40
    assert len(told) == 2


def test_it_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    steps = []
    real_sync, real_replace = folder.sync_data, os.replace
    monkeypatch.setattr(folder, "sync_data", lambda file: (steps.append("sync"), real_sync(file)))
    monkeypatch.setattr(folder.os, "replace", lambda *names: (steps.append("name"), real_replace(*names)))
    with writer(tmp_path) as out:
        out.put(taken(1))
    assert steps == ["sync", "name"]
