"""kill, the shell's own and /bin/kill: PIDs, process groups, and lists made by other commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gpudiag.shell.lines import FIRST_LIST_HOLE, HOLE, Substitution, Word
from gpudiag.shell.quoting import show_holes
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.tools.common import all_of, any_of, permitted, refused, unknown
from gpudiag.shell.tools.kill_calls import Calls, calls_of
from gpudiag.shell.tools.kill_dialects import DIALECTS, Request
from gpudiag.shell.tools.listing import Looking, empty, listed, pattern_of
from gpudiag.shell.world import Caller, Candidate, World

_LIST = chr(FIRST_LIST_HOLE)
"""The template of a word that is one list and nothing else."""
_WEIGHT = {True: 2, None: 1, False: 0}
_NEVER = "the list is empty, so it does not run at all"
_USAGE = "kill: usage: no process is named"
_XARGS_FAILED = 123
"""Exit code of xargs when a command that it ran failed."""


def select(
    words: Sequence[Word],
    fed_by: Substitution | None,
    look: Looking,
    dialects: Sequence[str] = ("bash",),
    xargs: Sequence[str] | None = None,
    *,
    looped: bool = False,
) -> Selection:
    """``words[0]`` is kill; ``fed_by`` is the pipeline before an xargs, ``xargs`` that one's options.

    ``dialects`` are the kills that it may be: ``bash``, ``dash`` or ``program``. Where they differ nothing is known.
    ``looped``: it stands in a loop, which runs it for each word of a list.
    """
    if xargs is not None and fed_by is None:
        return unknown(look.world, look.caller, "what xargs reads is not known", understood=False)
    calls = calls_of(words, fed_by, look, xargs, looped=looped)
    if not calls.each:
        return refused(look.world, look.caller, _NEVER, 0, signal=None)
    found = [_together([_one_call(one, calls, look, name, xargs) for one in calls.each], calls) for name in dialects]
    return found[0] if len(found) == 1 else _merged(found)


def _one_call(
    words: Sequence[Word], calls: Calls, look: Looking, dialect: str, xargs: Sequence[str] | None
) -> Selection:
    made = _Lists(words, calls.fed_by, look, calls)
    if made.looped and made.empty and xargs is None:
        return refused(look.world, look.caller, _NEVER, 0, signal=None)
    return _select(DIALECTS[dialect](words[1:]), made, look.world, look.caller, xargs)


def _together(found: list[Selection], calls: Calls) -> Selection:
    """Several calls, one after the other: who is reached by one of them is reached."""
    first = found[0]
    if calls.changes_the_code:
        first = replace(first, exit_code=None)
    if len(found) == 1:
        return first
    telling = [one for one in found if one.error is None] or found
    verdicts = tuple(
        replace(max(several, key=lambda one: _WEIGHT[one.selected]), selected=any_of(one.selected for one in several))
        for several in zip(*(one.verdicts for one in telling), strict=True)
    )
    complaints = [text for one in found for text in (*((one.error,) if one.error else ()), *one.complaints)]
    codes = [one.exit_code for one in found]
    code = codes[-1] if not calls.by_xargs else (None if None in codes else max(code or 0 for code in codes))
    return replace(
        first,
        verdicts=verdicts,
        error=first.error if all(one.error for one in found) else None,
        complaints=tuple(dict.fromkeys(complaints)),
        exit_code=None if calls.changes_the_code else code,
        own_group=any(one.own_group for one in found),
        literal_pids=tuple(dict.fromkeys(pid for one in found for pid in one.literal_pids)),
    )


def _merged(found: list[Selection]) -> Selection:
    """What several kinds of kill agree about."""
    first = found[0]
    verdicts: list[Verdict] = []
    for several in zip(*(one.verdicts for one in found), strict=True):
        same = len({verdict.selected for verdict in several}) == 1
        because = "whether it is reached depends on which kill it is: dash's own, bash's or the program"
        verdicts.append(several[0] if same else replace(several[0], selected=None, because=because))
    return replace(
        first,
        verdicts=tuple(verdicts),
        signal=first.signal if len({one.signal for one in found}) == 1 else None,
        error=first.error if all(one.error for one in found) else None,
        exit_code=first.exit_code if len({one.exit_code for one in found}) == 1 else None,
    )


class _Lists:
    """PIDs that other commands print for this one."""

    def __init__(self, words: Sequence[Word], fed_by: Substitution | None, look: Looking, calls: Calls) -> None:
        printed = [(word, one) for word in words[1:] for one in word.substitutions]
        lists = [one for _, one in printed]
        if fed_by is not None and fed_by not in lists:
            lists.append(fed_by)
        self.fed = fed_by is not None
        self.looped = calls.looped
        self.calls = calls
        around = {id(one): word.template for word, one in printed if one is not fed_by}
        self.made = [
            _in_its_word(
                _as_one_word(listed(one, look)) if one.quoted and one is not fed_by else listed(one, look),
                around.get(id(one), _LIST),
                look.world,
                each=self.looped,
            )
            for one in lists
        ]
        self.changes_the_code = any(one.in_lines or one.quoted for one in lists)
        """What the shell makes of further lines has an exit code of its own."""
        self.names_the_shell = any(v.selected is not False for one in self.made for v in one if v.pid in look.ancestors)
        """A shell above is listed, or may be; then so may its short-lived copies in the pipeline."""
        self.pattern, self.against = pattern_of(lists[0]) if len(lists) == 1 else (None, None)
        self.empty = bool(lists) and all(empty(one, look.world) for one in self.made)


def _select(request: Request, lists: _Lists, world: World, caller: Caller, xargs: Sequence[str] | None) -> Selection:
    code = _code_of(request.exit_code, xargs)
    if request.error is not None:
        return refused(world, caller, request.error, code, signal=None)
    if request.doubt is not None:
        return unknown(world, caller, request.doubt, signal=request.signal)
    targets, bad = _readable(request)
    complaints = tuple(request.complaint % text[:40] for text in bad)
    if not targets and bad:
        return refused(world, caller, complaints[0], code, signal=request.signal)
    numbers, unreadable = _numbers(targets, looped=lists.fed and xargs is None)
    if not numbers and not unreadable and (not lists.made or lists.empty):
        return _without_targets(request, lists, world, caller, xargs)
    verdicts = tuple(
        _combined(lists.calls, process, [one[index] for one in lists.made], numbers, unreadable, caller)
        for index, process in enumerate(world.processes)
    )
    success = _succeeds(request, numbers, bad, unreadable, lists, verdicts, world)
    success = None if lists.changes_the_code else success
    exit_code = None if success is None else (0 if success else code)
    pids = tuple(number for number in numbers if number > 0 and str(number) in lists.calls.written)
    return Selection(
        verdicts,
        request.signal,
        exit_code=exit_code,
        literal_pids=pids,
        pattern=lists.pattern,
        against=lists.against,
        complaints=complaints,
        own_group=0 in numbers,
    )


def _as_one_word(verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """In quotes the list is one argument: one PID is a number, two with a line end between them are none."""
    if sum(one.selected is not False for one in verdicts) < 2:
        return verdicts
    answer = False if sum(one.selected is True for one in verdicts) > 1 else None
    because = "the list stands in quotes: several PIDs are one argument, which is no number"
    return tuple(one if one.selected is False else replace(one, selected=answer, because=because) for one in verdicts)


def _in_its_word(verdicts: tuple[Verdict, ...], template: str, world: World, *, each: bool) -> tuple[Verdict, ...]:
    """Who is meant where the list is a part of its word: ``-$(pgrep -o x)`` is the process group of the one listed.

    ``each``: a loop puts each PID into the word; else only the first and the last have the text around them.
    """
    if template.strip() == _LIST:
        return verdicts
    if template != f"-{_LIST}" or (not each and sum(one.selected is not False for one in verdicts) > 1):
        because = f"what {show_holes(template)[:40]} makes of the list is not known"
        return tuple(replace(one, selected=None, because=because) for one in verdicts)
    leaders = {one.pid: one.selected for one in verdicts if one.selected is not False}
    groups = {process.pid: process.pgid for process in world.processes}
    return tuple(_of_group(one, groups.get(one.pid), leaders) for one in verdicts)


def _of_group(verdict: Verdict, group: int | None, leaders: dict[int, bool | None]) -> Verdict:
    if group is None:
        selected = None if leaders else False
        return replace(verdict, selected=selected, because="its process group is not recorded")
    named = leaders.get(group, False)
    return replace(verdict, selected=named, because=f"its process group {group} is {'' if named else 'not '}named")


def _code_of(code: int, xargs: Sequence[str] | None) -> int:
    return code if xargs is None or code == 0 else _XARGS_FAILED


def _without_targets(
    request: Request, lists: _Lists, world: World, caller: Caller, xargs: Sequence[str] | None
) -> Selection:
    """kill prints its usage; xargs with -r or -I does not run it for an empty list."""
    spared = xargs is not None and lists.made and any(re.match(r"-r|--no-run|-I|--replace|-i", word) for word in xargs)
    code = 0 if spared else _code_of(request.no_target_code, xargs)
    return refused(world, caller, _USAGE, code, signal=request.signal)


def _readable(request: Request) -> tuple[tuple[Word, ...], list[str]]:
    """The targets that it gets to, and those that are no numbers."""
    good: list[Word] = []
    bad: list[str] = []
    for word in request.targets:
        if word.text is not None and not re.fullmatch(r"\s*[+-]?[0-9]{1,10}|%\S*", word.text):
            bad.append(word.text)
            if request.stops:
                break
        else:
            good.append(word)
    return tuple(good), bad


def _numbers(targets: Sequence[Word], *, looped: bool) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The numbers among the targets, and the targets that cannot be read (variables, ``%1``).

    ``looped``: a loop reads the list, and the variable holds one line of it.
    """
    numbers: list[int] = []
    unreadable: list[str] = []
    for word in targets:
        if word.text is not None and not word.text.startswith("%"):
            numbers.append(int(word.text))
        elif not (looped and word.template == HOLE and "$" in word.raw) and not _is_list(word):
            unreadable.append(word.raw)
    return tuple(numbers), tuple(unreadable)


def _is_list(word: Word) -> bool:
    """The word is the output of a command and nothing else."""
    return word.text is None and bool(word.substitutions) and not re.search(r"[^\W_]", show_holes(word.template))


def _succeeds(
    request: Request,
    numbers: tuple[int, ...],
    bad: list[str],
    unreadable: tuple[str, ...],
    lists: _Lists,
    verdicts: tuple[Verdict, ...],
    world: World,
) -> bool | None:
    """Whether the exit code is 0."""
    allowed = {verdict.pid: verdict.permitted for verdict in verdicts}
    reached = [_reached(number, allowed, world) for number in numbers]
    reached += [None] * len(unreadable)
    for one in lists.made:
        # A process that is listed may have gone by the time of the kill; those that stay are the recorded ones.
        reached += [
            all_of((verdict.selected, allowed[verdict.pid])) for verdict in one if verdict.selected is not False
        ]
        reached += [None] if request.needs_all and (lists.names_the_shell or not world.complete) else []
    if request.needs_all:
        return False if bad else all_of(reached)
    doubtful = bool(lists.made) and not world.complete
    return any_of([*reached, None]) if doubtful else any_of(reached)


def _reached(number: int, allowed: dict[int, bool | None], world: World) -> bool | None:
    """Whether one number names somebody who may be signalled."""
    if number > 0 and number in allowed:
        return allowed[number]
    if number == 0:
        return True
    if number < 0:
        group = [allowed[p.pid] for p in world.processes if number == -1 or p.pgid == -number]
        unknown_groups = number != -1 and any(process.pgid is None for process in world.processes)
        found = any_of(group)
        return (
            found if found or (found is False and group) else (None if unknown_groups or not world.complete else False)
        )
    return False if world.complete else None


def _combined(
    calls: Calls,
    process: Candidate,
    lists: Sequence[Verdict],
    numbers: tuple[int, ...],
    unreadable: tuple[str, ...],
    caller: Caller,
) -> Verdict:
    named = _by_number(process, numbers)
    filled_in = calls.printed_by is not None and str(process.pid) not in calls.written
    if filled_in and (named.selected is False or process.pid in numbers):
        there = "its PID is in" if named.selected else "its PID is not in"
        named = replace(named, because=f"{there} what `{(calls.printed_by or '')[:80]}` prints")
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
