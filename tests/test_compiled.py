"""Machine code is kept where it can be; where it cannot, it is made each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import firelane

KERNEL = """
from firelane.compiled import compiled

@compiled
def twice(number):
    return 2 * number

print(twice(21))
"""


def test_who_can_keep_no_machine_code_makes_it_each_time(tmp_path):
    module = tmp_path / "kernel.py"
    module.write_text(KERNEL)
    (tmp_path / "__pycache__").write_text("a file, so that no folder can be made here, not even by root")
    where = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "PYTHONPATH": str(Path(firelane.__file__).parents[1])}
    made = subprocess.run(
        [sys.executable, str(module)], capture_output=True, text=True, env={**os.environ, **where}, check=False
    )
    assert (made.stdout, made.stderr) == ("42\n", "")
