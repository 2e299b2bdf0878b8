"""``watch.jsonl``: which moments become looks, and what of a ring is not believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpudiag.evidence.exhibit import Exhibit, Input, LookName
from gpudiag.model import Booking, Citation, Ending, KillAction, Process, Recorder
from gpudiag.parse import Parsed, parse
from gpudiag.parse.ring import recall

SECOND = 1_000_000_000
T = 1_771_614_000
BOOT_ID = "5e1f0a00-0000-4000-8000-0000000000b1"
NAMESPACE = "pid:[4026531836]"
UUID = "GPU-5e1f0a00-0000-4000-8000-000000000001"
MIB = 1 << 20


def line(kind: str, t: float | None = None, **values: Any) -> str:
    return json.dumps({"is": kind, **({} if t is None else {"t": T + t}), **values}) + "\n"


def head(t: float = 0.0, boot_id: str = BOOT_ID, **values: Any) -> str:
    fields = {"boot_id": boot_id, "pid_namespace": NAMESPACE, "uid": 0, "pid": 900, "goes_on": False, **values}
    return line("ring", t, **fields)


def proc(t: float, pid: int, cmdline: str, ppid: int = 1, start: int = 100, **values: Any) -> str:
    argv = cmdline.replace(" ", "\0")
    return line("proc", t, pid=pid, start=start, ppid=ppid, state="S", uid=0, comm="x", cmdline=argv, **values)


def gpu(t: float, *held: tuple[int, int]) -> str:
    used = sum(mib for _, mib in held) * MIB
    lists = [[pid, mib * MIB] for pid, mib in held]
    figures = {"used": used + 600 * MIB, "used_v2": used, "reserved": 600 * MIB, "total": 80_000 * MIB}
    return line("gpu", t, gpu={"index": 0, "uuid": UUID, **figures, "Compute": lists})


def tick(t: float) -> str:
    return line("tick", t)


def gone(t: float, pid: int, start: int = 100, **values: Any) -> str:
    return line("gone", t, pid=pid, start=start, **values)


ALL = line("all")
SERVER = (
    head()
    + gpu(0.5)
    + proc(0.5, 1, "/sbin/init", ppid=0, start=1)
    + line("proc", 0.5, pid=2, start=1, ppid=0, comm="kthreadd", kernel=True)
    + ALL
    + line("own", 0.6, pid=901)
    + tick(1)
    + proc(10, 50, "python -m vllm.entrypoints.openai.api_server")
    + proc(10, 51, "VLLM::EngineCore", ppid=50)
    + proc(10, 52, "VLLM::Worker_TP0", ppid=51, fds=["/dev/nvidia0"], maps=["/dev/nvidia0"])
    + tick(10)
    + gpu(11, (52, 8000))
    + tick(11)
    + tick(12)
)
KILLED = gone(12.4, 50, exact=True, signal=9) + line("proc", 13, pid=51, start=100, ppid=1) + tick(13)


def exhibit(text: str, read_at: float | None = None) -> Exhibit:
    time_ns = None if read_at is None else round((T + read_at) * SECOND)
    return Exhibit("I1", "watch.jsonl", "box", None, None, time_ns, None, None, 1, text)


def recorder(boot_id: str | None = BOOT_ID, namespace: str | None = NAMESPACE) -> Recorder:
    return Recorder("box", boot_id, (7,), 0, "root", namespace, Citation("I1", "_bundle/start.json", 1, ""))


def parsed(text: str, *actions: KillAction, by: Recorder | None = None) -> Parsed:
    look = LookName("I1:look-1", "look-1", "box")
    evidence = Input("I1", "x.tgz", "bundle", True, (exhibit(text),), (look,), actions, (), by or recorder())
    return parse([evidence])


def kill(t: float, error_s: float = 0.0) -> KillAction:
    cited = Citation("I1", "kill-commands.json", 1, "pkill x")
    time_ns, error_ns = round((T + t) * SECOND), round(error_s * SECOND)
    return KillAction(
        "box", "pkill x", None, "prompt", time_ns, None, error_ns, None, None, None, None, None, "history", cited
    )


def at(rows: tuple[Any, ...], look: str) -> dict[int, Any]:
    return {row.pid: row for row in rows if row.at.look == look}


def test_state_right_before_the_end_is_a_look() -> None:
    found = parsed(SERVER + KILLED)
    assert [(look.name, look.recalled) for look in found.looks] == [("watch-1", True), ("look-1", False)]
    processes: dict[int, Process] = at(found.processes, "I1:watch-1")
    assert sorted(processes) == [1, 2, 50, 51, 52]
    parent = processes[50]
    assert (parent.cmdline, parent.start_ticks, parent.user) == (
        "python -m vllm.entrypoints.openai.api_server",
        100,
        "root",
    )
    assert parent.at.time_ns == (T + 12) * SECOND
    assert parent.cited.line == SERVER.split("\n").index(proc(10, 50, parent.cmdline or "").strip()) + 1
    assert (processes[51].ppid, processes[2].kernel_thread) == (50, True)
    handles = {(row.pid, row.how, row.path) for row in found.handles}
    assert handles == {(52, "fd", "/dev/nvidia0"), (52, "map", "/dev/nvidia0")}
    bookings: dict[int, Booking] = at(found.bookings, "I1:watch-1")
    assert {pid: row.mib for pid, row in bookings.items()} == {52: 8000.0}
    covered = {row.source: row.complete for row in found.coverage if row.at.look == "I1:watch-1"}
    assert covered == {"process table": True, "gpu memory": True, "compute processes": True}


def test_memory_over_time_and_ends() -> None:
    found = parsed(SERVER + KILLED + gpu(14))
    series = [(row.at.time_ns, row.used_mib) for row in found.samples if row.at.look is None]
    assert [((time or 0) / SECOND - T, used) for time, used in series] == [(0.5, 0.0), (11.0, 8000.0), (14.0, 0.0)]
    # A list of one GPU is no list of all: what was on the others would be missing from it.
    assert not [row for row in found.bookings if row.at.look is None]
    (ending,) = found.endings
    assert (ending.pid, ending.start_ticks, ending.signal, ending.time_error_ns) == (50, 100, 9, 0)
    assert ending.time_ns == round((T + 12.4) * SECOND)


def test_end_that_only_a_list_shows_is_as_old_as_the_list_before() -> None:
    (ending,) = parsed(SERVER + tick(13) + gone(14, 50) + tick(14)).endings
    assert (ending.time_ns, ending.time_error_ns, ending.signal) == ((T + 14) * SECOND, SECOND, None)


def test_command_with_a_time_has_a_look_of_its_own() -> None:
    found = parsed(SERVER + KILLED, kill(12.3, 1.0))
    (look,) = (look for look in found.looks if look.recalled)
    assert look.name == "watch-1"
    # Not later than the command may have been given; the end that it caused needs no second one.
    assert at(found.processes, "I1:watch-1")[50].at.time_ns == (T + 11) * SECOND


def test_command_that_the_ring_does_not_reach_has_none() -> None:
    for moment in (-500.0, 900.0):
        assert [look.name for look in parsed(SERVER, kill(moment)).looks] == ["look-1"]


def test_ends_of_strangers_are_no_episode() -> None:
    stranger = proc(12, 77, "sleep 9") + tick(12.5) + gone(13, 77) + tick(13)
    found = parsed(SERVER + stranger)
    assert [look.name for look in found.looks] == ["look-1"]
    assert [ending.pid for ending in found.endings] == [77]


def test_episodes_far_apart_are_two_looks() -> None:
    later = tick(100) + gone(100.5, 52, exact=True, signal=9) + gone(100.6, 51, exact=True, signal=9) + tick(101)
    found = parsed(SERVER + KILLED + later)
    assert [look.name for look in found.looks] == ["watch-1", "watch-2", "look-1"]
    assert sorted(at(found.processes, "I1:watch-2")) == [1, 2, 51, 52]


def test_pid_of_two_processes() -> None:
    reused = SERVER + gone(12.4, 52, exact=True, signal=9) + proc(12.9, 52, "nginx", start=5000) + tick(13)
    found = parsed(reused + tick(60) + proc(60, 60, "w", fds=["/dev/nvidia0"]) + tick(61) + gone(61.5, 60) + tick(62))
    first, second = at(found.processes, "I1:watch-1")[52], at(found.processes, "I1:watch-2")[52]
    assert (first.start_ticks, first.cmdline) == (100, "VLLM::Worker_TP0")
    assert (second.start_ticks, second.cmdline) == (5000, "nginx")


def test_memory_goes_before_its_process() -> None:
    worker = proc(10, 53, "VLLM::Worker_TP1", ppid=51) + gpu(11, (53, 8000)) + tick(12) + gpu(12.5)
    found = parsed(SERVER + worker + gone(13, 53) + tick(13))
    assert [look.name for look in found.looks] == ["watch-1", "look-1"]
    assert at(found.processes, "I1:watch-1")[53].cmdline == "VLLM::Worker_TP1"


def test_zombie_has_ended() -> None:
    zombie = line("proc", 13, pid=52, start=100, state="Z") + tick(13)
    found = parsed(SERVER + zombie)
    (ending,) = found.endings
    assert (ending.pid, ending.time_ns, ending.time_error_ns) == (52, (T + 13) * SECOND, SECOND)
    assert at(found.processes, "I1:watch-1")[52].state == "S"
    # It is reaped long afterwards: that is no second end, and where the kernel told, its word counts.
    (plain,) = parsed(SERVER + zombie + tick(500) + gone(501, 52) + tick(501)).endings
    assert plain == ending
    (told,) = parsed(SERVER + zombie + gone(12.6, 52, exact=True, signal=9) + tick(501)).endings
    assert (told.signal, told.time_ns, told.time_error_ns) == (9, round((T + 12.6) * SECOND), 0)


def test_zombie_that_was_noticed_late_may_have_ended_long_before() -> None:
    late = tick(13) + tick(20) + line("proc", 30, pid=52, start=100, state="Z", seen=T + 12.2) + tick(30)
    found = parsed(SERVER + late)
    (ending,) = found.endings
    assert ending.time_error_ns == round(17.8 * SECOND)
    assert at(found.processes, "I1:watch-1")[52].at.time_ns == (T + 12) * SECOND


def test_process_that_was_a_zombie_when_it_was_first_seen_ended_before() -> None:
    assert not parsed(SERVER + line("proc", 13, pid=60, start=5, ppid=1, state="Z", comm="x") + tick(13)).endings


def test_end_of_another_process_with_that_pid_ends_nobody() -> None:
    found = parsed(SERVER + gone(12.4, 50, start=99) + tick(13))
    assert not found.endings


@pytest.mark.parametrize(
    "by",
    [recorder(boot_id="5e1f0a00-0000-4000-8000-0000000000b2"), recorder(namespace="pid:[4026532000]")],
    ids=["boot", "namespace"],
)
def test_ring_of_another_machine_is_left_out(by: Recorder) -> None:
    found = parsed(SERVER + KILLED, by=by)
    assert [look.name for look in found.looks] == ["look-1"]
    assert not found.processes
    assert not found.samples
    (damage,) = found.damage
    assert "another boot" in damage.reason
    assert found.recorders[0].pids == (7,)


def test_recorder_is_no_suspect() -> None:
    assert parsed(SERVER).recorders[0].pids == (7, 900, 901)
    assert recall(exhibit(SERVER, 13), recorder(), []).observers == (900, 901)


def test_pid_that_the_recorder_had_once_may_be_a_suspects_now() -> None:
    assert recall(exhibit(SERVER, 60), recorder(), []).observers == ()
    ended = SERVER + proc(12, 901, "gpudiag") + gone(12.4, 901) + tick(13)
    assert parsed(ended).recorders[0].pids == (7, 900)
    again = SERVER + head(20, pid=950) + proc(20, 900, "VLLM::EngineCore", start=1900) + ALL + tick(21)
    assert parsed(again).recorders[0].pids == (7, 950)


def test_clock_that_was_set_back() -> None:
    back = tick(-500) + gone(-499.5, 50, exact=True, signal=9) + tick(-499)
    (look,) = (look for look in parsed(SERVER + back).looks if look.recalled)
    rows = at(parsed(SERVER + back).processes, look.id)
    assert 50 in rows
    assert rows[50].at.time_ns == (T - 500) * SECOND


def test_who_vanished_while_nobody_recorded() -> None:
    again = head(500.0) + gpu(500) + proc(500, 1, "/sbin/init", ppid=0, start=1) + ALL + tick(501)
    found = parsed(SERVER + again)
    assert sorted(ending.pid for ending in found.endings) == [2, 50, 51, 52]
    worker = next(ending for ending in found.endings if ending.pid == 52)
    assert worker.time_error_ns >= 488 * SECOND
    assert sorted(at(found.processes, "I1:watch-1")) == [1, 2, 50, 51, 52]


def test_snapshot_in_the_middle_repeats_only() -> None:
    middle = head(12.2, goes_on=True) + proc(10, 50, "python -m vllm.entrypoints.openai.api_server") + ALL
    assert parsed(SERVER + middle + KILLED).endings == parsed(SERVER + "\n\n\n" + KILLED).endings


def test_list_that_is_not_whole_is_no_look() -> None:
    part = SERVER.replace(ALL, line("part"))
    found = parsed(part + KILLED, kill(12.3))
    assert [look.name for look in found.looks] == ["look-1"]


def test_gpus_that_did_not_answer_are_not_known() -> None:
    found = parsed(SERVER + line("no gpus", 12.1, because="gone") + tick(12.2) + KILLED)
    sources = {row.source for row in found.coverage if row.at.look == "I1:watch-1"}
    assert sources == {"process table"}


def test_cut_anywhere_it_gives_every_whole_line_before_the_cut() -> None:
    text = SERVER + KILLED
    for cut in range(0, len(text), 7):
        found = recall(exhibit(text[:cut]), recorder(), [])
        whole = text[:cut].split("\n")[:-1]
        ended = [row for row in found.rows if isinstance(row, Ending)]
        assert len(ended) >= sum('"is": "gone"' in line for line in whole)
        assert len(found.looks) == len(ended)


@pytest.mark.parametrize(
    "bad",
    [
        "garbage",
        "[]",
        '{"is": 5}',
        '{"is":"proc","t":1,"pid":"x","start":1}',
        '{"is":"proc","t":1e999,"pid":5,"start":1,"fds":[[1]],"maps":7,"nspid":"x","cmdline":9}',
        '{"is":"gpu","t":5,"gpu":{"index":"a","Compute":[[],7,["x"]]}}',
        '{"is":"gpu","t":5,"gpu":[1]}',
        '{"is":"ring","t":"x","boot_id":7}',
        '{"is":"gone","pid":' + "9" * 5000 + "}",
        "[" * 20000,
        '{"is":"tick","t":-5}',
        '{"is":"all"}',
    ],
)
def test_line_that_lies_costs_itself_only(bad: str) -> None:
    found = parsed(SERVER + bad + "\n" + KILLED)
    assert found.looks[-1].name == "look-1"
    if "ring" not in bad:
        assert 50 in at(found.processes, "I1:watch-1")


def test_flood_of_bad_lines_is_bounded() -> None:
    found = parsed("x\n" * 5000 + SERVER + KILLED)
    assert len(found.damage) <= 20
    assert [look.name for look in found.looks] == ["watch-1", "look-1"]
