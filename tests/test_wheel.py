"""What users install is complete: scenarios and benchmarks ship inside the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_demo_works_from_an_installed_wheel(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    assert {path.stem for path in (site / "firelane" / "scenarios").glob("*.yaml")} >= {"office-fire", "firedex"}
    assert list((site / "firelane" / "benchmarks").glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-m", "firelane.cli", "demo", "--seconds", "3", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"gain"' in done.stdout
    assert (tmp_path / "firelane-demo.png").exists()
