"""The command must not hit its recorder: its words leave the recorder's own command line, and its name is another.

``pkill -f`` and ``pgrep -f`` match what the kernel shows as ``/proc/PID/cmdline``, which is memory of the process
itself; ``pkill`` without ``-f`` and ``killall`` match ``comm``. To begin anew with other words would leave the path of
the interpreter, and a virtual environment is often named after the server that is being killed. So all of it is
overwritten. Processes that are forked later inherit both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

NAME = "gpudiag"
_ARG_START, _ARG_END = 45, 46
"""Positions behind the closing bracket of comm in ``stat``: where the arguments lie (fields 48 and 49)."""
_LONGEST = 1 << 24
_SHORTEST = 6
"""A text of fewer characters may stand in any command line by chance."""
_CMDLINE_CAP = 1 << 17
_QUOTING = {ord(mark): None for mark in "\"'\\"}


def conceal() -> str | None:
    """Take the words away; why that was not possible, or ``None``."""
    try:
        # Not every Python has it.
        import ctypes

        Path("/proc/self/comm").write_text(NAME, encoding="ascii")
        text = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        fields = text[text.rfind(")") + 1 :].split()
        begin, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        if not 0 < begin < end or end - begin > _LONGEST:
            return "the kernel does not tell where the arguments lie"
        shown = NAME.encode("ascii")[: end - begin - 1]
        # The last byte stays zero: otherwise the kernel takes the text to go on in the environment.
        ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)
        left = Path("/proc/self/cmdline").read_bytes().strip(b"\0")
    except (ImportError, OSError, ValueError, IndexError) as error:
        return str(error)
    return None if left == shown else "the kernel shows other arguments"


def carriers(proc: str, ancestors: Sequence[int], words: Sequence[str]) -> list[tuple[int, str]]:
    """Ancestors in whose command line the text stands: a pattern that matches it hits them, too. PID and name."""
    wanted = _plain(" ".join(words))
    found: list[tuple[int, str]] = []
    for pid in ancestors:
        try:
            with Path(f"{proc}/{pid}/cmdline").open("rb") as file:
                line = file.read(_CMDLINE_CAP).decode("utf-8", "replace").replace("\0", " ")
            name = Path(f"{proc}/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if len(wanted) >= _SHORTEST and wanted in _plain(line):
            found.append((pid, name))
    return found


def _plain(text: str) -> str:
    """Without what quoting changes."""
    return " ".join(text.translate(_QUOTING).split())
