"""What a kernel trace proves, of whom, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpudiag.explain import explain_fully
from gpudiag.model import Citation, TraceEvent
from gpudiag.timeline.commands import StepView
from gpudiag.timeline.order import SECOND, Clock
from gpudiag.timeline.trace import Reach, Trace

CITED = Citation("I1", "trace.txt", 1, "")


def fork(at: float, pid: int, child: int) -> TraceEvent:
    return TraceEvent("fork", at, pid, "sh", CITED, target_pid=child)


def exec_(at: float, pid: int, path: str) -> TraceEvent:
    return TraceEvent("exec", at, pid, path.rpartition("/")[2], CITED, filename=path)


def kill(at: float, pid: int, target: int, signal: int = 9) -> TraceEvent:
    return TraceEvent("signal_generate", at, pid, "sh", CITED, signal=signal, target_pid=target, result=0)


def trace(*events: TraceEvent, whole: bool = True) -> Trace:
    return Trace(events, Clock(0, 0), Reach(same_pids=True, whole=whole))


MINE, OTHERS = 100, 200
TWO_AT_ONCE = (
    fork(1.0, 50, MINE),
    fork(1.0, 51, OTHERS),
    fork(1.1, MINE, 101),
    fork(1.1, OTHERS, 201),
    exec_(1.2, 101, "/usr/bin/pkill"),
    exec_(1.2, 201, "/usr/bin/pkill"),
    kill(1.3, 101, 7),
    kill(1.3, 201, 8),
)


def test_another_command_at_the_same_time_is_not_this_one() -> None:
    both = trace(*TWO_AT_ONCE)
    events = both.window(SECOND, 2 * SECOND)
    mine = both.runs_of("pkill", events, both.descent(MINE))
    assert [run.targets for run in mine] == [{7: 9}]
    assert [event.target_pid for event in both.signals_to([7, 8], 9, events, both.descent(OTHERS))] == [8]
    assert len(both.runs_of("pkill", events)) == 2


def test_descent_does_not_depend_on_the_order_of_lines() -> None:
    assert trace(*reversed(TWO_AT_ONCE)).descent(MINE) == {MINE, 101}


def test_a_trace_that_lost_events_proves_no_absence() -> None:
    assert trace(*TWO_AT_ONCE).covers(SECOND + 1)
    assert not trace(*TWO_AT_ONCE, whole=False).covers(SECOND + 1)


PS = """\
# 2026-01-01T00:00:0{second}+00:00 $ ps -eo pid,ppid,pgid,sid,user:20,stat,lstart,etimes,nlwp,rss,wchan:24,comm,args
    PID    PPID    PGID     SID USER     STAT                  STARTED ELAPSED NLWP   RSS WCHAN  COMMAND   COMMAND
      1       0       1       1 root     Ss   Thu Jan  1 00:00:00 2026       9    1   100 -      init      /sbin/init
      2       0       0       0 root     S    Thu Jan  1 00:00:00 2026       9    1     0 -      kthreadd  [kthreadd]
"""
ROW = (
    "{pid:7}       1     {pid}     {pid} root     S    Thu Jan  1 00:00:00 2026       9    1   100 -      python3   "
    "python3 {pid}\n"
)
TRACE = "            bash-{pid}     [003] .....    {at:.6f}: {event}\n"
FORK = "sched_process_fork: comm=bash pid={pid} child_comm=bash child_pid={child}"
SIGNAL = "signal_generate: sig={signal} errno=0 code=0 comm=python3 pid={target} grp=1 res=0"


def incident(folder: Path, line: str, sent: list[tuple[int, int, int]], pid: int | None = MINE) -> dict[int, list[str]]:
    """Per PID how each step reached it: ``line`` was run by a shell, ``sent`` are sender, target, signal."""
    (folder / "before").mkdir()
    rows = "".join(ROW.format(pid=number) for number in (701, 702, 703))
    (folder / "before" / "ps.txt").write_text(PS.format(second=1) + rows)
    record = {
        "argv": ["bash", "-c", line],
        "pid": pid,
        "t0": "2026-01-01T00:00:02+00:00",
        "t1": "2026-01-01T00:00:03+00:00",
        "rc": 0,
        "out": "",
        "err": "",
    }
    (folder / "kill-commands.json").write_text(json.dumps([record]))
    (folder / "trace-clock.json").write_text(json.dumps({"boot": 1.0, "wall": 1767225601.0}))
    events = [TRACE.format(pid=50, at=2.001, event=FORK.format(pid=50, child=MINE))]
    events += [
        TRACE.format(pid=sender, at=2.1 + number / 10, event=SIGNAL.format(signal=signal, target=target))
        for number, (sender, target, signal) in enumerate(sent)
    ]
    (folder / "trace.txt").write_text("".join(events))
    steps = explain_fully([folder]).incident.actions[0].steps
    return {number: [_word(step.sent_to.get(number)) for step in steps] for number in (701, 702, 703)}


def _word(sent: bool | None) -> str:
    return "?" if sent is None else "yes" if sent else "no"


def test_a_list_of_a_shells_own_kill_is_known_by_its_signals(tmp_path: Path) -> None:
    told = incident(tmp_path, "kill -9 $(cat pids); kill -15 703", [(MINE, 701, 9), (MINE, 703, 15)])
    assert told == {701: ["yes", "?"], 702: ["no", "?"], 703: ["no", "yes"]}


def test_a_signal_that_two_steps_may_have_sent_is_not_given_to_either(tmp_path: Path) -> None:
    told = incident(tmp_path, "kill -9 $(cat pids); kill -9 $(cat more); kill -9 703", [(MINE, 701, 9)])
    assert told == {701: ["?", "?", "?"], 702: ["?", "?", "?"], 703: ["?", "?", "no"]}


def test_a_named_pid_is_not_given_to_the_step_with_the_list(tmp_path: Path) -> None:
    told = incident(tmp_path, "kill -9 $(cat pids); kill -9 703", [(MINE, 703, 9)])
    assert told == {701: ["no", "?"], 702: ["no", "?"], 703: ["?", "yes"]}


@pytest.mark.parametrize("pid", [MINE, None])
def test_a_stranger_at_the_same_time(tmp_path: Path, pid: int | None) -> None:
    told = incident(tmp_path, "kill -9 703", [(999, 703, 9)], pid)
    # Without the command's own PID the signal may have come from it by way of another process.
    assert told[703] == (["no"] if pid is not None else ["yes"])


def events(folder: Path, line: str, *rows: str) -> list[tuple[bool | None, bool]]:
    """Of each step whether it ran and whether that is proven, with these lines in the trace."""
    incident(folder, line, [])
    fork = TRACE.format(pid=50, at=2.001, event=FORK.format(pid=50, child=MINE))
    (folder / "trace.txt").write_text(fork + "".join(rows))
    steps = explain_fully([folder]).incident.actions[0].steps
    return [(step.replay.ran, step.replay.ran_proven) for step in steps if step.replay.tool is not None]


def ran(pid: int, parent: int, tool: str, at: float) -> str:
    born = TRACE.format(pid=parent, at=at, event=FORK.format(pid=parent, child=pid))
    became = f"sched_process_exec: filename=/usr/bin/{tool} pid={pid} old_pid={pid}"
    return born + TRACE.format(pid=pid, at=at + 0.01, event=became)


LAST = TRACE.format(pid=MINE, at=2.9, event=f"sched_process_exit: comm=bash pid={MINE} prio=120 group_dead=true")


def test_a_start_proves_that_a_step_ran_and_silence_that_it_did_not(tmp_path: Path) -> None:
    line = "true && pkill -9 -f nobody; test -e x && fuser -k /dev/nvidia0"
    assert events(tmp_path, line, ran(101, MINE, "pkill", 2.2), LAST) == [(True, True), (False, True)]


def test_the_start_by_a_stranger_proves_nothing(tmp_path: Path) -> None:
    line = "true && pkill -9 -f nobody; test -e x && fuser -k /dev/nvidia0"
    rows = (ran(101, MINE, "pkill", 2.2), ran(201, OTHERS, "fuser", 2.3), LAST)
    assert events(tmp_path, line, *rows) == [(True, True), (False, True)]


def test_a_cut_trace_does_not_prove_that_nothing_ran(tmp_path: Path) -> None:
    rows = (ran(101, MINE, "pkill", 2.2), "CPU:1 [LOST 12 EVENTS]\n", LAST)
    assert events(tmp_path, "pkill -9 -f nobody; test -e x && fuser -k /dev/nvidia0", *rows)[1] == (None, False)


def test_what_may_begin_later_has_not_been_silent(tmp_path: Path) -> None:
    rows = (ran(101, MINE, "pkill", 2.2), LAST)
    assert events(tmp_path, "pkill -9 -f nobody; (sleep 9; fuser -k /dev/nvidia0) &", *rows)[1][1] is False


def test_two_steps_with_one_program_take_their_starts_in_order(tmp_path: Path) -> None:
    incident(tmp_path, "pkill -9 -f 701; pkill -9 -f 702", [])
    fork = TRACE.format(pid=50, at=2.001, event=FORK.format(pid=50, child=MINE))
    sent = [
        TRACE.format(pid=sender, at=at, event=SIGNAL.format(signal=9, target=target))
        for sender, at, target in ((101, 2.25, 701), (102, 2.45, 702))
    ]
    rows = fork + ran(101, MINE, "pkill", 2.2) + sent[0] + ran(102, MINE, "pkill", 2.4) + sent[1] + LAST
    (tmp_path / "trace.txt").write_text(rows)
    steps = explain_fully([tmp_path]).incident.actions[0].steps
    assert [sorted(pid for pid, hit in step.sent_to.items() if hit) for step in steps] == [[701], [702]]
    assert not any(step.sent_to[703] for step in steps)


def process_events(folder: Path, line: str, way: str, *rows: dict[str, object]) -> list[StepView]:
    """The steps of the line, with process events in place of a trace."""
    incident(folder, line, [])
    (folder / "trace.txt").unlink()
    born = {"what": "fork", "boot": 2.001, "pid": 50, "child": MINE, "comm": "gpudiag"}
    ended = {"what": "exit", "boot": 2.9, "pid": MINE, "comm": "bash", "status": 0}
    text = "\n".join(json.dumps(row) for row in ({"way": way}, born, *rows, ended))
    (folder / "process-events.jsonl").write_text(text + "\n")
    return explain_fully([folder]).incident.actions[0].steps


LINE = "true && pkill -9 -f nobody; test -e x && fuser -k /dev/nvidia0"
PKILL: tuple[dict[str, object], ...] = (
    {"what": "fork", "boot": 2.2, "pid": MINE, "child": 101, "comm": "bash"},
    {"what": "exec", "boot": 2.21, "pid": 101, "comm": "pkill"},
)


def test_process_events_prove_what_was_started_and_not_who_was_signalled(tmp_path: Path) -> None:
    pkill, fuser = [step for step in process_events(tmp_path, LINE, "netlink", *PKILL) if step.replay.tool]
    assert (pkill.replay.ran, pkill.replay.ran_proven, pkill.sent_to) == (True, True, {})
    assert (fuser.replay.ran, fuser.replay.ran_proven, fuser.sent_to) == (False, True, {})
    assert "process events" in fuser.replay.ran_because


@pytest.mark.parametrize(
    ("way", "more"), [("polling", {}), ("netlink", {"what": "exec", "boot": 2.3, "pid": 101, "comm": None})]
)
def test_what_may_have_been_missed_was_not_silent(tmp_path: Path, way: str, more: dict[str, object]) -> None:
    rows = (*PKILL, more) if more else PKILL
    _, fuser = [step for step in process_events(tmp_path, LINE, way, *rows) if step.replay.tool]
    assert (fuser.replay.ran, fuser.replay.ran_proven) == (None, False)


def test_events_of_another_pid_namespace_prove_nothing(tmp_path: Path) -> None:
    incident(tmp_path, LINE, [])
    table = (tmp_path / "before" / "ps.txt").read_text()
    (tmp_path / "before" / "ps.txt").write_text("".join(r for r in table.splitlines(True) if "kthreadd" not in r))
    (tmp_path / "trace.txt").write_text(ran(101, MINE, "pkill", 2.2) + LAST)
    steps = explain_fully([tmp_path]).incident.actions[0].steps
    assert not any(step.replay.ran_proven for step in steps if step.replay.tool == "fuser")
