"""The plan's script, run by real shells against real processes and a stand-in for nvidia-smi."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudiag.report import script
from gpudiag.report.contract import Gpu, Host, KillEntry, LedgerEntry, Plan, Report, StopFirst, ThenEntry
from tests.unit.report import sample

pytestmark = pytest.mark.oracle

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
GPU = "GPU-5e1f0a00-0000-4000-8000-000000000001"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(90)"
HEARING = "import time; print(1, flush=True); time.sleep(90)"

Child = subprocess.Popen[bytes]


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def start() -> Iterator[Callable[[str], Child]]:
    """Starts processes that have set up their signals when they are handed out, and ends them."""
    children: list[Child] = []

    def begin(code: str) -> Child:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        children.append(child)
        return child

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def _ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[19])


def _entry(child: Child, *, sig: str = "KILL", ticks: int | None = None, frees: int | None = 100) -> KillEntry:
    ticks = _ticks(child.pid) if ticks is None else ticks
    check = f"[ \"$(tr '\\n' ' ' </proc/{child.pid}/stat | sed 's/.*) //' | cut -d' ' -f20)\" = {ticks} ]"
    return KillEntry(
        process="P1", pid=child.pid, start_ticks=ticks, boot_id=BOOT, identity="strong", name="x", signal=sig, order=1,
        frees_mib=frees, certainty="proven", check=check, command=check, host="H1",
    )  # fmt: skip


def _report(*kills: KillEntry, boot: str | None = BOOT, **plan: object) -> Report:
    ledger = tuple(LedgerEntry(kind="process", whose="family", pid=entry.pid, mib=100) for entry in kills)
    return sample.selfmatch().model_copy(
        update={
            "hosts": (Host(id="H1", name="a 'node'\n$(touch owned)", boot_id=boot, pid_namespace="host"),),
            "gpus": (Gpu(id=GPU, uuid=GPU, host="H1", outcome="memory_held", ledger=ledger),),
            "plan": Plan(kill=kills, **plan),  # pyright: ignore[reportArgumentType]
        }
    )


def _run(shell: str, report: Report, where: Path, *arguments: str, smi: str | None = None) -> tuple[int, str]:
    """Exit code and what was printed. ``smi`` is a shell line that prints the used MiB."""
    tools = where / "bin"
    tools.mkdir(exist_ok=True)
    smi_file = tools / "nvidia-smi"
    rows = f"#!/bin/sh\necho {GPU}, 3, $({smi})\necho GPU-other, 4, 7\n"
    smi_file.write_text(rows if smi else "#!/bin/sh\nexit 9\n")
    smi_file.chmod(0o755)
    file = where / "clean.sh"
    file.write_text(script.render(report))
    done = subprocess.run(
        [shell, str(file), *arguments],
        check=False, capture_output=True, text=True, cwd=where, timeout=60,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert not (where / "owned").exists()
    return done.returncode, done.stdout + done.stderr


def _ended_by(child: Child) -> int | None:
    """The signal, or nothing while it lives. Waiting is what a living parent would have done long before."""
    try:
        return -child.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        return None


def _smi_of(child: Child) -> str:
    """A GPU on which memory is used as long as the process runs."""
    return f"grep -qs '^State:.[^Z]' /proc/{child.pid}/status && echo 500 || echo 380"


def test_the_process_is_ended_and_the_memory_is_back(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    code, said = _run(shell, _report(_entry(child)), tmp_path, smi=_smi_of(child))
    assert (code, _ended_by(child)) == (0, signal.SIGKILL)
    assert "380 MiB, before: 500 MiB" in said
    assert "The memory is back." in said


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"id": "box/gpu3", "uuid": None, "index": 3}, "on the GPUs of the plan: 380 MiB, before: 500 MiB"),
        ({"id": "?", "uuid": None, "index": None}, "on all GPUs of this machine: 387 MiB, before: 507 MiB"),
    ],
    ids=["by index", "no name"],
)
def test_it_asks_the_gpus_that_it_can_name(
    shell: str, start: Callable[[str], Child], tmp_path: Path, named: dict[str, object], words: str
) -> None:
    child = start(HEARING)
    report = _report(_entry(child))
    gpu = report.gpus[0].model_copy(update=named)
    _, said = _run(shell, report.model_copy(update={"gpus": (gpu,)}), tmp_path, smi=_smi_of(child))
    assert words in said


def test_term_comes_first_and_is_enough_for_who_hears_it(
    shell: str, start: Callable[[str], Child], tmp_path: Path
) -> None:
    child = start(HEARING)
    code, said = _run(shell, _report(_entry(child, sig="TERM")), tmp_path, smi=_smi_of(child))
    assert (code, _ended_by(child)) == (0, signal.SIGTERM)
    assert "SIGKILL" not in said


def test_kill_follows_where_term_is_ignored(
    shell: str, start: Callable[[str], Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "GRACE_S", 2)
    child = start(DEAF)
    code, said = _run(shell, _report(_entry(child, sig="TERM")), tmp_path, smi=_smi_of(child))
    assert (code, _ended_by(child)) == (0, signal.SIGKILL)
    assert said.index("sent SIGTERM") < said.index("sent SIGKILL")


def test_another_start_time_is_another_process(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    code, said = _run(shell, _report(_entry(child, ticks=_ticks(child.pid) - 1)), tmp_path, smi="echo 500")
    assert (code, _ended_by(child)) == (11, None)
    assert "not touched" in said


def test_another_boot_is_refused(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    other = "00000000-0000-4000-8000-000000000000"
    code, said = _run(shell, _report(_entry(child), boot=other), tmp_path, smi="echo 500")
    assert (code, _ended_by(child)) == (3, None)
    assert "Refused" in said


def test_another_machine_is_refused_by_its_name(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    weak = _entry(child).model_copy(update={"identity": "weak", "boot_id": None})
    code, _ = _run(shell, _report(weak, boot=None), tmp_path, smi="echo 500")
    assert (code, _ended_by(child)) == (3, None)


def test_dry_run_touches_nobody(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    stop = StopFirst(kind="launcher", id="1", command="touch ran")
    code, said = _run(shell, _report(_entry(child), stop_first=(stop,)), tmp_path, "-n", smi="echo 500")
    assert (code, _ended_by(child)) == (0, None)
    assert "would get SIGKILL" in said
    assert not (tmp_path / "ran").exists()


def test_a_supervisor_that_cannot_be_stopped_stops_the_script(
    shell: str, start: Callable[[str], Child], tmp_path: Path
) -> None:
    child = start(HEARING)
    stop = StopFirst(kind="systemd", id="x.service", command="false # it's not there")
    code, said = _run(shell, _report(_entry(child), stop_first=(stop,)), tmp_path, smi="echo 500")
    assert (code, _ended_by(child)) == (4, None)
    assert "Nothing was killed" in said


def test_memory_that_stays_is_said_and_the_next_rung_only_printed(
    shell: str, start: Callable[[str], Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PATIENCE_S", 2)
    child = start(HEARING)
    reset = ThenEntry(kind="gpu_reset", command="touch reset", because="it's stuck\n$(touch owned)")
    code, said = _run(shell, _report(_entry(child), then=(reset,)), tmp_path, smi="echo 500")
    assert (code, _ended_by(child)) == (10, signal.SIGKILL)
    assert "less than the 100 MiB" in said
    assert "touch reset" in said
    assert not (tmp_path / "reset").exists()


def test_without_a_figure_nothing_is_claimed(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    code, said = _run(shell, _report(_entry(child)), tmp_path)
    assert (code, _ended_by(child)) == (11, signal.SIGKILL)
    assert "is back" not in said


def test_an_unknown_argument_is_refused(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    code, _ = _run(shell, _report(_entry(child)), tmp_path, "--yes")
    assert (code, _ended_by(child)) == (2, None)


def test_hostile_words_are_only_words(shell: str, start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start(HEARING)
    name = "it's \"x\" $(touch owned) `touch owned`\n'; touch owned; '\x1b[2J\u202e"
    weak = _entry(child).model_copy(
        update={"identity": "weak", "name": name, "check": f"[ {shlex.quote(name)} = nobody ]"}
    )
    report = _report(weak, boot=None, then=(ThenEntry(kind="ask_owner", because=name),)).model_copy(
        update={"hosts": (Host(id="H1", name="", pid_namespace="unknown"),)}
    )
    _, said = _run(shell, report, tmp_path, smi="echo 500")
    assert _ended_by(child) is None
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_no_script_without_a_plan_or_for_two_machines(start: Callable[[str], Child]) -> None:
    with pytest.raises(script.NothingToDoError):
        script.render(_report())
    first, second = _entry(start(HEARING)), _entry(start(HEARING)).model_copy(update={"host": "H2"})
    with pytest.raises(script.SeveralMachinesError):
        script.render(_report(first, second))


def test_the_script_is_the_shells_own_language(shell: str, tmp_path: Path) -> None:
    """Of foreign names too, wherever a report has one."""
    hostile = sample.hostile()
    kills = tuple(entry.model_copy(update={"run_in": "host", "check": "false"}) for entry in hostile.plan.kill)
    assert kills
    plan = hostile.plan.model_copy(update={"kill": kills, "stop_first": ()})
    file = tmp_path / "clean.sh"
    file.write_text(script.render(hostile.model_copy(update={"plan": plan})))
    done = subprocess.run([shell, "-n", str(file)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
