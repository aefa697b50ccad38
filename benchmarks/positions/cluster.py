"""A Spark cluster on this machine: a master and workers of one core each, from the Python package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from firelane.errors import FirelaneError
from firelane.java import java_home

HOST = "127.0.0.1"
START_S = 60.0
WORKER_MEMORY = "3g"


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a master with so many workers, all of which end with the block."""
    with TemporaryDirectory(prefix="firelane-cluster-") as name, ExitStack() as processes:
        folder, port = Path(name), _free_port()
        master = f"spark://{HOST}:{port}"
        deploy = "org.apache.spark.deploy"
        ports = ["--host", HOST, "--webui-port", "0"]
        _started(processes, folder, "master", [f"{deploy}.master.Master", *ports, "--port", str(port)])
        for number in range(workers):
            limits = ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(folder / f"work-{number}")]
            _started(processes, folder, f"worker-{number}", [f"{deploy}.worker.Worker", *ports, *limits, master])
        yield master


def _started(processes: ExitStack, folder: Path, name: str, words: list[str]) -> None:
    """Start a part and wait until it says that it serves."""
    import pyspark

    home = Path(pyspark.__file__).parent
    java = java_home()
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    environment |= {"JAVA_HOME": java} if java is not None else {}
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        command = [str(home / "bin" / "spark-class"), *words]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder)
    processes.callback(_end, process)
    ready = "I have been elected leader" if name == "master" else "Successfully registered with master"
    deadline = monotonic() + START_S
    while ready not in log.read_text(errors="replace"):
        if process.poll() is not None or monotonic() > deadline:
            last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise FirelaneError(f"Spark's {name} did not start: {last}")
        sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])
