"""The collector without the rest of the package: what its first word asks for."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

_INTERRUPTED = 130


def leave(code: int) -> None:
    """End the process at once. Python's own tidying up takes a tenth of the time of a quick look."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # Who read it has gone.
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """``run`` runs a command, anything else collects; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run(words[1:]) if words[:1] == ["run"] else collect(words)


def collect(words: Sequence[str]) -> int:
    """``gpudiag collect``: at work before it is loaded."""
    # While modules are loaded nothing becomes garbage; to look for it takes as long as some of them.
    gc.disable()
    try:
        from gpudiag.collect.ahead import begin

        begun = begin(words)
        from gpudiag.collect.main import main as command

        gc.enable()
        return command(words, begun=begun)
    except KeyboardInterrupt:
        return _interrupted()


def run(words: Sequence[str]) -> int:
    """``gpudiag run``."""
    try:
        from gpudiag.collect.run_main import main as command

        return command(words)
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    """Before it has begun to write, or after the end of that: in between the command has more to say."""
    sys.stderr.write("gpudiag: interrupted\n")
    return _INTERRUPTED
