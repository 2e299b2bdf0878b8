"""Prints what the flight recorder costs, beside tools that show the like, all at the same time. See README.md here."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
STUB = ROOT / "tests/fixtures/nvml-stub/holders.c"
CROWD = """
import os, signal, subprocess, sys, time
count, every = int(sys.argv[1]), float(sys.argv[2])
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
while True:
    time.sleep(every)
    subprocess.run(["true", "--of-the-churn"])
"""
"""Sleeping processes, and one that comes and goes every so often; all end with their namespace."""
FULL_PASS = """
import os, time
while True:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            for file in ("stat", "cmdline"):
                try:
                    with open(f"/proc/{name}/{file}", "rb") as opened:
                        opened.read()
                except OSError:
                    pass
    time.sleep(1)
"""
NVITOP = """
import time
from nvitop import Device, host
devices = Device.all()
while True:
    for device in devices:
        device.memory_used(); device.processes()
    for process in host.process_iter(["pid", "ppid", "status", "cmdline"]):
        process.info
    time.sleep(1)
"""
"""GPUs by its own means; all processes by those of the library that it reads them with."""
SETTLE_S = 12.0


class Tool(NamedTuple):
    """One that runs, or why it does not."""

    name: str
    process: subprocess.Popen[bytes] | None
    remark: str = ""


class Cost(NamedTuple):
    """Of a process and its children."""

    cpu_s: float
    rss_mib: float
    pss_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="that are measured (default 60)")
    parser.add_argument("--crowd", type=int, default=2000, metavar="N", help="beside N sleeping processes")
    parser.add_argument(
        "--churn", type=float, default=1.0, metavar="S", help="a process comes and goes every S seconds"
    )
    parser.add_argument("--gpus", type=int, default=8, help="of the library that stands in for the driver (default 8)")
    parser.add_argument(
        "--apart", action="store_true", help="all of it in a PID namespace: without the kernel's events"
    )
    parser.add_argument("--nvitop", metavar="PYTHON", default=sys.executable, help="a Python that has nvitop")
    options = parser.parse_args()
    if options.apart:
        words = [word for word in sys.argv[1:] if word != "--apart"]
        prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        os.execvp(prefix[0], [*prefix, sys.executable, __file__, *words])
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder), options)


def _measure(folder: Path, options: argparse.Namespace) -> None:
    real = Path("/dev/nvidiactl").exists()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    crowd = _crowd(options.crowd, options.churn)
    try:
        if not real:
            environment |= _stub(folder, options.gpus)
        gpus = "the driver's GPUs" if real else f"no GPU here: a library that stands in for {options.gpus} of them"
        print(f"{gpus}; {os.cpu_count()} CPUs, {_count()} processes; {options.seconds:g} s after {SETTLE_S:g} s\n")
        tools = _started(folder, environment, options.nvitop)
        try:
            _table(tools, options.seconds)
            said = (folder / "said.txt").read_text(encoding="utf-8").strip().split("\n")
            events = "with" if _hears(folder / "ring") else "without"
            ring = sum(path.stat().st_size for path in (folder / "ring").iterdir())
            print(f"\n{events} the kernel's process events; ring: {ring / 1024:.0f} KiB; the recorder said: {said}")
        finally:
            for tool in tools:
                if tool.process is not None:
                    tool.process.send_signal(signal.SIGTERM)
                    tool.process.wait()
    finally:
        crowd.kill()
        crowd.wait()


def _crowd(count: int, churn_s: float) -> subprocess.Popen[str]:
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"] if os.geteuid() == 0 else []
    words += [sys.executable, "-S", "-c", CROWD, str(count), str(churn_s)]
    crowd = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert crowd.stdout is not None
    crowd.stdout.readline()
    return crowd


def _stub(folder: Path, gpus: int) -> dict[str, str]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("no C compiler: the driver's library cannot be stood in for")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(STUB)], check=True)
    holders = "".join(f"{gpu} {os.getpid()} 70000\n" for gpu in range(gpus))
    (folder / "holders").write_text(holders, encoding="ascii")
    return {"LD_LIBRARY_PATH": str(folder), "NVML_GPUS": str(gpus), "NVML_HOLDERS": str(folder / "holders")}


def _started(folder: Path, environment: dict[str, str], nvitop: str) -> list[Tool]:
    said = (folder / "said.txt").open("w", encoding="utf-8")

    def run(*words: str, errors: object = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,  # type: ignore[arg-type]
        )

    watch = run(sys.executable, "-m", "gpudiag", "watch", "--directory", str(folder / "ring"), errors=said)
    found = [Tool("gpudiag watch", watch)]
    for name, words in (
        ("nvidia-smi dmon", ("nvidia-smi", "dmon")),
        ("pidstat 1", ("pidstat", "-l", "-p", "ALL", "1")),
    ):
        path = shutil.which(words[0])
        found.append(
            Tool(name, run(path, *words[1:]) if path else None, "" if path else f"{words[0]} is not installed")
        )
    has = subprocess.run([nvitop, "-c", "import nvitop"], capture_output=True, check=False).returncode == 0
    found.append(
        Tool("nvitop's API", run(nvitop, "-c", NVITOP) if has else None, "" if has else "nvitop is not installed")
    )
    found.append(Tool("a full pass of /proc a second", run(sys.executable, "-S", "-c", FULL_PASS)))
    return found


def _table(tools: Sequence[Tool], seconds: float) -> None:
    time.sleep(SETTLE_S)
    before = {tool.name: _cost(tool.process.pid) for tool in tools if tool.process is not None}
    begun, born = time.monotonic(), _forks()
    time.sleep(seconds)
    spent = time.monotonic() - begun
    print(f"{(_forks() - born) / spent:.1f} processes and threads began in a second, on the whole machine\n")
    print("| | % of one core | RSS, MiB | PSS, MiB |\n| --- | --- | --- | --- |")
    for tool in tools:
        if tool.process is None:
            print(f"| {tool.name} | {tool.remark} | | |")
            continue
        code = tool.process.poll()
        if code is not None:
            print(f"| {tool.name} | ended with exit code {code} | | |")
            continue
        cost = _cost(tool.process.pid)
        used = 100 * (cost.cpu_s - before[tool.name].cpu_s) / spent
        print(f"| {tool.name} | {used:.2f} | {cost.rss_mib:.0f} | {cost.pss_mib:.0f} |")


def _cost(pid: int) -> Cost:
    pids = [pid, *_children(pid)]
    rss = pss = cpu = 0.0
    for one in pids:
        for task in Path(f"/proc/{one}/task").iterdir():
            cpu += int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
        for line in Path(f"/proc/{one}/smaps_rollup").read_text(encoding="ascii").split("\n"):
            words = line.split()
            if words[:1] in (["Rss:"], ["Pss:"]):
                rss += int(words[1]) / 1024 if words[0] == "Rss:" else 0
                pss += int(words[1]) / 1024 if words[0] == "Pss:" else 0
    return Cost(cpu, rss, pss)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def _forks() -> int:
    lines = Path("/proc/stat").read_text(encoding="ascii").split("\n")
    return next(int(line.split()[1]) for line in lines if line.startswith("processes "))


def _hears(ring: Path) -> bool:
    lines = (line for path in sorted(ring.glob("*.jsonl")) for line in path.read_text(encoding="ascii").split("\n"))
    return any('"is":"events"' in line and '"because":null' in line for line in lines)


def _count() -> int:
    return sum(name.isdecimal() for name in os.listdir("/proc"))  # noqa: PTH208


if __name__ == "__main__":
    main()
