"""What failed beside other tests is run again alone, whatever its group: else its failure would pass for a success."""

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
from pathlib import Path

import pytest


@pytest.mark.xdist_group("zookeeper")
@pytest.mark.parametrize("number", [1, 2])
def test_in_a_group(number):
    fail_once(number)


@pytest.mark.parametrize("address", ["a@b", "c"])
def test_alone(address):
    fail_once(address)


def fail_once(this):
    with Path("ran").open("a") as file:
        print(this, file=file)
    assert this not in (2, "a@b")
"""


def test_what_failed_in_a_group_is_run_again_and_nothing_else(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)

    def ran(*options):
        """Which were, and how that ended."""
        (tmp_path / "ran").write_text("")
        command = [sys.executable, "-m", "pytest", "-q", *options]
        status = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode
        return sorted((tmp_path / "ran").read_text().split()), status

    assert ran("-n", "2", "--dist", "loadgroup") == (["1", "2", "a@b", "c"], 1)
    assert ran("--last-failed", "--last-failed-no-failures", "none") == (["2", "a@b"], 1)
