"""Ten minutes of looking for bytes that break something; FIRELANE_FUZZ_S says how many seconds instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.soak
def test_no_bytes_break_the_codec_or_the_broker(tmp_path):
    seconds = os.environ.get("FIRELANE_FUZZ_S", "600")
    run = subprocess.run(
        [sys.executable, Path(__file__).with_name("codec.py"), seconds],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=int(seconds) + 300, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-5000:]
