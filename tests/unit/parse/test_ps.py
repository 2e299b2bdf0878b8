"""``ps`` in the forms that people type."""

from __future__ import annotations

import pytest

from gpudiag.model import Process
from tests.unit.parse.exhibits import capture, parsed

TREE = """\
  PID  PPID  PGID   SID USER         STAT                  STARTED ELAPSED NLWP   RSS WCHAN                    COMMAND         COMMAND
    2     0     0     0 root         S    Mon Nov 30 19:38:52 2026      80    1     0 kthreadd                 kthreadd        [kthreadd]
  737     2     0     0 root         S    Mon Nov 30 19:39:42 2026      30    1     0 main_loop                \\_ vidmem lazy  \\_ [vidmem lazy free]
  698     1   696   696 root         S    Mon Nov 30 19:39:37 2026      35    1 17840 hrtimer_nanosleep        VLLM::EngineCor VLLM::EngineCore
  699   698   696   696 root         Sl   Mon Nov 30 19:39:37 2026      35   18 9019828 hrtimer_nanosleep       \\_ VLLM::Worke  \\_ VLLM::Worker_TP0
  816   815   815   782 root         Sl   Mon Nov 30 19:40:01 2026      10    2 44324 poll_schedule_timeout.co             pyt              \\_ python3 stage.py
  884   816   884   884 root         Zs   Mon Nov 30 19:40:02 2026       9    1     0 -                                    pyt                  \\_ [python3] <defunct>
 1033   816   815   782 root         R    Mon Nov 30 19:40:12 2026       0    1  4712 -                                    ps                   \\_ ps -eo pid,ppid,pgid,sid,user:12,stat,lstart,etimes,nlwp,rss,wchan:24,comm,args --forest --cols 400
"""  # noqa: E501 - as ps prints it
TREE_COMMAND = "ps -eo pid,ppid,pgid,sid,user:12,stat,lstart,etimes,nlwp,rss,wchan:24,comm,args --forest --cols 400"


def rows(text: str, command: str | None) -> dict[int, Process]:
    """The processes by PID."""
    return {row.pid: row for row in parsed(text, command).processes}


@pytest.mark.parametrize("command", [TREE_COMMAND, None])
def test_a_tree(command: str | None) -> None:
    found = rows(TREE, command)
    assert sorted(found) == [2, 698, 699, 737, 816, 884, 1033]
    worker = found[699]
    assert (worker.ppid, worker.pgid, worker.sid, worker.user, worker.uid) == (698, 696, 696, "root", 0)
    assert (worker.state, worker.threads, worker.elapsed_s, worker.wchan) == ("S", 18, 35.0, "hrtimer_nanosleep")
    assert (worker.comm, worker.comm_cut, worker.cmdline) == ("VLLM::Worke", True, "VLLM::Worker_TP0")
    engine = found[698]
    assert (engine.comm, engine.comm_cut, engine.cmdline) == ("VLLM::EngineCor", False, "VLLM::EngineCore")
    assert (found[816].comm, found[816].comm_cut, found[816].cmdline) == ("pyt", True, "python3 stage.py")


def test_kernel_threads_and_zombies_have_no_command_line() -> None:
    found = rows(TREE, TREE_COMMAND)
    assert (found[737].kernel_thread, found[737].cmdline, found[737].comm) == (True, "", "vidmem lazy free")
    zombie = found[884]
    assert (zombie.state, zombie.kernel_thread, zombie.cmdline) == ("Z", False, "")
    assert (zombie.comm, zombie.comm_cut, zombie.threads) == ("python3", False, 1)


def test_the_listing_shows_whose_it_is() -> None:
    (coverage,) = parsed(TREE, TREE_COMMAND).coverage
    assert (coverage.source, coverage.complete, coverage.as_root) == ("process table", True, True)
    other = parsed("UID PID PPID C STIME TTY TIME CMD\nnobody 7 1 0 10:00 ? 00:00:00 ps -ef\n", "ps -ef")
    assert other.coverage[0].as_root is False


AUX = """\
USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root         3  0.0  0.0      0     0 ?        S    19:38   0:00  \\_ [pool_workqueue_release]
nvidia-+   953  0.0  0.0  17100  1740 ?        Ds   May04   0:00 /usr/bin/nvidia-persistenced --user a
alice      699 39.1  6.8 47228696 9019828 ?    Sl   19:39   0:13  |   \\_ VLLM::Worker_TP0
alice     1410  0.0  0.0      0     0 ?        Zl   19:39   0:13  \\_ [python3] <defunct>
alice     1500  0.1  0.1  20000  9000 ?        S    19:39   0:13 [not a kernel thread]
"""


def test_aux_with_a_forest() -> None:
    found = rows(AUX, "ps auxf --cols 300")
    assert (found[3].cmdline, found[3].comm, found[3].kernel_thread) == ("", "pool_workqueue_release", None)
    assert (found[699].user, found[699].cmdline, found[699].comm) == ("alice", "VLLM::Worker_TP0", None)
    assert found[1500].cmdline == "[not a kernel thread]"


def test_a_user_name_that_does_not_fit_is_unknown() -> None:
    assert rows(AUX, "ps auxf")[953].user is None


def test_a_zombie_with_live_threads_has_more_than_one() -> None:
    assert rows(AUX, "ps auxf")[1410].threads == 2


def test_full_format_without_its_heading() -> None:
    text = "user1     6114  6089 12 08:55 ?        00:21:07 python3 serve.py --port 8100\n"
    found = parsed(text, "ps -ef | grep 6114")
    (row,) = found.processes
    assert (row.pid, row.ppid, row.user, row.cmdline) == (6114, 6089, "user1", "python3 serve.py --port 8100")
    assert [coverage.complete for coverage in found.coverage] == [False]


def test_columns_that_are_told_to_have_no_heading() -> None:
    found = rows(" 624410  624410 Z\n", "ps -s 624402 -o pid=,pgid=,state=")
    assert (found[624410].pgid, found[624410].state) == (624410, "Z")


def test_threads_are_not_processes() -> None:
    text = "    PID     TID STAT COMMAND\n 624410  624410 Zl   python3 <defunct>\n 624410  624433 Sl   python3\n"
    found = parsed(text, "ps -L -o pid,tid,stat,comm -p 624410")
    assert [(row.pid, row.comm, row.state) for row in found.processes] == [(624410, "python3", "Z")]


def test_ages_in_both_forms() -> None:
    text = "    PID     ELAPSED COMMAND\n      1    21:07:44 init\n      2  3-00:00:01 b\n"
    assert [row.elapsed_s for row in rows(text, "ps -o pid,etime,args").values()] == [76064.0, 259201.0]


def test_a_numeric_user_is_a_uid() -> None:
    text = "UID          PID    PPID  C STIME TTY          TIME CMD\n1000          77       1  0 10:00 ?  00:00:00 sh\n"
    row = rows(text, "ps -ef")[77]
    assert (row.user, row.uid) == (None, 1000)


def test_a_line_as_long_as_the_width_may_be_cut() -> None:
    line = "  7 " + "x" * 76
    found = rows(f"PID COMMAND\n{line}\n  8 short\n", "ps -eo pid,args --cols 80")
    assert [found[pid].cmdline_cut for pid in (7, 8)] == [True, False]


def test_chosen_pids_are_not_the_table() -> None:
    found = parsed("    PID TTY          TIME CMD\n", "ps -p 2790614")
    assert found.processes == ()
    assert [(row.outcome, row.complete) for row in found.coverage] == [("ok", False)]


@pytest.mark.parametrize("name", ["selfmatch-orphans", "torchrun-agent-killed", "zombie-leader", "stopped"])
def test_ps_and_proc_tell_the_same(name: str) -> None:
    found = capture(name)
    compared = 0
    listed = {(row.at.look, row.pid): row for row in found.processes if row.cited.member.endswith("ps-tree.txt")}
    for proc in (row for row in found.processes if row.text_from == "proc"):
        ps = listed.get((proc.at.look, proc.pid))
        if ps is None:
            continue
        compared += 1
        assert (ps.ppid, ps.pgid, ps.sid, ps.uid) == (proc.ppid, proc.pgid, proc.sid, proc.uid)
        assert ps.cmdline == proc.cmdline
        assert proc.comm is not None
        assert ps.comm is not None
        assert proc.comm.startswith(ps.comm) if ps.comm_cut else ps.comm == proc.comm
    assert compared > 3


def test_in_a_namespace_of_its_own_pid_2_is_a_process_like_others() -> None:
    text = (
        "    PID    PPID STAT COMMAND\n"
        "      1       0 Ss   bash\n"
        "      2       1 Sl   python3 -m vllm.entrypoints.openai.api_server\n"
        "     18       2 Sl   VLLM::EngineCore\n"
    )
    assert {row.pid: row.kernel_thread for row in rows(text, None).values()} == {1: False, 2: False, 18: False}
