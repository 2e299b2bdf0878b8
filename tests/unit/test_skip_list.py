"""A skipped test that is on no list fails a run in CI, and only there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"

TESTS = """
import pytest
def test_runs(): assert True
@pytest.mark.skip(reason="no tool")
def test_skipped(): assert True
@pytest.mark.xfail(reason="known")
def test_known_to_fail(): assert False
"""


def run(directory: Path, allowed: str, ci: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, directory / "conftest.py")
    (directory / "allowed-skips.txt").write_text(allowed, encoding="utf-8")
    (directory / "test_it.py").write_text(TESTS, encoding="utf-8")
    environment = {**os.environ, "CI": ci, "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ".", "."]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("allowed", "ci", "code"),
    [
        ("", "true", 1),
        ("", "", 0),
        ("test_it.py::test_skipped  the tool is not everywhere\n", "true", 0),
        ("test_it.py::test_runs  another test\n", "true", 1),
    ],
)
def test_only_listed_skips_pass_in_ci(tmp_path: Path, allowed: str, ci: str, code: int) -> None:
    done = run(tmp_path, allowed, ci)
    assert "1 passed, 1 skipped, 1 xfailed" in done.stdout
    assert done.returncode == code
    unlisted = "not in allowed-skips.txt: test_it.py::test_skipped" in done.stdout
    assert unlisted == ("test_skipped" not in allowed)


def test_a_line_without_a_reason_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "test_it.py::test_skipped\n", "true")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "allowed-skips.txt:1: test_it.py::test_skipped has no reason" in done.stderr
