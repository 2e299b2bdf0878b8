"""Prints what gpudiag costs beside a peer that must be paid anyway. See README.md here."""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CAPTURES = ROOT / "tests" / "fixtures" / "h200"

READ_WITH_POLARS = """
import sys
from pathlib import Path
import polars
for path in sorted(Path(sys.argv[1]).rglob("*")):
    if path.is_file():
        polars.Series(path.read_text(encoding="utf-8", errors="replace").splitlines())
"""


@dataclass(frozen=True)
class Cost:
    """What one run of a command took, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Comparison:
    """A command of ours and its peer; ``clock`` is the field of :class:`Cost` that counts."""

    title: str
    clock: str
    ours: list[str]
    peer_title: str
    peer: list[str]


def run(command: list[str]) -> Cost:
    cpu_before = children_cpu()
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    wall = time.perf_counter() - start
    if done.stderr:
        sys.exit(f"{' '.join(command)} complained:\n{done.stderr.decode(errors='replace')}")
    return Cost(wall, children_cpu() - cpu_before)


def children_cpu() -> float:
    """User and system seconds of all children that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def comparisons(captures: list[str]) -> list[Comparison]:
    gpudiag = str(Path(sys.executable).with_name("gpudiag"))
    help_text = Comparison(
        "gpudiag --help", "cpu", [gpudiag, "--help"], "python -c pass", [sys.executable, "-c", "pass"]
    )
    explains = [
        Comparison(
            f"gpudiag explain {name}",
            "wall",
            [gpudiag, "explain", str(CAPTURES / name)],
            "polars reads its files",
            [sys.executable, "-c", READ_WITH_POLARS, str(CAPTURES / name)],
        )
        for name in captures
    ]
    return [help_text, *explains]


def measure(comparison: Comparison, repeat: int) -> str:
    run(comparison.ours)
    run(comparison.peer)
    pairs = [(run(comparison.ours), run(comparison.peer)) for _ in range(repeat)]
    ours = [getattr(pair[0], comparison.clock) for pair in pairs]
    peer = [getattr(pair[1], comparison.clock) for pair in pairs]
    ratio = statistics.median(ours) / statistics.median(peer)
    return (
        f"{comparison.title:<42} {comparison.clock:<5} {spread(ours)}"
        f"   {comparison.peer_title:<22} {spread(peer)}   x{ratio:.1f}"
    )


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):7.3f} ({min(seconds):.3f}-{max(seconds):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7, help="runs of each command (default 7)")
    parser.add_argument(
        "captures", nargs="*", default=["selfmatch-orphans", "traced-selfmatch"], help="names under tests/fixtures/h200"
    )
    options = parser.parse_args()
    print("seconds: median (least-most)")
    for comparison in comparisons(options.captures):
        print(measure(comparison, options.repeat), flush=True)


if __name__ == "__main__":
    main()
