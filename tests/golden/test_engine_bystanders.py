"""What an engine's data says is believed of relatives only: a title alone makes nobody a member, and stops nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report
from tests.golden.scenes import P, Scene, dead, server

AGENT, OTHER = 1000, 2000
TORCHRUN = "/usr/bin/python3 /usr/local/bin/torchrun --nproc-per-node=2 train.py"


def job(agent: int, line: str = TORCHRUN, *, comm: str = "pt_elastic", user: str = "root") -> list[P]:
    """An agent and two ranks in sessions of their own."""
    rank = "/usr/bin/python3 -u train.py"
    ranks = [P(agent + n, agent, agent + n, rank, mib=9000, comm="python3", user=user) for n in (1, 2)]
    return [P(agent, 1, agent, line, comm=comm, user=user), *ranks]


def explained(path: Path, before: list[P], after: list[P], command: str, user: str = "root") -> Report:
    return explain([Scene(before, after, command, user=user).write(path)])


def planned(report: Report) -> set[int]:
    return {entry.pid for entry in report.plan.kill}


def test_only_the_ranks_of_the_agent_that_was_killed(tmp_path: Path) -> None:
    table = [*job(AGENT), *job(OTHER)]
    report = explained(tmp_path, table, dead(table, AGENT), f"kill -9 {AGENT}")
    assert planned(report) == {AGENT + 1, AGENT + 2}
    assert not report.plan.stop_first


def test_ranks_are_left_behind_whoever_killed_their_agent(tmp_path: Path) -> None:
    """No command is known; the agent was seen, and is gone."""
    table = job(AGENT)
    assert planned(explained(tmp_path, table, dead(table, AGENT), "true")) == {AGENT + 1, AGENT + 2}


@pytest.mark.parametrize("name", ["jupyter-lab", "supervisord", "tmux: server", "python3"])
def test_what_starts_anybody_s_jobs_ties_nothing_together(name: str, tmp_path: Path) -> None:
    """One of its children is killed: the others are nobody's problem."""
    table = job(AGENT, f"{name} run", comm=name)
    after = [p for p in table if p.pid != AGENT + 1]
    report = explained(tmp_path, table, after, f"kill -9 {AGENT + 1}")
    assert planned(report) == set()
    assert not report.plan.stop_first


def test_a_stranger_with_a_rank_s_words_is_no_rank(tmp_path: Path) -> None:
    stranger = P(3000, 1, 3000, "/usr/bin/python3 -u train.py", mib=4000, comm="python3")
    worker = P(3001, 1, 3001, "/usr/bin/python3 train.py", mib=4000, comm="pt_data_worker")
    table = [*job(AGENT), stranger, worker]
    assert planned(explained(tmp_path, table, dead(table, AGENT), f"kill -9 {AGENT}")) == {AGENT + 1, AGENT + 2}


def test_ranks_that_only_the_title_calls_an_agent_s_children(tmp_path: Path) -> None:
    """A process that calls itself pt_elastic died, and others are nobody's children."""
    fake = P(AGENT, 1, AGENT, "pt_elastic", comm="pt_elastic")
    table = [fake, P(3000, 1, 3000, "/usr/bin/python3 -u train.py", mib=4000, comm="python3")]
    assert planned(explained(tmp_path, table, dead(table, AGENT), f"kill -9 {AGENT}")) == set()


def test_nobody_is_waited_for_because_of_a_name(tmp_path: Path) -> None:
    """The stranger's server is gone, too, but it was not seen to be its server."""
    table = [*job(AGENT), P(3001, 1, 3001, "pt_data_worker", mib=4000, comm="pt_data_worker")]
    report = explained(tmp_path, table, table, f"kill -TERM {AGENT}")
    waits = [entry.because for entry in report.plan.then if entry.kind == "wait"]
    assert len(waits) == 1
    assert f"{AGENT + 1}, {AGENT + 2}" in waits[0]
    assert "3001" not in waits[0]
    assert planned(report) == set()


def test_another_user_s_supervisor_is_not_stopped_for_the_sake_of_ours(tmp_path: Path) -> None:
    """Alice's agent has restarts left, and nobody aimed at her job."""
    hers = job(OTHER, f"{TORCHRUN} --max-restarts=3", user="alice")
    table = [*job(AGENT), *hers]
    report = explained(tmp_path, table, dead(table, AGENT), f"kill -9 {AGENT}")
    assert planned(report) == {AGENT + 1, AGENT + 2}
    assert not report.plan.stop_first


@pytest.mark.parametrize(("options", "stopped"), [(" --max-restarts=3", [("launcher", str(AGENT))]), ("", [])])
def test_restarts_that_have_not_happened_yet_are_prevented(
    options: str, stopped: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Both ranks were aimed at and live: their agent would start them again after the kill."""
    table = job(AGENT, f"{TORCHRUN}{options}")
    report = explained(tmp_path, table, table, f"kill -HUP {AGENT + 1} {AGENT + 2}")
    assert planned(report) == {AGENT + 1, AGENT + 2}
    assert [(stop.kind, stop.id) for stop in report.plan.stop_first] == stopped


def test_an_agent_is_not_stopped_for_one_rank_while_another_is_spared(tmp_path: Path) -> None:
    table = job(AGENT, f"{TORCHRUN} --max-restarts=3")
    report = explained(tmp_path, table, table, f"kill -HUP {AGENT + 1}")
    assert planned(report) == {AGENT + 1}
    assert not report.plan.stop_first


SUPERVISORD = P(18, 1, 18, "/usr/bin/python3 /usr/local/bin/supervisord -n -c /etc/s.conf", comm="supervisord")
LOOP = P(900, 1, 900, "bash loop.sh", comm="bash")


def back(table: list[P]) -> list[P]:
    """The same server started two seconds after the command."""
    return [replace(p, age_s=-7) for p in table]


@pytest.mark.parametrize(
    ("head", "group", "stop", "left"),
    [
        (LOOP, 900, ("shell_loop", "900"), {1100, 1102, 1103, 1104}),
        (SUPERVISORD, None, ("supervisor", "1100"), {1102, 1103, 1104}),
    ],
)
def test_a_whole_server_that_came_back(
    head: P, group: int | None, stop: tuple[str, str], left: set[int], tmp_path: Path
) -> None:
    """The head holds nothing; what it started took the memory again."""
    old, new = (server(pid, group, ppid=head.pid) for pid in (1000, 1100))
    report = explained(tmp_path, [head, *old], [head, *back(new)], "kill -9 1000 1001 1002 1003 1004")
    assert report.outcome == "memory_held"
    assert report.findings[0].rule == "GPD205"
    assert [(entry.kind, entry.id) for entry in report.plan.stop_first] == [stop]
    assert planned(report) == left


def test_a_new_server_of_a_person_s_shell_is_nobody_s_respawn(tmp_path: Path) -> None:
    shell = P(900, 1, 900, "-bash", comm="bash")
    old, new = (server(pid, ppid=900) for pid in (1000, 1100))
    report = explained(tmp_path, [shell, *old], [shell, *back(new)], "kill -9 1000 1001 1002 1003 1004")
    assert planned(report) == set()
    assert not report.plan.stop_first


def test_data_loader_workers_do_not_name_the_job_that_has_them(tmp_path: Path) -> None:
    loaders = [P(AGENT + 10 + n, AGENT + 1, AGENT + 1, "train.py", comm="pt_data_worker") for n in range(5)]
    table = [*job(AGENT), *loaders]
    report = explained(tmp_path, table, dead(table, AGENT), f"kill -9 {AGENT}")
    assert [family.engine for family in report.families] == ["torchrun"]
    assert planned(report) == {AGENT + 1, AGENT + 2}
