"""What docs/sense-control.md shows runs as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firelane.sense.series import excite

PAGE = (Path(__file__).parents[2] / "docs" / "sense-control.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-c", block], check=True)


@pytest.mark.slow
def test_the_command_of_the_page_runs_on_a_recorded_series(tmp_path):
    (line,) = [line for line in PAGE.splitlines() if line.startswith("firelane sense identify")]
    gamma = excite(100, gamma=1.0)
    load = 0.7 - 0.2 * np.log(np.roll(gamma, 1)) + 0.01 * np.random.default_rng(5).standard_normal(100)
    rows = zip(np.arange(100) * 5.0, load, gamma, strict=True)
    (tmp_path / "series.csv").write_text("time,load,gamma\n" + "".join(f"{t},{u},{g}\n" for t, u, g in rows))
    subprocess.run([sys.executable, "-m", "firelane.cli", *shlex.split(line)[1:]], cwd=tmp_path, check=True)
    assert (tmp_path / "plant.png").exists()
