"""Real processes in PID namespaces of their own, and the recorded tables that a prediction starts from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from gpudiag.shell.world import Caller, Candidate, World

DRIVER = Path(__file__).with_name("driver.py")
PREFIX = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
ROOT = Caller("root", 0)
NAMES = {0: "root", 1: "daemon", 65534: "nobody"}
SCALE = int(os.environ.get("GPUDIAG_ORACLE_SCALE", "1"))
"""How many times as many generated cases as in CI."""
REPEATS = 2
"""How often a case that disagrees is tried again."""
SEED = int(os.environ.get("GPUDIAG_ORACLE_SEED", "20240607"))


@lru_cache(maxsize=1)
def why_not() -> str | None:
    """Why no namespace can be made here; ``None`` if one can."""
    if shutil.which("unshare") is None:
        return "unshare is not installed: the real tools cannot be asked"
    done = subprocess.run([*PREFIX, "true"], capture_output=True, check=False)
    return None if done.returncode == 0 else "no right to make a PID namespace: the real tools cannot be asked"


def play(cases: Sequence[Mapping[str, Any]], timeout: float = 120 * SCALE) -> list[dict[str, Any]]:
    """Runs the cases one after the other in one namespace; see ``driver``."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    # ps cuts its lines to COLUMNS, which test runners set.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [*PREFIX, sys.executable, "-I", "-S", str(DRIVER), "p" * 12_000]
    done = subprocess.run(
        command, input=json.dumps(cases), capture_output=True, text=True, timeout=timeout, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def not_steady(suspects: Sequence[int], again: Callable[[Sequence[int]], Sequence[list[str]]]) -> frozenset[int]:
    """Those of the cases that do not disagree in each of several more runs: the machine was busy, nobody is wrong."""
    left = list(suspects)
    for _ in range(REPEATS):
        if left:
            left = [number for number, wrong in zip(left, again(left), strict=True) if wrong]
    return frozenset(suspects) - frozenset(left)


def world_of(
    answer: Mapping[str, Any], held: Mapping[int, frozenset[str]] | None = None, compute: frozenset[int] | None = None
) -> World:
    """The table as a collector would have recorded it."""
    return World(tuple(candidate(row) for row in answer["table"]), True, held, compute)


def candidate(row: Mapping[str, Any]) -> Candidate:
    cmdline = row["cmdline"].encode("latin-1").rstrip(b"\0").replace(b"\0", b" ")
    return Candidate(
        pid=row["pid"],
        ppid=row["ppid"],
        pgid=row["pgid"],
        sid=row["sid"],
        uid=row["uid"],
        user=NAMES.get(row["uid"]),
        comm=row["comm"].encode("latin-1").decode("utf-8", "replace"),
        cmdline=cmdline.decode("utf-8", "replace"),
        state=row["state"],
        start=row["start"],
        kernel_thread=False,
        sig_caught=row["sig_caught"],
        sig_ignored=row["sig_ignored"],
        sig_blocked=row["sig_blocked"],
    )


def need(*tools: str) -> None:
    """Skips, saying why, where a tool is not installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: its behaviour cannot be compared")
