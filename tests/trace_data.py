"""Where the trace of Bologna is, which is too large to keep beside the code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("FIRELANE_DATA") or Path(__file__).parents[2] / "shared" / "data")
BOLOGNA = DATA / "city" / "bologna.tr.gz"
needs_bologna = pytest.mark.skipif(
    not BOLOGNA.exists(), reason="needs the trace of Bologna; FIRELANE_DATA names the folder with city/bologna.tr.gz"
)
