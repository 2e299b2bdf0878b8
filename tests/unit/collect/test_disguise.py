"""The words of a command leave the recorder's command line, and whoever else has them is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpudiag.collect.disguise import NAME, carriers

CODE = """
import os, subprocess, sys
from gpudiag.collect.disguise import conceal
print(conceal())
pid = os.getpid()
print(open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\\0", b" ").decode().strip())
print(open(f"/proc/{pid}/comm").read().strip())
print(subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout.strip())
if os.fork() == 0:
    print(open("/proc/self/cmdline", "rb").read().strip(b"\\0").decode(), flush=True)
    os._exit(0)
os.wait()
print(sys.argv[1:], os.environ["MARK"])
"""


def test_neither_the_words_nor_the_interpreter_can_be_matched() -> None:
    words = ["run", "--", "pkill -9 -f vllm.entrypoints; sleep 3"]
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MARK": "kept", "PYTHONUNBUFFERED": "1"},
    )
    concealed, line, comm, shown, forked, own = done.stdout.splitlines()
    assert (concealed, line, comm, shown, forked) == ("None", NAME, NAME, NAME, NAME)
    # The tool itself and its environment are as they were.
    assert own == f"{words} kept"


def process(proc: Path, pid: int, *words: str, comm: str = "sh") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode())
    (folder / "comm").write_text(comm + "\n")


def test_who_carries_the_text_is_named_whatever_the_quotes(tmp_path: Path) -> None:
    process(tmp_path, 10, "sudo", "gpudiag", "run", "--", "pkill", "-9", "-f", "vllm", comm="sudo")
    process(tmp_path, 11, "bash", "-c", "gpudiag run -- 'pkill  -9 -f \"vllm\"'")
    process(tmp_path, 12, "bash")
    words = ["pkill", "-9", "-f", "vllm"]
    assert carriers(str(tmp_path), [10, 11, 12, 13], words) == [(10, "sudo"), (11, "sh")]
    assert carriers(str(tmp_path), [10, 11, 12, 13], ['pkill -9 -f "vllm"']) == [(10, "sudo"), (11, "sh")]
    assert carriers(str(tmp_path), [10, 11], ["sudo x"]) == []
