"""The text of the script that a command runs, as it is when the command begins: what is in it decides whom it hits."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

_SHELLS = ("bash", "dash", "sh", "zsh", "ksh")
_READERS = (*_SHELLS, "source")
_IN_FRONT = ("sudo", "nohup", "env", "time", "exec", "command", "setsid")
"""They run what stands behind them; with options of their own the script is not looked for."""
_MOVERS = ("cd", "pushd")
_SEPARATORS = frozenset(";&|()\n")
_LONGEST = 256 * 1024


def script_text(text: str, words: Sequence[str]) -> str | None:
    """Of a line for a shell, or of a program with its arguments. ``None``: it runs no script, several, or one that
    cannot be read as a whole.
    """
    commands = simple_commands(text, words)
    # Where a line changes the folder before, its names mean other files than they do here.
    if any(command[0] in _MOVERS for command in commands):
        return None
    found = [path for command in commands if (path := _script(command)) is not None]
    return _read(found[0]) if len(found) == 1 else None


def simple_commands(text: str, words: Sequence[str]) -> list[list[str]]:
    """Each with what it runs as its first word: assignments and programs that only run another one are left out."""
    found = list(_commands(text)) if text else [list(words)]
    return [command for command in map(_behind, found) if command]


def _behind(command: list[str]) -> list[str]:
    while command and (command[0] in _IN_FRONT or ("=" in command[0] and command[0].split("=")[0].isidentifier())):
        command = command[1:]
    return command


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a line, as far as splitting it into words shows them."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    command: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= _SEPARATORS:
                yield command
                command = []
            else:
                command.append(word)
    except ValueError:  # A quote is open.
        return
    yield command


def _script(command: list[str]) -> Path | None:
    if command[0] == "." or Path(command[0]).name in _READERS:
        rest = command[1:]
        if any("c" in word for word in rest[:2] if word.startswith("-") and not word.startswith("--")):
            return None
        return next((Path(word) for word in rest if not word.startswith("-")), None)
    path = Path(command[0])
    return path if "/" in command[0] and _is_shell_script(path) else None


def _is_shell_script(path: Path) -> bool:
    first = _beginning(path, 200).partition(b"\n")[0].decode("utf-8", "replace")
    return first.startswith("#!") and any(Path(word).name in _SHELLS for word in first[2:].split()[:2])


def _read(path: Path) -> str | None:
    data = _beginning(path, _LONGEST + 1)
    return data.decode("utf-8", "replace") if data and len(data) <= _LONGEST and b"\0" not in data else None


def _beginning(path: Path, size: int) -> bytes:
    """Nothing where there is no such file. A pipe with a name must not hold the recorder up."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(size) or b""
    except OSError:
        return b""
