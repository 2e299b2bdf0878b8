"""The kernel's trace, and the roles that a server log names."""

from __future__ import annotations

from gpudiag.parse import parse
from tests.unit.parse.exhibits import capture, evidence, exhibit, parsed

HEAD = "# tracer: nop\n#\n# entries-in-buffer/entries-written: {0}/{1}   #P:16\n#\n"
LINES = """\
   tmux: server-12345   [001] d..1.    30.390391: signal_generate: sig=9 errno=0 code=0 comm=a pid=1 b pid=450 grp=1 res=0
           <...>-544     (-----) [005] .....    30.383780: sched_process_exec: filename=/tmp/a b pid=7 pid=544 old_pid=544
         python3-450     [000] .....    30.390445: sched_process_exit: comm=python3 pid=450 prio=120 group_dead=true
         python3-451     [000] .....    30.390446: sched_process_exit: comm=python3 pid=451 prio=120
         python3-446     [001] .....    30.380852: sched_process_fork: comm=python3 pid=446 child_comm=init         child_pid=542
         python3-446     [001] .....    30.380853: sched_switch: prev_comm=x
"""  # noqa: E501 - as tracefs prints it


def test_events() -> None:
    found = parsed(HEAD.format(6, 6) + LINES, member="trace.txt").trace
    assert [(row.kind, row.pid, row.comm) for row in found] == [
        ("signal_generate", 12345, "tmux: server"),
        ("exec", 544, "<...>"),
        ("exit", 450, "python3"),
        ("exit", 451, "python3"),
        ("fork", 446, "python3"),
    ]
    signal, execed, dead, silent, forked = found
    assert (signal.signal, signal.target_pid, signal.target_comm, signal.result) == (9, 450, "a pid=1 b", 0)
    assert execed.filename == "/tmp/a b pid=7"
    assert (dead.group_dead, silent.group_dead) == (True, None)
    assert (forked.target_pid, forked.target_comm) == (542, "init")
    assert signal.clock_s == 30.390391


def test_a_buffer_that_ran_over_is_no_complete_record() -> None:
    found = parsed(HEAD.format(6, 60) + LINES, member="trace.txt")
    assert [(row.source, row.outcome, row.complete) for row in found.coverage] == [("kernel trace", "truncated", False)]
    lost = parsed(HEAD.format(6, 6) + "CPU:3 [LOST 12 EVENTS]\n" + LINES, member="trace.txt")
    assert [row.outcome for row in lost.coverage] == ["truncated"]


def test_the_capture_s_trace_shows_the_self_match() -> None:
    found = capture("traced-selfmatch")
    kills = {(row.comm, row.target_pid) for row in found.trace if row.kind == "signal_generate" and row.signal == 9}
    assert kills == {("pkill", 450), ("pkill", 543)}
    assert [(row.outcome, row.complete) for row in found.coverage if row.source == "kernel trace"] == [("ok", True)]
    assert len(found.clocks) == 1


def test_roles_of_a_log_stand_once_at_their_first_line() -> None:
    text = (
        "INFO 02-20 19:00:06 starting\n"
        "\x1b[1;36m(EngineCore_DP0 pid=886)\x1b[0;0m INFO one\n"
        "(Worker_TP0 pid=887) INFO one\n"
        "(Worker_TP0 pid=887) INFO two\n"
        "see (Worker_TP1 pid=888) elsewhere\n"
    )
    found = parse([evidence(exhibit(text, member="server.log", first_line=1))])
    assert [(row.role, row.pid, row.cited.line) for row in found.roles] == [
        ("EngineCore_DP0", 886, 2),
        ("Worker_TP0", 887, 3),
    ]
    assert [row.source for row in found.coverage] == ["server log"]


def test_a_session_may_show_log_lines_too() -> None:
    found = parsed("(EngineCore pid=32511) ValueError: Free memory\n", "vllm serve m 2>&1 | grep ValueError")
    assert [(row.role, row.pid) for row in found.roles] == [("EngineCore", 32511)]
