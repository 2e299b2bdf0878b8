"""Find the typed commands in a pasted terminal session."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterator, List, Optional, Tuple

from gpudiag.evidence.inside import entry, sudo_shell
from gpudiag.evidence.programs import starts_with_program

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-Za-z]|\x1b[=>78cM]")
_STAMP = (
    r"(?:\[?(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)\]?\s+)?"
)
_ENVIRONMENTS = r"(?:\([\w.+/-]{1,80}\)\s+){0,4}"
_WHO = (
    r"\[?(?P<user>[A-Za-z_][\w.-]{0,63})@(?P<host>[\w.-]{1,253})"
    r"(?:(?::[^$#%\n]{0,200}| [^\s$#%]{0,200})?\]?\s?[$#❯➜]|(?::[^$#%\n]{0,200}| [~/][^\s%]{0,200})\s?%)"
)
_PLACE = r"\[?(?P<node>[A-Za-z][\w.-]{0,252})(?::(?:~|/)[^\s$#%]{0,200}\s?| [~/][^\s$#%\]]{0,200}\])[$#]"
_PATH = r"(?:~|/[\w.+/-]{0,200})\s?[$#]"
_ARROW = r"(?:➜\s{1,3}\S{1,200}(?:\s+git:\(\S{1,200}\))?(?:\s+✗)?|[╰└]─{1,4}[$#❯➤]?|[❯»λ])"
_WINDOWS = r"(?:PS )?[A-Z]:\\[^<>\n]{0,200}>"
_NOTEBOOK = r"(?:In \[\d{1,5}\]:\s?)?!"
_PROMPT = re.compile(
    r"(?:# )?"
    + _STAMP
    + _ENVIRONMENTS
    + r"(?:"
    + _WHO
    + r"|(?:ba|z|k|da)?sh-[\d.]{1,9}[$#]|"
    + _PLACE
    + r"|[$#])(?:[ \t]+(?P<command>\S.*))?\s*\Z"
)
_GLUED = re.compile(r"(?:# )?" + _STAMP + _ENVIRONMENTS + _WHO + r"(?P<command>[^\s#$%].*)\Z")
# Shapes that output can have too: only a program's name behind them makes them prompts.
_WEAK = re.compile(
    _STAMP
    + _ENVIRONMENTS
    + r"(?:(?:"
    + "|".join((_PATH, _ARROW, _WINDOWS))
    + r")\s{0,3}|"
    + _NOTEBOOK
    + r")(?P<command>[^\s].*)\Z"
)
_TYPED_KEYS = re.compile(r"(?:\^[A-Z\\])+")
_BARE_ROOT = re.compile(r"(?:# )?" + _STAMP + _ENVIRONMENTS + r"#[ \t]+(?P<command>\S.*)\Z")
_XTRACE = re.compile(r"\++ (?P<command>\S.*)\Z")
_BARE_QUERY = re.compile(
    r"(?P<command>(?:sudo )?(?:nvidia-smi(?: [-\w=,.*/]{1,200}){0,8}|ps (?:-?[a-zA-Z]{1,8})(?: \| grep \S{1,80}){0,3}"
    r"|(?:kill|pkill|killall)(?: -\w{1,8})+ (?:-{0,2} ?\d[\d -]{0,200}|[\w.:'\"/-]{1,80})"
    r"|fuser(?: -\w{1,6})+ /dev/\S{1,60}))\Z"
)
_ODD_WORD = re.compile(r"\S{0,60}[-_./0-9=]")
"""Prose begins with a word of letters."""
_TWO_LINES = re.compile(r"[╭┌]─{1,4}\(?(?P<user>[\w.-]{1,64})[@㉿](?P<host>[\w.-]{1,253})")
_LINE_CAP = 65536
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
    return _unquoted([line.rstrip("\r") for line in text.split("\n")])


def _unquoted(lines: List[str]) -> List[str]:
    """Without the indent or the ``> `` that a ticket or a mail puts before every line."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return lines
    if all(line.startswith(">") for line in filled):
        return [line[2:] if line.startswith("> ") else line[1:] for line in lines]
    indent = min(len(line) - len(line.lstrip(" ")) for line in filled)
    first = filled[0][indent:]
    # A table of right-aligned numbers is indented too; only a prompt shows that the indent is not its own.
    return [line[indent:] for line in lines] if indent and _prompt(first) is not None else lines


@dataclass
class _Style:
    """What counts as a prompt in one session."""

    captured: bool
    """Only header lines of captures."""
    others: bool
    """Some prompts are more than a ``#``; then that one alone is a remark, unless root's shell was entered."""
    traced: bool
    """No prompt at all, but lines of ``set -x``."""
    bare: bool
    """Neither: a line that is nothing but a query or a kill was typed."""
    rooted: bool = False

    def match(self, line: str) -> Optional[re.Match[str]]:
        """The prompt with its command."""
        if self.captured:
            return _CAPTURED.match(line)
        if self.traced or self.bare:
            match = (_XTRACE if self.traced else _BARE_QUERY).match(line[:_LINE_CAP])
            return match if match is None or self.bare or starts_with_program(match["command"]) else None
        found = _prompt(line)
        return None if found is None or self._is_remark(line) else found

    def _is_remark(self, line: str) -> bool:
        """``# then I tried this``."""
        match = _BARE_ROOT.match(line)
        if match is None or (starts_with_program(match["command"]) and (self.rooted or not self.others)):
            return False
        return self.others or not _ODD_WORD.match(match["command"])


def _style(lines: List[str], captured: bool) -> _Style:
    others = hashes = traced = False
    for line in lines if not captured else ():
        if _prompt(line) is not None:
            bare = _BARE_ROOT.match(line)
            others = others or bare is None
            hashes = hashes or (bare is not None and starts_with_program(bare["command"]))
        elif (match := _XTRACE.match(line[:_LINE_CAP])) is not None:
            traced = traced or starts_with_program(match["command"])
    none = not captured and not others and not hashes
    return _Style(captured, others, none and traced, none and not traced)


def typed_commands(lines: List[str], captured: bool) -> Iterator[Typed]:
    """The commands in order. ``captured``: only header lines of captures count as prompts."""
    current: Optional[Typed] = None
    position = 0
    style = _style(lines, captured)
    while position < len(lines):
        found = _typed(lines, position, style)
        if found is None:
            if current is not None:
                current.output.append(lines[position])
            position += 1
            continue
        if current is not None and current.command:
            yield current
        current, position = found
        style.rooted = style.rooted or _enters(current.command)
    if current is not None and current.command:
        yield current


def _enters(command: str) -> bool:
    """A shell opens whose prompts may be a ``#`` and no more."""
    found = entry(command)
    return (found is not None and found.stays) or sudo_shell(command)


def _typed(lines: List[str], position: int, style: _Style) -> Optional[Tuple[Typed, int]]:
    match = style.match(lines[position])
    if match is None:
        return None
    groups = match.groupdict()
    command, after = groups["command"] or "", position + 1
    if not style.captured and not style.bare:
        command, after = _continued(command, lines, after)
    user, host = groups.get("user"), groups.get("host") or groups.get("node")
    above = _TWO_LINES.match(lines[position - 1]) if host is None and position else None
    if above is not None:
        user, host = above["user"], above["host"]
    return Typed(position + 1, command.rstrip(), groups.get("stamp"), user, host, after + 1), after


def _prompt(line: str) -> Optional[re.Match[str]]:
    if not line or len(line) > 65536:
        return None
    keys = _TYPED_KEYS.match(line)
    if keys and keys.end() < len(line):
        # The terminal shows the keys (^C) in front of the prompt that follows.
        line = line[keys.end() :]
    if _NOT_A_PROMPT.match(line):
        return None
    found = _PROMPT.match(line)
    if found is None:
        found = _GLUED.match(line) or _WEAK.match(line)
        return found if found is not None and starts_with_program(found["command"]) else None
    return found


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
