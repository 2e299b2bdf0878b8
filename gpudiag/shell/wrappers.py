"""Programs that run another program: their options, so that the command behind them can be found.

Option letters are those of sudo 1.9, util-linux 2.38, coreutils 9.1, findutils 4.9 and docker 24.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudiag.shell.lines import Word

_MAX_WRAPPERS = 12


@dataclass(frozen=True)
class Usage:
    """How the command line of a wrapper is built before the command starts."""

    with_value: str = ""
    """Short options that take a value."""
    long_with_value: tuple[str, ...] = ()
    operands: int = 0
    """Operands of its own before the command."""
    assignments: bool = False
    """Takes ``NAME=value`` before the command."""
    stays: bool = False
    """Forks and waits: it remains as a process with the whole command in its own command line."""
    user_options: tuple[str, ...] = ()
    default_user: str | None = None
    other_namespace: bool = False


WRAPPERS: dict[str, Usage] = {
    "sudo": Usage(
        "ugpCrtThRDU",
        ("user", "group", "prompt", "close-from", "role", "type", "command-timeout", "host", "chroot", "chdir"),
        assignments=True,
        stays=True,
        user_options=("-u", "--user"),
        default_user="root",
    ),
    "doas": Usage("uC", stays=True, user_options=("-u",), default_user="root"),
    "timeout": Usage("ks", ("kill-after", "signal"), operands=1, stays=True),
    "nohup": Usage(),
    "env": Usage("uCS", ("unset", "chdir", "split-string"), assignments=True),
    "setsid": Usage(),
    "nice": Usage("n", ("adjustment",)),
    "ionice": Usage("cn", ("class", "classdata")),
    "chrt": Usage("TPD", operands=1),
    "taskset": Usage(operands=1),
    "sshpass": Usage("pfdP", stays=True),
    "stdbuf": Usage("ioe", ("input", "output", "error")),
    "time": Usage("fo", ("format", "output")),
    "exec": Usage("a"),
    "command": Usage(),
    "builtin": Usage(),
    "xargs": Usage(
        "aEdILnPs",
        ("arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars", "process-slot-var"),
        stays=True,
    ),
    "unshare": Usage("RwSG", ("root", "wd", "setuid", "setgid", "map-user", "map-group"), other_namespace=True),
    "nsenter": Usage("tSGrw", ("target", "setuid", "setgid"), other_namespace=True),
    "chroot": Usage("", ("userspec", "groups"), operands=1),
    "numactl": Usage("mNCilp", ("membind", "cpunodebind", "physcpubind", "interleave", "localalloc", "preferred")),
}


@dataclass(frozen=True)
class Wrapper:
    """One program that stood in front of the command."""

    name: str
    usage: Usage
    words: tuple[Word, ...]
    """Its own command line: from its name to the end."""
    options: tuple[Word, ...]
    """Its options and operands only."""
    user: str | None
    """The user it switches to; ``None`` if it does not switch."""


@dataclass(frozen=True)
class Stripped:
    words: tuple[Word, ...]
    wrappers: tuple[Wrapper, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(wrapper.name for wrapper in self.wrappers)


def base_name(word: Word) -> str:
    return (word.text or "").rsplit("/", 1)[-1]


def strip(words: tuple[Word, ...]) -> Stripped:
    """Takes the wrappers off, outermost first."""
    wrappers: list[Wrapper] = []
    while words and len(wrappers) < _MAX_WRAPPERS:
        usage = WRAPPERS.get(base_name(words[0]))
        if usage is None:
            break
        start = command_start(words, usage)
        options = words[1:start]
        user = option_value(options, usage.user_options) if usage.user_options else None
        wrappers.append(Wrapper(base_name(words[0]), usage, words, options, user or usage.default_user))
        words = _without_placeholder(words[start:], options) if base_name(words[0]) == "xargs" else words[start:]
    return Stripped(words, tuple(wrappers))


def command_start(words: tuple[Word, ...], usage: Usage) -> int:
    """Index of the first word that belongs to the command behind the wrapper."""
    position = options_end(words, usage.with_value, usage.long_with_value)
    while usage.assignments and position < len(words) and re.match(r"\w+=", words[position].template):
        position += 1
    return min(position + usage.operands, len(words))


def options_end(words: tuple[Word, ...], with_value: str, long_with_value: tuple[str, ...]) -> int:
    """Index of the first operand."""
    position = 1
    while position < len(words):
        option = words[position].template
        if option == "--":
            return position + 1
        if not option.startswith("-") or option == "-":
            return position
        position += 2 if _takes_next(option, with_value, long_with_value) else 1
    return position


def _takes_next(option: str, with_value: str, long_with_value: tuple[str, ...]) -> bool:
    if option.startswith("--"):
        return option[2:] in long_with_value
    for number, letter in enumerate(option[1:], 1):
        if letter in with_value:
            return number == len(option) - 1
    return False


def option_value(options: tuple[Word, ...], names: tuple[str, ...]) -> str | None:
    """Value of an option in any of its forms: ``-u x``, ``-ux``, ``--user=x``."""
    for position, word in enumerate(options):
        for name in names:
            if word.template == name and position + 1 < len(options):
                return options[position + 1].text
            if name.startswith("--") and word.template.startswith(name + "="):
                return word.template[len(name) + 1 :]
            if len(name) == 2 and word.template.startswith(name) and len(word.template) > 2:
                return word.template[2:]
    return None


def has_flag(options: tuple[Word, ...], letter: str, long: str = "") -> bool:
    """A flag without a value, alone or in a bundle such as ``-lc``."""
    for word in options:
        text = word.template
        if text.startswith("--"):
            if long and text == "--" + long:
                return True
        elif text.startswith("-") and letter in text[1:]:
            return True
    return False


def _without_placeholder(words: tuple[Word, ...], options: tuple[Word, ...]) -> tuple[Word, ...]:
    """``xargs -I{} kill {}``: the mark is no argument of the command."""
    mark = option_value(options, ("-I", "--replace"))
    return words if mark is None else tuple(word for word in words if word.text != mark)
