"""pgrep and pkill (procps-ng 4): which processes their options and pattern select."""

from __future__ import annotations

import getopt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpudiag.shell.lines import Word
from gpudiag.shell.regex import RegexError, match
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.signals import TERM, number_of
from gpudiag.shell.tools.common import (
    COMM_BYTES,
    all_of,
    any_of,
    cmdline_is_partial,
    cmdline_text,
    comm_text,
    hit_code,
    permitted,
    refused,
    unknown,
)
from gpudiag.shell.world import Caller, Candidate, World

_SHORT = "LF:cfinoxP:O:Ag:s:u:U:G:t:r:hV"
_LONG = [
    "count",
    "full",
    "ignore-case",
    "newest",
    "oldest",
    "exact",
    "logpidfile",
    "ignore-ancestors",
    "help",
    "version",
    "parent=",
    "older=",
    "pgroup=",
    "session=",
    "euid=",
    "uid=",
    "group=",
    "terminal=",
    "runstates=",
    "pidfile=",
    "cgroup=",
    "ns=",
    "nslist=",
]
# pkill refuses -v and takes --inverse all the same (4.0.2).
_PKILL = ("eq:", ["echo", "queue=", "signal=", "inverse"])
_PGREP = ("lad:vw", ["list-name", "list-full", "delimiter=", "inverse", "lightweight"])
_LONG_TO_SHORT = {
    "--full": "-f",
    "--ignore-case": "-i",
    "--newest": "-n",
    "--oldest": "-o",
    "--exact": "-x",
    "--ignore-ancestors": "-A",
    "--inverse": "-v",
    "--parent": "-P",
    "--older": "-O",
    "--pgroup": "-g",
    "--session": "-s",
    "--euid": "-u",
    "--uid": "-U",
    "--group": "-G",
    "--terminal": "-t",
    "--runstates": "-r",
    "--pidfile": "-F",
    "--help": "-h",
    "--version": "-V",
}
_NO_RECORD = {
    "-t": "the terminal of a process is not recorded",
    "-G": "the group of a process is not recorded",
    "-O": "-O depends on the time of the call",
    "-F": "what the PID file held is not recorded",
    "--cgroup": "--cgroup is not evaluated",
    "--ns": "--ns is not evaluated",
}
_MAY_BE_ABOVE = frozenset(
    ("bash", "sh", "dash", "zsh", "fish", "sshd", "sudo", "su", "login", "tmux: server", "screen")
)
"""Programs under which people and tools give commands."""
_NUMBERS = ("-P", "-g", "-s")
_LOCALE = "whether the pattern fits depends on the locale of the tool, which is not recorded"
_EVERYWHERE = ("root", "daemon", "bin", "nobody")
"""Users that every Linux has."""
_PASSING = frozenset("RSD")
_CRITERIA = frozenset({"-P", "-g", "-s", "-u", "-U", "-r", *_NO_RECORD})


@dataclass(frozen=True)
class Request:
    """A command line of pkill or pgrep, understood."""

    signal: int | None
    """``None`` for pgrep."""
    pattern: str | None
    flags: frozenset[str]
    criteria: tuple[tuple[str, str], ...]
    """Options that narrow the selection, with their values, as given."""

    @property
    def narrowing(self) -> dict[str, str]:
        """Of an option that is given twice the last one counts."""
        return dict(self.criteria)

    @property
    def against(self) -> str:
        return "cmdline" if "-f" in self.flags else "comm"


@dataclass(frozen=True)
class _Refusal:
    error: str
    exit_code: int
    signal: int | None


def select(words: Sequence[Word], world: World, caller: Caller, ancestors: frozenset[int]) -> Selection:
    """``words[0]`` is pkill or pgrep; ``ancestors`` are processes in ``world`` that stand above it."""
    program = (words[0].text or "").rsplit("/", 1)[-1]
    values = [word.text for word in words[1:]]
    if any(value is None for value in values):
        signal = None if program == "pgrep" else _visible_signal(words)
        return unknown(world, caller, "an argument depends on a variable or on another command", signal=signal)
    request = _request([value for value in values if value is not None], killing=program == "pkill")
    if isinstance(request, _Refusal):
        return refused(world, caller, request.error, request.exit_code, signal=request.signal)
    return _select(request, world, caller, ancestors)


def pattern_of(words: Sequence[Word]) -> tuple[str | None, str | None]:
    """The pattern of a ``pgrep``, and what it is compared with."""
    values = [word.text for word in words[1:]]
    request = _request([value or "" for value in values], killing=False) if all(v is not None for v in values) else None
    if not isinstance(request, Request) or request.pattern is None:
        return None, None
    return request.pattern, request.against


def criteria_of(words: Sequence[Word]) -> tuple[tuple[str, str], ...]:
    """The options that narrow the selection, with their values; empty where the command is refused or not readable."""
    values = [word.text for word in words[1:]]
    if any(value is None for value in values):
        return ()
    killing = (words[0].text or "").rpartition("/")[2] == "pkill"
    request = _request([value or "" for value in values], killing=killing)
    return request.criteria if isinstance(request, Request) else ()


def _visible_signal(words: Sequence[Word]) -> int | None:
    signal, _ = _take_signal([word.template for word in words[1:]])
    return signal


def _take_signal(arguments: list[str]) -> tuple[int, list[str]]:
    """``-9`` and ``-KILL`` may stand anywhere; the first one counts and is taken out before getopt looks."""
    for position, argument in enumerate(arguments):
        if argument.startswith("-") and len(argument) > 1:
            number = number_of(argument[1:])
            if number is not None:
                return number, arguments[:position] + arguments[position + 1 :]
    return TERM, arguments


def _request(arguments: list[str], *, killing: bool) -> Request | _Refusal:
    signal: int | None = None
    if killing:
        signal, arguments = _take_signal(arguments)
    short, long = _PKILL if killing else _PGREP
    try:
        options, operands = getopt.gnu_getopt(arguments, _SHORT + short, [*_LONG, *long])
    except getopt.GetoptError as error:
        return _Refusal(str(error), 2, signal)
    flags: set[str] = set()
    criteria: list[tuple[str, str]] = []
    for option, value in options:
        name = _LONG_TO_SHORT.get(option, option)
        if name == "--signal":
            signal = number_of(value)
            if signal is None:
                return _Refusal(f"signal {value} does not exist: every kill fails", 1, None)
        elif name in _CRITERIA:
            criteria.append((name, value))
        else:
            flags.add(name)
    return _checked(Request(signal, operands[0] if operands else None, frozenset(flags), tuple(criteria)), operands)


def _checked(request: Request, operands: list[str]) -> Request | _Refusal:
    if request.flags & {"-h", "-V"}:
        return _Refusal("prints its help or version only", 0, request.signal)
    if len(operands) > 1:
        return _Refusal("only one pattern can be provided", 2, request.signal)
    if request.flags & {"-L", "--logpidfile"} and not any(option == "-F" for option, _ in request.criteria):
        return _Refusal("-L without -F makes no sense", 2, request.signal)
    if len(request.flags & {"-n", "-o", "-v"}) > 1:
        return _Refusal("-n, -o and -v exclude each other", 2, request.signal)
    for option, value in request.criteria:
        if option in _NUMBERS and not all(re.fullmatch(r"[+-]?[0-9]+", part) for part in value.split(",") if part):
            return _Refusal(f"{option} {value}: not a number", 2, request.signal)
    if not operands and not request.criteria and not request.flags & {"-n", "-o"}:
        return _Refusal("no matching criteria specified", 2, request.signal)
    return request


def _select(request: Request, world: World, caller: Caller, ancestors: frozenset[int]) -> Selection:
    matched = _pattern_verdicts(request, world)
    if isinstance(matched, RegexError):
        if matched.kind == "invalid":
            return refused(
                world,
                caller,
                matched.message,
                # A PID file that cannot be read ends it before the pattern is looked at, with 1.
                None if any(option == "-F" for option, _ in request.criteria) else 2,
                signal=request.signal,
                pattern=request.pattern,
                against=request.against,
            )
        because = f"the pattern was not evaluated: {matched.message}"
        return unknown(world, caller, because, signal=request.signal, pattern=request.pattern, against=request.against)
    verdicts = [
        _narrow(verdict, process, request, caller) for verdict, process in zip(matched, world.processes, strict=True)
    ]
    if "-v" in request.flags:
        verdicts = [replace(one, selected=None if one.selected is None else not one.selected) for one in verdicts]
    if "-A" in request.flags:
        verdicts = [_spare(one, process, ancestors) for one, process in zip(verdicts, world.processes, strict=True)]
    doubtful = _unknown_user(request, world, caller)
    if doubtful is not None:
        because = f"whether the host knows a user {doubtful} is not recorded; if not, the command is refused"
        verdicts = [replace(one, selected=None, because=because) if one.selected else one for one in verdicts]
    if request.flags & {"-n", "-o"}:
        verdicts = _only_one(verdicts, world, newest="-n" in request.flags)
    done = tuple(verdicts)
    return Selection(
        done,
        request.signal,
        exit_code=None if doubtful is not None else _exit_code(request, done, world),
        pattern=request.pattern,
        against=request.against if request.pattern is not None else None,
    )


def _spare(verdict: Verdict, process: Candidate, ancestors: frozenset[int]) -> Verdict:
    """``-A``, which holds for ``-v`` too."""
    if process.pid in ancestors or process.pid == 1:
        return replace(verdict, selected=False, because="-A leaves out the ancestors of the tool")
    if verdict.selected and process.comm in _MAY_BE_ABOVE:
        return replace(verdict, selected=None, because="-A spares it if it is an ancestor of the tool")
    return verdict


def _unknown_user(request: Request, world: World, caller: Caller) -> str | None:
    """A user name in the options that nothing recorded shows to exist."""
    known = {*_EVERYWHERE, caller.user, *(process.user for process in world.processes)}
    names = (name for option, value in request.criteria if option in ("-u", "-U") for name in value.split(","))
    return next((name for name in names if not re.fullmatch(r"[+-]?[0-9]*", name) and name not in known), None)


def _exit_code(request: Request, verdicts: tuple[Verdict, ...], world: World) -> int | None:
    if request.signal is not None:
        return hit_code(verdicts, world)
    found = any_of(one.selected for one in verdicts)
    return 0 if found else (1 if found is False and world.complete else None)


# -- pattern ---------------------------------------------------------------------------------------------------


def _pattern_verdicts(request: Request, world: World) -> list[Verdict] | RegexError:
    processes = world.processes
    if request.pattern is None:
        return [Verdict(process.pid, True, None, None, "no pattern: the other options decide") for process in processes]
    full = "-f" in request.flags
    texts = [cmdline_text(process) if full else comm_text(process) for process in processes]
    known = [text for text in texts if text is not None]
    flags = request.flags
    hits = match(request.pattern, known, ignore_case="-i" in flags, whole="-x" in flags, libc=world.libc)
    if isinstance(hits, RegexError):
        return hits
    answers = iter(_in_any_locale(request, world, known, hits))
    verdicts: list[Verdict] = []
    for process, text in zip(processes, texts, strict=True):
        hit = None if text is None else next(answers)
        verdicts.append(_pattern_verdict(request, process, text, hit))
    return verdicts


def _in_any_locale(
    request: Request, world: World, texts: list[str], hits: list[bool | None]
) -> list[bool | str | None]:
    """In the C locale, which a plain ssh command often has, each byte beyond ASCII is shown as ``?``."""
    assert request.pattern is not None
    found: list[bool | str | None] = list(hits)
    if request.pattern.isascii() and all(map(str.isascii, texts)):
        return found
    flags = request.flags
    shown = ["".join(char if char.isascii() else "?" * len(char.encode()) for char in text) for text in texts]
    others = match(request.pattern, shown, ignore_case="-i" in flags, whole="-x" in flags, locale="C", libc=world.libc)
    if isinstance(others, RegexError):
        others = [None] * len(texts)
    return [hit if hit == other else _LOCALE for hit, other in zip(found, others, strict=True)]


def _pattern_verdict(request: Request, process: Candidate, text: str | None, hit: bool | str | None) -> Verdict:
    full = "-f" in request.flags
    what = "command line" if full else f"comm (at most {COMM_BYTES} bytes)"
    if text is None:
        return Verdict(process.pid, None, None, None, f"its {what} is not recorded")
    if isinstance(hit, str):
        return Verdict(process.pid, None, None, None, hit, text)
    partial = cmdline_is_partial(process) if full else process.comm_cut
    depends_on_end = "-x" in request.flags or "$" in (request.pattern or "")
    if hit is None or (partial and (not hit or depends_on_end)):
        return Verdict(process.pid, None, None, None, f"only a part of its {what} is recorded", text)
    verb = "is found in" if hit else "is not found in"
    return Verdict(process.pid, hit, None, None, f"the pattern {verb} its {what}", text)


# -- the other options -----------------------------------------------------------------------------------------


def _narrow(verdict: Verdict, process: Candidate, request: Request, caller: Caller) -> Verdict:
    verdict = replace(verdict, permitted=permitted(caller, process))
    for option, value in request.narrowing.items():
        meets = _meets(option, value, process)
        selected = all_of((verdict.selected, meets))
        if selected != verdict.selected or (meets is False and not selected):
            because = _NO_RECORD.get(option) or f"{option} {value}: " + (
                "unknown here" if meets is None else "does not fit"
            )
            verdict = replace(verdict, selected=selected, because=because)
    return verdict


def _meets(option: str, value: str, process: Candidate) -> bool | None:
    wanted = [part.removeprefix("+") for part in value.split(",")]
    if "" in wanted:
        return None
    if option in ("-u", "-U"):
        return _user_in(wanted, process)
    if option == "-r":
        return _in_state(frozenset(value) - {","}, process.state)
    numbers = {"-P": process.ppid, "-g": process.pgid, "-s": process.sid}
    if option not in numbers:
        return None
    number = numbers[option]
    if number is None or (option != "-P" and "0" in wanted):
        return None
    return str(number) in wanted


def _in_state(letters: frozenset[str], state: str | None) -> bool | None:
    """Between the look and the command a living process may have gone to sleep or woken up."""
    if state is None or state not in _PASSING:
        return None if state is None else state in letters
    return True if letters >= _PASSING else (None if letters & _PASSING else False)


def _user_in(wanted: list[str], process: Candidate) -> bool | None:
    if process.user is not None and process.user in wanted:
        return True
    if process.uid is not None and (str(process.uid) in wanted or (process.uid == 0 and "root" in wanted)):
        return True
    names_known = process.user is not None or all(name.isdigit() for name in wanted)
    numbers_known = process.uid is not None or not any(name.isdigit() for name in wanted)
    return False if names_known and numbers_known else None


def _only_one(verdicts: list[Verdict], world: World, *, newest: bool) -> list[Verdict]:
    """``-n`` and ``-o`` keep one of the matches; which one is known only if all start times are."""
    starts = {process.pid: process.start for process in world.processes}
    candidates = [one for one in verdicts if one.selected is not False]
    sure = [one for one in candidates if one.selected]
    known = all(starts[one.pid] is not None for one in candidates)
    if len(candidates) != len(sure) or not known or not sure:
        because = "which of the matches is the newest or oldest is not known"
        return [one if one.selected is False else replace(one, selected=None, because=because) for one in verdicts]
    # Of two that started in the same tick the higher PID counts as the younger.
    ordered = sorted(sure, key=lambda one: (starts[one.pid] or 0.0, one.pid))
    chosen = ordered[-1] if newest else ordered[0]
    word = "newest" if newest else "oldest"
    return [
        one
        if not one.selected or one.pid == chosen.pid
        else replace(one, selected=False, because=f"not the {word} match")
        for one in verdicts
    ]
