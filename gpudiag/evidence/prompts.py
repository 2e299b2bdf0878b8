"""Find the typed commands in a pasted terminal session."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterator, List, Optional, Tuple

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-Za-z]|\x1b[=>78cM]")
_STAMP = (
    r"(?:\[?(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?"
    r"|\d\d:\d\d(?::\d\d)?)\]?\s+)?"
)
_ENVIRONMENTS = r"(?:\([\w.+/-]{1,80}\)\s+){0,4}"
_WHO = r"\[?(?P<user>[A-Za-z_][\w.-]{0,63})@(?P<host>[\w.-]{1,253})(?:[: ][^$#%\n]{0,200})?\]?\s?[$#%]"
_PROMPT = re.compile(
    r"(?:# )?"
    + _STAMP
    + _ENVIRONMENTS
    + r"(?:"
    + _WHO
    + r"|(?:ba|z|k|da)?sh-[\d.]{1,9}[$#]|[$#])(?:[ \t]+(?P<command>\S.*))?\s*\Z"
)
_CAPTURED = re.compile(r"# (?:(?P<stamp>\d{4}-\d\d-\d\dT\S+) )?\$ (?P<command>\S.*)\Z")
# Lines with which tools and captures start their own output look like a root prompt.
_NOT_A_PROMPT = re.compile(r"#(?:\s{2}|\s+(?:gpu|Idx|rc=|stderr|stdout|tracer|entries-in-buffer|TASK-PID)|\s*$)")
_COMMAND_LINES = 200
"""Lines that one typed command may span; more is an unclosed quote, not a command."""


@dataclass
class Typed:
    """One command as it was typed, and the lines up to the next prompt."""

    line: int
    """One-based line of the prompt."""
    command: str
    stamp: Optional[str]
    user: Optional[str]
    host: Optional[str]
    output_line: int
    """One-based line of the first output line."""
    output: List[str] = field(default_factory=lambda: list[str]())

    @property
    def text(self) -> str:
        """The output as one text."""
        return "\n".join(self.output)


def clean_lines(text: str) -> List[str]:
    """Lines without terminal escapes and carriage returns; their number does not change."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return [line.rstrip("\r") for line in text.split("\n")]


def typed_commands(lines: List[str], captured: bool) -> Iterator[Typed]:
    """The commands in order. ``captured``: only header lines of captures count as prompts."""
    current: Optional[Typed] = None
    position = 0
    while position < len(lines):
        found = _typed(lines, position, captured)
        if found is None:
            if current is not None:
                current.output.append(lines[position])
            position += 1
            continue
        if current is not None and current.command:
            yield current
        current, position = found
    if current is not None and current.command:
        yield current


def _typed(lines: List[str], position: int, captured: bool) -> Optional[Tuple[Typed, int]]:
    line = lines[position]
    match = _CAPTURED.match(line) if captured else _prompt(line)
    if match is None:
        return None
    groups = match.groupdict()
    command, after = groups["command"] or "", position + 1
    if not captured:
        command, after = _continued(command, lines, after)
    typed = Typed(position + 1, command.rstrip(), groups["stamp"], groups.get("user"), groups.get("host"), after + 1)
    return typed, after


def _prompt(line: str) -> Optional[re.Match[str]]:
    if not line or len(line) > 65536 or _NOT_A_PROMPT.match(line):
        return None
    return _PROMPT.match(line)


def _continued(command: str, lines: List[str], after: int) -> Tuple[str, int]:
    """Take the lines that continue an unfinished command: after a backslash, or inside a quote behind ``> ``."""
    taken = command
    quote = _open_quote(command, "")
    position = after
    while position < len(lines) and position - after < _COMMAND_LINES:
        line = lines[position]
        if taken.endswith("\\") and _prompt(line) is None:
            added = line[2:] if line.startswith("> ") else line
            taken = taken[:-1] + added
        elif quote and line.startswith("> "):
            added = "\n" + line[2:]
            taken += added
        else:
            break
        quote = _open_quote(added, quote)
        position += 1
    return taken, position


def _open_quote(text: str, quote: str) -> str:
    """The quote that is open behind ``text`` if ``quote`` was open before it, ``""`` if none is."""
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and quote != "'":
            position += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        position += 1
    return quote
