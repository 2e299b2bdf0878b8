"""A server that is killed by its pattern while a flight recorder runs; played in a PID namespace, see ``test_watch``.

Arguments: a work folder, and the kill command as JSON. Prints what happened as JSON. Bundles are made after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_NAME = 15
ARG_START, ARG_END = 45, 46
"""Positions behind the closing bracket of comm in ``stat``."""
ROOM = "x" * 200
"""An argument whose place the titles take."""
WORKERS = 2
LIBC = ctypes.CDLL(None)


def entitle(title: str) -> None:
    """What setproctitle does: another command line where the old one stood, another name."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    fields = stat[stat.rfind(")") + 1 :].split()
    start, end = int(fields[ARG_START]), int(fields[ARG_END])
    assert len(title) < end - start
    ctypes.memmove(start, title.encode().ljust(end - start, b"\0"), end - start)
    LIBC.prctl(PR_SET_NAME, ctypes.c_char_p(title[:15].encode()), 0, 0, 0)


def server() -> None:
    """An API server that has started an engine, which has started workers."""
    engine = os.fork()
    if engine == 0:
        workers = []
        for rank in range(WORKERS):
            worker = os.fork()
            if worker == 0:
                entitle(f"VLLM::Worker_TP{rank}")
                signal.pause()
            workers.append(worker)
        entitle("VLLM::EngineCore")
        print(json.dumps({"engine": os.getpid(), "workers": workers}), flush=True)
        signal.pause()
    entitle("python -m vllm.entrypoints.openai.api_server --model m --api-key hunter2secret --port 8000")
    signal.pause()


def main(folder: Path, command: list[str]) -> None:
    words = [sys.executable, "-m", "gpudiag", "watch", "--directory", str(folder / "state/gpudiag")]
    with (folder / "watch.err").open("w", encoding="utf-8") as errors:
        recorder = subprocess.Popen(words, stderr=errors)
    time.sleep(1.5)
    # As from a shell: not a child of the recorder, in a group of its own, with other titles than its starter has.
    words = [sys.executable, __file__, ROOM]
    started = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert started.stdout is not None
    found = json.loads(started.stdout.readline())
    holders = "".join(f"{rank} {pid} 8000\n" for rank, pid in enumerate(found["workers"]))
    (folder / "holders").write_text(holders + f"0 {found['engine']} 500\n", encoding="ascii")
    time.sleep(4.5)
    told = {"server": started.pid, **found, "recorder": recorder.pid, "before_s": time.time()}
    told["exit_code"] = subprocess.run(command, check=False).returncode
    told["after_s"] = time.time()
    time.sleep(2.5)
    started.poll()  # It may have ended, and is to be no zombie then.
    time.sleep(1.2)
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    for name, state in (("with", "state"), ("without", "nothing")):
        words = [sys.executable, "-m", "gpudiag", "collect", "--quick", "-o", str(folder / f"{name}.tgz")]
        words += ["--kill", " ".join(command)]
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / state), "HOME": str(folder)}
        done = subprocess.run(words, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        told[f"collect_{name}"] = [done.returncode, done.stderr]
    for pid in (started.pid, found["engine"], *found["workers"]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    print(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1:] != [ROOM]:
        main(Path(sys.argv[1]), json.loads(sys.argv[2]))
    else:
        server()
