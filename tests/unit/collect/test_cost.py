"""What the collector must not load before its first source is at work: each of these takes longer than a look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SLOW = (
    "dataclasses",
    "inspect",
    "subprocess",
    "ctypes",
    "typer",
    "polars",
    "gpudiag.cli",
    "gpudiag.kill_words",
    "gpudiag.redact.removal",
)
CODE = """
import os, sys
from gpudiag.__main__ import main
import gpudiag.collect.child as child

slow = sys.argv[1].split()
sys.argv = ["gpudiag", "collect", "--quick", "-o", sys.argv[2]]

def first():
    print(" ".join(name for name in slow if name in sys.modules), flush=True)
    os._exit(0)

child.os.fork = first
main()
"""


def test_nothing_slow_is_loaded_before_the_first_source(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", CODE, " ".join(SLOW), str(tmp_path / "x.tgz")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"


def test_module_has_all_commands() -> None:
    """``python -m gpudiag``: the collector's own words for ``collect``, the command line's for the others."""
    for words, expected in ((["collect", "--help"], "usage: gpudiag collect"), (["rules", "--help"], "Usage: ")):
        done = subprocess.run(
            [sys.executable, "-m", "gpudiag", *words], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert expected in done.stdout
