"""Real servers without a GPU: families, roles and deaths are found, and no memory is made up to explain."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpudiag.explain import Explanation, explain_fully

VLLM = Path(__file__).parents[1] / "fixtures" / "vllm"
RUNS = sorted(path.name for path in VLLM.iterdir() if path.is_dir())
LOADING = "0.32.0-11b-during-load-pkill9-api"
"""Its record names no roles: the workers were not titled yet when it was written."""
UNTITLED = "0.9.2-01-module-pkill9-f-vllm.entrypoints"


@cache
def truth(run: str) -> dict[str, Any]:
    return json.loads((VLLM / run / "truth.json").read_text())


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Explanation]:
    """Every run with its kill command, and without the answer beside it."""
    found: dict[str, Explanation] = {}
    for run in RUNS:
        folder = tmp_path_factory.mktemp("run") / run
        shutil.copytree(VLLM / run, folder)
        (folder / "truth.json").unlink()
        commands = folder / "kill-commands.json"
        if not commands.exists():
            record = {"cmd": truth(run)["command"], "t0": None, "rc": None, "out": ""}
            commands.write_text(json.dumps([record]))
        found[run] = explain_fully([folder])
    return found


def known(run: str) -> set[int]:
    said = truth(run)
    return {said["api_server"], *said["engine_cores"], *said["workers"], *said["others"], *said["alive_at_end"]}


def test_all_runs_are_here() -> None:
    assert len(RUNS) == 14


@pytest.mark.parametrize("run", RUNS)
def test_nothing_is_claimed_about_memory_that_nobody_looked_at(run: str, explained: dict[str, Explanation]) -> None:
    report = explained[run].report
    assert report.outcome == "inconclusive"
    assert report.plan.kill == ()


@pytest.mark.parametrize("run", RUNS)
def test_one_family_with_every_process_of_the_server(run: str, explained: dict[str, Explanation]) -> None:
    report = explained[run].report
    pids = {process.id: process.pid for process in report.processes}
    assert [(family.engine, family.root_pid) for family in report.families] == [("vllm", truth(run)["api_server"])]
    assert {pids[member] for member in report.families[0].members} == known(run)


@pytest.mark.parametrize("run", RUNS)
def test_roles(run: str, explained: dict[str, Explanation]) -> None:
    roles = {process.pid: process.role for process in explained[run].report.processes}
    said = truth(run)
    assert roles[said["api_server"]] == "server"
    assert {roles[pid] for pid in said["workers"]} <= {"worker"}
    # Before 0.10.1 neither its title nor its log tells the engine from a worker.
    assert {roles[pid] for pid in said["engine_cores"]} <= {"worker" if run == UNTITLED else "engine"}


@pytest.mark.parametrize("run", RUNS)
def test_who_lives_and_who_died_between_the_looks(run: str, explained: dict[str, Explanation]) -> None:
    incident = explained[run].incident
    states = {life.pid: incident.alive(life) for life in incident.census.lives if incident.family_of(life)}
    assert states == {pid: pid in truth(run)["alive_at_end"] for pid in known(run)}


@pytest.mark.parametrize("run", RUNS)
def test_the_command_hit_whom_it_hit(run: str, explained: dict[str, Explanation]) -> None:
    steps = [step for action in explained[run].report.actions for step in action.steps]
    assert sorted({pid for step in steps for pid in step.hit}) == truth(run)["hit"]


@pytest.mark.parametrize("run", RUNS)
def test_roles_of_the_log_are_those_of_the_processes(run: str, explained: dict[str, Explanation]) -> None:
    said = truth(run)
    logged: dict[str, set[int]] = {"APIServer": set(), "EngineCore": set(), "Worker": set()}
    for row in explained[run].incident.parsed.roles:
        for name, pids in logged.items():
            if name.lower() in row.role.lower():
                pids.add(row.pid)
    if run == LOADING:
        assert logged["EngineCore"] | logged["Worker"] < set(said["alive_at_end"])
        return
    servers = {said["api_server"]} | {*said["others"]}
    assert logged["APIServer"] <= servers
    assert logged["EngineCore"] == (set() if run == UNTITLED else {*said["engine_cores"]})
    assert logged["Worker"] == {*said["workers"]}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("0.11.0-06-kill9-worker1", {("death", None, "VllmWorker-1"), ("parent_exited", 61, "Worker_TP0")}),
        ("0.32.0-05-kill9-enginecore", {("death", None, "engine core"), ("parent_exited", 75, "Worker_TP0")}),
        ("0.32.0-03-sigterm-api", {("shutdown", 67, "VLLM::Worker_TP0"), ("shutdown", 56, "EngineCore")}),
        ("0.32.0-12b-dp2-api2-sigterm", {("role", 51, "DP Coordinator"), ("shutdown", 64, "ApiServer_1")}),
    ],
)
def test_what_the_log_says(
    run: str, expected: set[tuple[str, int | None, str]], explained: dict[str, Explanation]
) -> None:
    rows = explained[run].incident.parsed.log_events
    assert expected <= {(row.kind, row.pid, row.role) for row in rows}
    shown = [event for event in explained[run].report.events if event.kind == "log"]
    assert len(shown) == sum(row.kind not in ("role", "loading") for row in rows)
    assert all(event.evidence is not None and event.evidence.member == "server.log" for event in shown)


@pytest.mark.parametrize("run", [run for run in RUNS if "pkill9" in run and "11b" not in run and "02b" not in run])
def test_a_killed_server_says_nothing(run: str, explained: dict[str, Explanation]) -> None:
    kinds = {row.kind for row in explained[run].incident.parsed.log_events}
    assert kinds <= {"role", "loading", "startup_complete"}


def test_times_of_a_log_without_year_and_zone_have_the_look_s_year_and_a_wide_error(
    explained: dict[str, Explanation],
) -> None:
    report = explained["0.32.0-03-sigterm-api"].report
    first = next(event for event in report.events if "shutdown triggered" in event.text)
    assert first.time is not None
    assert first.time.startswith("2026-11-30T19:46:49")
    assert first.time_error_s == 14 * 3600
