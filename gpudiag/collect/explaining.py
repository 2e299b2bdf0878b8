"""From a bundle on to its explanation, where the whole package is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpudiag.collect.telling import say

_INTERRUPTED = 130


def explain_here(paths: Sequence[Path], otherwise: int, output: int | None = None) -> int:
    """Go on as ``gpudiag explain``, with its exit code; ``otherwise`` where it is not installed.

    ``output``: the descriptor that the report goes to; ``None``: standard output.
    """
    # Neither is needed to look, and to load them would take longer.
    import shlex
    import subprocess
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("gpudiag.cli", "typer", "polars")):
        say(
            "gpudiag: the bundle cannot be explained here: only the collector is installed; where all of gpudiag is, "
            f"`gpudiag explain {' '.join(shlex.quote(path.name) for path in paths)}` does it"
        )
        return otherwise
    sys.stdout.flush()
    go_on = "from gpudiag.cli import main; main()"
    try:
        return subprocess.call([sys.executable, "-c", go_on, "explain", "--", *map(str, paths)], stdout=output)
    except KeyboardInterrupt:
        return _INTERRUPTED
