"""The collector on a machine that fails it: its tools, its limits, its disk, its clock; and many of it at once.

Drivers that hang, hidden processes and full disks stand in ``tests/oracle/test_collect*.py``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpudiag.bundle.reader import Contents, read_contents

ROOT = Path(__file__).parents[2]
CALL = [sys.executable, "-m", "gpudiag.collect", "--quick"]
CODES = (0, 4)
"""Written, with and without an answer of a GPU source."""
EXPLAINED = (0, 3, 10, 11, 12)
Tried = Callable[[str, int, str], None]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def collect(
    folder: Path, *, before: Sequence[str] = (), words: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, *CALL, "-o", "x.tgz", *words],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def explained(bundle: Path) -> str:
    """The report; that there is one, or one sentence why there is none."""
    done = subprocess.run(
        [sys.executable, "-m", "gpudiag", "explain", str(bundle)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode in EXPLAINED, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def outcomes(contents: Contents) -> dict[str, tuple[str, str]]:
    return {found.member: (found.outcome, found.because or "") for _, found in contents.outcomes}


def tools(folder: Path, **scripts: str) -> str:
    """A PATH in front of which these programs stand."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    for name, script in scripts.items():
        file = place / name.replace("_", "-")
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    return f"{place}:{os.environ['PATH']}"


ILL = {
    "fails": ("echo 'Unable to determine the device handle for GPU0: Unknown Error'; exit 15", "ok"),
    "says nothing": ("exit 0", "ok"),
    "prints noise": ("head -c 100000 /dev/urandom", "ok"),
    "prints 200 MB": (f"yes '| {'N/A ' * 40} |' | head -c 200000000", "truncated"),
    "prints a line without end": ("head -c 60000000 /dev/zero | tr '\\0' x", "truncated"),
    "stops in the middle of a line": ("printf 'timestamp, index, memory.us'", "ok"),
    "is killed in the middle": ("echo 'timestamp, index, uuid'; kill -9 $$", "truncated"),
    "crashes": ("echo begun; kill -SEGV $$", "truncated"),
    "is no program": ("", "denied"),
}
"""How, and the outcome that its output gets. An exit code stands beside an output that is whole."""


@pytest.mark.parametrize("how", ILL)
def test_nvidia_smi_that_is_ill(tmp_path: Path, how: str, tried: Tried) -> None:
    script, expected = ILL[how]
    path = tools(tmp_path, nvidia_smi=script)
    if how == "is no program":
        (tmp_path / "bin/nvidia-smi").write_bytes(b"\x7fELF no program")
    begun = time.monotonic()
    done = collect(tmp_path, PATH=path)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begun < 15
    contents = read_contents(tmp_path / "x.tgz")
    assert not contents.flaws
    found = outcomes(contents)
    assert found["look-1/nvidia-smi.txt"][0] == found["look-1/query-gpu.csv"][0] == expected, found
    assert found["look-1/ps-tree.txt"][0] == found["host.txt"][0] == "ok"
    explained(tmp_path / "x.tgz")
    tried("Ways in which nvidia-smi may be ill", 1, "its outcome says so, the rest is collected, the bundle is whole")


@pytest.mark.parametrize(
    "limit",
    [
        *(f"ulimit -n {number}" for number in (4, 6, 8, 10, 12, 16, 24)),
        *(f"ulimit -v {kib}" for kib in (20_000, 40_000, 60_000, 100_000)),
        *(f"ulimit -f {blocks}" for blocks in (0, 1, 4, 16)),
        "ulimit -t 1",
        "ulimit -s 64",
    ],
)
def test_little_is_allowed(tmp_path: Path, limit: str, tried: Tried) -> None:
    """Descriptors, memory, sizes of files, seconds of CPU."""
    done = collect(tmp_path, before=["bash", "-c", f'{limit}; exec "$@"', "sh"])
    bundle = tmp_path / "x.tgz"
    if done.returncode in CODES:
        assert not read_contents(bundle).flaws
        assert "Traceback" not in done.stderr
    else:
        # Python itself may not start; then nothing is there, and the words are its own.
        assert not bundle.exists()
        said = done.stderr.strip().splitlines()
        assert done.returncode < 0 or said, done
        assert "Traceback" not in done.stderr or "gpudiag/collect" not in done.stderr, done.stderr
    partial = tmp_path / "x.tgz.partial"
    if partial.exists() and partial.stat().st_size:
        explained(partial)
    tried("Limits on descriptors, memory, file sizes, CPU", 1, "a whole bundle, or a sentence and none under its name")


def marked(mark: str) -> list[int]:
    """Living processes that have this variable in their environment."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGPIPE])
def test_a_signal_at_any_moment(tmp_path: Path, number: signal.Signals, tried: Tried) -> None:
    moments = (0.02, 0.06, 0.1, 0.15, 0.25, 0.5, 0.9)
    mark = f"GPUDIAG_TEST={tmp_path.name}"
    for position, moment in enumerate(moments):
        name = f"{position}.tgz"
        with subprocess.Popen(
            [*CALL[:-1], "--duration", "0.5", "-o", name],
            cwd=tmp_path,
            env=environment(GPUDIAG_TEST=tmp_path.name),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            time.sleep(moment)
            running.send_signal(number)
            said = running.communicate(timeout=30)[1]
        assert "Traceback" not in said.partition("gpudiag: ")[2], "Python's own start may be hit, but not what follows"
        for written in (tmp_path / name, tmp_path / f"{name}.partial"):
            if written.exists() and written.stat().st_size:
                assert read_contents(written).start is not None
        if (tmp_path / name).exists():
            assert not read_contents(tmp_path / name).flaws
    last = max(tmp_path.glob("*.partial"), key=lambda path: path.stat().st_size, default=tmp_path / "0.tgz")
    if last.exists():
        explained(last)
    end = time.monotonic() + 10
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []
    tried(
        "Signals to the collector, from its first moment on", len(moments), "what is there is readable, nobody is left"
    )


SLEEPER = """
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
    /* A parent waits in vfork without a way to wake it, until the child is done with its memory. */
    if (vfork() == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); }
    return 0;
}
"""


def test_a_process_that_no_signal_wakes(tmp_path: Path, tried: Tried) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine: no process in state D was made")
    (tmp_path / "stuck.c").write_text(SLEEPER)
    subprocess.run([compiler, "-o", str(tmp_path / "stuck"), str(tmp_path / "stuck.c")], check=True)
    with subprocess.Popen([str(tmp_path / "stuck")]) as stuck:
        try:
            assert wait_for_state(stuck.pid, "D")
            begun = time.monotonic()
            done = collect(tmp_path, words=["--kill", f"kill {stuck.pid}"])
            assert time.monotonic() - begun < 10
            assert done.returncode == 4, done.stderr
        finally:
            # The kernel ends a parent in vfork on SIGKILL only, and the child with it.
            stuck.kill()
    contents = read_contents(tmp_path / "x.tgz")
    tree = next(member.data.decode() for member in contents.members if member.name == "look-1/ps-tree.txt")
    (row,) = [line for line in tree.splitlines() if line.split()[:1] == [str(stuck.pid)]]
    assert " D" in row
    explained(tmp_path / "x.tgz")
    tried("A process in uninterruptible sleep (a parent in vfork)", 1, "seen in state D, nothing waits for it")


def wait_for_state(pid: int, state: str) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith(state):
            return True
        time.sleep(0.01)
    return False


STEPPED = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
/* The wall clock goes back by an hour when the machine has been up for STEP_AT seconds. */
#include <stdlib.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    struct timespec up;
    const char *at = getenv("STEP_AT");
    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &up);
    if (clock == CLOCK_REALTIME && at && up.tv_sec + up.tv_nsec / 1e9 >= atof(at)) time->tv_sec -= 3600;
    return result;
}
int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""


def test_the_wall_clock_is_set_back_meanwhile(tmp_path: Path, tried: Tried) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine: the clock was not set back")
    (tmp_path / "stepped.c").write_text(STEPPED)
    library = tmp_path / "stepped.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "stepped.c")], check=True)
    at = time.clock_gettime(time.CLOCK_BOOTTIME) + 0.9
    done = subprocess.run(
        [*CALL[:-1], "--duration", "1.5", "-o", "x.tgz"],
        cwd=tmp_path,
        env=environment(LD_PRELOAD=str(library), STEP_AT=str(at)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    contents = read_contents(tmp_path / "x.tgz")
    assert not contents.flaws
    assert contents.start is not None
    assert contents.end is not None
    begin, end = contents.start.clocks, contents.end.clocks
    assert begin.wall_ns and end.wall_ns and begin.monotonic_ns and end.monotonic_ns  # noqa: PT018
    step_ns = (end.wall_ns - begin.wall_ns) - (end.monotonic_ns - begin.monotonic_ns)
    assert -3_601e9 < step_ns < -3_599e9, "the clock was set back between the looks"
    assert all((outcome.duration_s or 0) >= 0 for _, outcome in contents.outcomes)
    assert all((outcome.duration_s or 0) < 60 for _, outcome in contents.outcomes)
    assert explained(tmp_path / "x.tgz")
    tried(
        "The wall clock set back by an hour between two looks", 1, "a whole bundle whose clocks show it, and a report"
    )


def test_many_at_once(tmp_path: Path, tried: Tried) -> None:
    number = 50
    running = [
        subprocess.Popen(
            [*CALL],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(number)
    ]
    for process in running:
        said = process.communicate(timeout=100)[1]
        assert process.returncode in CODES, said
    bundles = sorted(tmp_path.glob("*.tgz"))
    assert len(bundles) == number, "two of them wrote to one name"
    assert not list(tmp_path.glob("*.partial"))
    assert all(not read_contents(bundle).flaws for bundle in bundles)
    tried("Collectors started in one folder at the same time", number, "as many whole bundles")
