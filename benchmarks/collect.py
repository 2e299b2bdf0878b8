"""Prints what a quick look costs beside the commands that a person would type. See README.md here."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["gpudiag"].split(":")
CAPTURE = ROOT / "tests/fixtures/h200/selfmatch-orphans/after"
BY_HAND = (
    "nvidia-smi; nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv; ps -eo pid,ppid,stat,args;"
    " fuser -v {devices}; dmesg"
)
STUB = """#!/bin/sh
sleep {seconds}
case "$*" in *-x*) file=q.xml;; *compute-apps*) file=query-apps.csv;; *query-gpu*) file=query-gpu.csv;;
*) file=nvidia-smi.txt;; esac
exec tail -n +3 {capture}/$file
"""
CROWD = """
import os, signal, sys, time
count, opened = int(sys.argv[1]), int(sys.argv[2])
null = os.open(os.devnull, os.O_RDONLY)
for _ in range(opened - 4):
    os.dup(null)
started = 0
for _ in range(count):
    try:
        if os.fork() == 0:
            os.setsid()
            signal.pause()
    except OSError:
        break
    started += 1
print(started, flush=True)
os.closerange(4, opened + 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Becomes the benchmark once its children sleep; all of them end with the namespace."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9, help="runs of each (default 9)")
    parser.add_argument("--stub-ms", type=int, default=40, help="what the nvidia-smi that is put in takes (default 40)")
    parser.add_argument("--crowd", type=int, default=0, metavar="N", help="beside N sleeping processes")
    parser.add_argument("--descriptors", type=int, default=100, help="that each of the crowd has open (default 100)")
    options = parser.parse_args()
    if options.crowd:
        _beside_a_crowd(options)
    real = shutil.which("nvidia-smi") is not None and Path("/dev/nvidiactl").exists()
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(Path(folder), None if real else options.stub_ms)
        how = "the real nvidia-smi" if real else f"no GPU here: an nvidia-smi that answers after {options.stub_ms} ms"
        print(f"{how}; {os.cpu_count()} CPUs, {_processes()} processes; seconds: median (least-most)")
        _compare(Path(folder), environment, options.repeat)


def _environment(folder: Path, stub_ms: int | None) -> dict[str, str]:
    """As installed: with compiled modules."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    if stub_ms is not None:
        stub = folder / "bin" / "nvidia-smi"
        stub.parent.mkdir()
        stub.write_text(STUB.format(seconds=stub_ms / 1000, capture=CAPTURE))
        stub.chmod(0o755)
        environment["PATH"] = f"{stub.parent}:{environment['PATH']}"
    return environment


def _compare(folder: Path, environment: dict[str, str], repeat: int) -> None:
    devices = (
        " ".join(sorted(str(path) for path in Path("/dev").glob("nvidia*") if not path.is_dir())) or "/dev/zero"
    )  # somebody to look for
    hand = ["sh", "-c", BY_HAND.format(devices=devices)]
    ours = [_own_command(folder), "collect", "--quick"]
    bundle = folder / "x.tgz"
    pairs: list[tuple[float, float]] = []
    size = 0
    for _ in range(repeat + 1):
        by_hand = _seconds(hand, environment)
        pairs.append((by_hand, _seconds([*ours, "-o", str(bundle)], environment)))
        size = bundle.stat().st_size
        bundle.unlink()
    hands, collects = zip(*pairs[1:], strict=True)  # the first pair warms the caches
    ratio = statistics.median(collects) / statistics.median(hands)
    print(f"by hand          {_spread(hands)}\ncollect --quick  {_spread(collects)}   x{ratio:.2f}, {size >> 10} KiB")


def _own_command(folder: Path) -> str:
    """As ``pipx`` installs a tool: what an environment full of other packages loads at each start is not our time."""
    venv.create(folder / "environment", with_pip=False, symlinks=True)
    programs = folder / "environment" / "bin"
    command = programs / "gpudiag"
    command.write_text(
        f"#!{programs / 'python3'}\nimport sys\nfrom {ENTRY[0]} import {ENTRY[1]}\nsys.exit({ENTRY[1]}())\n"
    )
    command.chmod(0o755)
    return str(command)


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - begun


def _spread(seconds: tuple[float, ...]) -> str:
    return f"{statistics.median(seconds):7.3f} ({min(seconds):.3f}-{max(seconds):.3f})"


def _processes() -> int:
    return sum(path.name.isdecimal() for path in Path("/proc").iterdir())


def _beside_a_crowd(options: argparse.Namespace) -> None:
    """Begin again in a PID namespace that is full of sleeping processes."""
    again = [sys.executable, __file__, "--repeat", str(options.repeat), "--stub-ms", str(options.stub_ms)]
    crowd = [sys.executable, "-S", "-c", CROWD, str(options.crowd), str(options.descriptors), *again]
    os.execvp("unshare", ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *crowd])


if __name__ == "__main__":
    main()
