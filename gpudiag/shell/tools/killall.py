"""killall (psmisc 23): by exact name, the full name of a long one read from argv[0]."""

from __future__ import annotations

import getopt
import re
import string
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
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_NOT_EVALUATED = ("-i", "-n", "-o", "-y", "-Z")


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
    named = _named(request, world)
    if isinstance(named, RegexError):
        if named.kind == "invalid":
            return refused(world, caller, named.message, 1, signal=request.signal, pattern=pattern, against="comm")
        return unknown(world, caller, named.message, signal=request.signal, pattern=pattern, against="comm")
    done = tuple(
        replace(_of_user(one.verdict, process, request.user), permitted=permitted(caller, process))
        for one, process in zip(named, world.processes, strict=True)
    )
    if "-r" not in request.flags and any("/" in name for name in request.names):
        because = "a path is given: where there is no such file killall ends before it looks at anybody"
        done = tuple(replace(one, selected=None, because=because) if one.selected else one for one in done)
    code = _exit_code(request, named, done, world)
    if "-g" in request.flags:
        done = _whole_groups(done, world)
    return Selection(done, request.signal, exit_code=code, pattern=pattern or None, against="comm")


@dataclass(frozen=True)
class _Named:
    """A process with the first of the names that fits it."""

    verdict: Verdict
    name: int | None


def _named(request: _Request, world: World) -> list[_Named] | RegexError:
    if not request.names:
        because = "no name: the user decides"
        seen = [not _unreadable(p) and not _skipped(p, request.flags) for p in world.processes]
        return [
            _Named(Verdict(p.pid, hit, None, None, because), 0) for p, hit in zip(world.processes, seen, strict=True)
        ]
    by_name: list[list[bool | None]] = []
    for wanted in request.names:
        hits = _by_regex(wanted, request, world) if "-r" in request.flags else None
        if isinstance(hits, RegexError):
            return hits
        by_name.append(hits or [_same(wanted, process, request.flags) for process in world.processes])
    return [
        _one(process, [hits[index] for hits in by_name], "-r" in request.flags)
        for index, process in enumerate(world.processes)
    ]


def _one(process: Candidate, hits: list[bool | None], regex: bool) -> _Named:
    hit = any_of(hits)
    shown = full_name(process)[0]
    if shown is None:
        return _Named(Verdict(process.pid, hit, None, None, "its comm is not recorded"), None)
    verb = {True: "is", False: "is not", None: "may be"}[hit]
    because = "regular expression compared with its name" if regex else f"its name {verb} one of those given"
    certain = None not in hits[: hits.index(True)] if hit else False
    return _Named(
        Verdict(process.pid, hit, None, None, because, show_holes(shown)), hits.index(True) if certain else None
    )


def _exit_code(request: _Request, named: list[_Named], done: tuple[Verdict, ...], world: World) -> int | None:
    """Success only if every name reached somebody, each process counting for the first name that fits it."""
    code = hit_code(done, world)
    if code != 0 or len(request.names) < 2:
        return code
    sure = {one.name for one, verdict in zip(named, done, strict=True) if verdict.selected and verdict.permitted}
    if set(range(len(request.names))) <= sure:
        return 0
    doubtful = any(verdict.selected is None or (verdict.selected and verdict.permitted is None) for verdict in done)
    return None if doubtful or None in sure or not world.complete else 1


def _whole_groups(verdicts: tuple[Verdict, ...], world: World) -> tuple[Verdict, ...]:
    """``-g`` signals the process group of each match."""
    groups = {process.pid: process.pgid for process in world.processes}
    hit = {groups[one.pid] for one in verdicts if one.selected}
    maybe = {groups[one.pid] for one in verdicts if one.selected is None}
    found: list[Verdict] = []
    for one in verdicts:
        group = groups[one.pid]
        inside = (
            True if group is not None and group in hit else (None if group in maybe or None in hit | maybe else False)
        )
        because = one.because if one.selected == inside else "-g: the process group of a match"
        found.append(replace(one, selected=inside, because=because))
    return tuple(found)


def _of_user(verdict: Verdict, process: Candidate, user: str | None) -> Verdict:
    if user is None:
        return verdict
    same = None if process.user is None else process.user == user
    selected = all_of((verdict.selected, same))
    return verdict if selected == verdict.selected else replace(verdict, selected=selected, because=f"-u {user}")


def full_name(process: Candidate) -> tuple[str | None, bool]:
    """The name that is compared and whether it is complete: an argument without its directory if comm is full."""
    comm = comm_text(process) if process.comm is None else process.comm
    if comm is None or len(comm.encode()) < COMM_BYTES:
        return comm, comm is not None and not process.comm_cut
    if process.cmdline is None or "/" in comm:  # no argument without its directory begins so
        return comm, False
    # The first argument that begins so; arguments end at NULs, which the recorded line shows as blanks.
    found = re.search(rf"(?:\A|[ /])({re.escape(comm)}[^ /]*)(?= |\Z)", process.cmdline)
    return (comm, False) if found is None else (found[1], not process.cmdline_cut)


def _skipped(process: Candidate, flags: frozenset[str]) -> bool:
    """``-e`` leaves out whose name may be longer than what is known of it."""
    name, complete = full_name(process)
    return "-e" in flags and name is not None and not complete and len(name.encode()) >= COMM_BYTES


def _unreadable(process: Candidate) -> bool:
    """A name with a line feed breaks the line of ``/proc/PID/stat`` that killall reads."""
    return process.comm is not None and "\n" in process.comm


def _same(wanted: str, process: Candidate, flags: frozenset[str]) -> bool | None:
    """Whether the process has this very name; ``None`` if the evidence cannot tell."""
    name, complete = full_name(process)
    if _unreadable(process):
        return False
    # A path is compared with the program's file, which is not recorded.
    if name is None or "/" in wanted:
        return None
    if "-I" in flags:
        # strcasecmp compares bytes, so that only ASCII letters have a case.
        wanted, name = (text.translate(_LOWER) for text in (wanted, name))
    if complete:
        return wanted == name
    if len(name.encode()) < COMM_BYTES:
        return None if wanted.startswith(name) else False
    # Only 15 bytes are known: -e skips the process, otherwise they count as the whole name.
    return "-e" not in flags and wanted.startswith(name)


def _by_regex(pattern: str, request: _Request, world: World) -> list[bool | None] | RegexError:
    names = [full_name(process) for process in world.processes]
    texts = [name or "" for name, _ in names]
    hits = match(pattern, texts, ignore_case="-I" in request.flags, libc=world.libc)
    if isinstance(hits, RegexError):
        return hits
    if not pattern.isascii() or not all(map(str.isascii, texts)):
        others = match(pattern, texts, ignore_case="-I" in request.flags, locale="C", libc=world.libc)
        # Which locale the tool had is not recorded.
        others = [None] * len(hits) if isinstance(others, RegexError) else others
        hits = [hit if hit == other else None for hit, other in zip(hits, others, strict=True)]
    found: list[bool | None] = []
    for process, (name, complete), hit in zip(world.processes, names, hits, strict=True):
        skipped = _unreadable(process) or ("-e" in request.flags and not complete and process.comm is not None)
        found.append(False if skipped else (None if name is None else hit))
    return found
