"""First process of a PID namespace: makes processes as a job describes them, runs commands, and says who is left.

Standard library only. Reads the job from standard input and prints the answer, both JSON; bytes travel as Latin-1 text.
Its own command line has a long last argument: a forked child writes its title over that area, as setproctitle does.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

LIMIT_S = 4.0
RUNNING = "RSDTt"


def read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def argument_area() -> tuple[int, int]:
    fields = read("/proc/self/stat").rsplit(b") ", 1)[1].split()
    return int(fields[45]), int(fields[46])


def retitle(title: bytes) -> None:
    start, end = argument_area()
    room = end - start
    assert len(title) < room, "the title does not fit"
    ctypes.memmove(start, title.ljust(room, b"\0"), room)


def spawn(spec: dict[str, Any]) -> int:
    """Forks a process and waits until it looks as described."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            become(spec, writer)
        finally:
            os._exit(9)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    if "exec" in spec:
        name = spec["exec"][0].encode("latin-1")
        until(lambda: read(f"/proc/{pid}/cmdline").startswith(name), spec)
    if spec.get("state") == "stopped":
        os.kill(pid, signal.SIGSTOP)
    if spec.get("state") is not None:
        until(lambda: row_of(pid)["state"] in "TZ", spec)
    return pid


def until(condition: Callable[[], bool], spec: dict[str, Any]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"a process does not become what was wanted: {spec}")
        time.sleep(0.001)


def set_signals(spec: dict[str, Any]) -> None:
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for number in spec.get("ignore", ()):
        signal.signal(number, signal.SIG_IGN)
    for number in spec.get("catch", ()):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, spec.get("block", ()))


def become_user(uid: int) -> None:
    if uid != os.getuid():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def become(spec: dict[str, Any], ready: int) -> None:
    set_signals(spec)
    if spec.get("session"):
        os.setsid()
    elif spec.get("group", True):
        os.setpgid(0, 0)
    for path in spec.get("open", ()):
        os.set_inheritable(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), True)
    if "cwd" in spec:
        os.chdir(spec["cwd"])
    become_user(spec.get("uid", os.getuid()))
    if "exec" in spec:
        # dash reads its text from -c and leaves all further arguments alone.
        silent, held = os.pipe()
        os.set_inheritable(held, True)
        os.dup2(silent, 0)
        os.execv("/bin/dash", [word.encode("latin-1") for word in spec["exec"]])
    retitle(spec.get("title", "").encode("latin-1"))
    if "comm" in spec:
        ctypes.CDLL(None).prctl(15, spec["comm"].encode("latin-1"), 0, 0, 0)
    for inner in spec.get("children", ()):
        spawn(inner)
    if spec.get("state") == "zombie":
        os._exit(0)
    os.write(ready, b"x")
    while True:
        signal.pause()


def row_of(pid: int) -> dict[str, Any]:
    stat = read(f"/proc/{pid}/stat")
    lines = read(f"/proc/{pid}/status").decode("latin-1").split("\n")
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    fields = stat[stat.rindex(b")") + 2 :].split()
    return {
        "pid": pid,
        "comm": stat[stat.index(b"(") + 1 : stat.rindex(b")")].decode("latin-1"),
        "state": fields[0].decode(),
        "ppid": int(fields[1]),
        "pgid": int(fields[2]),
        "sid": int(fields[3]),
        "start": float(fields[19]),
        "uid": int(status["Uid"].split()[1]),
        "gid": int(status["Gid"].split()[1]),
        "cmdline": read(f"/proc/{pid}/cmdline").decode("latin-1"),
        "sig_blocked": int(status["SigBlk"], 16),
        "sig_ignored": int(status["SigIgn"], 16),
        "sig_caught": int(status["SigCgt"], 16),
    }


def table() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                rows.append(row_of(int(name)))
            except OSError:
                continue
    return sorted(rows, key=lambda row: row["pid"])


def start(command: dict[str, Any], argv: list[str], out: int, err: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        set_signals({})
        reader, writer = os.pipe()
        os.write(writer, command.get("stdin", "").encode())
        os.close(writer)
        for source, target in ((reader, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        os.closerange(3, 64)
        become_user(command.get("uid", 0))
        os.chdir(command.get("cwd", "/"))
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **command.get("env", {})}
        os.execvpe(argv[0], [word.encode("utf-8", "surrogateescape") for word in argv], environment)
    finally:
        os._exit(127)


def run(command: dict[str, Any], pids: list[int], before: set[int]) -> dict[str, Any]:
    argv = [filled(word, pids) for word in command["argv"]]
    texts_in = {key: filled(command[key], pids) for key in ("stdin", "script") if key in command}
    if "script" in texts_in:
        with open(argv[1], "w") as file:  # noqa: PTH123
            file.write(texts_in["script"])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        status = wait(start({**command, **texts_in}, argv, out.fileno(), err.fileno()), reap=command.get("reap", False))
        took = time.monotonic() - began
        time.sleep(command.get("settle", 0))
        alive = living(before) if command.get("look", True) else []
        texts = [os.pread(file.fileno(), 1 << 22, 0).decode("utf-8", "replace") for file in (out, err)]
    return {
        **texts_in,
        "argv": argv,
        "code": None if status is None else os.waitstatus_to_exitcode(status),
        "out": texts[0],
        "err": texts[1],
        "took": took,
        "alive": alive,
    }


def living(before: set[int]) -> list[int]:
    """Who is left, once nobody is about to run or to die: a signalled process is runnable until it has died.

    What the line left running in the background is waited for as well.
    """
    end = time.monotonic() + 2
    while True:
        rows = table()
        busy = [row for row in rows if row["pid"] != 1 and row["state"] != "Z" and row["pid"] not in before]
        busy += [row for row in rows if row["pid"] != 1 and row["state"] == "R"]
        if not busy or time.monotonic() > end:
            return [row["pid"] for row in rows if row["state"] in RUNNING]
        time.sleep(0.005)


def filled(word: str, pids: list[int]) -> str:
    for number, pid in enumerate(pids):
        word = word.replace(f"{{p{number}}}", str(pid))
    return word


def wait(pid: int, *, reap: bool) -> int | None:
    """Status of the command; with ``reap`` every other child that ends is collected as a diligent init does."""
    until = time.monotonic() + LIMIT_S
    pause = 0.0005
    while time.monotonic() < until:
        if reap:
            found, status = os.waitpid(-1, os.WNOHANG)
            if found and found != pid:
                continue
        else:
            found, status = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            return status
        time.sleep(pause)
        pause = min(pause * 1.5, 0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def case(job: dict[str, Any]) -> dict[str, Any]:
    pids: list[int] = []
    for spec in job["spawn"]:
        if spec.get("alone") and pids:
            time.sleep(0.02)
        pids.append(spawn(spec))
    before = table()
    there = {row["pid"] for row in before}
    results = [run(command, pids, there) for command in job["run"]]
    os.kill(-1, signal.SIGKILL)
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    return {"pids": pids, "table": before, "results": results}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    retitle(b"init")
    ctypes.CDLL(None).prctl(15, b"init", 0, 0, 0)
    job = json.load(sys.stdin)
    print(json.dumps([case(one) for one in job]))


if __name__ == "__main__":
    main()
