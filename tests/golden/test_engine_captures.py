"""Real servers and launchers without a GPU: what they are, who died, who lives and why, who leaves, who comes back."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from gpudiag.ranges import number_ranges
from gpudiag.report.contract import Plan
from tests.golden.engine_runs import (
    ENGINES,
    NO_KILL_TOOL,
    ROLES,
    RUNS,
    SLACK_S,
    TYPED,
    VLLM,
    VLLM_RUNS,
    Run,
    family_of_runs,
    judged,
    read,
)
from tests.golden.scenes import DRIVER_MIB, UUID

MIB = 1000
UNNAMED = {"mp-daemon-fork", "mp-pool-fork-busy", "mp-pool-fork-idle", "mp-ppe-fork"}
"""Plain Python parents and forks: nothing in a process list tells what they are."""
RESPAWNED = {
    "supervisord-kill9-program",
    "supervisord-pkill9-f-serve.py-shell",
    "torchrun-kill9-rank-max-restarts2-noshare",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {name: read(ENGINES / name, tmp_path_factory.mktemp("run")) for name in RUNS}


@pytest.fixture(scope="module")
def vllm_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {name: read(VLLM / name, tmp_path_factory.mktemp("run")) for name in VLLM_RUNS}


def test_all_runs_are_here() -> None:
    assert len(RUNS) == 46
    assert {
        run for run in RUNS if json.loads((ENGINES / run / "truth.json").read_text())["new_after_kill"]
    } == RESPAWNED


@pytest.mark.parametrize("name", RUNS)
def test_the_engine_is_recognised(name: str, runs: dict[str, Run]) -> None:
    kind = family_of_runs(name)
    expected = {kind}
    if kind == "accelerate" and "1proc" not in name:
        expected = {"torchrun"}  # the agent runs inside it
    if kind == "mp":
        plain = name.partition("-kill9")[0] in UNNAMED
        expected = set() if plain else {"dataloader" if "dataloader" in name else "python"}
    assert runs[name].engines() == expected


@pytest.mark.parametrize("name", RUNS)
def test_roles(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    named = {**run.truth, **run.truth.get("pids", {})}
    for word, role in ROLES.items():
        value = named.get(word, [])
        for pid in value if isinstance(value, list) else [value]:
            unseen = word == "program" and name == "supervisord-ctl-stop"  # nobody was killed, so nobody is of interest
            assert run.role(pid) == (None if unseen else role), (word, pid)


@pytest.mark.parametrize(
    "name", [run for run in RUNS if family_of_runs(run) in ("accelerate", "deepspeed", "torchrun")]
)
def test_one_job_is_one_family(name: str, runs: dict[str, Run]) -> None:
    """Ranks lead sessions of their own; kernels and Ray's workers do too, and belong to nobody but themselves."""
    run = runs[name]
    head = next(run.truth[word] for word in ("agent", "launcher", "runner") if word in run.truth)
    homes = [run.incident.family_of(run.incident.census.named("", pid)[0]) for pid in (head, *run.truth["ranks"])]
    assert homes[0] is not None
    assert all(home is homes[0] for home in homes)
    assert homes[0].root_pid == head


@pytest.mark.parametrize("name", RUNS)
def test_who_lives_and_who_died(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    states = {life.pid: run.incident.alive(life) for life in run.lives()}
    assert states == {pid: pid in run.truth["alive_at_end"] for pid in states}


@pytest.mark.parametrize("name", RUNS)
def test_the_command_hit_whom_it_hit(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    hit = sorted({pid for action in run.explained.report.actions for step in action.steps for pid in step.hit})
    assert hit == ([] if run.truth["command"].startswith((*TYPED, *NO_KILL_TOOL)) else sorted(run.truth["hit"]))
    shells = any(step.hit_shells for action in run.explained.report.actions for step in action.steps)
    assert shells == run.truth["hits_its_own_shell"]


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_claimed_about_memory_and_nothing_false_is_proven(name: str, runs: dict[str, Run]) -> None:
    report = runs[name].explained.report
    assert report.outcome == "inconclusive"
    assert report.plan.kill == ()
    assert report.plan.stop_first == ()
    expected = {"GPD102"} if runs[name].truth["hits_its_own_shell"] else set()
    expected |= {"GPD205"} if name in RESPAWNED else set()
    assert {finding.rule for finding in report.findings if finding.certainty == "proven"} == expected


@pytest.mark.parametrize("name", sorted(RESPAWNED))
def test_who_came_back(name: str, runs: dict[str, Run]) -> None:
    """The new set, in place of the old; what a program that is back has started came back with it."""
    run = runs[name]
    rows = [row for row in run.explained.facts["holder"] if row["replaces_pid"] is not None]
    launcher = run.truth.get("supervisord", run.truth.get("agent"))
    assert {row["launcher_pid"] for row in rows} == {launcher}
    new = sorted(map(int, run.truth["new_after_kill"]))
    old = run.truth.get("ranks", [run.truth.get("program")] * 3)
    assert {(row["pid"], row["replaces_pid"]) for row in rows} == set(zip(new, old, strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_what_is_foretold_came_true(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    assert judged(run)["wrong"] == 0
    for pid, fate in run.foreseen().items():
        gone = run.truth["gone_after_s"].get(str(pid))
        native = name == "jupyter-server-kill9-kernel-native-gil"  # the sentence names this exception
        if fate.certainty == "inferred" and fate.leaves and gone is not None and not native:
            assert fate.within_s is None or gone <= fate.within_s + SLACK_S, (pid, fate)


@pytest.mark.parametrize("name", VLLM_RUNS)
def test_what_is_foretold_of_vllm_came_true(name: str, vllm_runs: dict[str, Run]) -> None:
    assert judged(vllm_runs[name])["wrong"] == 0


def test_how_much_is_foretold(runs: dict[str, Run], vllm_runs: dict[str, Run]) -> None:
    """Counted by process. What is open can not be told from the evidence, or nobody was killed by a command."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs.values():
        counts[family_of_runs(run.name)] += judged(run)
    for run in vllm_runs.values():
        counts["vllm"] += judged(run)
    assert {kind: (count["right"], count["open"]) for kind, count in sorted(counts.items())} == EXPECTED
    assert all(count["wrong"] == 0 for count in counts.values())


EXPECTED = {
    "accelerate": (5, 0),
    "deepspeed": (5, 0),
    "gunicorn": (6, 0),
    "jupyter": (4, 11),
    "mp": (2, 19),
    "ray": (38, 61),
    "supervisord": (2, 6),
    "torchrun": (11, 4),
    "uvicorn": (6, 0),
    "vllm": (40, 21),
}
"""Right, open; nothing is wrong."""


def _with_memory(folder: Path, holders: dict[str, set[int]]) -> None:
    """Lists of the driver for the looks: these processes hold memory, each the same."""
    for look, pids in holders.items():
        stamp = (folder / look / "ps.txt").read_text().split(" ", 2)[1]
        query = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"
        rows = "".join(f"{UUID}, {pid}, python3, {MIB} MiB\n" for pid in sorted(pids))
        head = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        (folder / look / "query-apps.csv").write_text(f"# {stamp} $ {query}\n# rc=0\n{head}{rows}")
        query = "nvidia-smi --query-gpu=index,uuid,name,memory.total,memory.reserved,memory.used --format=csv"
        head = "index, uuid, name, memory.total [MiB], memory.reserved [MiB], memory.used [MiB]\n"
        used = len(pids) * MIB + (DRIVER_MIB if pids else 0)
        row = f"0, {UUID}, NVIDIA H200, 143771 MiB, 616 MiB, {used} MiB\n"
        (folder / look / "query-gpu.csv").write_text(f"# {stamp} $ {query}\n# rc=0\n{head}{row}")


def _plan(name: str, path: Path, *, of: set[int] | None = None, kernel: Path = ENGINES) -> tuple[Run, Plan]:
    """The plan three seconds after the command, had the processes that do the work held memory on a GPU."""
    truth = json.loads((kernel / name / "truth.json").read_text())
    copied = path / name
    shutil.copytree(kernel / name, copied, ignore=shutil.ignore_patterns("later", "server.log"))
    listed = {
        look: {int(line.split()[0]) for line in (copied / look / "ps.txt").read_text().splitlines()[3:]}
        for look in ("before", "after")
    }
    work = of if of is not None else _workers(truth)
    _with_memory(copied, {look: pids & work for look, pids in listed.items()})
    run = read(copied, path / "read")
    return run, run.explained.plan


def _workers(truth: dict[str, Any]) -> set[int]:
    """Everybody but servers, launchers and daemons that open no device."""
    heads = {"agent", "launcher", "runner", "launch", "master", "server", "supervisord"}
    named = {truth[word] for word in heads if isinstance(truth.get(word), int)}
    daemons = {
        int(pid)
        for pid, line in truth["roles"].items()
        if "/ray/" in line or "Agent" in line or "resource_tracker" in line
    }
    return {*map(int, truth["roles"]), *map(int, truth["new_after_kill"])} - named - daemons - {17}


@pytest.mark.parametrize("name", RUNS)
def test_no_wrong_pid_if_they_held_memory(name: str, tmp_path: Path) -> None:
    run, plan = _plan(name, tmp_path)
    listed = {int(line.split()[0]) for line in (tmp_path / name / "after" / "ps.txt").read_text().splitlines()[3:]}
    named = {entry.pid for entry in plan.kill}
    assert named <= listed & run.pids
    heads = {run.truth.get("supervisord"), run.truth.get("server"), 18 if "subreaper" in name else None}
    assert not named & heads
    if run.truth["command"].startswith((*TYPED, *NO_KILL_TOOL)):
        assert named <= set(run.truth["alive_at_end"])


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("accelerate-1proc-sigterm-launcher", {19}),
        ("accelerate-pkill9-f-accelerate", {21, 22}),
        ("deepspeed-pkill9-f-deepspeed", {21, 22}),
        ("mp-daemon-fork-kill9-parent", {19, 20}),
        ("mp-ppe-fork-kill9-parent", {19, 20}),
        ("mp-ppe-spawn-kill9-parent-py313", {20, 23}),
        ("uvicorn-kill9-master", {20, 21}),
        ("uvicorn-pkill9-f-uvicorn-shell", {20, 21}),
    ],
)
def test_those_who_stay_are_named(name: str, stays: set[int], tmp_path: Path) -> None:
    run, plan = _plan(name, tmp_path)
    assert stays <= set(run.truth["alive_at_end"])
    assert stays <= {entry.pid for entry in plan.kill}
    assert "wait" not in {entry.kind for entry in plan.then}


@pytest.mark.parametrize(
    ("name", "leaving"),
    [
        ("torchrun-sigterm-agent-ranks-ignore", {22, 23, 24}),
        ("jupyter-server-kill9-kernel-native-gil", {43}),
    ],
)
def test_those_who_leave_by_themselves_are_waited_for(name: str, leaving: set[int], tmp_path: Path) -> None:
    run, plan = _plan(name, tmp_path)
    assert not leaving & set(run.truth["alive_at_end"])
    assert not {entry.pid for entry in plan.kill} & leaving
    (wait,) = (entry for entry in plan.then if entry.kind == "wait")
    assert number_ranges(sorted(leaving)) in wait.because


def test_waiting_has_an_end(tmp_path: Path) -> None:
    """The same ranks a minute later: they should have been gone, so they are named."""
    copied = tmp_path / "late"
    shutil.copytree(ENGINES / "torchrun-sigterm-agent-ranks-ignore", copied, ignore=shutil.ignore_patterns("later"))
    _with_memory(copied, {"before": {22, 23, 24}, "after": {22, 23, 24}})
    for path in (copied / "after").glob("*.*"):
        path.write_text(path.read_text().replace("21:10:0", "21:11:0", 1))
    plan = read(copied, tmp_path / "read").explained.plan
    assert {22, 23, 24} <= {entry.pid for entry in plan.kill}
    assert "wait" not in {entry.kind for entry in plan.then}


@pytest.mark.parametrize(
    ("name", "kind", "stopped", "words"),
    [
        ("torchrun-kill9-rank-max-restarts2-noshare", "launcher", "18", "kill -TERM 18"),
        (
            "supervisord-kill9-program",
            "supervisor",
            "26",
            'supervisorctl -c /srv/app/supervisord.conf stop "$(supervisorctl -c /srv/app/supervisord.conf status '
            "| grep ' pid 26,' | cut -d' ' -f1)\"",
        ),
    ],
)
def test_who_starts_it_again_is_stopped_first(name: str, kind: str, stopped: str, words: str, tmp_path: Path) -> None:
    run, plan = _plan(name, tmp_path)
    (stop,) = plan.stop_first
    again = set(map(int, run.truth["new_after_kill"])) - {int(stopped)}
    assert again <= {entry.pid for entry in plan.kill}
    assert (stop.kind, stop.id) == (kind, stopped)
    assert words in stop.command
    assert int(stopped) not in {entry.pid for entry in plan.kill}
