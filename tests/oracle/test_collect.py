"""The collector as a person starts it, on this machine, with the tools and the rights that there are."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpudiag.bundle.reader import Contents, read_contents

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests/fixtures/h200/selfmatch-orphans/after"
NO_GPU = not Path("/dev/nvidiactl").exists()
CALL = [sys.executable, "-m", "gpudiag.collect"]
FAKE = """#!{python}
import sys
from pathlib import Path
words = " ".join(sys.argv[1:])
name = ("q.xml" if "-x" in words else "query-apps.csv" if "compute-apps" in words
        else "query-gpu.csv" if "query-gpu" in words else "nvidia-smi.txt")
print("".join(Path({capture!r}, name).read_text().splitlines(keepends=True)[2:]), end="")
"""

pytestmark = pytest.mark.skipif(not NO_GPU, reason="this machine has a GPU: what is tested here is its absence")


def collect(
    folder: Path, *words: str, call: list[str] | None = None, path: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it with a folder in front of PATH."""
    before = "" if path is None else f"{path}:"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": before + os.environ["PATH"], **environment}
    output = folder / "x.tgz"
    return subprocess.run(
        [*(call or CALL), "-o", str(output), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def outcomes(contents: Contents) -> dict[str, str]:
    return {outcome.member: outcome.outcome for _, outcome in contents.outcomes}


def program(folder: Path, text: str) -> Path:
    file = folder / "bin" / "nvidia-smi"
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o755)
    return file.parent


def explained(bundle: Path) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-c", "from gpudiag.cli import main; main()", "explain", "--format", "json", str(bundle)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def test_without_a_gpu_it_says_so_and_explains_nothing(tmp_path: Path) -> None:
    done = collect(tmp_path, "--duration", "0.5")
    assert done.returncode == 4, done.stderr
    assert "no GPU source answered; next: gpudiag explain" in done.stderr.splitlines()[-1]
    assert done.stdout == ""
    contents = read_contents(tmp_path / "x.tgz")
    found = outcomes(contents)
    assert found["look-1/nvidia-smi.txt"] == found["look-2/nvml.json"] == found["nvml-series.json"] == "absent"
    assert found["look-1/ps-tree.txt"] == found["look-2/ps-tree.txt"] == "ok"
    assert contents.start is not None
    assert contents.start.looks == ("look-1", "look-2")
    code, report = explained(tmp_path / "x.tgz")
    assert (code, report["outcome"]) == (11, "inconclusive")


def test_what_nvidia_smi_prints_is_explained(tmp_path: Path) -> None:
    tools = program(tmp_path, FAKE.format(python=sys.executable, capture=str(CAPTURE)))
    done = collect(tmp_path, "--quick", path=tools)
    assert done.returncode == 0, done.stderr
    assert "used: GPU 0 77459 MiB" in done.stderr.splitlines()[-1]
    with tarfile.open(tmp_path / "x.tgz") as archive:
        names = archive.getnames()
    assert {"look-1/nvidia-smi.txt", "look-1/query-gpu.csv", "look-1/query-apps.csv", "look-1/q.xml"} <= set(names)
    # The PIDs of that capture are not on this machine, so nobody is named; the figures are read.
    code, report = explained(tmp_path / "x.tgz")
    assert code == 11
    assert [(gpu["used_mib"], gpu["reserved_mib"]) for gpu in report["gpus"]] == [(77459, 616)]


def test_nvidia_smi_that_never_answers_costs_its_deadline(tmp_path: Path) -> None:
    tools = program(tmp_path, "#!/bin/sh\necho begun\nexec sleep 300\n")
    begun = time.monotonic()
    done = collect(tmp_path, "--duration", "0.5", path=tools)
    assert 12 < time.monotonic() - begun < 14.5  # 10 s in the first look, 2 s in the second
    assert done.returncode == 4
    contents = read_contents(tmp_path / "x.tgz")
    assert outcomes(contents)["look-1/q.xml"] == outcomes(contents)["look-2/q.xml"] == "timed_out"
    assert any(member.name == "look-1/q.xml" and b"begun" in member.data for member in contents.members)


def test_abandoned_child_does_not_hold_the_output(tmp_path: Path) -> None:
    # A tool that leaves its group survives the kill; whoever waits for our output must not wait for it.
    tools = program(
        tmp_path, f"#!{sys.executable}\nimport os, time\nos.setsid() if os.fork() == 0 else 0\ntime.sleep(20)\n"
    )
    done = collect(tmp_path, "--quick", path=tools)
    assert done.returncode == 4
    left = [path.name for path in Path("/proc").iterdir() if path.name.isdigit() and str(tools) in _cmdline(path)]
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert left


def _cmdline(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize("seed", range(12))
def test_killed_at_any_moment_it_leaves_a_readable_part(tmp_path: Path, seed: int) -> None:
    moment = random.Random(seed).uniform(0.05, 0.9)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        [*CALL, "-o", "x.tgz", "--duration", "0.6"], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    )
    time.sleep(moment)
    running.kill()
    running.wait()
    left = sorted(path.name for path in tmp_path.iterdir())
    if not left:
        return  # Python had not come so far.
    assert left in (["x.tgz"], ["x.tgz.partial"])
    contents = read_contents(tmp_path / left[0])
    assert contents.start is not None
    assert contents.start.looks == ("look-1", "look-2")
    assert all("end" in (flaw.reason or "") or "cut" in (flaw.reason or "") for flaw in contents.flaws)


def test_interrupted_it_says_where_the_part_is(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        [*CALL, "-o", "x.tgz", "--duration", "20"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    time.sleep(1)
    running.terminate()
    _, told = running.communicate(timeout=10)
    assert running.returncode == 130
    assert "interrupted; what was seen until then is in x.tgz.partial" in told
    assert any(member.name == "look-1/ps-tree.txt" for member in read_contents(tmp_path / "x.tgz.partial").members)


def test_in_a_pid_namespace(tmp_path: Path, need: Callable[..., None]) -> None:
    need("unshare")
    prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make a PID namespace")
    done = collect(tmp_path, "--quick", call=[*prefix, *CALL])
    assert done.returncode == 4, done.stderr
    contents = read_contents(tmp_path / "x.tgz")
    assert contents.start is not None
    assert contents.start.pids == (1,)
    assert contents.start.pid_namespace != str(Path("/proc/self/ns/pid").readlink())


def as_nobody(need: Callable[..., None]) -> list[str]:
    need("setpriv")
    if os.geteuid():
        pytest.skip("only root can become another user")
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    python = Path(sys.executable).resolve()
    if subprocess.run([*prefix, str(python), "-c", f"import os; os.listdir({str(ROOT)!r})"], check=False).returncode:
        pytest.skip("nobody may not read this checkout or start this Python")
    return prefix


def test_as_an_ordinary_user(tmp_path: Path, need: Callable[..., None]) -> None:
    prefix = as_nobody(need)
    folder = Path(tempfile.gettempdir(), f"gpudiag-nobody-{os.getpid()}")
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    try:
        done = collect(folder, "--quick", call=[*prefix, *CALL], HOME="/nonexistent")
        assert done.returncode == 4, done.stderr
        assert "not root: descriptors" in done.stderr
        contents = read_contents(folder / "x.tgz")
        (outcome,) = [outcome for _, outcome in contents.outcomes if outcome.member == "look-1/proc.json"]
        assert outcome.outcome == "denied"
        assert "processes could not be looked into without root" in (outcome.because or "")
    finally:
        shutil.rmtree(folder)


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [*CALL, "--quick", "-o", "/proc/x.tgz"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "/proc/x.tgz cannot be written" in done.stderr
    assert "Nothing was written." in done.stderr


def test_full_disk_leaves_a_readable_part(tmp_path: Path) -> None:
    code = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500)); "
    code += "from gpudiag.collect.main import main; sys.exit(main())"
    done = collect(tmp_path, "--quick", call=[sys.executable, "-c", code])
    assert done.returncode == 1
    assert "What was seen until then is readable" in done.stderr
    assert read_contents(tmp_path / "x.tgz.partial").start is not None


def test_the_line_for_the_open_shell_works_in_bash(tmp_path: Path, need: Callable[..., None]) -> None:
    need("bash")
    told = collect(tmp_path, "--quick", HOME=str(tmp_path), HISTFILE=str(tmp_path / "none"), SUDO_USER="").stderr
    if "kill commands: absent" not in told:
        pytest.skip("somebody's history on this machine has a kill command: the hint is not needed")
    line = "history | gpudiag collect --history -"
    assert line in told
    (tmp_path / "x.tgz").unlink()
    typed = line.replace("gpudiag collect", f"{sys.executable} -m gpudiag.collect") + f" --quick -o {tmp_path}/x.tgz"
    script = f"set -o history; history -s \"pkill -9 -f 'vllm serve'\"; {typed}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "SUDO_USER": ""}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "history |" not in done.stderr
    (text,) = [item.data for item in read_contents(tmp_path / "x.tgz").members if item.name == "kill-commands.json"]
    assert [record["cmd"] for record in json.loads(text)] == ["pkill -9 -f 'vllm serve'"]


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_text("mine")
    done = collect(tmp_path, "--quick")
    assert done.returncode == 2
    assert (tmp_path / "x.tgz").read_text() == "mine"


def test_old_python(tmp_path: Path) -> None:
    # Where versions are kept side by side, a launcher starts the one that is asked for.
    program = shutil.which("python3.9")
    asked = {**os.environ, "PYENV_VERSION": "3.9"}
    if program is None or subprocess.run([program, "-c", ""], env=asked, capture_output=True, check=False).returncode:
        pytest.skip("no Python 3.9 on this machine: what a far machine may run was not tried")
    done = collect(
        tmp_path,
        "--quick",
        "--kill",
        "pkill -9 -f vllm",
        "--at",
        "2026-02-20T19:00:06Z",
        call=[program, *CALL[1:]],
        PYENV_VERSION="3.9",
    )
    assert done.returncode == 4, done.stderr
    code, report = explained(tmp_path / "x.tgz")
    assert code == 11
    assert report["inputs"][0]["complete"]
