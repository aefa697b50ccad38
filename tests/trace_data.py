"""Where the data are that are too large, or not ours, to keep beside the code: a trace of Bologna, measured fires."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("FIRELANE_DATA") or Path(__file__).parents[2] / "shared" / "data")
BOLOGNA = DATA / "city" / "bologna.tr.gz"
needs_bologna = pytest.mark.skipif(
    not BOLOGNA.exists(), reason="needs the trace of Bologna; FIRELANE_DATA names the folder with city/bologna.tr.gz"
)
FIRES = [DATA / "fire" / f"NIST_Smoke_Alarms_{name}.csv" for name in ("SDC02", "SDC05")]
needs_fires = pytest.mark.skipif(
    not all(path.exists() for path in FIRES),
    reason="needs measured fires; FIRELANE_DATA names the folder with fire/NIST_Smoke_Alarms_SDC02.csv and SDC05",
)
