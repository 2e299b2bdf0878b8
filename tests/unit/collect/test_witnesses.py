"""Commands that kill, as the flight recorder saw them run, and the lines of history that they date."""

from __future__ import annotations

import json
from typing import Any

from gpudiag.collect.issued import Issued, merged
from gpudiag.collect.watching.witnesses import commands

BOOT = 1_000_000.0
"""Wall time at which the machine started."""


def line(kind: str, t: float, **values: Any) -> bytes:
    return json.dumps({"is": kind, "t": BOOT + t, **values}).encode() + b"\n"


def born(pid: int, t: float, *argv: str, ppid: int = 1, uid: int = 0, start: float | None = None) -> bytes:
    ticks = round((t if start is None else start) * 100)
    return line("proc", t, pid=pid, start=ticks, ppid=ppid, uid=uid, cmdline="\0".join(argv))


def gone(pid: int, t: float, start: float, **values: Any) -> bytes:
    return line("gone", t, pid=pid, start=round(start * 100), **values)


HEAD = line("ring", 0.0, boot_s=0.0)


def seen(*lines: bytes) -> list[Issued]:
    return list(commands([HEAD, *lines], {0: "root", 1000: "ann"}))


def test_words_times_user_and_exit_code() -> None:
    (found,) = seen(
        born(10, 50.0, "/usr/bin/pkill", "-9", "-f", "vllm serve", uid=1000),
        gone(10, 50.03, 50.0, exact=True, code=1),
    )
    assert found.argv == ("/usr/bin/pkill", "-9", "-f", "vllm serve")
    assert (found.source, found.user, found.exit_code) == ("watch", "ann", 1)
    assert (found.time_s, found.ended_s) == (BOOT + 50.0, BOOT + 50.03)
    assert found.error_s is not None
    assert found.error_s < 0.1


def test_shell_that_its_own_command_killed() -> None:
    script = "pkill -9 -f vllm; sleep 3; fuser -k /dev/nvidia0"
    (found,) = seen(
        born(10, 50.0, "bash", "-c", script),
        born(11, 50.01, "pkill", "-9", "-f", "vllm", ppid=10),
        gone(10, 50.03, 50.0, exact=True, signal=9),
        gone(11, 50.03, 50.01, exact=True, code=0),
    )
    assert found.argv == ("bash", "-c", script)
    assert (found.exit_code, found.ended_s) == (-9, BOOT + 50.03)


def test_forked_copy_of_a_shell_is_no_second_command() -> None:
    found = seen(
        born(10, 50.0, "bash", "-c", "(pkill x; sleep 9); true"),
        born(11, 50.0, "bash", "-c", "(pkill x; sleep 9); true", ppid=10),
    )
    assert len(found) == 1


def test_turns_of_a_loop_are_commands_of_their_own() -> None:
    found = seen(
        born(10, 50.0, "bash", "-c", "while true; do pkill x; serve; done"),
        born(11, 50.1, "pkill", "x", ppid=10),
        gone(11, 50.2, 50.1, exact=True, code=1),
        born(12, 950.0, "pkill", "x", ppid=10),
    )
    assert [item.time_s for item in found] == [BOOT + 50.0, BOOT + 950.0]


def test_a_script_file_carries_nothing_for_the_shell_above_it() -> None:
    """What a script runs stands in no command line; the shell above it has a kill of its own, for later."""
    found = seen(
        born(10, 50.0, "bash", "-c", 'bash stop.sh; pkill -KILL -s "$!"'),
        born(11, 50.1, "bash", "stop.sh", ppid=10),
        born(12, 90.0, "bash", "-c", "pkill -9 -f vllm; sleep 3", ppid=11),
        born(13, 90.01, "pkill", "-9", "-f", "vllm", ppid=12),
        gone(12, 90.03, 90.0, exact=True, signal=9),
    )
    assert [item.argv for item in found] == [("bash", "-c", "pkill -9 -f vllm; sleep 3")]


def test_a_shell_that_waits_may_have_killed_by_itself() -> None:
    """Its built-in kill starts no program that could be seen."""
    waiting = [born(10, 50.0, "bash", "-c", "kill 7; sleep 99"), born(11, 60.0, "ls"), gone(11, 60.1, 60.0, exact=True)]
    assert [item.argv for item in seen(*waiting)] == [("bash", "-c", "kill 7; sleep 99")]


def test_without_the_kernels_events_a_program_may_have_come_and_gone() -> None:
    (found,) = seen(born(10, 50.0, "bash", "-c", "pkill x; sleep 99"), born(11, 90.0, "ls"))
    assert found.argv == ("bash", "-c", "pkill x; sleep 99")


def test_sudo_is_told_by_what_it_runs() -> None:
    (found,) = seen(born(10, 50.0, "sudo", "pkill", "x"), born(11, 50.1, "pkill", "x", ppid=10))
    assert found.argv == ("pkill", "x")


def test_process_that_becomes_a_command_later() -> None:
    (found,) = seen(born(10, 50.0, "bash", start=20.0), born(10, 60.0, "pkill", "x", start=20.0))
    assert (found.time_s, found.error_s) == (BOOT + 60.0, 1.0)


def test_who_only_speaks_of_killing_is_no_witness() -> None:
    assert seen(
        born(10, 50.0, "grep", "pkill", "notes.txt"),
        born(11, 50.0, "python", "-m", "gpudiag", "collect", "--kill", "pkill x"),
        born(12, 50.0, "kill", "-0", "77"),
        born(14, 50.0, "python", "scene.py", '["pkill", "-9", "x"]'),
        born(15, 50.0, "bash", "kill.sh", "pkill x"),
        born(13, 50.0, ""),
        b"not a line\n",
        b"[]\n",
        line("proc", 3.0, pid=4, start=5),
    ) == []  # fmt: skip


def watched(text: str, t: float, *argv: str, code: int | None = None) -> Issued:
    return Issued(text, "watch", t, 0.02, "root", argv or tuple(text.split()), exit_code=code)


def test_line_without_a_time_gets_that_of_its_command() -> None:
    (found,) = merged(
        [Issued('pkill -9 -f "a b"', "history"), watched("x", 50.0, "pkill", "-9", "-f", "a b", code=1)], None
    )
    assert (found.text, found.source, found.time_s, found.exit_code) == ('pkill -9 -f "a b"', "history", 50.0, 1)
    assert found.argv == (), "a typed line is read by a shell that does not carry it"


def test_line_of_several_commands_takes_them_all() -> None:
    text = 'pkill -9 -f "vllm.entrypoints" 2>/dev/null; sleep 3; fuser -k /dev/nvidia* 2>/dev/null'
    for source in ("history", "stated"):
        (found,) = merged(
            [
                Issued(text, source),
                watched("pkill -9 -f vllm.entrypoints", 50.0, code=0),
                watched("fuser -k /dev/nvidia0 /dev/nvidiactl", 53.0, code=1),
            ],
            None,
        )
        assert (found.text, found.source, found.time_s, found.exit_code) == (text, source, 50.0, None)


def test_newest_line_is_about_the_newest_command() -> None:
    lines = [Issued("pkill x", "history"), Issued("pkill x", "history")]
    found = merged([*lines, watched("pkill x", 50.0), watched("pkill x", 5000.0)], None)
    assert [item.time_s for item in found] == [50.0, 5000.0]


def test_line_of_another_time_is_another_command() -> None:
    found = merged([Issued("pkill x", "history", 9000.0, 1.0), watched("pkill x", 50.0)], None)
    assert [(item.source, item.time_s) for item in found] == [("watch", 50.0), ("history", 9000.0)]


def test_other_words_are_another_command() -> None:
    found = merged([Issued("pkill -9 x; ls", "history"), watched("pkill -9 y", 50.0), watched("pkill", 51.0)], None)
    assert [(item.text, item.time_s) for item in found] == [
        ("pkill -9 x; ls", None),
        ("pkill -9 y", 50.0),
        ("pkill", 51.0),
    ]


def test_audit_trail_that_saw_it_too_makes_no_second_one() -> None:
    audit = Issued("pkill x", "audit", 50.01, 0.01, "root", ("pkill", "x"))
    assert len(merged([audit, watched("pkill x", 50.0)], None)) == 1


def test_record_has_the_end() -> None:
    record = watched("pkill x", 50.0)._replace(ended_s=51.5, exit_code=-9).record()
    assert (record["rc"], record["t1"], record["source"]) == (-9, "1970-01-01T00:00:51.500000+00:00", "watch")
