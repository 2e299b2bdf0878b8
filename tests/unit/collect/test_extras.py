"""Logs, kernel, supervisors, host: found around the processes of interest, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudiag.collect import around, extras, hidden, logs, supervisors
from gpudiag.collect.ask import Answer, ask
from gpudiag.collect.groups import Keepers, named
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Context, Ended, Source
from gpudiag.collect.tails import TAIL, tail

ID = "ab" * 32
POD = "01234567-89ab-cdef-0123-456789abcdef"


class Lines:
    """What a source writes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pids: list[int] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def started(self, pid: int) -> None:
        self.pids.append(pid)


def written(source: Source) -> tuple[list[str], Ended | None]:
    """All that it writes, and how it ended if not well."""
    out = Lines()
    assert source.produce is not None
    try:
        source.produce(out)
    except Ended as end:
        return out.lines, end
    return out.lines, None


def machine(folder: Path, **tools: str) -> Machine:
    """A machine with these programs, each a shell script, and an empty ``/proc``."""
    for name, text in tools.items():
        path = folder / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
    proc = folder / "proc"
    proc.mkdir(exist_ok=True)
    return Machine(
        proc=str(proc), tool=lambda name: str(folder / name) if (folder / name).exists() else None, root=True
    )


def log(path: Path) -> logs.LogFile:
    return logs.LogFile(str(path), str(path))


def kernel_log(here: Machine) -> tuple[list[str], Ended | None]:
    return written(extras.sources(Context(here))[1])


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose output goes to a file that is deleted afterwards."""
    log = tmp_path / "server.out"
    with log.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", "print('x', flush=True); import time; time.sleep(60)"], stdout=file, stderr=file
        )
    while not log.stat().st_size:
        time.sleep(0.01)
    yield child
    child.kill()
    child.wait()


def test_the_file_that_a_server_writes_is_found_also_when_deleted(
    writer: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (source,) = logs.sources(Machine(), logs.written_by("/proc", [writer.pid, os.getpid() + 10**6]))
    assert source.member == "server-1.log"
    assert source.command is not None
    assert source.command.endswith("server.out")
    (tmp_path / "server.out").unlink()
    (deleted,) = logs.sources(Machine(), logs.written_by("/proc", [writer.pid]))
    assert written(deleted) == (["x"], None)


def test_a_given_log_is_the_only_one(tmp_path: Path) -> None:
    path = tmp_path / "my log.txt"
    path.write_bytes(b"a\nb \xff\nc")
    *_, source = extras.sources(Context(Machine(), logs=(str(path),)))
    assert source.command == f"tail -c {TAIL} '{path}'"
    assert written(source) == (["a", "b \udcff", "c"], None)


def test_a_log_just_begun_brings_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text("new\n")
    (tmp_path / "s.log.1").write_text("old\n")
    (source,) = logs.sources(Machine(), [log(tmp_path / "s.log")])
    assert written(source)[0] == ["old", "new"]


def test_only_the_end_of_a_long_log(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"".join(b"line %08d\n" % number for number in range(400_000)))
    (source,) = logs.sources(Machine(), [log(path)])
    lines, end = written(source)
    assert lines[-1] == "line 00399999"
    assert lines[0].startswith("line ")
    assert sum(len(line) + 1 for line in lines) <= TAIL
    assert end is not None
    assert end.outcome == "ok"


def test_a_log_that_is_none_is_said_so(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "nowhere"):
        with pytest.raises(OSError, match=name):
            tail(str(tmp_path / name))


def test_logs_of_containers_and_pods(tmp_path: Path) -> None:
    docker = tmp_path / "var/lib/docker/containers" / ID / f"{ID}-json.log"
    pod = tmp_path / f"var/log/pods/ns_vllm-0_{POD}/main"
    for path in (docker, pod / "0.log", pod / "1.log"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    found = logs.container_logs(Keepers(containers=(ID,), pods=(POD,)), str(tmp_path))
    assert [file.opened for file in found] == [str(docker), str(pod / "1.log")]


def test_control_groups_name_who_looks_after_a_process() -> None:
    found = named(
        [
            "0::/system.slice/vllm.service\n",
            f"0::/system.slice/docker-{ID}.scope\n",
            f"12:memory:/docker/{ID}\n",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service\n",
            "0::/user.slice/user-1000.slice/session-3.scope\n",
            f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n",
            "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n",
            "", "garbage", "0::/",
        ]
    )  # fmt: skip
    assert found.containers == (ID,)
    assert found.pods == (POD,)
    assert found.user_units == ((1000, "vllm.service"),)
    assert found.units[0] == "vllm.service"
    assert "session-3.scope" not in found.units


def test_the_kernel_log_holds_telling_lines_only(tmp_path: Path) -> None:
    text = "[    1.000000] usb 1-1: new device\n[ 9.000000] NVRM: Xid (PCI:0000:65:00): 45, pid=884\n"
    here = machine(tmp_path, dmesg=f"cat <<'E'\n{text}E\n")
    assert kernel_log(here) == (["[ 9.000000] NVRM: Xid (PCI:0000:65:00): 45, pid=884"], None)


def test_the_journal_is_asked_where_dmesg_is_closed(tmp_path: Path) -> None:
    here = machine(tmp_path, dmesg="exit 1\n", journalctl="echo 'x kernel: Out of memory: Killed process 7 (a)'\n")
    assert kernel_log(here) == (["x kernel: Out of memory: Killed process 7 (a)"], None)


@pytest.mark.parametrize(
    ("tools", "outcome"),
    [({}, "absent"), ({"dmesg": "exit 1\n"}, "denied"), ({"dmesg": "exec sleep 30\n"}, "timed_out")],
)
def test_a_kernel_log_that_cannot_be_read(tmp_path: Path, tools: dict[str, str], outcome: str) -> None:
    started = time.monotonic()
    lines, end = kernel_log(machine(tmp_path, **tools))
    assert lines == []
    assert end is not None
    assert end.outcome == outcome
    assert time.monotonic() - started < 4


def test_a_program_that_never_answers_costs_its_time_and_no_more(tmp_path: Path) -> None:
    here = machine(tmp_path, slow="echo first\nexec sleep 30\n")
    answer = Answer()
    pids: list[int] = []
    started = time.monotonic()
    assert list(ask(here, ("slow",), 0.3, pids.append, answer)) == ["first"]
    assert time.monotonic() - started < 1.5
    assert answer.because == "slow did not end within 0.3 s"
    assert len(pids) == 1


def test_units_and_containers_are_asked_by_name(tmp_path: Path) -> None:
    here = machine(tmp_path, systemctl='echo "$@"\n', docker="exit 1\n")
    found = supervisors.sources(here, Keepers(units=("vllm.service",), containers=(ID,)))
    assert [source.member for source in found] == ["units.txt", "containers.txt"]
    lines, end = written(found[0])
    assert end is None
    assert lines[0].endswith("vllm.service")
    lines, end = written(found[1])
    assert end is not None
    assert end.outcome == "truncated"
    assert found[1].command is not None
    assert found[1].command.endswith(ID)


def test_without_the_client_it_is_absent(tmp_path: Path) -> None:
    found = supervisors.sources(machine(tmp_path), Keepers(containers=(ID,)))
    assert found[0].absent == "docker is not installed"


def test_who_looks_after_them_and_where_they_write(writer: subprocess.Popen[bytes], tmp_path: Path) -> None:
    tree = tmp_path / "proc" / str(writer.pid)
    (tree / "fd").mkdir(parents=True)
    (tree / "fd/1").symlink_to(tmp_path / "server out.log")
    (tree / "fd/2").symlink_to(tmp_path / "two\nlines.log")
    (tree / "cgroup").write_text(
        f"0::/system.slice/docker-{ID}.scope\n1:x:/user.slice/user-7.slice/user@7.service/app.slice/vllm.service\n"
    )
    here = machine(tmp_path)
    source = around.source(here, [writer.pid, 10**7], logs=True)
    lines, end = written(source)
    assert end is None
    assert lines[0] == f"unit: docker-{ID}.scope"
    assert "user_unit 7: vllm.service" in lines
    assert lines[-1] == f"log {tree}/fd/1: {tmp_path}/server out.log"
    assert source.then is not None
    found = {item.member: item for item in source.then("\n".join([*lines, "garbage", "log: none", "unit:", ""]))}
    assert set(found) == {"server-1.log", "server-2.log", "units.txt", "user-units.txt", "containers.txt"}
    assert found["server-1.log"].command == f"tail -c {TAIL} '{tmp_path}/server out.log'"
    assert found["containers.txt"].command is not None
    assert found["containers.txt"].command.endswith(ID)
    assert written(around.source(here, [writer.pid], logs=False))[0] == lines[:-1]


def test_the_host_is_lines_of_key_and_value() -> None:
    lines, end = written(extras.sources(Context(Machine()))[2])
    assert end is None
    facts = dict(line.split(": ", 1) for line in lines)
    assert {"kernel", "libc", "clock_boottime_ns", "boot_id", "namespace_pid"} <= set(facts)
    assert facts["namespace_pid"] == str(Path("/proc/self/ns/pid").readlink())


@pytest.mark.parametrize(
    ("mounts", "value"),
    [
        ("proc /proc proc rw,nosuid,hidepid=2 0 0\n", "2"),
        ("proc /proc proc rw,hidepid=invisible,gid=4 0 0\n", "invisible"),
        ("proc /proc proc rw 0 0\n", "0"),
        ("proc /other/proc proc rw,hidepid=2 0 0\n", None),
        ("", None),
    ],
)
def test_hidepid(mounts: str, value: str | None) -> None:
    assert hidden.hidepid(mounts, "/proc") == value


def test_kill_commands_of_all_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "2026-11-30T19:00:06+0000 node sudo[7]: alice : TTY=x ; PWD=/ ; USER=root ; COMMAND=/usr/bin/pkill -f b"
    here = machine(tmp_path, journalctl=f"echo '{entry}'\n")
    (tmp_path / "h").write_text("pkill -f a\nls\n")
    monkeypatch.setenv("HISTFILE", str(tmp_path / "h"))
    context = Context(
        here, kills=(("pkill c", "2026-11-30T19:01:00Z"), ("pkill d", None)), history=("  1  pkill e", "  2  ls")
    )
    source = extras.sources(context)[0]
    lines, _ = written(source)
    records = {record.get("cmd") or " ".join(record["argv"]): record for record in json.loads("\n".join(lines))}
    assert {"pkill -f a", "/usr/bin/pkill -f b", "pkill c", "pkill d", "pkill e"} <= set(records)
    assert records["pkill c"]["t0"] == "2026-11-30T19:01:00+00:00"
    assert records["pkill d"]["t0"] is None
    assert records["pkill e"]["source"] == "history"
    assert source.evidence == "kill commands"


def test_members_are_told_apart() -> None:
    found = extras.sources(Context(Machine(), logs=("/a", "/b")))
    members = [source.member for source in found]
    assert members == ["kill-commands.json", "kernel.log", "host.txt", "server-1.log", "server-2.log"]
