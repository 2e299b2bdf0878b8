"""Runs real tools against real processes in a PID namespace of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

_DRIVER = r"""
import json, os, shutil, subprocess, sys, tempfile, time

MODULE = os.path.join("vllm", "entrypoints", "openai", "api_server.py")
home = tempfile.mkdtemp()
os.makedirs(os.path.dirname(os.path.join(home, MODULE)))
with open(os.path.join(home, MODULE), "w") as file:
    file.write("import time\ntime.sleep(99)\n")

def spawn(spec):
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        if "open" in spec:
            os.set_inheritable(os.open(spec["open"], os.O_RDWR | os.O_CREAT), True)
        if "comm" in spec:
            body = "import ctypes, time; ctypes.CDLL(None).prctl(15, %r, 0, 0, 0); time.sleep(99)"
            body = body % spec["comm"].encode()
            os.execv(sys.executable, [spec["argv"][0], "-c", body, *spec["argv"][1:]])
        if spec["argv"][1] == "-m":
            os.execve(sys.executable, spec["argv"], {**os.environ, "PYTHONPATH": home})
        os.execv("/bin/sleep", spec["argv"])
    return pid

def started(pid, spec):
    with open("/proc/%d/cmdline" % pid) as file:
        renamed = file.read().split("\0")[0] == spec["argv"][0]
    with open("/proc/%d/comm" % pid) as file:
        return renamed and ("comm" not in spec or file.read().strip() == spec["comm"][:15])

def table():
    rows = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid()):
            continue
        try:
            stat = open("/proc/%s/stat" % name).read()
            cmdline = open("/proc/%s/cmdline" % name, "rb").read().rstrip(b"\0")
        except OSError:
            continue
        comm = stat[stat.index("(") + 1 : stat.rindex(")")]
        fields = stat[stat.rindex(")") + 2 :].split()
        rows.append({"pid": int(name), "comm": comm, "state": fields[0], "ppid": int(fields[1]),
                     "pgid": int(fields[2]), "sid": int(fields[3]), "start": float(fields[19]),
                     "cmdline": cmdline.decode("utf-8", "replace").replace("\0", " ")})
    return rows

job = json.load(sys.stdin)
pids = [spawn(spec) for spec in job["spawn"]]
for pid, spec in zip(pids, job["spawn"]):
    for _ in range(1000):
        if started(pid, spec):
            break
        time.sleep(0.005)
for number in job.get("zombies", ()):
    os.kill(pids[number], 9)
    time.sleep(0.05)
before = table()
results = []
for command in job["run"]:
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    took = time.monotonic() - started
    time.sleep(job.get("settle", 0))
    alive = [row["pid"] for row in table() if row["state"] != "Z"]
    results.append({"code": done.returncode, "out": done.stdout, "err": done.stderr, "took": took, "alive": alive})
shutil.rmtree(home)
print(json.dumps({"pids": pids, "table": before, "results": results}))
"""

Run = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="session")
def in_namespace() -> Run:
    """Spawns the processes of a job, runs its commands one after the other, and says who was there and who is left."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed: the real tools cannot be asked")
    prefix = [unshare, "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to make a PID namespace: the real tools cannot be asked")

    def run(job: dict[str, Any]) -> dict[str, Any]:
        command = [*prefix, sys.executable, "-I", "-c", _DRIVER]
        # ps cuts its lines to COLUMNS, which test runners set.
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, timeout=120, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def need() -> Callable[..., None]:
    """Skips, saying why, where a tool is not installed."""

    def check(*tools: str) -> None:
        missing = [tool for tool in tools if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"{', '.join(missing)} not installed: its behaviour cannot be compared")

    return check
