"""A long server log: gpudiag's reading of it against ``grep -E`` with the same patterns, in one run.

Three greps, because they do different amounts of the work: ``-n`` hands over each line with its number, which is what a
citation needs; without it the lines come bare; ``-c`` only counts, so it leaves each line at the first match and has
nothing to hand over. The lines go through a pipe and are thrown away, because grep stops at the first match when its
output is ``/dev/null``.

``.venv/bin/python benchmarks/logs.py [--mib 1024]`` writes a log of that size once, beside the system's other temporary
files, then lets both go through it in turns and prints wall and CPU seconds and peak memory of each, and their ratios.
The start of Python and its imports is a third line, because it is the same for a log of any length.
With other work on the machine, compare CPU: ours has several threads to wait for.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "tests" / "fixtures" / "vllm" / "0.11.0-06-kill9-worker1" / "server.log"
SERVING = (
    'INFO:     127.0.0.1:{0} - "POST /v1/completions HTTP/1.1" 200 OK',
    "(APIServer pid=44) INFO 11-30 19:57:36 [loggers.py:335] Engine 000: Avg prompt throughput: {0}.0 tokens/s, Avg "
    "generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%",
)
READ = (
    "import sys; from pathlib import Path; from gpudiag.evidence import Exhibit; from gpudiag.parse import log_scan; "
    "exhibit = Exhibit('I1', 'server.log', '', None, None, None, None, None, 1, '', path=Path(sys.argv[1])); "
    "print(len(list(log_scan.rows(exhibit))))"
)
GREPS = ("-nE", "-E", "-cE")
PRINTED_CAP = 1 << 20
"""Bytes of output that are kept; all of it is read."""
# A process inherits the peak of the one that starts it, so this one must stay small and import nothing of ours.
PATTERNS = (
    "import json; from gpudiag.parse import kernel_log, server_log; "
    "print(json.dumps([server_log.TAG, *server_log.SIGNS, *kernel_log.SIGNS]))"
)


@dataclass(frozen=True)
class Run:
    """One process from start to end."""

    wall_s: float
    cpu_s: float
    """User and system seconds of all its threads."""
    peak_mib: float
    printed: str


def write_log(path: Path, mib: int) -> None:
    """A start, hours of serving, a death, and so on until the size is reached; half of the lines have a role's tag."""
    dice = random.Random(1)
    story = SAMPLE.read_bytes() + b"\n"
    serving = "".join(dice.choice(SERVING).format(dice.randrange(9999)) + "\n" for _ in range(200_000)).encode()
    with path.open("wb") as log:
        while log.tell() < mib << 20:
            log.write(story)
            log.write(serving)


def grep_pattern() -> str:
    """The same alternation in POSIX syntax."""
    tag, *signs = json.loads(run([sys.executable, "-c", PATTERNS]).printed)
    tag = tag.replace("(?:", "(").replace(r"\x1b", "\x1b").replace(r"\r", "\r")
    return "|".join((*(re.sub(r"([\\.\[\](){}*+?^$|])", r"\\\1", sign) for sign in signs), tag))


def run(argv: list[str]) -> Run:
    """Start, wait, and read what the kernel counted."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    begun = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        printed = process.stdout.read(PRINTED_CAP)
        while process.stdout.read(PRINTED_CAP):
            pass
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{argv[0]} ended with {process.returncode}")
    wall = time.perf_counter() - begun
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, printed.decode(errors="replace").strip())


def main() -> None:
    """Write, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the log")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, in turns; the median counts")
    options = parser.parse_args()
    log = Path(tempfile.gettempdir()) / f"gpudiag-bench-{options.mib}.log"
    if not log.exists():
        write_log(log, options.mib)
    start = Path(tempfile.gettempdir()) / "gpudiag-bench-start.log"
    start.write_text("nothing\n", encoding="utf-8")
    commands = {
        "gpudiag": [sys.executable, "-c", READ, str(log)],
        "its start": [sys.executable, "-c", READ, str(start)],
    }
    pattern = grep_pattern()
    commands |= {f"grep {how}": ["grep", how, pattern, str(log)] for how in GREPS}
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(options.repeat):
        for name, argv in commands.items():
            runs[name].append(run(argv))
    print(f"{log.stat().st_size / 2**20:.0f} MiB, {options.repeat} runs each")
    for name, found in runs.items():
        walls = [item.wall_s for item in found]
        print(
            f"{name:10} {statistics.median(walls):6.2f} s ({min(walls):.2f} to {max(walls):.2f})  "
            f"CPU {statistics.median(item.cpu_s for item in found):.2f} s  "
            f"peak {max(item.peak_mib for item in found):5.0f} MiB"
        )
    for what, measure in (("clock", wall_of), ("CPU", cpu_of)):
        ours, begin, *theirs = (statistics.median(map(measure, runs[name])) for name in commands)
        for how, grep in zip(GREPS, theirs, strict=True):
            print(f"gpudiag / grep {how} by {what}: {ours / grep:.2f}, without its start {(ours - begin) / grep:.2f}")


def wall_of(measured: Run) -> float:
    """Seconds by the clock."""
    return measured.wall_s


def cpu_of(measured: Run) -> float:
    """Seconds of all cores."""
    return measured.cpu_s


if __name__ == "__main__":
    main()
