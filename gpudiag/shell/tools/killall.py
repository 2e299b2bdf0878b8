"""killall (psmisc 23): by exact name, the full name of a long one read from argv[0]."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpudiag.shell.lines import Word
from gpudiag.shell.quoting import show_holes
from gpudiag.shell.regex import RegexError, match
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.signals import TERM, number_of
from gpudiag.shell.tools.common import COMM_BYTES, all_of, any_of, comm_text, hit_code, permitted, refused, unknown
from gpudiag.shell.world import Caller, Candidate, World

_SHORT = "egilqrvwIVs:u:n:o:y:Z:"
_LONG = [
    "exact",
    "ignore-case",
    "process-group",
    "interactive",
    "list",
    "quiet",
    "regexp",
    "verbose",
    "wait",
    "version",
    "signal=",
    "user=",
    "ns=",
    "younger-than=",
    "older-than=",
    "context=",
]
_LONG_TO_SHORT = {
    "--exact": "-e",
    "--ignore-case": "-I",
    "--process-group": "-g",
    "--interactive": "-i",
    "--list": "-l",
    "--regexp": "-r",
    "--version": "-V",
    "--user": "-u",
    "--ns": "-n",
    "--younger-than": "-y",
    "--older-than": "-o",
    "--context": "-Z",
}
_NOT_EVALUATED = ("-g", "-i", "-n", "-o", "-y", "-Z")


@dataclass(frozen=True)
class _Request:
    names: tuple[str, ...]
    signal: int
    flags: frozenset[str]
    user: str | None


def select(words: Sequence[Word], world: World, caller: Caller) -> Selection:
    """``words[0]`` is killall; it spares itself only, and no ancestor."""
    values = [word.text for word in words[1:]]
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return unknown(world, caller, "an argument depends on a variable or on another command")
    signal, rest = _take_signal(known)
    try:
        options, names = getopt.gnu_getopt(rest, _SHORT, _LONG)
    except getopt.GetoptError as error:
        return refused(world, caller, str(error), 1, signal=signal)
    flags = {_LONG_TO_SHORT.get(option, option) for option, _ in options}
    user = next((value for option, value in options if option in ("-u", "--user")), None)
    for option, value in options:
        if option in ("-s", "--signal"):
            chosen = number_of(value)
            if chosen is None:
                return refused(world, caller, f"{value}: unknown signal", 1, signal=None)
            signal = chosen
    if flags & {"-l", "-V"} or (not names and user is None):
        return refused(world, caller, "names no process", 1 if not flags & {"-l", "-V"} else 0, signal=signal)
    return _select(_Request(tuple(names), signal, frozenset(flags), user), world, caller)


def _take_signal(arguments: list[str]) -> tuple[int, list[str]]:
    """``-9``, ``-KILL`` and ``-SIGKILL`` in front of or between the names."""
    for position, argument in enumerate(arguments):
        if argument.startswith("-") and not argument.startswith("--"):
            number = number_of(argument[1:])
            if number is not None:
                return number, arguments[:position] + arguments[position + 1 :]
    return TERM, arguments


def _select(request: _Request, world: World, caller: Caller) -> Selection:
    pattern = " ".join(request.names)
    skipped = [flag for flag in _NOT_EVALUATED if flag in request.flags]
    if skipped:
        because = f"killall {skipped[0]} is not evaluated"
        return unknown(world, caller, because, signal=request.signal, understood=False, pattern=pattern, against="comm")
    verdicts: list[Verdict] = [Verdict(p.pid, True, None, None, "no name: the user decides") for p in world.processes]
    if request.names:
        verdicts = [_by_name(process, request) for process in world.processes]
    if "-r" in request.flags:
        found = _by_regex(request, world)
        if isinstance(found, RegexError):
            if found.kind == "invalid":
                return refused(world, caller, found.message, 1, signal=request.signal, pattern=pattern, against="comm")
            return unknown(world, caller, found.message, signal=request.signal, pattern=pattern, against="comm")
        verdicts = found
    done = tuple(
        replace(_of_user(one, process, request.user), permitted=permitted(caller, process))
        for one, process in zip(verdicts, world.processes, strict=True)
    )
    code = hit_code(done, world)
    # With several names killall wants a hit for each of them before it reports success.
    code = None if len(request.names) > 1 and code == 0 else code
    return Selection(done, request.signal, exit_code=code, pattern=pattern or None, against="comm")


def _of_user(verdict: Verdict, process: Candidate, user: str | None) -> Verdict:
    if user is None:
        return verdict
    same = None if process.user is None else process.user == user
    selected = all_of((verdict.selected, same))
    return verdict if selected == verdict.selected else replace(verdict, selected=selected, because=f"-u {user}")


def full_name(process: Candidate) -> tuple[str | None, bool]:
    """The name that is compared and whether it is complete: argv[0] without its directory if comm is full."""
    comm = comm_text(process)
    if comm is None or len(comm.encode()) < COMM_BYTES:
        return comm, comm is not None and not process.comm_cut
    if process.cmdline is None:
        return comm, False
    # argv[0] ends at the first NUL, which the recorded line shows as a blank; a title may hold blanks itself.
    name = process.cmdline.split(" ", 1)[0].rsplit("/", 1)[-1]
    return (name, not process.cmdline_cut) if name.startswith(comm) else (comm, False)


def _by_name(process: Candidate, request: _Request) -> Verdict:
    name, complete = full_name(process)
    if any("/" in wanted for wanted in request.names):
        return Verdict(
            process.pid, None, None, None, "a path is compared with the program's file, which is not recorded"
        )
    if name is None:
        return Verdict(process.pid, None, None, None, "its comm is not recorded")
    results = [_same(wanted, name, complete, request.flags) for wanted in request.names]
    hit = any_of(results)
    verb = {True: "is", False: "is not", None: "may be"}[hit]
    return Verdict(process.pid, hit, None, None, f"its name {verb} one of those given", show_holes(name))


def _same(wanted: str, name: str, complete: bool, flags: frozenset[str]) -> bool | None:
    if "-I" in flags:
        wanted, name = wanted.lower(), name.lower()
    if complete:
        return wanted == name
    if not wanted.startswith(name):
        return False
    # Only 15 bytes are known: without -e killall takes them for the whole, with -e it skips the process.
    return None if len(name.encode()) < COMM_BYTES else "-e" not in flags or len(wanted.encode()) <= COMM_BYTES


def _by_regex(request: _Request, world: World) -> list[Verdict] | RegexError:
    names = [full_name(process)[0] for process in world.processes]
    known = [name for name in names if name is not None]
    found = [False] * len(known)
    for pattern in request.names:
        hits = match(pattern, known, ignore_case="-I" in request.flags)
        if isinstance(hits, RegexError):
            return hits
        found = [bool(hit) or before for hit, before in zip(hits, found, strict=True)]
    answers = iter(found)
    verdicts: list[Verdict] = []
    for process, name in zip(world.processes, names, strict=True):
        hit = None if name is None else next(answers)
        because = "its comm is not recorded" if name is None else "regular expression compared with its name"
        verdicts.append(Verdict(process.pid, hit, None, None, because, name))
    return verdicts
