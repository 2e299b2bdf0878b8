"""Foreign text made harmless, once for each kind of output.

Names, command lines and quotes come from the sick machine, and anybody who could start a process there
chose them. HTML is escaped by Jinja's autoescape; what it leaves (control and bidi characters) goes
through :func:`visible` like everything else.
"""

from __future__ import annotations

import re
from typing import Final

from gpudiag.report.text import spans

# Characters that CommonMark or GitHub's dialect may give a meaning to anywhere in a line.
_MARKDOWN_INLINE: Final = re.compile(r"[\\`*_\[\]<>#|~&$]")
# Lists, quotes and rules begin a line only.
_MARKDOWN_START: Final = re.compile(r"^(\s*)([-+=:]|\d+(?=[.)]))")
# A bare address needs only one character broken.
_MARKDOWN_ADDRESS: Final = re.compile(r":(?=//)|(?<=mailto):|(?<=xmpp):|(?<=www)\.", re.IGNORECASE)
_PIPE: Final = re.compile(r"\\*\|")
_BACKTICKS: Final = re.compile(r"`+")


NOT_AS_SHOWN: Final = "It has characters that do not print, shown as escapes: take it from the JSON report."
"""Stands beside a command whose shown text is not the command."""


def visible(text: str) -> str:
    r"""Everything that does not print becomes an escape that does: ESC as ``\x1b``, a line end as ``\n``.

    That covers C0 and C1 controls, bidi overrides, zero-width characters and odd spaces.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def markdown_text(text: str) -> str:
    """Prose as Markdown; text between a pair of backticks stays code."""
    return "".join(markdown_code(part) if is_code else _plain(part) for is_code, part in spans(text))


def _plain(text: str) -> str:
    escaped = _MARKDOWN_INLINE.sub(r"\\\g<0>", visible(text))
    escaped = _MARKDOWN_ADDRESS.sub(r"\\\g<0>", escaped)
    escaped = _MARKDOWN_START.sub(_break_start, escaped)
    # A comment keeps ticket systems from telling the person or the team of that name.
    return escaped.replace("@", "@<!-- -->")


def _break_start(match: re.Match[str]) -> str:
    space, sign = match.groups()
    return f"{space}{sign}\\" if sign.isdigit() else f"{space}\\{sign}"


def markdown_code(text: str) -> str:
    """A code span that its content cannot leave, in a table cell neither."""
    shown = _PIPE.sub(_break_pipe, visible(text))
    if not shown.strip():
        return "(empty)"
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _break_pipe(match: re.Match[str]) -> str:
    """A table is cut at its bars before code spans are seen, and there backslashes count in pairs.

    So an odd number of them must stand before the bar. Where the text has an odd number itself, two are added and one
    too many is shown: that is better than a torn table.
    """
    before = match[0][:-1]
    added = "\\" * (2 if len(before) % 2 else 1)
    return f"{before}{added}|"


def markdown_fence(lines: tuple[str, ...], language: str = "") -> str:
    """A fenced block that its content cannot close."""
    shown = [visible(line) for line in lines]
    fence = "`" * max(3, max((_longest_run(line) for line in shown), default=0) + 1)
    return "\n".join([fence + language, *shown, fence])


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
