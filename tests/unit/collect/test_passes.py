"""What the flight recorder's child says of processes: news only, and never one process for another."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from gpudiag.collect.machine import Machine
from gpudiag.collect.watching import passes, reading
from gpudiag.collect.watching.events import Event
from gpudiag.collect.watching.known import note_listed
from gpudiag.collect.watching.passes import Given, Passes

KTHREAD = 0x00200000


class Heard:
    """The pipe to the recorder."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def line(self, text: str) -> None:
        self.texts.append(text)

    def started(self, pid: int) -> None:
        raise AssertionError(pid)


class Crowd:
    """A ``/proc`` of files, looked at by a recorder."""

    def __init__(self, folder: Path, known: dict[int, dict[str, object]] | None = None) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir(exist_ok=True)
        self.out = Heard()
        self.about = memoryview(bytearray(64))
        given = Given(self.about, frozenset({66}), known or {})
        self.passes = Passes(Machine(proc=str(self.proc)), self.out, given)

    def put(self, pid: int, *argv: str, start: int = 100, ppid: int = 1, state: str = "S", flags: int = 0) -> None:
        base = self.proc / str(pid)
        base.mkdir(exist_ok=True)
        (base / "fd").mkdir(exist_ok=True)
        comm = (argv[0] if argv else "kworker/0:1")[:15]
        rest = ["0"] * 30
        rest[0], rest[1], rest[2], rest[3], rest[6], rest[19] = state, str(ppid), str(pid), "7", str(flags), str(start)
        (base / "stat").write_text(f"{pid} ({comm}) {' '.join(rest)}\n")
        (base / "status").write_text("Name:\tx\nUid:\t1000\t1000\t1000\t1000\nThreads:\t3\nSigCgt:\t0000000000004002\n")
        (base / "cmdline").write_bytes("".join(f"{word}\0" for word in argv).encode())
        (base / "cgroup").write_text("0::/system.slice/x.service\n")

    def open(self, pid: int, number: int, target: str) -> None:
        (self.proc / str(pid) / "fd" / str(number)).symlink_to(target)

    def end(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def news(self, *ends: Event, births: list[int] | None = None) -> list[dict[str, Any]]:
        """Lines of one pass, without the tick and the times. ``births``: the kernel tells; else the list does."""
        if births is None:
            self.passes.listed(ends)
        else:
            self.passes.heard([Event(pid, 1.0, None) for pid in births], ends)
        self.passes.flush()
        found = [json.loads(text) for text in self.out.texts if text]
        self.out.texts.clear()
        assert found[-1]["is"] == "tick"
        return [{key: value for key, value in row.items() if key not in ("t", "seen")} for row in found[:-1]]


@pytest.fixture
def crowd(tmp_path: Path) -> Crowd:
    return Crowd(tmp_path)


def test_everybody_is_told_once(crowd: Crowd) -> None:
    crowd.put(10, "python", "-m", "server", ppid=4)
    assert crowd.news() == [
        {
            "is": "proc",
            "pid": 10,
            "start": 100,
            "comm": "python",
            "state": "S",
            "ppid": 4,
            "pgid": 10,
            "sid": 7,
            "cmdline": "python\0-m\0server",
            "uid": 1000,
            "threads": 3,
            "sigcgt": "0000000000004002",
            "cgroup": "/system.slice/x.service",
            "fds": [],
            "maps": [],
        }
    ]
    assert crowd.news() == []


def test_secrets_never_reach_the_ring(crowd: Crowd) -> None:
    crowd.put(10, "serve", "--api-key", "hunter2hunter2", "--port", "80")
    told = json.dumps(crowd.news())
    assert "hunter2" not in told
    assert "--port" in told


def test_end_has_the_kernels_time_and_signal_where_it_told(crowd: Crowd) -> None:
    crowd.put(10, "a")
    crowd.put(11, "b")
    crowd.put(12, "c")
    crowd.news()
    for pid in (10, 11, 12):
        crowd.end(pid)
    rows = {row["pid"]: row for row in crowd.news(Event(10, 5.0, 9), Event(11, 5.0, 3 << 8))}
    assert rows[10] == {"is": "gone", "pid": 10, "start": 100, "exact": True, "signal": 9}
    assert rows[11] == {"is": "gone", "pid": 11, "start": 100, "exact": True, "code": 3}
    assert rows[12] == {"is": "gone", "pid": 12, "start": 100}


def test_pid_that_another_process_has_now(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd.put(10, "old", start=100)
    crowd.news()
    crowd.put(10, "new", start=900)
    # Nothing shows in a list of PIDs; its turn comes with the next reading.
    later = time.monotonic() + 700
    monkeypatch.setattr(passes.time, "monotonic", lambda: later)
    gone, born = crowd.news()
    assert gone == {"is": "gone", "pid": 10, "start": 100}
    assert (born["start"], born["cmdline"]) == (900, "new")


def test_program_of_a_moment_is_read_when_it_starts(crowd: Crowd) -> None:
    crowd.news()
    crowd.put(20, "pkill", "-9", "-f", "vllm", ppid=10)
    crowd.passes.started(Event(20, 1.0, None))
    crowd.end(20)
    born, gone = crowd.news(Event(20, 1.1, 0))
    assert (born["pid"], born["cmdline"], born["ppid"]) == (20, "pkill\0-9\0-f\0vllm", 10)
    assert gone == {"is": "gone", "pid": 20, "start": 100, "exact": True, "code": 0}


def test_flood_of_programs_is_not_read(crowd: Crowd) -> None:
    crowd.news()
    for pid in range(1000, 1300):
        crowd.put(pid, "kill", "1")
        crowd.passes.started(Event(pid, 1.0, None))
        crowd.end(pid)
    assert len([row for row in crowd.news() if row["is"] == "proc"]) == 200


def test_holder_and_whoever_started_him_are_looked_at_every_second(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd.put(5, "launcher", ppid=1)
    crowd.put(6, "engine", ppid=5)
    crowd.put(7, "other", ppid=1)
    crowd.open(6, 3, "/dev/nvidia0")
    crowd.open(6, 4, "/dev/nvidiactl")
    crowd.open(6, 5, "/dev/null")
    (crowd.proc / "6/maps").write_text("7f00-7f01 rw-s 00000000 00:06 9   /dev/nvidia0\n7f01-7f02 rw-p 0 0 0\n")
    told = {row["pid"]: row for row in crowd.news()}
    assert (told[6]["fds"], told[6]["maps"]) == (["/dev/nvidia0", "/dev/nvidiactl"], ["/dev/nvidia0"])
    for pid in (5, 7):
        crowd.put(pid, "launcher" if pid == 5 else "other", ppid=1, state="Z")
    assert crowd.news() == [{"is": "proc", "pid": 5, "start": 100, "state": "Z"}]


def test_process_in_nvmls_lists_is_looked_at_every_second(crowd: Crowd) -> None:
    crowd.put(6, "engine")
    crowd.news()
    crowd.put(6, "engine", state="Z")
    assert crowd.news() == []
    note_listed(crowd.about, [6, 4711])
    assert [(row["pid"], row["state"]) for row in crowd.news()] == [(6, "Z")]
    note_listed(crowd.about, range(1, 9999))
    assert crowd.news() == []


def test_orphan_has_another_parent_at_once(crowd: Crowd) -> None:
    crowd.put(5, "launcher")
    crowd.put(6, "engine", ppid=5)
    crowd.news()
    crowd.end(5)
    crowd.put(6, "engine", ppid=1)
    assert crowd.news() == [
        {"is": "gone", "pid": 5, "start": 100},
        {"is": "proc", "pid": 6, "start": 100, "ppid": 1},
    ]


def test_work_is_no_news(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd.put(6, "engine", state="S")
    crowd.open(6, 3, "/dev/nvidia0")
    crowd.news()
    for state in "RDS":
        crowd.put(6, "engine", state=state)
        assert crowd.news() == []
    crowd.put(6, "engine", state="T")
    assert crowd.news() == [{"is": "proc", "pid": 6, "start": 100, "state": "T"}]


def test_of_the_kernels_threads_the_first_is_enough(crowd: Crowd) -> None:
    crowd.put(2, flags=KTHREAD, ppid=0)
    crowd.put(33, flags=KTHREAD, ppid=2)
    assert [(row["pid"], row.get("kernel")) for row in crowd.news()] == [(2, True)]
    crowd.end(33)
    assert crowd.news() == []


def test_process_that_hung_once_is_spared(crowd: Crowd) -> None:
    crowd.put(66, "stuck")
    (row,) = crowd.news()
    assert "cmdline" not in row
    assert row["comm"] == "stuck"


def test_pid_is_announced_while_its_command_line_is_read(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[str, int]] = []
    real = reading._read

    def read(path: str, cap: int) -> bytes | None:
        noted.append((path.rpartition("/")[2], int.from_bytes(crowd.about[:4], "little")))
        return real(path, cap)

    monkeypatch.setattr(reading, "_read", read)
    crowd.put(10, "x")
    crowd.news()
    assert ("cmdline", 10) in noted
    assert {pid for name, pid in noted if name != "cmdline"} == {0}
    assert bytes(crowd.about) == bytes(64)


def test_successor_of_a_child_that_hung_goes_on_with_what_is_known(tmp_path: Path) -> None:
    known: dict[int, dict[str, object]] = {
        10: {"is": "proc", "pid": 10, "start": 100, "comm": "a", "ppid": 1, "state": "S", "cmdline": "a"},
        11: {"is": "proc", "pid": 11, "start": 100, "comm": "b", "ppid": 1, "state": "S", "cmdline": "b"},
    }
    crowd = Crowd(tmp_path, known)
    crowd.put(10, "a")
    crowd.put(12, "c")
    rows = crowd.news()
    assert [(row["is"], row["pid"]) for row in rows] == [("gone", 11), ("proc", 12)]


def test_long_command_line_is_cut_and_a_title_is_not(crowd: Crowd) -> None:
    crowd.put(10, "x" * 5000)
    crowd.put(11, "VLLM::Worker_TP0")
    with (crowd.proc / "11/cmdline").open("ab") as file:
        file.write(bytes(5000))
    rows = {row["pid"]: row for row in crowd.news()}
    assert (len(rows[10]["cmdline"]), rows[10]["cut"]) == (4096, True)
    assert rows[11]["cmdline"] == "VLLM::Worker_TP0"
    assert "cut" not in rows[11]


def test_names_that_are_no_text_pass(crowd: Crowd) -> None:
    crowd.put(10, "a")
    (crowd.proc / "10/cmdline").write_bytes(b"\xff\xfe\n\0\x1b[31m\0")
    stat = (crowd.proc / "10/stat").read_bytes().replace(b"(a)", b"(\xff) S (\n)")
    (crowd.proc / "10/stat").write_bytes(stat)
    (row,) = crowd.news()
    assert row["start"] == 100
    assert row["comm"] == "\ufffd) S (\n"


def test_process_that_ends_between_list_and_reading_is_no_error(crowd: Crowd) -> None:
    (crowd.proc / "10").mkdir()
    assert crowd.news() == []
    os.rmdir(crowd.proc / "10")  # noqa: PTH106
    assert crowd.news() == []


def test_what_the_kernel_tells_needs_no_list(crowd: Crowd) -> None:
    crowd.put(5, "launcher")
    crowd.put(6, "engine", ppid=5)
    crowd.news()
    crowd.put(7, "new")
    crowd.put(8, "unheard of")
    crowd.end(5)
    crowd.put(6, "engine", ppid=1)
    rows = crowd.news(Event(5, 1.0, 9), Event(99, 1.0, 0), births=[7, 98])
    assert [(row["is"], row["pid"]) for row in rows] == [("gone", 5), ("proc", 7), ("proc", 6)]
    assert rows[0]["signal"] == 9
    # The list that is taken now and then finds what was missed.
    assert [(row["is"], row["pid"]) for row in crowd.news()] == [("proc", 8)]


def test_zombie_is_told_and_its_end_keeps_its_time(crowd: Crowd) -> None:
    crowd.put(5, "child")
    crowd.news()
    crowd.put(5, "child", state="Z")
    assert [(row["is"], row.get("state")) for row in crowd.news(Event(5, 1.0, 15), births=[])] == [("proc", "Z")]
    assert crowd.news(births=[]) == []
    crowd.end(5)
    assert [(row["is"], row["signal"]) for row in crowd.news(births=[])] == [("gone", 15)]


def test_pid_that_was_given_away_within_a_second(crowd: Crowd) -> None:
    crowd.put(5, "old", start=100)
    crowd.news()
    crowd.put(5, "new", start=200)
    rows = crowd.news(Event(5, 1.0, 0), births=[5])
    assert [(row["is"], row["start"]) for row in rows] == [("gone", 100), ("proc", 200)]


def test_program_that_ends_at_once_and_ended_nobody_is_no_news(crowd: Crowd) -> None:
    crowd.news()
    crowd.put(20, "date")
    crowd.put(21, "sleep", "9")
    for pid in (20, 21):
        crowd.passes.started(Event(pid, 1.0, None))
    crowd.end(20)
    # What is still there at the next pass is told like everybody.
    assert [row["pid"] for row in crowd.news(Event(20, 1.1, 0), births=[20, 21])] == [21]
    crowd.put(21, "other")
    crowd.passes.started(Event(21, 2.0, None))
    assert [row["cmdline"] for row in crowd.news(births=[])] == ["other"]
