"""What the kill tools share: the texts of a process, permissions, three-valued logic, refusals."""

from __future__ import annotations

from collections.abc import Iterable

from gpudiag.shell.lines import Step, Word
from gpudiag.shell.quoting import as_procps, comm_as_procps
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.world import Caller, Candidate, World

COMM_BYTES = 15
_INTERPRETER_LIKE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/"


def all_of(parts: Iterable[bool | None]) -> bool | None:
    """True if all are; False if one is; else unknown."""
    seen = list(parts)
    if any(part is False for part in seen):
        return False
    return None if any(part is None for part in seen) else True


def any_of(parts: Iterable[bool | None]) -> bool | None:
    """True if one is; False if none is; else unknown."""
    seen = list(parts)
    if any(seen):
        return True
    return None if any(part is None for part in seen) else False


def is_title(process: Candidate) -> bool:
    """nvidia-smi's name is a title set by the program, hence its whole command line."""
    return process.text_from == "nvidia-smi" and any(char not in _INTERPRETER_LIKE for char in process.cmdline or "")


def cmdline_text(process: Candidate) -> str | None:
    """What ``-f`` is compared with. A zombie and a kernel thread have no arguments and show their comm."""
    if process.cmdline:
        return as_procps(process.cmdline)
    if process.comm is None or (process.cmdline is None and process.state != "Z" and not process.kernel_thread):
        return None
    return f"[{comm_as_procps(process.comm)}]" + (" <defunct>" if process.state == "Z" else "")


def cmdline_is_partial(process: Candidate) -> bool:
    """More text may follow, so that a pattern that is not found may still be there."""
    if process.cmdline_cut:
        return True
    return process.text_from == "nvidia-smi" and bool(process.cmdline) and not is_title(process)


def comm_text(process: Candidate) -> str | None:
    """What is compared without ``-f``; a title (setproctitle) sets both texts, so it gives the comm too."""
    if process.comm is not None:
        return comm_as_procps(process.comm)
    if is_title(process) and process.cmdline is not None and not process.cmdline_cut:
        return process.cmdline.encode()[:COMM_BYTES].decode("utf-8", "ignore")
    return None


def same_user(caller: Caller, process: Candidate) -> bool | None:
    if caller.uid is not None and process.uid is not None:
        return caller.uid == process.uid
    if caller.user is not None and process.user is not None:
        return caller.user == process.user
    return None


def permitted(caller: Caller, process: Candidate) -> bool | None:
    """Whether kill(2) is allowed: root, or the same user."""
    return any_of((caller.is_root, same_user(caller, process)))


def verdicts_for_all(world: World, caller: Caller, because: str) -> tuple[Verdict, ...]:
    """Nothing can be said about whom the step picks."""
    return tuple(Verdict(p.pid, None, permitted(caller, p), None, because) for p in world.processes)


def unknown(
    world: World,
    caller: Caller,
    because: str,
    *,
    signal: int | None = None,
    understood: bool = True,
    pattern: str | None = None,
    against: str | None = None,
) -> Selection:
    return Selection(
        verdicts_for_all(world, caller, because), signal, pattern=pattern, against=against, understood=understood
    )


def refused(
    world: World,
    caller: Caller,
    error: str,
    exit_code: int | None,
    *,
    signal: int | None,
    pattern: str | None = None,
    against: str | None = None,
) -> Selection:
    """The tool ends with an error before it touches anything."""
    verdicts = tuple(Verdict(p.pid, False, permitted(caller, p), None, error) for p in world.processes)
    return Selection(verdicts, signal, error=error, exit_code=exit_code, pattern=pattern, against=against)


def hit_code(verdicts: tuple[Verdict, ...], world: World) -> int | None:
    """Exit code of a tool that ends with 0 if it signalled anybody and with 1 if not."""
    reached = any_of(all_of((one.selected, one.permitted)) for one in verdicts)
    if reached:
        return 0
    return 1 if reached is False and world.complete else None


def arguments(step: Step) -> tuple[Word, ...]:
    return step.words[1:]
