"""Stages incidents on a machine with GPUs and keeps what ``gpudiag`` saw: ``stage.py SCENE… --out FOLDER``.

See README.md here. It kills by pattern, as the incidents do: for machines that are lent for this and run nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gpudiag.collect.libnvml import Library

ROOT = Path(__file__).parents[2]
MODULE = "vllm.entrypoints.openai.api_server"
ENTRY = "from tests.staging.standin import main\n\nif __name__ == '__main__':\n    main()\n"
"""The server's own module, under the name that the patterns look for."""
PKILL = 'pkill -9 -f "vllm.entrypoints"; sleep 3; fuser -k /dev/nvidia*'
TENANT = (
    "import sys, time, torch\n"
    "held = [torch.ones(2 << 30, dtype=torch.uint8, device=f'cuda:{index}') for index in map(int, sys.argv[1:])]\n"
    "torch.cuda.synchronize()\n"
    "print('training', flush=True)\n"
    "time.sleep(3600)\n"
)
"""Another user's job: 2 GiB on each of its GPUs."""
TENANT_UID = 65534
SETTLED_S = 60.0
NEAR_MIB = 64
"""A GPU is free again when it uses at most this much more than before the server started."""


class Stage(NamedTuple):
    """What a scene plays on."""

    out: Path
    ranks: int
    gib: float
    pinned_gib: float
    nvml: Library


class Server(NamedTuple):
    """One that is up."""

    pid: int
    engine: int
    workers: tuple[int, ...]
    log: Path

    @property
    def everybody(self) -> tuple[int, ...]:
        """From the top down."""
        return (self.pid, self.engine, *self.workers)


def selfmatch(stage: Stage) -> None:
    """The line, in a shell of its own as ssh starts one: pkill finds that shell too."""
    with tenant(stage), serving(stage):
        collect(stage, "selfmatch-before", "--quick")
        shell(PKILL)
        collect(stage, "selfmatch-after", "--quick", "--kill", PKILL)


def by_run(stage: Stage) -> None:
    """The same line through ``gpudiag run``."""
    with tenant(stage), serving(stage):
        run(stage, "run-selfmatch", PKILL)


def parent_only(stage: Stage) -> None:
    """The API server is killed by PID; the rest is orphaned."""
    with tenant(stage), serving(stage) as server:
        collect(stage, "orphans-before", "--quick")
        line = f"kill -9 {server.pid}"
        shell(line)
        collect(stage, "orphans-after", "--quick", "--kill", line)


def orphans_by_run(stage: Stage) -> None:
    """The same through ``gpudiag run``."""
    with tenant(stage), serving(stage) as server:
        run(stage, "run-orphans", f"kill -9 {server.pid}")


def hung(stage: Stage) -> None:
    """One rank never comes to a collective; TERM is sent, which the workers ignore."""
    with serving(stage, absent_rank=0) as server:
        line = f"kill {' '.join(map(str, server.everybody))}"
        shell(line)
        collect(stage, "hung-after", "--quick", "--kill", line)


def one_rank(stage: Stage) -> None:
    """One worker is killed alone: its GPU is free, its peers wait."""
    with serving(stage) as server:
        line = f"kill -9 {server.workers[-1]}"
        shell(line)
        collect(stage, "one-rank-after", "--quick", "--kill", line)


def teardown(stage: Stage) -> None:
    """Everybody is killed at once while each rank has pinned host memory: how long each GPU takes."""
    before = used(stage)
    with serving(stage, pinned=True) as server:
        line = f"kill -9 {' '.join(map(str, server.everybody))}"
        begun = time.monotonic()
        shell(line)
        collecting = subprocess.Popen(collect_words(stage, "teardown-after", "--duration", "12", "--kill", line))
        print(json.dumps({"teardown, seconds until free": release(stage, before, begun)}), flush=True)
        collecting.wait(120)


SCENES: dict[str, Callable[[Stage], None]] = {
    "selfmatch": selfmatch,
    "run": by_run,
    "orphans": parent_only,
    "run-orphans": orphans_by_run,
    "hung": hung,
    "one-rank": one_rank,
    "teardown": teardown,
}


def main() -> None:
    """Play the scenes in turn; what they print says how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"all, or some of: {', '.join(SCENES)}")
    parser.add_argument("--out", type=Path, required=True, help="folder for the bundles")
    parser.add_argument("--ranks", type=int, help="workers (default: one a GPU)")
    parser.add_argument("--gib", type=float, default=60, help="of device memory for each rank (default 60)")
    parser.add_argument("--pinned", type=float, default=8, help="GiB that each rank pins in teardown (default 8)")
    given = parser.parse_args()
    unknown = set(given.scenes) - SCENES.keys()
    if unknown:
        parser.error(f"no scene {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}")
    nvml = Library()
    given.out.mkdir(parents=True, exist_ok=True)
    stage = Stage(given.out, given.ranks or nvml.count(), given.gib, given.pinned, nvml)
    for name in given.scenes or SCENES:
        begun = time.monotonic()
        SCENES[name](stage)
        print(f"{name}: {time.monotonic() - begun:.1f} s; MiB used now: {used(stage)}", flush=True)


def shell(line: str) -> None:
    """As ssh runs it."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    print(json.dumps({"line": line, "exit code": done.returncode, "output": done.stdout + done.stderr}), flush=True)


def collect_words(stage: Stage, name: str, *options: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "gpudiag.collect", "-o", str(stage.out / f"{name}.tgz"), *options]


def collect(stage: Stage, name: str, *options: str) -> None:
    """A bundle, and what it cost."""
    begun = time.monotonic()
    subprocess.run(collect_words(stage, name, *options), check=True)
    size = (stage.out / f"{name}.tgz").stat().st_size
    print(f"collect {name}: {time.monotonic() - begun:.2f} s, {size >> 10} KiB", flush=True)


def run(stage: Stage, name: str, line: str) -> None:
    """``gpudiag run`` by its own entry: the stager's machine has no other package."""
    code = "import sys; from gpudiag.collect.run_main import main; sys.exit(main(sys.argv[1:]))"
    words = ["-o", str(stage.out / f"{name}.tgz"), "--", line]
    done = subprocess.run([sys.executable, "-c", code, *words])
    print(f"run {name}: exit code {done.returncode}", flush=True)


@contextmanager
def serving(stage: Stage, *, absent_rank: int = -1, pinned: bool = False) -> Iterator[Server]:
    """A server that is up; at the end all that is left of its session is killed by PID and the memory is waited for."""
    before = used(stage)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, *MODULE.split("."))
        package.parent.mkdir(parents=True)
        package.with_suffix(".py").write_text(ENTRY)
        ready, log = Path(folder, "ready"), stage.out / "server.log"
        words = [sys.executable, "-m", MODULE, "--tensor-parallel-size", str(stage.ranks), "--gib", str(stage.gib)]
        words += ["--pinned", str(stage.pinned_gib if pinned else 0), "--absent-rank", str(absent_rank)]
        paths = os.pathsep.join((folder, str(ROOT), *filter(None, (os.environ.get("PYTHONPATH"),))))
        with log.open("w") as file:
            process = subprocess.Popen(
                [*words, "--ready", str(ready)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        try:
            _until(ready.exists, 240, f"the server did not come up; see {log}")
            time.sleep(1)
            yield _server(process.pid, log)
        finally:
            for pid in members(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait(30)
            print(json.dumps({"cleaned up, seconds until free": release(stage, before, time.monotonic())}), flush=True)


@contextmanager
def tenant(stage: Stage) -> Iterator[int]:
    """Another user's job on two of the GPUs, or on the one that there is."""
    indexes = [str(index) for index in range(stage.nvml.count())][-2:]
    words = ["setpriv", f"--reuid={TENANT_UID}", f"--regid={TENANT_UID}", "--clear-groups", "env", "HOME=/tmp"]
    job = [sys.executable, "-c", TENANT, *indexes]
    with subprocess.Popen([*words, *job], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n", "the other user's job did not start"
        try:
            yield process.pid
            print(
                f"the other user's job {process.pid} is {'dead' if process.poll() is not None else 'alive'}", flush=True
            )
        finally:
            process.kill()


def _server(pid: int, log: Path) -> Server:
    titles = {member: Path(f"/proc/{member}/cmdline").read_text().rstrip("\0") for member in members(pid)}
    engine = next(member for member, title in titles.items() if title.startswith("VLLM::EngineCore"))
    workers = sorted((title, member) for member, title in titles.items() if title.startswith("VLLM::Worker"))
    return Server(pid, engine, tuple(member for _, member in workers), log)


def members(session: int) -> list[int]:
    """Processes of a session; it outlives its leader."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    found.append(int(entry.name))
    return found


def used(stage: Stage) -> dict[int, int]:
    """MiB of each GPU."""
    return {index: stage.nvml.memory(stage.nvml.gpu(index)).used >> 20 for index in range(stage.nvml.count())}


def release(stage: Stage, before: dict[int, int], begun: float) -> dict[int, float | None]:
    """Seconds from ``begun`` until each GPU was as free as before; ``None``: it was not within a minute."""
    took: dict[int, float | None] = dict.fromkeys(before)
    while None in took.values() and time.monotonic() - begun < SETTLED_S:
        for index, mib in used(stage).items():
            if took[index] is None and mib <= before[index] + NEAR_MIB:
                took[index] = round(time.monotonic() - begun, 2)
        time.sleep(0.02)
    return took


def _until(holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(otherwise)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
