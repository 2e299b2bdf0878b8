"""The command for next time: safest first, proven on the table, never one that was tried in vain."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpudiag.explain import StatedKill, explain
from gpudiag.next_time import NO_TABLE, NONE_CLEAN
from gpudiag.report import html, markdown, terminal
from gpudiag.report.contract import Plan, Report
from tests.unit.simulation.tables import API, VLLM, Row, ask, write

SCRIPT = 400
"""Process group of a script that started the server beside other things."""


def plan(folder: Path, *commands: str) -> Plan:
    return explain([folder], [StatedKill(command, None) for command in commands]).plan


def proposed(folder: Path, *commands: str) -> tuple[str, tuple[int, ...]]:
    following = plan(folder, *commands).next_time
    assert following is not None
    assert following.misses == ()
    return following.command, following.matches


def in_script(rows: Iterable[Row], session: int = SCRIPT) -> tuple[Row, ...]:
    """The rows in the group of a script which runs something else as well."""
    return tuple(replace(row, group=SCRIPT, session=session) for row in rows)


def test_the_process_group_is_the_first_choice(tmp_path: Path) -> None:
    folder = write(tmp_path, VLLM)
    command, matches = proposed(folder, "kill -9 500")
    assert (command, matches) == ("kill -s KILL -- -500", (500, 501, 502, 503))
    assert ask(folder, command).verdict == "clean"


def test_a_group_that_holds_somebody_else_is_never_proposed(tmp_path: Path) -> None:
    beside = Row(401, "backup --all", 1, SCRIPT, SCRIPT)
    folder = write(tmp_path, (Row(SCRIPT, "bash start.sh"), beside, *in_script(VLLM)))
    following = plan(folder, "kill -9 500").next_time
    assert following is not None
    assert not {400, 401} & set(following.matches)
    assert "-400" not in following.command
    assert ask(folder, following.command).collateral == ()


def test_a_group_command_that_failed_is_not_proposed_again(tmp_path: Path) -> None:
    for number, spelling in enumerate(("kill -9 -- -500", "kill -KILL -500", "kill -s 9 -500", "pkill -9 -g 500")):
        folder = write(tmp_path / str(number), VLLM)
        command, matches = proposed(folder, "kill -9 500", spelling)
        assert command == "pkill -KILL -s 500", spelling
        assert matches == (500, 501, 502, 503)


def test_what_worked_may_be_proposed(tmp_path: Path) -> None:
    write(tmp_path, VLLM)
    write(tmp_path, (), name="later")
    assert proposed(tmp_path, "kill -9 -- -500")[0] == "kill -s KILL -- -500"


def titled(*pids: int) -> tuple[Row, ...]:
    """A server of which every process has a title of its own."""
    return tuple(Row(pid, f"VLLM::Worker_TP{number}", 1, SCRIPT, 390) for number, pid in enumerate(pids))


def test_a_pattern_names_every_title_and_not_its_own_shell(tmp_path: Path) -> None:
    sessions = [replace(row, session=390 + n) for n, row in enumerate((*titled(502, 503), Row(500, API, 1, SCRIPT)))]
    folder = write(tmp_path, (Row(SCRIPT, "bash start.sh"), Row(401, "backup", 1, SCRIPT), *sessions))
    command, matches = proposed(folder, "kill -9 500 502")
    if command.startswith("pkill"):
        for carried in ({}, {"run_by": "bash"}, {"run_by": "dash"}, {"over_ssh": True}):
            answer = ask(folder, command, **carried)
            assert (set(matches) <= set(answer.hit), answer.hit_shells, answer.collateral) == (True, (), ())


def test_the_last_resort_names_each_process_and_checks_it(tmp_path: Path) -> None:
    spawned = "/usr/bin/python3 -c from multiprocessing.spawn import spawn_main; spawn_main()"
    rows = (Row(SCRIPT, "bash start.sh"), Row(500, API, 1, SCRIPT), Row(501, spawned, 500, SCRIPT))
    command, matches = proposed(write(tmp_path, rows), "kill -9 500")
    assert matches
    for pid in matches:
        assert f"kill -KILL {pid}" in command
        assert f"/proc/{pid}/cmdline" in command


def test_without_a_whole_table_nothing_is_proposed_and_it_is_said(tmp_path: Path) -> None:
    made = plan(write(tmp_path, VLLM, whole=False), "kill -9 500")
    assert (made.next_time, made.no_next_time) == (None, NO_TABLE)


def test_every_output_says_that_none_is_proposed(tmp_path: Path) -> None:
    report: Report = explain([write(tmp_path, VLLM, whole=False)], [StatedKill("kill -9 500", None)])
    for shown in (terminal.render(report, width=400), markdown.render(report), html.render(report)):
        assert f"No command is proposed: {NO_TABLE}." in shown


def test_no_command_is_called_clean_if_all_were_tried(tmp_path: Path) -> None:
    lone = (Row(510, "VLLM::EngineCore", 1, 510, 510),)
    tried = ("kill -9 -- -510", "pkill -9 -s 510", "pkill -9 -u root -f '^(VLLM::)'", "kill -9 510")
    made = plan(write(tmp_path, lone), *tried)
    assert (made.next_time, made.no_next_time) == (None, NONE_CLEAN)


def test_nothing_was_aimed_at(tmp_path: Path) -> None:
    made = plan(write(tmp_path, VLLM))
    assert (made.next_time, made.no_next_time) == (None, None)


def test_numbers_of_this_run_are_said_to_be_that(tmp_path: Path) -> None:
    report = explain([write(tmp_path, VLLM)], [StatedKill("kill -9 500", None)])
    following = report.plan.next_time
    assert following is not None
    assert following.of_this_run
    for drawn in (terminal.render(report), markdown.render(report), html.render(report)):
        assert "Its numbers are those of this run" in drawn


def test_a_command_without_numbers_stands_beside_one_with_them(tmp_path: Path) -> None:
    rows = [replace(row, group=502, session=502) for row in (*titled(502, 503), Row(504, API, 502, 502))]
    report = explain([write(tmp_path, rows)], [StatedKill("kill -9 502", None)])
    following = report.plan.next_time
    assert following is not None
    assert following.command == "kill -s KILL -- -502"
    assert following.again is not None
    assert following.again.startswith("pkill -KILL")
    assert not re.search(r"\b50[0-9]\b", following.again)
    assert set(ask(tmp_path, following.again).hit) == set(following.matches)
    for drawn in (terminal.render(report), markdown.render(report), html.render(report)):
        assert "This one names no number and hits the same" in drawn
