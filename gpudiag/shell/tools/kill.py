"""kill, the shell's own and /bin/kill: PIDs, process groups, and lists made by other commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpudiag.shell.lines import Substitution, Word
from gpudiag.shell.quoting import show_holes
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.signals import TERM, number_of
from gpudiag.shell.tools.common import any_of, hit_code, permitted, refused
from gpudiag.shell.tools.listing import empty, listed, pattern_of
from gpudiag.shell.world import Caller, Candidate, World

_USAGE = "kill: usage: no process is named"


@dataclass(frozen=True)
class _Request:
    signal: int | None
    targets: tuple[Word, ...]


def select(
    words: Sequence[Word], fed_by: Substitution | None, world: World, caller: Caller, ancestors: frozenset[int]
) -> Selection:
    """``words[0]`` is kill; ``fed_by`` is the pipeline before an xargs."""
    request = _request(words)
    if isinstance(request, str):
        return refused(world, caller, request, 1, signal=None)
    lists = [one for word in request.targets for one in word.substitutions]
    if fed_by is not None and fed_by not in lists:
        lists.append(fed_by)
    made = [listed(one, world, caller, ancestors) for one in lists]
    numbers, unreadable = _numbers(request.targets)
    if not request.targets and not lists:
        return refused(world, caller, _USAGE, 2, signal=request.signal)
    verdicts = tuple(
        _combined(process, [one[index] for one in made], numbers, unreadable, caller)
        for index, process in enumerate(world.processes)
    )
    pids = tuple(number for number in numbers if number > 0)
    if lists and not numbers and not unreadable and all(empty(one, world) for one in made):
        # xargs without -r runs kill once without arguments, which ends the same way.
        return Selection(verdicts, request.signal, error=_USAGE, exit_code=2)
    pattern, against = pattern_of(lists[0]) if len(lists) == 1 else (None, None)
    return Selection(
        verdicts,
        request.signal,
        exit_code=_exit_code(verdicts, world, numbers),
        literal_pids=pids,
        pattern=pattern,
        against=against,
    )


def _exit_code(verdicts: tuple[Verdict, ...], world: World, numbers: tuple[int, ...]) -> int | None:
    """Success if anybody was reached; a PID that is not in the table may still exist unless the table is complete."""
    code = hit_code(verdicts, world)
    return None if code == 0 and len(numbers) > 1 else code


def _request(words: Sequence[Word]) -> _Request | str:
    """``-9``, ``-KILL``, ``-s KILL``, ``-n 9``, ``--signal KILL``; behind ``--`` there are only targets."""
    signal: int | None = TERM
    position = 1
    if position < len(words):
        option = words[position].template
        value = words[position + 1].template if position + 1 < len(words) else ""
        if option in ("-s", "-n", "--signal"):
            signal, position = number_of(value), position + 2
            if signal is None and words[position - 1].text is not None:
                return f"{value}: invalid signal specification"
        elif option in ("-l", "-L", "--list", "--table"):
            return "lists the signals only"
        elif option.startswith("--signal="):
            signal, position = number_of(option.partition("=")[2]), position + 1
        elif option != "--" and option.startswith("-") and len(option) > 1:
            signal, position = number_of(option[1:]), position + 1
            if signal is None and words[1].text is not None:
                return f"{option[1:]}: invalid signal specification"
    targets = words[position:]
    if targets and targets[0].template == "--":
        targets = targets[1:]
    return _Request(signal, tuple(targets))


def _numbers(targets: Sequence[Word]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The numbers among the targets, and the targets that cannot be read (variables, ``%1``)."""
    numbers: list[int] = []
    unreadable: list[str] = []
    for word in targets:
        if word.text is not None and re.fullmatch(r"-?[0-9]{1,10}", word.text):
            numbers.append(int(word.text))
        elif word.text is None and word.substitutions and not re.search(r"[^\W_]", show_holes(word.template)):
            continue
        else:
            unreadable.append(word.raw)
    return tuple(numbers), tuple(unreadable)


def _combined(
    process: Candidate, lists: Sequence[Verdict], numbers: tuple[int, ...], unreadable: tuple[str, ...], caller: Caller
) -> Verdict:
    named = _by_number(process, numbers)
    parts = [named, *lists]
    if unreadable:
        parts.append(Verdict(process.pid, None, None, None, f"what {unreadable[0][:40]} stood for is not known"))
    selected = any_of(one.selected for one in parts)
    because = next((one for one in parts if one.selected == selected and one is not named), named)
    chosen = named if named.selected == selected and (selected or not lists) else because
    return replace(chosen, selected=selected, permitted=permitted(caller, process))


def _by_number(process: Candidate, numbers: tuple[int, ...]) -> Verdict:
    if process.pid in numbers:
        return Verdict(process.pid, True, None, None, "its PID is named")
    groups = [-number for number in numbers if number < -1]
    if -1 in numbers and process.pid != 1:
        return Verdict(process.pid, True, None, None, "-1 means every process")
    if groups and process.pgid in groups:
        return Verdict(process.pid, True, None, None, f"its process group {process.pgid} is named")
    if (groups and process.pgid is None) or 0 in numbers:
        return Verdict(process.pid, None, None, None, "its process group, or that of the caller, is not recorded")
    return Verdict(process.pid, False, None, None, "its PID is not named")
