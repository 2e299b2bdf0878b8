"""Selections of the kill tools where the evidence has gaps; what the tools themselves do is in tests/oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudiag.shell.lines import Step
from gpudiag.shell.selection import Selection
from gpudiag.shell.signals import fatal, number_of
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.tools import fuser, kill, killall, pgrep
from gpudiag.shell.tools.listing import Looking
from gpudiag.shell.world import Caller, Candidate, World

ROOT = Caller("root", 0)
SERVER = Candidate(
    10, 1, 10, 10, 1000, "bob", "python", False, "python -m vllm.entrypoints.x", False, "S", 1.0, False
)  # fmt: skip
WORKER = replace(SERVER, pid=12, ppid=10, comm="VLLM::Worker_TP", cmdline="VLLM::Worker_TP0", start=2.0)
LISTED = Candidate(13, cmdline="VLLM::Worker_TP1", text_from="nvidia-smi")
PATH = Candidate(14, cmdline="/opt/venv/bin/python3", text_from="nvidia-smi")


def step_of(text: str) -> Step:
    return parse_line(text, how="prompt").steps[0]


def world(*processes: Candidate, complete: bool | None = True) -> World:
    return World(processes, complete)


def select(text: str, where: World, caller: Caller = ROOT) -> Selection:
    step = step_of(text)
    program = step.words[0].text
    if program in ("pkill", "pgrep"):
        return pgrep.select(step.words, where, caller, frozenset())
    if program == "kill":
        return kill.select(step.words, step.fed_by, Looking(where, caller))
    return (killall if program == "killall" else fuser).select(step.words, where, caller)


def picked(selection: Selection) -> dict[int, bool | None]:
    return {one.pid: one.selected for one in selection.verdicts}


def test_name_from_nvidia_smi_is_the_whole_line_only_if_it_is_a_title() -> None:
    where = world(LISTED, PATH)
    assert picked(select("pkill -f vllm.entrypoints", where)) == {13: False, 14: None}
    assert picked(select("pkill -f venv", where)) == {13: False, 14: True}
    assert picked(select("pkill VLLM", where)) == {13: True, 14: None}, "a title sets comm too"


def test_text_that_was_cut_proves_a_match_but_no_miss() -> None:
    where = world(replace(SERVER, cmdline_cut=True), replace(WORKER, comm="VLLM", comm_cut=True))
    assert picked(select("pkill -f vllm.entry", where))[10] is True
    assert picked(select("pkill -f 'entrypoints.x$'", where))[10] is None
    assert picked(select("pkill -f port=8000", where))[10] is None
    assert picked(select("pkill Worker", where))[12] is None


def test_nothing_recorded_is_unknown() -> None:
    bare = Candidate(20)
    assert picked(select("pkill -f x", world(bare))) == {20: None}
    assert select("pkill -f x", world(bare)).exit_code is None
    assert picked(select("pkill -u bob", world(bare))) == {20: None}
    assert picked(select("killall x", world(bare))) == {20: None}


def test_zombie_shows_its_comm_in_brackets() -> None:
    zombie = replace(SERVER, cmdline="", comm="VLLM::EngineCor", state="Z")
    assert picked(select("pkill -f VLLM::EngineCore", world(zombie))) == {10: False}
    assert picked(select("pkill -f 'VLLM::EngineCor. <defunct>'", world(zombie))) == {10: True}


def test_a_miss_predicts_exit_code_1_only_in_a_complete_table() -> None:
    assert select("pkill -9 nosuch", world(SERVER)).exit_code == 1
    assert select("pkill -9 nosuch", world(SERVER, complete=None)).exit_code is None
    assert select("pkill -9 python", world(SERVER, complete=None)).exit_code == 0


@pytest.mark.parametrize(
    ("caller", "allowed"),
    [(ROOT, True), (Caller("bob", None), True), (Caller("eve", None), False), (Caller(None, None), None)],
)
def test_permission(caller: Caller, allowed: bool | None) -> None:
    selection = select("pkill -9 python", world(SERVER), caller)
    assert [one.permitted for one in selection.verdicts] == [allowed]
    assert selection.exit_code == {True: 0, False: 1, None: None}[allowed]


@pytest.mark.parametrize("text", ["pkill -9f x", "pkill a b", "pkill", "pkill -f 'x{'", "pkill -v x", "pkill -n -o x"])
def test_refused_commands_hit_nobody(text: str) -> None:
    selection = select(text, world(SERVER))
    assert selection.error
    assert selection.exit_code == 2
    assert picked(selection) == {10: False}


def test_a_pattern_that_cannot_be_evaluated_decides_nothing() -> None:
    selection = select("pkill -f '" + "(" * 5000 + "'", world(SERVER))
    assert (selection.error, picked(selection)) == (None, {10: None})


def test_a_variable_in_the_pattern_decides_nothing() -> None:
    selection = select('pkill -9 -f "$PATTERN"', world(SERVER))
    assert (selection.signal, picked(selection)) == (9, {10: None})


def test_narrowing_options() -> None:
    where = world(SERVER, WORKER)
    assert picked(select("pkill -P 10", where)) == {10: False, 12: True}
    assert picked(select("pkill -u bob -f Worker", where)) == {10: False, 12: True}
    assert picked(select("pkill -u eve -f Worker", where)) == {10: False, 12: False}
    assert picked(select("pkill -g 10", where)) == {10: True, 12: True}
    assert picked(select("pkill -t pts/0", where)) == {10: None, 12: None}
    assert picked(select("pkill -n -u bob", where)) == {10: False, 12: True}
    assert picked(select("pkill -o -u bob", where)) == {10: True, 12: False}


def test_kill_by_pid_group_and_list() -> None:
    where = World((SERVER, WORKER, LISTED), True, compute_pids=frozenset({12, 13}))
    assert picked(select("kill -9 12 999", where)) == {10: False, 12: True, 13: False}
    assert select("kill -9 12 999", where).literal_pids == (12, 999)
    assert picked(select("kill -- -10", where)) == {10: True, 12: True, 13: None}
    listed = select("kill -9 $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)", where)
    assert picked(listed) == {10: False, 12: True, 13: True}
    assert picked(select("kill -9 $(cat pidfile)", where)) == {10: None, 12: None, 13: None}
    assert picked(select("kill -9 $(pgrep -f entry)", where)) == {10: True, 12: False, 13: False}
    assert picked(select("kill -9 $(nvidia-smi -i 0 --query-compute-apps=pid)", where))[12] is None


def test_kill_without_a_pid_prints_its_usage() -> None:
    empty = World((SERVER,), True, compute_pids=frozenset())
    assert select("kill -9 $(nvidia-smi --query-compute-apps=pid)", empty).exit_code == 2
    assert select("kill -9", empty).exit_code == 2
    unknown = World((SERVER,), True)
    assert select("kill -9 $(nvidia-smi --query-compute-apps=pid)", unknown).exit_code is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kill $(ps aux | grep vllm | grep -v grep | awk '{print $2}')", {10: True, 12: False}),
        ("kill $(ps aux | grep -i vllm | awk '{print $2}')", {10: True, 12: True}),
        ("kill $(ps -e | grep VLLM | awk '{print $1}')", {10: False, 12: True}),
        ("kill $(ps -ef | awk '/Worker/ {print $2}')", {10: False, 12: True}),
        ("kill $(ps -ef | grep -F 'vllm.e' | head -1 | awk '{print $2}')", {10: None, 12: False}),
        ("kill $(pidof python)", {10: True, 12: False}),
        ("ps -ef | grep Worker | cut -c 1-9 | xargs kill", {10: None, 12: None}),
        ("ps -ef | grep Worker | awk '{print $3}' | xargs kill", {10: True, 12: False}),
        ("ps -eo pid,cmd | grep Worker | cut -d' ' -f1 | xargs kill", {10: None, 12: None}),
        ("ps aux | grep Worker | tr -s ' ' | cut -d ' ' -f 2 | xargs kill", {10: False, 12: True}),
    ],
)
def test_lists_made_by_ps_and_pidof(text: str, expected: dict[int, bool | None]) -> None:
    assert picked(select(text, world(SERVER, WORKER))) == expected


def test_fuser_needs_recorded_descriptors_and_rights() -> None:
    devices = {10: frozenset({"/dev/nvidiactl"}), 12: frozenset({"/dev/nvidia0", "/dev/nvidiactl"})}
    where = World((SERVER, WORKER, LISTED), True, devices)
    assert picked(select("fuser -k /dev/nvidia[0-9]*", where)) == {10: False, 12: True, 13: None}
    assert picked(select("fuser -k /dev/nvidia*", where)) == {10: True, 12: True, 13: None}
    assert picked(select("fuser -k /dev/nvidia*", world(SERVER))) == {10: None}
    assert picked(select("fuser -k 8000/tcp", where))[12] is None
    blind = select("fuser -k /dev/nvidia0", where, Caller("eve", None))
    assert [(one.selected, one.blind) for one in blind.verdicts if one.pid == 12] == [(False, True)]
    zombie = World((replace(WORKER, state="Z"),), True, devices)
    assert picked(select("fuser -k /dev/nvidia0", zombie)) == {12: False}


def test_fuser_signal_and_look() -> None:
    assert select("fuser -k -TERM /dev/nvidia0", world(SERVER)).signal == 15
    assert select("fuser -k /dev/nvidia0", world(SERVER)).signal == 9
    assert fuser.kills(step_of("fuser -vk /dev/nvidia0").words)
    assert not fuser.kills(step_of("fuser -v /dev/nvidia0").words)


@pytest.mark.parametrize(
    ("text", "number"), [("9", 9), ("KILL", 9), ("sigterm", 15), ("0", 0), ("65", None), ("FOO", None), ("9f", None)]
)
def test_signal_names(text: str, number: int | None) -> None:
    assert number_of(text) == number


def test_which_signals_end_a_process() -> None:
    masks = replace(SERVER, sig_ignored=1 << 0, sig_blocked=1 << 14, sig_caught=1 << 1)
    assert [fatal(signal, masks) for signal in (9, 1, 15, 2, 10, 19, 0)] == [
        True,
        False,
        False,
        None,
        True,
        False,
        False,
    ]
    assert fatal(15, SERVER) is None, "the masks are not recorded"
    assert fatal(9, replace(SERVER, kernel_thread=True)) is False
