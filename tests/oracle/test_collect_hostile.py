"""The collector where things are not as they should be: each costs its deadline and no more, and gets its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudiag.bundle.reader import Contents, read_contents
from tests.unit.collect.driver import compiled

ROOT = Path(__file__).parents[2]
CALL = [sys.executable, "-m", "gpudiag.collect"]
NO_GPU = not Path("/dev/nvidiactl").exists()
MOUNTS = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-ec"]

pytestmark = pytest.mark.skipif(not NO_GPU, reason="this machine has a GPU: what is tested here is its absence")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may write to; those of pytest are their owner's."""
    path = Path(tempfile.mkdtemp(prefix="gpudiag-hostile-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def run(
    folder: Path, environment: dict[str, str] | None = None, before: list[str] | None = None
) -> tuple[float, str, int]:
    """Seconds, what it said, and its exit code. ``before``: what starts it."""
    begun = time.monotonic()
    done = subprocess.run(
        [*(before or []), *CALL, "--quick", "-o", str(folder / "x.tgz")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=90,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return time.monotonic() - begun, done.stderr, done.returncode


def outcome(contents: Contents, member: str) -> tuple[str, str]:
    (found,) = [item for _, item in contents.outcomes if item.member == member]
    return found.outcome, found.because or ""


def text(contents: Contents, member: str) -> str:
    return next(item.data.decode() for item in contents.members if item.name == member)


@pytest.fixture
def in_mounts(need: Callable[..., None]) -> Callable[[str], list[str]]:
    """What starts the collector in mounts of its own, after some commands."""
    need("unshare", "setpriv")
    if subprocess.run([*MOUNTS, "mount -t tmpfs none /mnt"], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount: hidden processes, a missing /sys and a full disk were not tried")
    return lambda script: [*MOUNTS, script + '; exec "$@"', "sh"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return compiled(tmp_path_factory.mktemp("driver"))


@pytest.mark.parametrize(
    ("behaviour", "expected", "code"),
    [
        ("nodriver", ("absent", "NVML: Driver Not Loaded"), 4),
        ("mismatch", ("absent", "NVML: Driver/library version mismatch"), 4),
        ("denied", ("denied", "NVML: Insufficient Permissions"), 4),
        ("nogpu", ("absent", "NVML: the driver has no GPU"), 4),
        ("crash", ("truncated", "the reading process ended early, exit code -6"), 4),
        ("lost", ("truncated", "GPU 1: GPU is lost"), 4),
        ("", ("ok", ""), 0),
    ],
)
def test_driver_that_fails(
    folder: Path, driver: dict[str, str], behaviour: str, expected: tuple[str, str], code: int
) -> None:
    seconds, said, found = run(folder, {**driver, "NVML_STUB": behaviour})
    assert found == code, said
    assert seconds < 5
    assert outcome(read_contents(folder / "x.tgz"), "look-1/nvml.json") == expected


def test_divided_gpu_of_which_only_parts_may_be_seen(folder: Path, driver: dict[str, str]) -> None:
    _, said, code = run(folder, {**driver, "NVML_STUB": "mig user"})
    assert code == 0
    assert "used: GPU 0 1000 MiB; booked: PID 77" in said


def test_driver_that_never_answers_costs_its_deadline(folder: Path, driver: dict[str, str]) -> None:
    seconds, said, code = run(folder, {**driver, "NVML_STUB": "block"})
    assert code == 4, said
    assert 10 <= seconds < 15
    contents = read_contents(folder / "x.tgz")
    assert outcome(contents, "look-1/nvml.json") == ("timed_out", "no end within 10 s")
    assert outcome(contents, "look-1/ps-tree.txt")[0] == outcome(contents, "host.txt")[0] == "ok"
    assert json.loads(text(contents, "look-1/proc.json"))["scan"]["processes"] > 0


def test_one_gpu_that_never_answers_leaves_the_other(folder: Path, driver: dict[str, str]) -> None:
    seconds, _, _ = run(folder, {**driver, "NVML_STUB": "blocked"})
    assert 10 <= seconds < 15
    contents = read_contents(folder / "x.tgz")
    assert outcome(contents, "look-1/nvml.json")[0] == "timed_out"
    first = text(contents, "look-1/nvml.json").splitlines()[1]
    assert json.loads(first)["gpus"][0]["used_v2"] == 1000 << 20


def test_hidden_processes_are_not_taken_for_absent(folder: Path, in_mounts: Callable[[str], list[str]]) -> None:
    hide = "sleep 60 & mount -o remount,hidepid=2 /proc"
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    _, said, code = run(folder, before=[*in_mounts(hide), *user])
    if "Permission denied" in said and not (folder / "x.tgz").exists():
        pytest.skip("nobody may not read this checkout or start this Python")
    assert code == 4, said
    contents = read_contents(folder / "x.tgz")
    assert outcome(contents, "look-1/proc.json") == ("denied", "/proc hides the processes of others (hidepid)")
    assert "hidepid: invisible\n" in text(contents, "host.txt") or "hidepid: 2\n" in text(contents, "host.txt")
    seen = json.loads(text(contents, "look-1/proc.json"))["scan"]
    assert seen["hidden"] is True


def test_root_sees_behind_hidepid(folder: Path, in_mounts: Callable[[str], list[str]]) -> None:
    run(folder, before=in_mounts("mount -o remount,hidepid=2 /proc"))
    assert outcome(read_contents(folder / "x.tgz"), "look-1/proc.json") == ("ok", "")


def test_without_sys_and_with_a_home_that_cannot_be_written(
    folder: Path, in_mounts: Callable[[str], list[str]]
) -> None:
    script = "mount -t tmpfs none /sys; mkdir home; mount -t tmpfs -o ro none home"
    seconds, said, code = run(folder, {"HOME": str(folder / "home")}, before=in_mounts(script))
    assert code == 4, said
    assert seconds < 5
    assert not read_contents(folder / "x.tgz").flaws


def test_folder_that_cannot_be_written_is_not_insisted_on(folder: Path, in_mounts: Callable[[str], list[str]]) -> None:
    # A checkout below /tmp would lose its Python under the new one.
    script = (
        "mkdir here new; mount -t tmpfs -o ro none here; mount -t tmpfs none new; cd here; export TMPDIR=$PWD/../new"
    )
    done = subprocess.run(
        [*in_mounts(script)[:-2], script + '; "$@"; ls "$TMPDIR" >&2', "sh", *CALL, "--quick"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "/new/gpudiag-" in done.stderr
    assert done.stderr.rstrip().endswith(".tgz")


def test_full_disk_leaves_what_was_seen(folder: Path, in_mounts: Callable[[str], list[str]]) -> None:
    # The small disk is only there inside, so what it holds in the end is copied from it.
    fill = "mkdir disk; mount -t tmpfs -o size=16k none disk; head -c 12k /dev/zero >disk/full; "
    script = fill + '"$@" || code=$?; cp disk/x* .; exit ${code:-0}'
    done = subprocess.run(
        [*MOUNTS, script, "sh", *CALL, "--quick", "-o", "disk/x.tgz"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": "/dev/shm"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "What was seen until then is readable: disk/x.tgz.partial" in done.stderr
    contents = read_contents(folder / "x.tgz.partial")
    assert contents.start is not None
    assert contents.members
    assert not (folder / "x.tgz").exists()


def test_no_tool_at_all(folder: Path) -> None:
    """An empty PATH finds tools in their usual places; a machine without any is made by its seam (unit tests)."""
    seconds, said, code = run(folder, {"PATH": "/nonexistent"})
    assert code == 4, said
    assert seconds < 6
    contents = read_contents(folder / "x.tgz")
    assert outcome(contents, "look-1/nvidia-smi.txt") == ("absent", "nvidia-smi is not installed")
    assert outcome(contents, "look-1/ps-tree.txt")[0] == "ok"
