"""What docs/sense.md shows runs as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "sense.md").read_text()


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path):
    commands = [shlex.split(line, comments=True) for line in PAGE.splitlines() if line.startswith("firelane ")]
    assert len(commands) == 2
    for command in commands:
        subprocess.run([sys.executable, "-m", "firelane.cli", *command[1:]], cwd=tmp_path, check=True)
    assert (tmp_path / "fire.png").exists()


@pytest.mark.slow
def test_the_python_of_the_page_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-c", block], check=True)
