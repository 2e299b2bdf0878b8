"""Stops that go by control group: whom they reach, and when they are the best for next time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import StatedKill, explain
from gpudiag.shell.keepers import ControlGroups
from gpudiag.shell.replay import Observed, replay
from gpudiag.shell.selection import Selection
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller, Candidate, World
from tests.unit.simulation.tables import BOX, UNIT, VLLM, Row, ask, write_groups

INSIDE = {row.pid: UNIT for row in VLLM}
GROUPS = ControlGroups(
    {
        1: "/init.scope",
        5: UNIT,
        6: f"{UNIT}/sub",
        7: "/system.slice/other.service",
        8: BOX,
        10: "/user.slice/user-1000.slice/user@1000.service/app.slice/mine.service",
        11: "/system.slice/slurmstepd.scope/job_77/step_0/user/task_0",
        **dict.fromkeys((20, 21, 22, 23), "/user.slice/session-1.scope"),
    },
    {"listed.service": frozenset({9})},
    {"web": "0123456789ab", "0123456789ab": "0123456789ab"},
    main={"0123456789ab": 8},
)
PIDS = (1, 5, 6, 7, 8, 9, 10, 11)
ROOT = Caller("root", 0)
RAY = (
    Candidate(20, user="bob", uid=1000, comm="raylet", cmdline="/opt/ray/raylet --x"),
    Candidate(21, user="bob", uid=1000, comm="python3", cmdline="python3 -u /opt/ray/autoscaler/_private/monitor.py"),
    Candidate(22, user="bob", uid=1000, comm="ray::IDLE", cmdline="ray::IDLE"),
    Candidate(23, user="bob", uid=1000, comm="python", cmdline="python train.py"),
)


def selection_of(command: str, groups: ControlGroups | None = GROUPS, caller: Caller = ROOT) -> Selection | None:
    people = tuple(Candidate(pid, user="bob", uid=1000, comm="x", cmdline="x") for pid in PIDS)
    world = World((*people, *RAY), True, keepers=groups)
    line = parse_line(command, how="prompt")
    return replay(line, world, caller, Observed(None, None, None)).steps[-1].selection


@pytest.mark.parametrize(
    ("command", "hit", "unknown"),
    [
        ("systemctl stop vllm", {5, 6}, {9}),
        ("systemctl --no-block kill vllm.service", {5, 6}, {9}),
        ("systemctl kill -s KILL vllm", {5, 6}, {9}),
        ("systemctl restart vllm", {5, 6}, {9}),
        ("service vllm stop", {5, 6}, {9}),
        ("systemctl stop listed", {9}, set()),
        ("systemctl stop vllm other", {5, 6, 7}, {9}),
        ("systemctl stop system.slice", {5, 6, 7, 8, 11}, {9}),
        ("sudo -u bob systemctl --user stop mine", {10}, {9}),
        ("docker stop web", {8}, {9}),
        ("podman restart web", {8}, {9}),
        ("docker rm -f 0123456789abcdef", {8}, {9}),
        ("docker kill web", {8}, {9}),
        ("docker kill -s HUP web", {8}, set()),
        ("docker rm web", set(), set()),
        ("docker stop unheard-of", set(), {8, 9}),
        ("scancel 77", {11}, {9}),
        ("scancel -u bob", {11}, {9}),
        ("scancel --user=eve", set(), {9}),
        ("ray stop", {20, 21, 22}, set()),
        ("ray stop --force", {20, 21, 22}, set()),
    ],
)
def test_whom_a_stop_reaches(command: str, hit: set[int], unknown: set[int]) -> None:
    selection = selection_of(command)
    assert selection is not None
    assert {verdict.pid for verdict in selection.verdicts if verdict.selected} == hit
    assert {verdict.pid for verdict in selection.verdicts if verdict.selected is None} - {20, 21, 22, 23} == unknown


def test_who_may_ask_for_it() -> None:
    for command, bob, eve in (
        ("systemctl stop vllm", None, None),
        ("scancel 77", True, False),
        ("ray stop", True, False),
    ):
        for user, expected in (("bob", bob), ("eve", eve), ("root", True)):
            selection = selection_of(command, caller=Caller(user, {"bob": 1000, "eve": 1001, "root": 0}[user]))
            assert selection is not None
            assert {one.permitted for one in selection.verdicts if one.selected} == {expected}, (command, user)


@pytest.mark.parametrize(
    "command",
    [
        "systemctl stop 'vllm*'",
        "systemctl status vllm",
        "systemctl kill --kill-whom=main vllm",
        "docker ps",
        "docker stop $NAME",
        "docker compose down",
        "kubectl delete pod p1",
        "tmux kill-server",
    ],
)
def test_what_only_its_keeper_knows(command: str) -> None:
    assert selection_of(command) is None


def test_without_control_groups_a_stop_is_named_only() -> None:
    assert selection_of("systemctl stop vllm", None) is None


def test_a_restart_is_never_clean(tmp_path: Path) -> None:
    answer = ask(write_groups(tmp_path, VLLM, INSIDE), "systemctl restart vllm")
    assert (answer.verdict, answer.hit) == ("not_clean", (500, 501, 502, 503))
    assert "restart starts vllm again" in answer.because


def test_what_stands_behind_a_stop_runs_after_it(tmp_path: Path) -> None:
    folder = write_groups(tmp_path, (*VLLM, Row(900, "backup")), INSIDE)
    answer = ask(folder, "systemctl stop vllm; pkill -9 backup")
    assert (answer.hit, answer.collateral) == ((500, 501, 502, 503, 900), (900,))


def test_a_unit_that_holds_exactly_the_server_comes_first(tmp_path: Path) -> None:
    folder = write_groups(tmp_path, (*VLLM, Row(900, "backup")), INSIDE)
    assert ask(folder, "systemctl stop vllm").verdict == "clean"
    following = explain([folder], [StatedKill("kill -9 500", None)]).plan.next_time
    assert following is not None
    assert (following.command, following.matches) == ("systemctl stop vllm.service", (500, 501, 502, 503))
    again = explain([folder], [StatedKill("kill -9 500", None), StatedKill("systemctl stop vllm", None)]).plan.next_time
    assert again is not None
    assert again.command == "kill -s KILL -- -500"


def test_a_unit_that_holds_more_is_not_stopped(tmp_path: Path) -> None:
    folder = write_groups(tmp_path, (*VLLM, Row(900, "backup")), {**INSIDE, 900: UNIT})
    answer = ask(folder, "systemctl stop vllm")
    assert (answer.verdict, answer.collateral) == ("not_clean", (900,))
    following = explain([folder], [StatedKill("kill -9 500", None)]).plan.next_time
    assert following is not None
    assert following.command == "kill -s KILL -- -500"
