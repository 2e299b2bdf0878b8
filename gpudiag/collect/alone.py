"""The collector without the rest of the package: what its first word asks for."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """``run`` runs a command, anything else collects; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["run"]:
        from gpudiag.collect.run_main import main as run

        return run(words[1:])
    return collect(words)


def collect(words: Sequence[str]) -> int:
    """``gpudiag collect``: at work before it is loaded."""
    from gpudiag.collect.ahead import begin

    begun = begin(words)
    from gpudiag.collect.main import main as command

    return command(words, begun=begun)
