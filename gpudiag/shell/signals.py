"""Linux signals: numbers, names, and whether one ends a process."""

from __future__ import annotations

from gpudiag.shell.world import Candidate

HUP, KILL, TERM, INT, QUIT, STOP = 1, 9, 15, 2, 3, 19
_NAMES = [
    "HUP",
    "INT",
    "QUIT",
    "ILL",
    "TRAP",
    "ABRT",
    "BUS",
    "FPE",
    "KILL",
    "USR1",
    "SEGV",
    "USR2",
    "PIPE",
    "ALRM",
    "TERM",
    "STKFLT",
    "CHLD",
    "CONT",
    "STOP",
    "TSTP",
    "TTIN",
    "TTOU",
    "URG",
    "XCPU",
    "XFSZ",
    "VTALRM",
    "PROF",
    "WINCH",
    "IO",
    "PWR",
    "SYS",
]
NUMBERS: dict[str, int] = {name: number for number, name in enumerate(_NAMES, 1)} | {"IOT": 6, "POLL": 29, "CLD": 17}
_INIT = 1
_REAL_TIME_MIN, _REAL_TIME_MAX = 34, 64
_HARMLESS = frozenset({0, 17, 18, 23, 28})
"""No default action, or to go on."""
_STOPPING = frozenset({19, 20, 21, 22})
KILLED_WORDS = {1: "Hangup", 3: "Quit", 9: "Killed", 15: "Terminated", 6: "Aborted", 14: "Alarm clock"}
"""What a shell prints about a child that a signal ended."""


def number_of(text: str) -> int | None:
    """Signal number of ``9``, ``KILL``, ``SIGKILL``, in any case; ``None`` if it is no signal."""
    if text.isascii() and text.isdigit():
        number = int(text) if len(text) < 4 else _REAL_TIME_MAX + 1
        return number if number <= _REAL_TIME_MAX else None
    name = text.upper().removeprefix("SIG")
    if name in ("RTMIN", "RTMAX"):
        return _REAL_TIME_MIN if name == "RTMIN" else _REAL_TIME_MAX
    return NUMBERS.get(name)


def ends_by_default(signal: int) -> bool:
    return signal not in _HARMLESS and signal not in _STOPPING


def fatal(signal: int | None, process: Candidate) -> bool | None:
    """Whether the signal ends this process; a handler may still decide either way, so that is unknown."""
    if process.kernel_thread:
        return False
    if signal is None:
        return None
    if process.pid == _INIT and (signal == KILL or process.sig_caught is not None):
        # The kernel drops what the first process of a PID namespace has no handler for.
        return None if signal != KILL and process.sig_caught and process.sig_caught & 1 << (signal - 1) else False
    if signal == KILL:
        return True
    if process.state in ("T", "t"):
        # A stopped process takes it when it is continued, not before.
        return False
    if not ends_by_default(signal):
        return False
    bit = 1 << (signal - 1)
    masks = (process.sig_ignored, process.sig_blocked, process.sig_caught)
    if any(mask is not None and mask & bit for mask in masks[:2]):
        return False
    if any(mask is None for mask in masks):
        return None
    return None if process.sig_caught is not None and process.sig_caught & bit else True
