"""Commands that print PIDs for a kill: ``pgrep``, ``ps | grep``, ``nvidia-smi --query-compute-apps``, ``lsof`` …"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpudiag.shell.lines import Substitution, Word
from gpudiag.shell.regex import RegexError, match
from gpudiag.shell.selection import Verdict
from gpudiag.shell.text.base import Lines
from gpudiag.shell.text.pipeline import filtered
from gpudiag.shell.tools import fuser, pgrep, proc_text, smi
from gpudiag.shell.tools.columns import of_ps, printed, skips_header
from gpudiag.shell.tools.common import (
    all_of,
    any_of,
    cmdline_is_partial,
    cmdline_text,
    comm_text,
    permitted,
    verdicts_for_all,
)
from gpudiag.shell.tools.killall import full_name
from gpudiag.shell.world import Caller, Candidate, World
from gpudiag.shell.wrappers import Stripped, options_end, strip

_KEEPS_ALL = ("sort", "uniq", "cat", "tr", "xargs", "tac", "sed")
_GREPS = ("grep", "egrep", "fgrep")
_LSOF_WITH_VALUE = "+cDgikopsuFTdS"


@dataclass(frozen=True)
class Looking:
    """What a command that prints PIDs finds when it looks."""

    world: World
    caller: Caller
    ancestors: frozenset[int] = frozenset()
    """Stand-ins in ``world`` for the processes above the step."""
    earlier: Mapping[int, frozenset[int]] = field(default_factory=dict[int, "frozenset[int]"])
    """Those of them that were there already when the shell so many levels up expanded a list; a level that is missing
    lies on another host."""


def listed(produced: Substitution, look: Looking) -> tuple[Verdict, ...]:
    """For each process: is its PID in what the command prints."""
    found = _when_made(produced, look)
    return _of_first_line(produced, found) if produced.in_lines else found


def exact_lines(produced: Substitution, look: Looking) -> Lines | None:
    """The very lines that the command prints, where its source was recorded as text; ``None`` where it was not."""
    texts = set(texts_of(produced, look) or ())
    return texts.pop() if len(texts) == 1 else None


def texts_of(produced: Substitution, look: Looking) -> tuple[Lines, ...] | None:
    """Every text that the command may print, as far as its source was recorded; ``None`` where it was not."""
    stages = [strip(words) for words in produced.pipeline]
    if not stages or not all(stage.words for stage in stages) or produced.text.strip() in look.world.printed_lists:
        return None
    if produced.levels and produced.levels not in look.earlier:
        return None
    if any("xargs" in stage.names for stage in stages[:1]) or any(w.usage.other_namespace for w in stages[0].wrappers):
        return None
    sources = _sources(produced, stages[0].words, look.world)
    if sources is None:
        return None
    filters = [[word.text for word in _with_xargs(stage)] for stage in stages[0 if produced.stdin else 1 :]]
    texts = [filtered(lines, filters) for lines in sources]
    known = tuple(lines for lines in texts if lines is not None)
    return known if len(known) == len(texts) else None


def _sources(produced: Substitution, words: Sequence[Word], world: World) -> tuple[Lines, ...] | None:
    """What the first command reads or prints."""
    if produced.stdin is not None:
        return proc_text.read(produced.stdin, world)
    if _name(words) == "cat" and len(words) == 2:
        return proc_text.read(words[1].text or "", world)
    lines = smi.printed(words, world) if _name(words) == "nvidia-smi" else None
    return None if lines is None else (lines,)


def _with_xargs(stage: Stripped) -> tuple[Word, ...]:
    """A filter as it was typed: with what stood in front of it, which here can only be xargs."""
    return stage.wrappers[0].words if stage.wrappers else stage.words


def _when_made(produced: Substitution, look: Looking) -> tuple[Verdict, ...]:
    if produced.levels == 0:
        return _listed(produced, look)
    there = look.earlier.get(produced.levels)
    if there is None:
        because = "the list is made by the shell above, before this one starts; what it saw there is not known"
        return verdicts_for_all(look.world, look.caller, because)
    later = look.ancestors - there
    kept = tuple(process for process in look.world.processes if process.pid not in later)
    found = {one.pid: one for one in _listed(produced, replace(look, world=replace(look.world, processes=kept)))}
    missing = "it started after the list was made"
    return tuple(
        found.get(p.pid) or Verdict(p.pid, False, permitted(look.caller, p), None, missing)
        for p in look.world.processes
    )


def _of_first_line(produced: Substitution, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """What is left where the shell took every further line for a command of its own."""
    if _in_one_line(produced):
        return verdicts
    listed_ones = sorted((one for one in verdicts if one.selected is not False), key=_age)
    if len(listed_ones) < 2:
        return verdicts
    if not listed_ones[0].selected or not _by_pid(produced):
        return _doubted(verdicts, "only the first line of the list is an argument; which PID that is is not known")
    because = "only the first line of the list is an argument, the others are commands of their own"
    first = listed_ones[0].pid
    return tuple(one if one.pid == first else replace(one, selected=False, because=because) for one in verdicts)


def _age(verdict: Verdict) -> tuple[bool, int]:
    """The order of /proc; a stand-in, below zero, is younger than anything recorded."""
    return verdict.pid < 0, abs(verdict.pid)


def _in_one_line(produced: Substitution) -> bool:
    stages = [strip(words).words for words in produced.pipeline]
    names = [_name(words) for words in stages if words]
    if not names or names[-1] in ("xargs", "paste", "echo"):
        return bool(names)
    spaced = any(re.match(r"-d|--delim", word.template) for word in stages[0][1:])
    return names[0] in ("fuser", "pidof") or (names[0] == "pgrep" and spaced)


def _by_pid(produced: Substitution) -> bool:
    """It prints its PIDs in the order of /proc."""
    names = [_name(strip(words).words) for words in produced.pipeline if words]
    return names[:1] in (["pgrep"], ["ps"], ["lsof"]) and set(names[1:]) <= {*_GREPS, "awk", "cut"}


def _listed(produced: Substitution, look: Looking) -> tuple[Verdict, ...]:
    world, caller = look.world, look.caller
    printed = world.printed_lists.get(produced.text.strip())
    if printed is not None:
        because = {True: "its PID was in the file", False: "its PID was not in the file"}
        return tuple(Verdict(p.pid, p.pid in printed, None, None, because[p.pid in printed]) for p in world.processes)
    stages = [strip(words) for words in produced.pipeline]
    if not stages or not all(stage.words for stage in stages):
        return verdicts_for_all(world, caller, f"what `{produced.text}` printed is not known")
    if any(wrapper.user == "root" for wrapper in stages[0].wrappers):
        caller = Caller("root", 0)
    words = stages[0].words
    filters = [stage.words for stage in stages[1:]]
    program = _name(words)
    if program == "ps":
        return _ps(words, filters, world, caller)
    if program == "pgrep":
        return _filtered(pgrep.select(words, world, caller, look.ancestors).verdicts, filters)
    source = _SOURCES.get(program)
    if source is None:
        return verdicts_for_all(world, caller, f"what `{produced.text}` printed is not known")
    verdicts = source(words, world, caller)
    if program == "fuser" and any(_name(one) in ("awk", "cut", "head", "tail", "sed", "grep") for one in filters):
        # All PIDs stand in one line, and what -v adds has no fixed columns.
        return _doubted(verdicts, "fuser prints its PIDs in one line; which of them the filter leaves is not known")
    if program == "nvidia-smi" and filters and _prints_pids_only(words):
        filters = [one for one in filters if not skips_header(one)]
    return _filtered(verdicts, filters)


def _doubted(verdicts: tuple[Verdict, ...], because: str) -> tuple[Verdict, ...]:
    return tuple(replace(one, selected=None, because=because) if one.selected else one for one in verdicts)


def _prints_pids_only(words: Sequence[Word]) -> bool:
    return any(re.fullmatch(r"--query-compute-apps=pid", word.template) for word in words)


def pattern_of(produced: Substitution) -> tuple[str | None, str | None]:
    """The pattern by which ``pgrep`` or ``ps | grep`` picks, and what it is compared with (``comm``, ``cmdline``)."""
    stages = [strip(words).words for words in produced.pipeline]
    if not stages or not stages[0]:
        return None, None
    if _name(stages[0]) == "pgrep":
        return pgrep.pattern_of(stages[0])
    if _name(stages[0]) != "ps":
        return None, None
    picking = [found for words in stages[1:] if words and (found := _grep_pattern(words)) is not None]
    against = "cmdline" if _shows_arguments([word.template for word in stages[0][1:]]) else "comm"
    return (picking[0], against) if picking else (None, None)


def _grep_pattern(words: Sequence[Word]) -> str | None:
    """The pattern of a ``grep`` that picks lines; ``None`` for one that drops them."""
    options = [word.template for word in words[1:] if word.template.startswith("-")]
    if _name(words) not in _GREPS or any("v" in option for option in options if not option.startswith("--")):
        return None
    given = _given_patterns(words[1:])
    if given:
        return "|".join(text or "?" for text in given)
    return next((word.text for word in words[1:] if not word.template.startswith("-")), None)


def _name(words: Sequence[Word]) -> str:
    return (words[0].text or "").rsplit("/", 1)[-1]


def _filtered(verdicts: tuple[Verdict, ...], filters: Sequence[Sequence[Word]]) -> tuple[Verdict, ...]:
    """A filter that may drop lines makes every hit uncertain; a miss stays a miss."""
    for words in filters:
        prints_column = _name(words) in ("awk", "cut") and "/" not in words[-1].template
        if _name(words) not in _KEEPS_ALL and not prints_column:
            because = f"whether {_name(words) or 'the filter'} lets it through is not known"
            verdicts = _doubted(verdicts, because)
    return verdicts


# -- sources ---------------------------------------------------------------------------------------------------


def _nvidia_smi(words: Sequence[Word], world: World, caller: Caller) -> tuple[Verdict, ...]:
    texts = [word.template for word in words[1:]]
    query = next((text for text in texts if text.startswith(("--query-compute-apps", "--query-compute"))), None)
    if query is None or world.compute_pids is None:
        because = "the compute list of nvidia-smi is not recorded" if query else "not the compute list of nvidia-smi"
        return verdicts_for_all(world, caller, because)
    one_gpu = any(re.match(r"-i|--id", text) for text in texts)
    verdicts: list[Verdict] = []
    for process in world.processes:
        inside = process.pid in world.compute_pids
        because = "nvidia-smi lists it as a compute process" if inside else "nvidia-smi does not list it: no context"
        selected = None if inside and one_gpu else inside
        verdicts.append(Verdict(process.pid, selected, None, None, because))
    return tuple(verdicts)


def _fuser(words: Sequence[Word], world: World, caller: Caller) -> tuple[Verdict, ...]:
    return fuser.select(words, world, caller).verdicts


def _lsof(words: Sequence[Word], world: World, caller: Caller) -> tuple[Verdict, ...]:
    end = options_end(tuple(words), _LSOF_WITH_VALUE, ())
    files = tuple(words[end:])
    if not files or any(re.match(r"-[A-Za-z]*[iupcgdsa]|\+", word.template) for word in words[1:end]):
        because = "who holds a socket is not recorded" if _asks_sockets(words[1:end]) else "not a list of device files"
        return verdicts_for_all(world, caller, because)
    return fuser.select((words[0], *files), world, caller).verdicts


def _asks_sockets(options: Sequence[Word]) -> bool:
    return any(re.match(r"-[A-Za-z]*i", word.template) for word in options)


def _pidof(words: Sequence[Word], world: World, caller: Caller) -> tuple[Verdict, ...]:
    names = [word.text for word in words[1:] if not word.template.startswith("-")]
    if any(name is None for name in names):
        return verdicts_for_all(world, caller, "the name depends on a variable or on another command")
    return tuple(_pidof_verdict(process, [name for name in names if name]) for process in world.processes)


def _pidof_verdict(process: Candidate, names: Sequence[str]) -> Verdict:
    name, complete = full_name(process)
    first = None if process.cmdline is None else process.cmdline.split(" ", 1)[0]
    candidates = {name if complete else None, first, None if first is None else first.rsplit("/", 1)[-1]}
    hit = True if any(one in names for one in candidates if one) else (None if None in candidates else False)
    return Verdict(process.pid, hit, None, None, "pidof compares the program's name", first or name)


_Source = Callable[[Sequence[Word], World, Caller], tuple[Verdict, ...]]
_SOURCES: dict[str, _Source] = {
    "nvidia-smi": _nvidia_smi,
    "fuser": _fuser,
    "lsof": _lsof,
    "pidof": _pidof,
}


# -- ps | grep -------------------------------------------------------------------------------------------------


def _ps(words: Sequence[Word], filters: Sequence[Sequence[Word]], world: World, caller: Caller) -> tuple[Verdict, ...]:
    """Runs the greps over the line that ps would print for each process."""
    full = _shows_arguments([word.template for word in words[1:]])
    texts = [cmdline_text(process) if full else comm_text(process) for process in world.processes]
    lines = [f"{p.user or ''} {p.pid} {text or ''}" for p, text in zip(world.processes, texts, strict=True)]
    kept: list[list[bool | None]] = []
    rest: list[Sequence[Word]] = []
    for stage in filters:
        answers = _grep(stage, lines)
        if answers is None:
            rest.append(stage)
        else:
            kept.append(answers)
    verdicts: list[Verdict] = []
    for number, (process, text) in enumerate(zip(world.processes, texts, strict=True)):
        selected = all_of(answers[number] for answers in kept)
        partial = text is None or (cmdline_is_partial(process) if full else process.comm_cut)
        selected = None if partial and not selected else selected
        verb = {True: "passes the greps", False: "does not pass the greps", None: "is not known"}[selected]
        verdicts.append(Verdict(process.pid, selected, None, None, f"its ps line {verb}", text))
    if not kept:
        return verdicts_for_all(world, caller, "which lines of ps are used is not known")
    return _of_column(tuple(verdicts), _filtered(tuple(verdicts), rest), words, filters, world)


def _of_column(
    passing: tuple[Verdict, ...],
    verdicts: tuple[Verdict, ...],
    words: Sequence[Word],
    filters: Sequence[Sequence[Word]],
    world: World,
) -> tuple[Verdict, ...]:
    """The PIDs are those of the lines only if the column that is printed is the PID; PPID is mistaken for it."""
    picker = next((stage for stage in filters if _name(stage) in ("awk", "cut")), None)
    if picker is None:
        return verdicts
    squeezed = any(_name(stage) == "tr" and "-s" in [word.text for word in stage] for stage in filters)
    number = printed(picker, squeezed=squeezed)
    columns = of_ps([word.template for word in words[1:]])
    column = columns[number - 1] if number and columns and number <= len(columns) else None
    if column == "pid":
        return verdicts
    if column == "ppid":
        return _parents(passing, world)
    if column is None and (number is None or columns is None):
        return _unknown_numbers(verdicts, "which column of ps is used is not known")
    return _unknown_numbers(verdicts, f"column {number} of this ps is not the PID")


def _unknown_numbers(verdicts: tuple[Verdict, ...], because: str) -> tuple[Verdict, ...]:
    """Numbers of another column may be anybody's."""
    return tuple(replace(one, selected=None, because=because) for one in verdicts)


def _parents(passing: tuple[Verdict, ...], world: World) -> tuple[Verdict, ...]:
    parents = {process.pid: process.ppid for process in world.processes}
    sure = {parents[one.pid] for one in passing if one.selected}
    maybe = {parents[one.pid] for one in passing if one.selected is not False}
    because = "the column is the parent's PID"
    return tuple(
        replace(
            one,
            selected=True if one.pid in sure else (None if one.pid in maybe or None in maybe else False),
            because=because,
        )
        for one in passing
    )


def _shows_arguments(arguments: Sequence[str]) -> bool:
    """``ps aux``, ``ps -ef`` and formats with args show the command line, ``ps -e`` the comm."""
    shown = " ".join(arguments)
    if re.search(r"\b(?:args|cmd|command)\b", shown):
        return True
    if re.search(r"\b(?:comm|ucmd)\b", shown):
        return False
    bsd = bool(arguments) and not arguments[0].startswith("-")
    return bsd or re.search(r"(?:^|\s)-[A-Za-z]*[fF]", shown) is not None


def _grep(words: Sequence[Word], lines: Sequence[str]) -> list[bool | None] | None:
    """Which lines a grep (or ``awk '/…/'``) lets through; ``None`` if the stage is no such filter."""
    program = _name(words)
    if program == "awk":
        found = re.match(r"\s*/((?:[^/\\]|\\.)+)/\s*\{", words[-1].text or "")
        return _matched(found[1].replace("\\/", "/"), lines, True) if found else None
    if program not in _GREPS:
        return None
    end = options_end(tuple(words), "efmABC", ("regexp", "file"))
    options = words[1:end]
    flags = {letter for word in options if re.match(r"-[A-Za-z]+$", word.template) for letter in word.template[1:]}
    given = _given_patterns(options)
    patterns = given or ([words[end].text] if end < len(words) else [])
    if not patterns or None in patterns or flags & set("PfLlcxomz"):
        return None
    fixed, extended = program == "fgrep" or "F" in flags, program == "egrep" or "E" in flags
    found = [
        _matched(_as_regex(text or "", fixed, extended, "w" in flags), lines, extended, bool(flags & {"i", "y"}))
        for text in patterns
    ]
    if any(one is None for one in found):
        return None
    # Several -e: a line passes if one of them is in it.
    answers = [any_of(each) for each in zip(*(one for one in found if one is not None), strict=True)]
    if "v" not in flags:
        return answers
    return [None if answer is None else not answer for answer in answers]


def _given_patterns(options: Sequence[Word]) -> list[str | None]:
    """Every ``-e PATTERN``, ``-ePATTERN`` and ``--regexp=PATTERN``."""
    found: list[str | None] = []
    for position, word in enumerate(options):
        if re.fullmatch(r"-[A-Za-z]*e|--regexp", word.template):
            found.append(options[position + 1].text if position + 1 < len(options) else None)
        elif word.template.startswith("--regexp="):
            found.append(word.template.partition("=")[2])
        elif re.match(r"-e.", word.template):
            found.append(word.template[2:])
    return found


def _as_regex(pattern: str, fixed: bool, extended: bool, whole_words: bool) -> str:
    if fixed:
        pattern = re.sub(r"([][\\.*^$])", r"\\\1", pattern)
    if whole_words:
        return f"\\<({pattern})\\>" if extended else f"\\<\\({pattern}\\)\\>"
    return pattern


def _matched(pattern: str, lines: Sequence[str], extended: bool, ignore_case: bool = False) -> list[bool | None] | None:
    hits = match(pattern, lines, extended=extended, ignore_case=ignore_case)
    return None if isinstance(hits, RegexError) else hits


def empty(verdicts: Sequence[Verdict], world: World) -> bool | None:
    """Whether the command prints no PID at all."""
    reached = any_of(one.selected for one in verdicts)
    if reached:
        return False
    return True if reached is False and world.complete else None
