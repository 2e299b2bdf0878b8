"""Stops that go by control group: whom they reach, and when they are the best for next time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import StatedKill, explain
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller
from gpudiag.simulation.stops import ControlGroups, stop_selection
from tests.unit.simulation.tables import BOX, UNIT, VLLM, Row, ask, write_groups

INSIDE = {row.pid: UNIT for row in VLLM}
GROUPS = ControlGroups(
    {1: "/init.scope", 5: UNIT, 6: f"{UNIT}/sub", 7: "/system.slice/other.service", 8: BOX},
    {"listed.service": frozenset({9})},
    {"web": "0123456789ab", "0123456789ab": "0123456789ab"},
)
PIDS = (1, 5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    ("command", "hit", "unknown"),
    [
        ("systemctl stop vllm", {5, 6}, {9}),
        ("systemctl --no-block kill vllm.service", {5, 6}, {9}),
        ("systemctl stop listed", {9}, set()),
        ("systemctl stop vllm other", {5, 6, 7}, {9}),
        ("docker stop web", {8}, {9}),
        ("docker rm -f 0123456789abcdef", {8}, {9}),
        ("docker stop unheard-of", set(), {8, 9}),
    ],
)
def test_whom_a_stop_reaches(command: str, hit: set[int], unknown: set[int]) -> None:
    step = parse_line(command, how="prompt").steps[0]
    selection = stop_selection(step, GROUPS, PIDS, Caller("root", 0))
    assert selection is not None
    assert {verdict.pid for verdict in selection.verdicts if verdict.selected} == hit
    assert {verdict.pid for verdict in selection.verdicts if verdict.selected is None} == unknown


@pytest.mark.parametrize(
    "command",
    [
        "systemctl restart vllm",
        "systemctl --user stop vllm",
        "systemctl stop 'vllm*'",
        "systemctl status vllm",
        "docker ps",
        "docker rm web",
        "docker kill -s HUP web",
        "docker stop $NAME",
        "kill 5",
    ],
)
def test_what_is_no_plain_stop(command: str) -> None:
    assert stop_selection(parse_line(command, how="prompt").steps[0], GROUPS, PIDS, Caller("root", 0)) is None


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
