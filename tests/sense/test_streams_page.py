"""What docs/streams.md shows runs as it stands there, on an exchange of its own."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from firelane.client import Client
from firelane.sense import read_series
from firelane.sense.publisher import SensorPublisher
from firelane.sense.subscriber import SensorSubscriber
from live.brokers import firelane

PAGE = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()

pytestmark = pytest.mark.slow


@pytest.fixture
def exchange(tmp_path):
    with firelane(tmp_path) as one:
        yield f"mqtt://127.0.0.1:{one.port}"


def test_the_python_of_the_page_runs(exchange, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    names = {"Client": Client, "SensorPublisher": SensorPublisher, "SensorSubscriber": SensorSubscriber,
             "asyncio": asyncio, "read_thermometers": lambda: [21.0, 19.5]}  # fmt: skip
    patience = 'while not ("house/temperature" in sensors.streams and sensors.streams["house/temperature"].updates):'
    patience = f"    {patience}\n        await asyncio.sleep(0.1)\n"  # they may have started before the publisher
    blocks[1] = blocks[1].replace("    reading =", f"{patience}    reading =")
    for number, block in enumerate(blocks):
        text = block.replace("mqtt://localhost:1883", exchange)
        exec(f"async def part{number}():\n{textwrap.indent(text, '    ')}", names)

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(15):
                await asyncio.gather(names["part0"](), names["part1"]())

    asyncio.run(main())
    assert re.match(r"21.0 (0.5|1.0) True ", capsys.readouterr().out)  # the exchange grants the tolerance soon


def test_the_commands_of_the_page_run(exchange, tmp_path):
    commands = [shlex.split(line, comments=True) for line in PAGE.splitlines() if line.startswith("firelane ")]
    serve, *others = commands
    assert serve == ["firelane", "serve"]
    generate, publish, watch = ([sys.executable, "-m", "firelane.cli", *one[1:]] for one in others)
    subprocess.run(generate, cwd=tmp_path, check=True)
    publishing = subprocess.Popen(
        [*publish, "--broker", exchange, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        seen = subprocess.run(
            [*watch, "--broker", exchange, "--for", "8", "--json"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        (stream,) = json.loads(seen.stdout)["streams"]
        assert stream["topic"] == "house/temperature"
        assert stream["updates"] > 20
        assert len(stream["values"]) == 24
        assert None not in stream["values"].values()
        done = json.loads(publishing.communicate(timeout=60)[0])
    finally:
        publishing.kill()
        publishing.wait()
    assert done["readings"] == 24 * 601
    assert done["suppressed"] > 0.9
    assert done["dropped"] == 0


def test_a_series_for_identification_can_be_recorded(exchange, tmp_path):
    command = [sys.executable, "-m", "firelane.cli"]
    subprocess.run([*command, "generate", "fire", "--rooms", "25", "-o", "fire.csv"], cwd=tmp_path, check=True)
    recorded = subprocess.run(
        [*command, "sense", "publish", "fire.csv", "--broker", exchange, "--speed", "60", "--period", "0.5",
         "--record", "series.csv"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "suppressed" in recorded.stdout
    series = read_series(tmp_path / "series.csv")
    assert len(series) >= 3  # as many as a busy machine took evenly
    assert series.period_s == pytest.approx(0.5, abs=0.15)
    assert (series.load > 0).all()
