"""``gpudiag`` and ``python3 -m gpudiag``. Who looks starts alone: to load the rest takes longer than to look."""

from __future__ import annotations

import sys


def main() -> None:
    """Hand the words to who looks, or to the command line that has all commands."""
    if sys.argv[1:2] == ["collect"]:
        from gpudiag.collect.alone import collect, leave

        leave(collect(sys.argv[2:]))
    if sys.argv[1:2] == ["run"]:
        from gpudiag.collect.alone import run

        raise SystemExit(run(sys.argv[2:]))
    if sys.argv[1:2] == ["watch"]:
        from gpudiag.collect.watching.main import main as watch

        raise SystemExit(watch(sys.argv[2:]))
    from gpudiag.cli import main as all_commands

    all_commands()


if __name__ == "__main__":
    main()
