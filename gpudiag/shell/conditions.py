"""Exit codes of conditions: ``[``, ``test``, ``case`` and ``grep -q`` over texts that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product

from gpudiag.shell.lines import HOLE, Step, Substitution, Word
from gpudiag.shell.quoting import list_number
from gpudiag.shell.text.base import UnreadError
from gpudiag.shell.text.grep import read
from gpudiag.shell.tools.listing import Looking, texts_of
from gpudiag.shell.tools.proc_text import device_links
from gpudiag.shell.words import first_program
from gpudiag.shell.world import World
from gpudiag.shell.wrappers import strip

_MAX_COMBINATIONS = 64
_MAX_VALUE = 64 * 1024
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda one, other: one == other,
    "-ne": lambda one, other: one != other,
    "-lt": lambda one, other: one < other,
    "-le": lambda one, other: one <= other,
    "-gt": lambda one, other: one > other,
    "-ge": lambda one, other: one >= other,
}


def status_of(step: Step, look: Looking) -> int | None:
    """0 or 1; ``None`` for any other command, or where it cannot be told."""
    program = first_program(step.words)
    if step.container is not None or step.wrappers:
        return None
    if program in ("[", "test"):
        operands = step.words[1:-1] if program == "[" else step.words[1:]
        return _same_for_all(operands, look, lambda values: _test(values, look.world))
    if program == "case":
        patterns = [word.text for word in step.words[2:]]
        return _same_for_all(step.words[1:2], look, lambda values: _case(values[0], patterns))
    if program in ("grep", "egrep", "fgrep") and step.piped_from is not None:
        return _grep(step, step.piped_from, look)
    return None


def _same_for_all(words: Sequence[Word], look: Looking, answer: Callable[[list[str]], bool | None]) -> int | None:
    """The answer, if it is the same whatever the values are."""
    possible = [_values(word, look) for word in words]
    if not possible or None in possible:
        return None
    combinations = list(product(*(one for one in possible if one is not None)))
    if len(combinations) > _MAX_COMBINATIONS or any(len(value) > _MAX_VALUE for one in combinations for value in one):
        return None
    answers = {answer(list(one)) for one in combinations}
    only = answers.pop() if len(answers) == 1 else None
    return None if only is None else int(not only)


def _values(word: Word, look: Looking) -> set[str] | None:
    if word.text is not None:
        return {word.text}
    number = list_number(word.template) if len(word.template) == 1 else None
    if number is None or word.template == HOLE or number >= len(word.substitutions):
        return None
    texts = texts_of(word.substitutions[number], look)
    if texts is None or word.substitutions[number].levels:
        return None
    values = {"\n".join(lines).rstrip("\n") for lines in texts}
    # Without quotes the value is split, and an empty one is no argument at all.
    splits = not word.substitutions[number].quoted and any(
        not value or re.search(r"[\s*?\[]", value) for value in values
    )
    return None if splits else values


def _test(values: list[str], world: World) -> bool | None:
    negated = len(values) > 1 and values[0] == "!"
    values = values[1:] if negated else values
    answer: bool | None = None
    if len(values) == 1:
        answer = bool(values[0])
    elif len(values) == 2:
        answer = _one(values[0], values[1], world)
    elif len(values) == 3:
        answer = _two(*values)
    return answer if answer is None or not negated else not answer


def _one(operator: str, value: str, world: World) -> bool | None:
    if operator in ("-n", "-z"):
        return bool(value) == (operator == "-n")
    folder = re.fullmatch(r"/proc/([1-9]\d{0,9})/?", value)
    if folder is None or operator not in ("-d", "-e"):
        return None
    there = any(process.pid == int(folder[1]) for process in world.processes)
    return True if there else (False if world.complete else None)


def _two(one: str, operator: str, other: str) -> bool | None:
    if operator in ("=", "=="):
        return one == other
    if operator == "!=":
        return one != other
    if operator not in _NUMBERS or not all(re.fullmatch(r"-?\d{1,18}", text) for text in (one, other)):
        return None
    return _NUMBERS[operator](int(one), int(other))


def _case(value: str, patterns: Sequence[str | None]) -> bool | None:
    found = [None if pattern is None else re.fullmatch(pattern, value) is not None for pattern in patterns]
    return True if True in found else (None if None in found else False)


def _grep(step: Step, source: Substitution, look: Looking) -> int | None:
    words = [word.text for word in step.words]
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return None
    try:
        asked = read(known[0].rpartition("/")[2], known[1:])
        if (links := _links(source, look.world)) is not None:
            # Only the device files are known: what is found is there, what is not found may be.
            return 0 if not asked.inverts and any(asked.picks(links)) else None
        texts = texts_of(source, look)
        answers = {any(asked.picks(lines)) for lines in texts} if texts is not None else set[bool]()
    except UnreadError:
        return None
    return int(not answers.pop()) if len(answers) == 1 else None


def _links(source: Substitution, world: World) -> tuple[str, ...] | None:
    words = [word.text or "" for word in strip(source.pipeline[0]).words] if len(source.pipeline) == 1 else []
    return device_links(words[2], world) if len(words) == 3 and words[:2] == ["ls", "-l"] else None
