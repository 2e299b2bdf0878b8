"""The bundle is written on machines whose Python is old: the oldest that is promised writes one and reads it back."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from pathlib import Path
from gpudiag.bundle.format import Clocks, Start
from gpudiag.bundle.writer import BundleWriter
from gpudiag.evidence import read_input

bundle = BundleWriter(Path(sys.argv[1]), Start("0", host="old", pids=(1, 2)))
source = bundle.source("after/ps.txt")
source.write(b"PID\\n1\\n")
source.close(command="ps", started_ns=10**18, exit_code=0)
bundle.source("after/fuser.txt").close("denied", "not root", source="open handles")
found = read_input(bundle.finish(Clocks(1, 2, 3)), "I1")
print(sys.version_info[:2], found.complete, found.exhibits[0].text.split(), found.recorder.pids, len(found.coverage))
"""


def old_python() -> list[str] | None:
    """Python 3.9, if this machine has one that starts."""
    program = shutil.which("python3.9")
    if program is None or subprocess.run([program, "-c", ""], env=environment(), capture_output=True).returncode:
        return None
    return [program]


def environment() -> dict[str, str]:
    """Where versions are kept side by side, a launcher starts the one that is asked for."""
    return {**os.environ, "PYENV_VERSION": "3.9", "PYTHONPATH": str(ROOT)}


def test_the_oldest_python_writes_and_reads_a_bundle(tmp_path: Path) -> None:
    program = old_python()
    if program is None:
        pytest.skip("no Python 3.9 here: that the collector runs on it is not tested")
    done = subprocess.run(
        [*program, "-B", "-W", "error", "-c", SCRIPT, str(tmp_path / "b.tgz")],
        env=environment(), cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.strip() == "(3, 9) True ['PID', '1'] (1, 2) 1"
