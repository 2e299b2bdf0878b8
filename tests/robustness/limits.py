"""Run gpudiag in a process of its own, under a limit of memory, and measure what it took."""

from __future__ import annotations

import os
import resource
import selectors
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MIB: Final = 1 << 20
OUTCOMES: Final = frozenset({0, 10, 11, 12})
UNREADABLE: Final = 3


@dataclass(frozen=True)
class Run:
    """What one call of the program gave and took."""

    code: int
    output: str
    said: str
    """Standard error."""
    cpu_s: float
    peak_mib: int

    @property
    def answered(self) -> bool:
        """A report, or one sentence that says why there is none; never a traceback."""
        if "Traceback" in self.said:
            return False
        return self.code in OUTCOMES or (self.code == UNREADABLE and len(self.said.strip().splitlines()) == 1)


def gpudiag(
    *words: str | Path, memory_mib: int = 4096, cpu_s: int = 60, environment: Mapping[str, str] | None = None
) -> Run:
    """Call it. ``memory_mib`` limits the address space, ``cpu_s`` the time of the processor; beyond them it dies."""
    return measured([sys.executable, "-m", "gpudiag", *map(str, words)], memory_mib, cpu_s, environment)


def measured(
    words: Sequence[str], memory_mib: int = 4096, cpu_s: int = 60, environment: Mapping[str, str] | None = None
) -> Run:
    """Any program under these limits."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mib * MIB, memory_mib * MIB))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    started = subprocess.Popen(
        words,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
    )
    with started:
        output, said = _both(started)
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    return Run(
        started.returncode,
        output.decode("utf-8", "replace"),
        said.decode("utf-8", "replace"),
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss // 1024,
    )


def _both(started: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Both pipes to their ends. The process is left to ``wait4``, which tells what it took."""
    texts: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for pipe in (started.stdout, started.stderr):
            assert pipe is not None
            texts[pipe.fileno()] = bytearray()
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                texts[key.fd] += data
                if not data:
                    selector.unregister(key.fileobj)
    output, said = texts.values()
    return bytes(output), bytes(said)
