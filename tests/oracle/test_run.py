"""``gpudiag run`` as a person starts it, on this machine, with the rights that there are.

Commands that kill by a pattern run in a PID namespace of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpudiag.bundle.reader import Contents, read_contents
from tests.unit.collect.driver import compiled

ROOT = Path(__file__).parents[2]
CALL = [sys.executable, "-m", "gpudiag", "run"]
INITIAL = "pid:[4026531836]"
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "SHELL": "/bin/bash"}


def run(
    folder: Path,
    *words: str,
    options: tuple[str, ...] = ("--no-explain",),
    before: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, *CALL, "-o", str(folder / "x.tgz"), *options, "--", *words],
        cwd=folder,
        env={**environment(), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def start(folder: Path, line: str, name: str = "x.tgz") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CALL, "-o", str(folder / name), "--no-explain", "--", line],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def texts(contents: Contents) -> dict[str, str]:
    return {member.name: member.data.decode("utf-8", "replace") for member in contents.members}


def kill_record(folder: Path) -> dict[str, Any]:
    return json.loads(texts(read_contents(folder / "x.tgz"))["kill-commands.json"])[0]


def report(folder: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "gpudiag", "explain", "--format", "json", str(folder / "x.tgz")]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def can_trace() -> bool:
    """Root in the initial PID namespace, with a kernel that has tracefs."""
    at_home = os.readlink("/proc/self/ns/pid") == INITIAL  # noqa: PTH115
    return os.geteuid() == 0 and at_home and "tracefs" in Path("/proc/filesystems").read_text(encoding="ascii")


def instances() -> list[str]:
    """Trace instances of gpudiag on this machine."""
    look = "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; ls /sys/kernel/tracing/instances"
    done = subprocess.run(["unshare", "-m", "sh", "-c", look], capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if name.startswith("gpudiag-")]


def wait_for(met: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not met() and time.monotonic() < end:
        time.sleep(0.05)
    return met()


needs_trace = pytest.mark.skipif(not can_trace(), reason="no right to use the kernel's trace")
needs_namespace = pytest.mark.skipif(
    shutil.which("unshare") is None or os.geteuid() != 0, reason="no right to make a PID namespace"
)


def test_output_and_exit_code_are_the_commands(tmp_path: Path) -> None:
    done = run(tmp_path, "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "err\n" in done.stderr
    record = kill_record(tmp_path)
    assert {key: record[key] for key in ("cmd", "shell", "rc", "out", "err", "source")} == {
        "cmd": "echo out; echo err >&2; exit 3",
        "shell": ["/bin/bash", "-c"],
        "rc": 3,
        "out": "out\n",
        "err": "err\n",
        "source": "recorded",
    }
    assert record["t0"] < record["t1"]
    contents = read_contents(tmp_path / "x.tgz")
    assert not contents.flaws
    assert {"before/proc.json", "after/proc.json", "after/ps-tree.txt", "kernel.log"} <= texts(contents).keys()


def test_a_signal_is_told_as_a_shell_tells_it(tmp_path: Path) -> None:
    done = run(tmp_path, "kill -9 $$")
    assert done.returncode == 137
    assert kill_record(tmp_path)["rc"] == -9
    assert "signal 9 ended the command" in done.stderr


def test_several_words_are_a_program_with_its_arguments(tmp_path: Path) -> None:
    assert run(tmp_path, "printf", "%s|", "a b", "$HOME;").stdout == "a b|$HOME;|"
    assert kill_record(tmp_path)["argv"] == ["printf", "%s|", "a b", "$HOME;"]


def test_standard_input_is_the_commands(tmp_path: Path) -> None:
    words = [*CALL, "-o", str(tmp_path / "x.tgz"), "--no-explain", "--", "cat"]
    done = subprocess.run(words, env=environment(), input="typed\n", capture_output=True, text=True, check=False)
    assert done.stdout == "typed\n"


def test_the_recorder_does_not_carry_the_text(tmp_path: Path) -> None:
    done = run(tmp_path, "cat /proc/$PPID/comm; tr '\\0' ' ' < /proc/$PPID/cmdline; : the-pattern")
    assert done.stdout.split() == ["gpudiag", "gpudiag"]
    assert "the-pattern" not in done.stdout


def test_who_carries_the_text_above_is_named(tmp_path: Path) -> None:
    text = "echo a-rather-special-text"
    assert "carries the command's text" not in run(tmp_path, text).stderr
    (tmp_path / "x.tgz").unlink()
    done = run(tmp_path, text, before=("timeout", "50"))
    assert "gpudiag: timeout (PID " in done.stderr
    assert done.stdout == "a-rather-special-text\n"


def test_secrets_stay_out(tmp_path: Path) -> None:
    run(tmp_path, "echo --api-key sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD")
    data = texts(read_contents(tmp_path / "x.tgz"))
    assert not [name for name, text in data.items() if "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD" in text]


def test_kill_zero_is_about_the_command(tmp_path: Path) -> None:
    assert run(tmp_path, "kill -9 0").returncode == 137
    assert not read_contents(tmp_path / "x.tgz").flaws


def test_what_the_command_leaves_running_keeps_its_output(tmp_path: Path) -> None:
    run(tmp_path, "(sleep 3; echo late; echo survived > mark) & echo now")
    assert wait_for((tmp_path / "mark").exists, 10)
    assert (tmp_path / "mark").read_text() == "survived\n"


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    done = run(tmp_path, "no-such-program-here", "x")
    assert done.returncode == 125
    assert "No such file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [("echo", "x"), ("--",), ("-o", "/no/such/folder/x.tgz", "--", "true"), ("-o", "/dev/null/x.tgz", "--", "true")],
)
def test_words_that_make_no_sense(words: tuple[str, ...]) -> None:
    done = subprocess.run([*CALL, *words], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_interrupt_is_for_the_command(tmp_path: Path) -> None:
    with start(tmp_path, "trap 'echo caught; exit 7' INT; echo begun; while :; do sleep 0.05; done") as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "begun\n"
        recorder.send_signal(signal.SIGINT)
        assert recorder.communicate(timeout=30)[0] == "caught\n"
    assert recorder.returncode == 7
    assert not read_contents(tmp_path / "x.tgz").flaws


def test_on_a_terminal_the_command_is_in_the_foreground(tmp_path: Path) -> None:
    """It reads from the terminal, and ^C ends it alone."""
    line = "echo ready; read word; echo got $word; sleep 60"
    words = [*CALL, "-o", str(tmp_path / "x.tgz"), "--no-explain", "--", line]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(words[0], words, environment())
    seen = b""

    def shows(what: bytes) -> bool:
        nonlocal seen
        if select.select([terminal], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(terminal, 4096)
        return what in seen

    assert wait_for(lambda: shows(b"ready"), 20), seen
    os.write(terminal, b"this\n")
    assert wait_for(lambda: shows(b"got this")), seen
    os.write(terminal, b"\x03")
    assert wait_for(lambda: shows(b"signal 2 ended the command"), 20), seen
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)
    assert not read_contents(tmp_path / "x.tgz").flaws


def on_a_terminal(folder: Path, line: str, typed: bytes = b"", size: tuple[int, int] = (40, 123)) -> str:
    """What a person sees who gives the command on a terminal of this size and types this."""
    words = [*CALL, "-o", str(folder / "x.tgz"), "--no-explain", "--", line]
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        os.execve(words[0], words, environment())
    seen = b""
    end = time.monotonic() + 30
    with contextlib.suppress(OSError):  # The end of a terminal.
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096)
            if typed and b"ready" in seen:
                os.write(terminal, typed)
                typed = b""
    os.waitpid(pid, 0)
    os.close(terminal)
    return seen.decode()


def test_on_a_terminal_the_command_writes_to_one(tmp_path: Path) -> None:
    seen = on_a_terminal(tmp_path, "test -t 1 && echo out; test -t 2 && echo err >&2; stty size <&1; printf 'a\\nb\\n'")
    assert "out\r\n" in seen
    assert "err\r\n" in seen
    assert "40 123\r\n" in seen
    assert "\r\r\n" not in seen
    record = kill_record(tmp_path)
    assert (record["out"], record["err"]) == ("out\n40 123\na\nb\n", "err\n")


def test_a_stopped_command_gives_the_terminal_back_and_goes_on(tmp_path: Path) -> None:
    """^Z, then `fg`, in a shell with job control."""
    words = " ".join(shlex.quote(word) for word in [*CALL, "-o", str(tmp_path / "x.tgz"), "--no-explain", "--"])
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {**environment(), "PS1": "> "})
    seen = b""

    def shows(what: bytes) -> bool:
        nonlocal seen
        if select.select([terminal], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(terminal, 4096)
        return what in seen

    os.write(terminal, f"{words} 'echo rea''dy; sleep 1.5; read word; echo got $word'\n".encode())
    assert wait_for(lambda: shows(b"ready\r\n"), 20), seen
    os.write(terminal, b"\x1a")
    assert wait_for(lambda: shows(b"Stopped"), 20), seen
    os.write(terminal, b"fg\n")
    os.write(terminal, b"this\n")
    assert wait_for(lambda: shows(b"got this"), 20), seen
    os.write(terminal, b"exit\n")
    assert wait_for(lambda: shows(b"exit code 0 after"), 20), seen
    os.close(terminal)
    os.waitpid(pid, 0)


def test_a_password_is_asked_for_on_the_users_own_terminal(tmp_path: Path) -> None:
    """As sudo does it: it opens /dev/tty, switches the echo off and reads there."""
    line = (
        f"{sys.executable} -c 'import getpass; print(getpass.getpass(\"ready: \")[::-1])'; "
        "ps -o tty= -p $$ | tr -d ' \\n' | grep -q '^pts' && echo same session"
    )
    seen = on_a_terminal(tmp_path, line, b"drowssap\n")
    assert "password\r\n" in seen
    assert "drowssap" not in seen
    assert "same session\r\n" in seen


@needs_trace
def test_the_kernels_own_record_proves_who_was_hit(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        done = run(tmp_path, f"/bin/kill -9 {victim.pid}")
        assert done.returncode == 0
        assert "no kernel trace" not in done.stderr
    data = texts(read_contents(tmp_path / "x.tgz"))
    assert f"signal_generate: sig=9 errno=0 code=0 comm=sleep pid={victim.pid}" in data["trace.txt"]
    assert json.loads(data["trace-clock.json"])["boot"] > 0
    (step,) = report(tmp_path)["actions"][0]["steps"]
    assert (step["ran"], step["hit"]) == ("yes", [victim.pid])
    instance = data["trace.txt"].split("instance ", 1)[1].partition(",")[0]
    assert instance.startswith("gpudiag-")
    assert instance not in instances()


@needs_trace
def test_a_killed_recorder_leaves_no_instance_and_a_readable_bundle(tmp_path: Path) -> None:
    with start(tmp_path, "echo $$; exec sleep 60") as recorder:
        assert recorder.stdout is not None
        command = int(recorder.stdout.readline())
        own = f"gpudiag-{recorder.pid}-"
        assert any(name.startswith(own) for name in instances())
        recorder.kill()
        recorder.wait()
        assert wait_for(lambda: not any(name.startswith(own) for name in instances()))
        os.kill(command, signal.SIGKILL)
    contents = read_contents(tmp_path / "x.tgz.partial")
    assert "before/proc.json" in texts(contents)
    assert contents.start is not None
    assert contents.start.looks == ("before", "after")  # so that nobody takes the first look for the newest state


@needs_trace
def test_what_a_dead_recorder_left_is_removed(tmp_path: Path) -> None:
    make = "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; mkdir /sys/kernel/tracing/instances/gpudiag-1-99"
    subprocess.run(["unshare", "-m", "sh", "-c", make], check=True)  # PID 1 started at another time
    assert "gpudiag-1-99" in instances()
    run(tmp_path, "true")
    assert "gpudiag-1-99" not in instances()


@needs_trace
def test_two_at_once(tmp_path: Path) -> None:
    both = [start(tmp_path, f"sleep 1; echo {name}", f"{name}.tgz") for name in ("one", "two")]
    for name, recorder in zip(("one", "two"), both, strict=True):
        assert recorder.communicate(timeout=30)[0] == f"{name}\n"
        contents = read_contents(tmp_path / f"{name}.tgz")
        assert not contents.flaws
        assert "sched_process_exit" in texts(contents)["trace.txt"]


@needs_namespace
def test_a_pattern_that_matches_its_own_shell(tmp_path: Path) -> None:
    """The recorder lives, and shows that the second part never ran; in a namespace the trace is refused in words."""
    script = tmp_path / "script"
    script.write_text(
        "/bin/true\n"  # PID 2 of a namespace is nobody that is looked at here
        "bash -c 'exec -a \"python -m vllm.entrypoints.openai.api_server\" sleep 60' &\n"
        "sleep 0.5\n"
        f"{sys.executable} -m gpudiag run -o x.tgz --no-explain -- "
        "'pkill -9 -f \"vllm.entrypoints\"; sleep 3; echo second'\n"
        "echo rc=$?\n"
    )
    done = subprocess.run(
        [*NAMESPACE, "bash", str(script)], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "rc=137\n", done.stderr
    assert "no kernel trace (in a PID namespace of its own" in done.stderr
    first, second, third = report(tmp_path)["actions"][0]["steps"]
    assert first["ran"] == "yes"
    assert first["hit"]
    assert first["hit_shells"]
    assert (second["ran"], third["ran"]) == ("no", "no")
    assert "signal 9" in third["because"]


def test_memory_that_stays(tmp_path: Path) -> None:
    """A stand-in for the driver's library: its figure stands still, so the wait ends and the code tells it."""
    done = run(tmp_path, "true", options=("--settle", "20", "--verify"), env=compiled(tmp_path))
    assert "the memory stands still" in done.stderr
    data = texts(read_contents(tmp_path / "x.tgz"))
    assert len(json.loads(data["nvml-series.json"])) >= 1
    assert done.stdout == ""  # the report goes where the tool's own words go
    assert "GPU 0" in done.stderr
    assert done.returncode in (0, 10)


def test_a_recorder_that_is_killed_has_the_command_in_its_bundle(tmp_path: Path) -> None:
    with start(tmp_path, "echo $$; exec sleep 60") as recorder:
        assert recorder.stdout is not None
        command = int(recorder.stdout.readline())
        assert wait_for(lambda: "command-begun.json" in texts(read_contents(tmp_path / "x.tgz.partial")))
        recorder.kill()
        recorder.wait()
        os.kill(command, signal.SIGKILL)
    words = [sys.executable, "-m", "gpudiag", "explain", "--format", "json", str(tmp_path / "x.tgz.partial")]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    (action,) = json.loads(done.stdout)["actions"]
    assert (action["text"], action["exit_code"]) == ("echo $$; exec sleep 60", None)


def test_an_interrupt_in_the_middle_leaves_a_whole_bundle(tmp_path: Path) -> None:
    with start(tmp_path, "echo begun; sleep 60") as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "begun\n"
        recorder.send_signal(signal.SIGINT)
        recorder.communicate(timeout=30)
    assert recorder.returncode == 130
    assert not read_contents(tmp_path / "x.tgz").flaws
    assert not [name for name in instances() if name.startswith(f"gpudiag-{recorder.pid}-")]


def test_an_interrupt_while_the_command_is_being_started_reaches_it(tmp_path: Path) -> None:
    """The command's first word may be heard before the recorder knows that it has started it."""
    with start(tmp_path, "kill -INT $PPID; sleep 60") as recorder:
        recorder.communicate(timeout=30)
    assert recorder.returncode == 130
    assert not read_contents(tmp_path / "x.tgz").flaws


def test_an_interrupt_before_the_command_keeps_it_from_being_run(tmp_path: Path) -> None:
    with start(tmp_path, f"echo begun >{tmp_path}/begun") as recorder:
        assert wait_for(lambda: (tmp_path / "x.tgz.partial").exists())
        recorder.send_signal(signal.SIGINT)
        recorder.communicate(timeout=30)
    assert recorder.returncode == 130
    assert not (tmp_path / "begun").exists()
    assert read_contents(tmp_path / "x.tgz.partial").bundle


@needs_namespace
def test_without_the_right_to_trace_processes_are_followed_over_netlink(tmp_path: Path) -> None:
    """Root without CAP_SYS_ADMIN. On this machine nobody has mounted tracefs, and the recorder may not.

    The command starts no program that is over at once: what such a one was, a busy machine may be too late to ask.
    """
    if Path("/sys/kernel/tracing/trace_clock").exists():
        pytest.skip("tracefs is mounted, so that root may use it without more rights")
    without = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    with subprocess.Popen(["sleep", "60"]) as victim:
        done = run(tmp_path, f"sleep 0.5; kill -9 {victim.pid}; test -e /nowhere && pkill nobody", before=without)
    assert "no kernel trace (tracefs is not mounted and cannot be mounted" in done.stderr
    assert "process events over netlink" in done.stderr
    told = report(tmp_path)
    *_, pkill = told["actions"][0]["steps"]
    contents = read_contents(tmp_path / "x.tgz")
    (kept,) = [item for _, item in contents.outcomes if item.member == "process-events.jsonl"]
    unnamed = '"comm": null' in texts(contents)["process-events.jsonl"]
    # On a busy machine events are lost, or what a program was is asked too late: then silence is no proof.
    assert pkill["ran"] == "no" or (pkill["ran"] == "unknown" and (kept.outcome != "ok" or unnamed)), (pkill, kept)
    if pkill["ran"] == "no":
        assert "no pkill was started" in pkill["because"]
    assert f"({victim.pid}) was ended by KILL" in " ".join(event["text"] for event in told["events"])


@needs_namespace
def test_others_may_follow_processes_or_look_through_proc() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        _as_nobody(Path(folder))


def _as_nobody(folder: Path) -> None:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run([*nobody, *CALL, "--help"], env=environment(), capture_output=True, check=False).returncode:
        pytest.skip("nobody may not read this checkout")
    done = run(folder, "sleep 0.3; exit 4", before=nobody, env={"HOME": str(folder)})
    assert done.returncode == 4, done.stderr
    assert "no kernel trace (the kernel's trace is for root only)" in done.stderr
    assert "process events over netlink" in done.stderr or "/proc is looked through" in done.stderr
    assert '"comm": "sleep"' in texts(read_contents(folder / "x.tgz"))["process-events.jsonl"]


@needs_namespace
def test_in_a_namespace_proc_is_looked_through(tmp_path: Path) -> None:
    done = run(tmp_path, "sleep 0.5; bash clean.sh", before=tuple(NAMESPACE))
    assert "/proc is looked through over and over" in done.stderr
    head, *rows = texts(read_contents(tmp_path / "x.tgz"))["process-events.jsonl"].splitlines()
    assert json.loads(head)["way"] == "polling"
    assert "sleep" in {json.loads(row)["comm"] for row in rows}


def test_the_script_that_is_run_is_read(tmp_path: Path) -> None:
    (tmp_path / "clean.sh").write_text("kill -9 999999\necho cleaned\n")
    assert run(tmp_path, "bash clean.sh").stdout == "cleaned\n"
    assert kill_record(tmp_path)["script_text"] == "kill -9 999999\necho cleaned\n"
    assert [step["text"] for step in report(tmp_path)["actions"][0]["steps"]][-2:] == ["kill -9 999999", "echo cleaned"]


@needs_trace
def test_a_sender_is_named_with_those_that_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        run(tmp_path, f"bash -c '/bin/kill -9 {victim.pid}; true'; true")
    told = " ".join(event["text"] for event in report(tmp_path)["events"])
    assert f"sent KILL to sleep ({victim.pid})" in told
    assert ", started by bash " in told
    assert " for A1 sent KILL" in told


def test_the_collector_alone_runs_commands(tmp_path: Path) -> None:
    """One file, and nothing but Python: it records, and says where the explanation comes from."""
    words = [sys.executable, "-m", "gpudiag", "collect", "--print-collector"]
    text = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True).stdout
    (tmp_path / "one.py").write_text(text)
    alone = [sys.executable, "-I", "-S", str(tmp_path / "one.py"), "run", "-o", str(tmp_path / "x.tgz"), "--", "exit 5"]
    done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert "only the collector is installed" in done.stderr
    assert kill_record(tmp_path)["rc"] == 5


def test_work_for_another_machine_is_not_seen_here(tmp_path: Path) -> None:
    done = run(tmp_path, "ssh -o BatchMode=yes -p 1 127.0.0.1 true")
    assert "it is this one that is looked at" in done.stderr
    assert done.returncode == 255


@needs_trace
def test_an_instance_whose_child_was_killed_goes_with_the_recorder(tmp_path: Path) -> None:
    done = run(tmp_path, "for pid in $(pgrep -P $PPID); do [ $pid = $$ ] || /bin/kill -9 $pid; done; sleep 0.2")
    assert done.returncode == 0
    contents = read_contents(tmp_path / "x.tgz")
    instance = texts(contents)["trace.txt"].split("instance ", 1)[1].partition(",")[0]
    assert instance not in instances()


def scene(folder: Path) -> dict[str, str]:
    """The environment in which a GPU holds what the processes in the file ``scene`` hold, as long as they live."""
    return {**compiled(folder), "NVML_SCENE": str(folder / "scene")}


SERVER = """\
bash -c 'exec -a "python -m vllm.entrypoints.openai.api_server" bash serve' &
/bin/true
while [ "$(pgrep -c VLLM)" != 2 ]; do sleep 0.05; done
for pid in $(pgrep VLLM); do echo $pid 8960; done > scene
"""
SERVE = "for rank in 0 1; do cp /bin/sleep VLLM::Worker_TP$rank; ./VLLM::Worker_TP$rank 60 & done; wait; true\n"


@needs_namespace
def test_the_whole_story_of_a_clean_up_that_failed(tmp_path: Path) -> None:
    """What stays, whom each step hit and missed, whom to kill; and `verify` before and after that is done."""
    (tmp_path / "serve").write_text(SERVE)
    gpudiag = f"{sys.executable} -m gpudiag"
    (tmp_path / "story").write_text(
        "/bin/true\n"
        + SERVER
        + f"{gpudiag} run -o x.tgz --verify -- 'pkill -9 -f \"vllm.entrypoints\"; sleep 3; fuser -k /dev/null'\n"
        + f"echo run=$?; {gpudiag} verify x.tgz; echo verify=$?; cat scene\n"
        + f"kill -9 $(cut -d' ' -f1 scene); {gpudiag} verify x.tgz --wait 5; echo verify=$?\n"
    )
    done = subprocess.run(
        [*NAMESPACE, "bash", "story"],
        cwd=tmp_path,
        env={**environment(), **scene(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert [row for row in done.stdout.splitlines() if "=" in row] == ["run=10", "verify=10", "verify=0"], done.stderr
    workers = [int(row.split()[0]) for row in (tmp_path / "scene").read_text().splitlines()]
    assert "MEMORY IS STILL HELD" in done.stderr
    assert "fuser never ran" in done.stderr
    assert "17,920" in done.stderr
    told = report(tmp_path)
    names = {process["id"]: process["pid"] for process in told["processes"]}
    assert sorted(names[entry["process"]] for entry in told["plan"]["kill"]) == workers


@needs_trace
def test_a_signal_that_is_ignored_was_sent_for_certain(tmp_path: Path) -> None:
    with subprocess.Popen(["bash", "-c", "trap '' TERM; echo up; exec sleep 60"], stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        victim.stdout.readline()
        (tmp_path / "scene").write_text(f"{victim.pid} 8960\n")
        options = ("--settle", "20", "--verify")
        done = run(tmp_path, f"kill {victim.pid}; echo sent", options=options, env=scene(tmp_path))
        victim.kill()
    assert done.returncode == 10, done.stderr
    told = report(tmp_path)
    assert told["actions"][0]["steps"][0]["hit"] == [victim.pid]
    text = " ".join(event["text"] for event in told["events"])
    assert f"sent TERM to sleep ({victim.pid}), which ignored it" in text
    assert " for A1 sent TERM" in text
    assert done.stdout == "sent\n"


@needs_trace
def test_memory_that_comes_back(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        (tmp_path / "scene").write_text(f"{victim.pid} 8960\n")
        done = run(tmp_path, f"kill -9 {victim.pid}", options=("--verify",), env=scene(tmp_path))
    assert done.returncode == 0
    assert "the memory was released 0." in done.stderr
    assert "MEMORY WAS RELEASED" in done.stderr
