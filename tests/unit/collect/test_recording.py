"""A whole recording on a machine that is made of stubs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpudiag.bundle.reader import read_contents
from gpudiag.collect import main as command
from gpudiag.collect.machine import Machine
from gpudiag.collect.recording import Options, Recorded, record
from gpudiag.collect.source import Context, Source, from_lines
from tests.unit.collect.stubs import ProcTree, blocking, machine


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    tree = ProcTree(tmp_path / "proc")
    tree.add(1, 0)
    tree.add(77, pgid=77, sid=77, cgroup="/system.slice/vllm.service")
    tree.add(90, pgid=90, sid=90)
    return tree.root


def extras(context: Context) -> list[Source]:
    return [Source("extra", "extra.txt", 2, from_lines(lambda: [context.machine.proc]))]


def run(tmp_path: Path, host: Machine, **options: Any) -> tuple[Recorded, dict[str, str], dict[str, str]]:
    """The result, texts and outcomes."""
    done = record(Options(tmp_path / "x.tgz", **{"duration_s": 0.0, **options}), host, extras)
    contents = read_contents(done.path)
    assert not contents.flaws
    texts = {member.name: member.data.decode() for member in contents.members}
    return done, texts, {outcome.member: outcome.outcome for _, outcome in contents.outcomes}


def test_one_look(tmp_path: Path, proc: Path) -> None:
    done, texts, found = run(tmp_path, machine(proc))
    assert done.answered
    assert (done.used_mib, done.booked_mib) == ({0: 1000.0}, {77: 900.0, 78: 0.0})
    assert set(json.loads(texts["look-1/proc.json"])) == {"1", "77", "scan"}  # booked on 77, which has nothing open
    assert texts["extra.txt"] == f"{proc}\n"
    assert texts["supervisors.txt"] == "unit: vllm.service\n"
    assert found["units.txt"] == "absent"  # there is no systemctl to ask
    assert "nvml-series.json" not in found


def test_two_looks_with_samples_between(tmp_path: Path, proc: Path) -> None:
    done, texts, _ = run(tmp_path, machine(proc), duration_s=0.4, interval_s=0.4, sample_s=0.05)
    assert json.loads(texts["look-2/nvml.json"])[0]["gpus"][0]["index"] == 0
    samples = json.loads(texts["nvml-series.json"])
    assert len(samples) == 2  # nothing changed: the first and the last
    assert 0.4 <= done.seconds < 2


def test_nvml_that_blocks_costs_its_deadline(tmp_path: Path, proc: Path) -> None:
    done, texts, found = run(tmp_path, machine(proc, blocking), gpu_deadline_s=0.8)
    assert 0.8 <= done.seconds < 1.6
    assert not done.answered
    assert found["look-1/nvml.json"] == "timed_out"
    assert "look-1/proc.json" in texts


def test_nvml_that_blocks_in_every_look(tmp_path: Path, proc: Path) -> None:
    done, _, found = run(tmp_path, machine(proc, blocking), gpu_deadline_s=0.5, duration_s=0.2, interval_s=0.2)
    assert found["nvml-series.json"] == found["look-2/nvml.json"] == "timed_out"
    assert done.seconds < 3.2  # the series has two seconds more than it samples


@pytest.mark.parametrize(
    ("duration", "interval", "names"),
    [
        (0, 3, ("look-1",)),
        (3, 3, ("look-1", "look-2")),
        (3, 60, ("look-1", "look-2")),
        (60, 6, tuple(f"look-{number:02d}" for number in range(1, 12))),
    ],
)
def test_names_of_looks_sort_in_their_order(duration: float, interval: float, names: tuple[str, ...]) -> None:
    assert Options(Path("x"), duration_s=duration, interval_s=interval).looks() == names
    assert len(Options(Path("x"), duration_s=3600, interval_s=0.01).looks()) == 99


def test_command_line(
    tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command.signal, "signal", lambda number, action: None)
    words = ["--quick", "--kill", "pkill -9 -f vllm", "--at", "2026-02-20T20:00:06+01:00"]
    assert command.main(words, machine(proc, root=False)) == 0
    last = capsys.readouterr().err.splitlines()[-2:]
    assert "sudo gpudiag collect" in last[0]
    assert "used: GPU 0 1000 MiB; booked: PID 77 900 MiB, PID 78 0 MiB; next: gpudiag explain" in last[1]
    (bundle,) = tmp_path.glob("gpudiag-*.tgz")
    texts = {member.name: member.data.decode() for member in read_contents(bundle).members}
    (stated,) = json.loads(texts["kill-commands.json"])
    assert (stated["cmd"], stated["t0"]) == ("pkill -9 -f vllm", "2026-02-20T19:00:06+00:00")


@pytest.mark.parametrize(
    "words",
    [
        ["--kill", "a", "--at", "1", "--at", "2"],
        ["--kill", "a", "--at", "yesterday"],
        ["--duration", "0"],
        ["--duration", "x"],
        ["--interval", "-1"],
        ["surplus"],
    ],
)
def test_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(words)
    assert end.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_time_that_goes_by_is_told(tmp_path: Path, proc: Path) -> None:
    begun = time.time_ns()
    done, _, _ = run(tmp_path, machine(proc))
    start, end = read_contents(done.path).start, read_contents(done.path).end
    assert start is not None
    assert end is not None
    assert begun <= (start.clocks.wall_ns or 0) < (end.clocks.wall_ns or 0) <= time.time_ns()
    assert (start.clocks.boot_ns or 0) < (end.clocks.boot_ns or 0)
