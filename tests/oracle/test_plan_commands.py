"""The plan's commands, run by a real shell against real processes: they end the right one and no other."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpudiag.plan import identity_check
from gpudiag.timeline.lives import Life
from tests.unit.timeline.rows import booking, process, table
from tests.unit.timeline.test_lives import census

pytestmark = pytest.mark.oracle

NAMES = [
    "VLLM::Worker_TP1",
    "python3 -m vllm.entrypoints.openai.api_server --port 8000",
    'it\'s $(touch owned) `touch owned` "quoted" *',
    "tab\there",
]


@pytest.fixture(params=["sh", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    yield from _sleeper("VLLM::Worker_TP1")


def _sleeper(name: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([name, "60"], executable=shutil.which("sleep"))
    time.sleep(0.05)
    yield child
    child.kill()
    child.wait()


def _ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[19])


def _life(pid: int, **fields: int | str) -> Life:
    return census([process("M", pid, 1, **fields)], coverage=[table("M", complete=False)]).lives[0]


def _run(shell: str, life: Life, where: Path | None = None) -> int:
    command = f"{identity_check(life)} && kill -KILL {life.pid}"
    return subprocess.run([shell, "-c", command], check=False, capture_output=True, cwd=where).returncode


def _died(child: subprocess.Popen[bytes]) -> bool:
    try:
        return child.wait(timeout=2) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        return False


def test_start_ticks_let_the_right_one_through(shell: str, sleeper: subprocess.Popen[bytes]) -> None:
    assert _run(shell, _life(sleeper.pid, start_ticks=_ticks(sleeper.pid))) == 0
    assert _died(sleeper)


def test_other_start_ticks_are_refused(shell: str, sleeper: subprocess.Popen[bytes]) -> None:
    assert _run(shell, _life(sleeper.pid, start_ticks=_ticks(sleeper.pid) - 1)) != 0
    assert sleeper.poll() is None


@pytest.mark.parametrize("name", NAMES)
def test_recorded_command_line_lets_the_right_one_through(shell: str, name: str, tmp_path: Path) -> None:
    for child in _sleeper(name):
        life = _life(child.pid, cmdline=f"{name} 60")
        assert _run(shell, life, tmp_path) == 0
        assert _died(child)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("recorded", ["sup3rSecret99", "[redacted]"])
def test_no_secret_in_the_command_that_compares(shell: str, recorded: str, tmp_path: Path) -> None:
    name = "python3 -m vllm $(touch owned) * --api-key {} --port"
    for child in _sleeper(name.format("sup3rSecret99")):
        other = _life(child.pid, cmdline=f"{name.format(recorded)}x 60")
        assert _run(shell, other, tmp_path) != 0
        assert child.poll() is None
        life = _life(child.pid, cmdline=f"{name.format(recorded)} 60")
        assert "sup3r" not in identity_check(life)
        assert _run(shell, life, tmp_path) == 0
        assert _died(child)
        assert not list(tmp_path.iterdir())


def test_longer_command_line_is_another_process(shell: str, sleeper: subprocess.Popen[bytes]) -> None:
    assert _run(shell, _life(sleeper.pid, cmdline="VLLM::Worker_TP1 6")) != 0
    assert sleeper.poll() is None


def test_name_from_nvidia_smi_matches_as_a_whole_word_only(shell: str, sleeper: subprocess.Popen[bytes]) -> None:
    listed = census(bookings=[booking("M", sleeper.pid, name="VLLM::Worker_TP")]).lives[0]
    assert _run(shell, listed) != 0
    assert sleeper.poll() is None
    listed = census(bookings=[replace(booking("M", sleeper.pid), name="VLLM::Worker_TP1")]).lives[0]
    assert _run(shell, listed) == 0
    assert _died(sleeper)


def test_nothing_known_kills_nothing(shell: str, sleeper: subprocess.Popen[bytes]) -> None:
    assert _run(shell, _life(sleeper.pid)) != 0
    assert sleeper.poll() is None
