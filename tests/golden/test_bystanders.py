"""A wrong PID is the worst bug there is: healthy processes that look like leftovers are never in the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpudiag.explain import explain
from tests.golden.scenes import P, Scene, dead, server

KILL_A = 'pkill -9 -f "api_server --port 8000"'
A, B = 1000, 2000
LEFT_OF_A = {A + 2, A + 3, A + 4}
"""Engine and workers; the resource tracker holds nothing."""


def planned(scene: Scene, path: Path) -> set[int]:
    return {entry.pid for entry in explain([scene.write(path)]).plan.kill}


def test_orphans_of_the_killed_server_are_named(tmp_path: Path) -> None:
    table = server(A)
    assert planned(Scene(table, dead(table, A), KILL_A), tmp_path) == LEFT_OF_A


def test_a_server_that_a_finished_script_started_is_healthy(tmp_path: Path) -> None:
    """Its parent is PID 1 and its group's leader is gone, exactly as with an orphan."""
    table = server(A) + server(B, group=1999, port=9000)
    assert planned(Scene(table, dead(table, A), KILL_A), tmp_path) == LEFT_OF_A


def test_the_same_without_an_earlier_look(tmp_path: Path) -> None:
    table = server(A) + server(B, group=1999, port=9000)
    found = planned(Scene([], dead(table, A), KILL_A, log=f"(Worker_TP0 pid={A + 3}) INFO ready\n"), tmp_path)
    assert found == LEFT_OF_A


def test_a_script_that_ends_between_the_looks_orphans_nobody(tmp_path: Path) -> None:
    script = P(1999, 1, 1999, "bash start.sh", comm="bash")
    table = [*server(A), script, *server(B, group=1999, ppid=1999, port=9000)]
    assert planned(Scene(table, dead(table, A, 1999), KILL_A), tmp_path) == LEFT_OF_A


@pytest.mark.parametrize("look_before", [True, False])
def test_a_nohup_training_job_is_no_older_orphan(tmp_path: Path, look_before: bool) -> None:
    job = P(3000, 1, 2999, "/usr/bin/python3 train.py", mib=5000, age_s=9000, comm="python3")
    board = P(3001, 1, 2999, "/usr/bin/python3 tensorboard", age_s=9000, comm="tensorboard")
    table = [*server(A), job, board]
    found = planned(Scene(table if look_before else [], dead(table, A), KILL_A), tmp_path)
    assert not found & {3000, 3001}
    assert found == LEFT_OF_A


def test_two_servers_of_one_script_share_a_group(tmp_path: Path) -> None:
    script = P(900, 1, 900, "bash serve_both.sh", comm="bash")
    table = [script, *server(A, group=900, ppid=900), *server(B, group=900, ppid=900, port=9000)]
    report = explain([Scene(table, dead(table, A), KILL_A).write(tmp_path)])
    assert {entry.pid for entry in report.plan.kill} == LEFT_OF_A
    missed = {pid for action in report.actions for step in action.steps for pid in step.missed}
    assert not {pid for pid in missed if pid >= B}


def test_a_notebook_that_started_the_server_keeps_its_own_memory(tmp_path: Path) -> None:
    kernel = P(800, 1, 800, "/usr/bin/python3 -m ipykernel_launcher -f k.json", mib=3000, comm="python3")
    table = [kernel, *server(A, group=800, ppid=800)]
    assert planned(Scene(table, dead(table, A), KILL_A), tmp_path) == LEFT_OF_A


def test_a_hit_tmux_does_not_condemn_its_other_windows(tmp_path: Path) -> None:
    tmux = P(700, 1, 700, "tmux new -d python3 -m vllm.entrypoints.openai.api_server --port 8000", comm="tmux: server")
    other = P(750, 700, 750, "/usr/bin/python3 train.py", mib=7000, comm="python3")
    table = [tmux, other, *server(A, ppid=700)]
    assert planned(Scene(table, dead(table, A, 700), KILL_A), tmp_path) == LEFT_OF_A


def test_another_users_orphans_are_not_ours(tmp_path: Path) -> None:
    table = server(A) + dead(server(B, user="alice", port=9000), B)
    report = explain([Scene(table, dead(table, A), KILL_A).write(tmp_path)])
    assert {entry.pid for entry in report.plan.kill} == LEFT_OF_A
    kept = {entry.pid: entry.because for entry in report.plan.keep}
    assert "alice" in kept[B + 3]


def test_a_title_does_not_make_a_strangers_process_part_of_the_server(tmp_path: Path) -> None:
    liar = P(4000, 1, 4000, "VLLM::Worker_TP0", mib=6000, user="alice")
    table = [*server(A), liar]
    assert planned(Scene(table, dead(table, A), KILL_A), tmp_path) == LEFT_OF_A


def test_a_new_server_after_the_kill_is_wanted(tmp_path: Path) -> None:
    table = server(A)
    new = [replace(p, age_s=-7) for p in server(B)]
    report = explain(
        [Scene(table, [*dead(table, *range(A, A + 5)), *new], "kill -9 1000 1001 1002 1003 1004").write(tmp_path)]
    )
    assert report.plan.kill == ()
    assert report.outcome == "released"


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:
    table = server(A)
    reused = P(A + 3, 1, A + 3, "/usr/bin/python3 train.py", mib=9000, user="alice", age_s=-7, comm="python3")
    after = [p for p in dead(table, A) if p.pid != A + 3] + [reused]
    assert planned(Scene(table, after, KILL_A), tmp_path) == {A + 2, A + 4}


def test_a_loader_of_another_trainer_is_not_an_heir(tmp_path: Path) -> None:
    """A dead process with memory, and an unrelated process that has the devices open without being in a list."""
    table = server(A)
    trainer = P(5000, 1, 5000, "/usr/bin/python3 train.py", mib=5000, comm="python3")
    loader = P(5001, 5000, 5000, "/usr/bin/python3 train.py", comm="pt_data_worker")
    scene = Scene([*table, trainer, loader], [*dead(table, A), trainer, loader], KILL_A)
    assert planned(scene, tmp_path) == LEFT_OF_A


def test_a_history_line_without_a_time_names_nobody(tmp_path: Path) -> None:
    """It may be months old; the job that its pattern would pick today is somebody's work."""
    job = P(3000, 1, 3000, "/usr/bin/python3 train.py", mib=5000, comm="python3")
    path = Scene([], [job], "true").write(tmp_path)
    record = {"cmd": "pkill -TERM -f train.py", "t0": None, "t1": None, "rc": None, "source": "history"}
    (path / "kill-commands.json").write_text(json.dumps([record]))
    report = explain([path])
    assert report.plan.kill == ()
    assert not [finding for finding in report.findings if finding.rule[3] in "123"]
    assert any("carry no time" in (source.because or "") for source in report.sources)


@pytest.mark.parametrize("mib", [0, 3000])
def test_the_living_parent_of_a_worker_that_was_named_is_not_condemned(tmp_path: Path, mib: int) -> None:
    """A notebook or trainer that lives on: only the worker was to end."""
    kernel = P(800, 1, 800, "/usr/bin/python3 -m ipykernel_launcher -f k.json", mib=mib, comm="python3")
    worker = P(801, 800, 800, "/usr/bin/python3 -c job", mib=4000, comm="python3")
    assert planned(Scene([kernel, worker], [kernel, worker], "kill -TERM 801"), tmp_path) == {801}
