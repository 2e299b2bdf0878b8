"""What an input gives to the parsers: pieces of raw text, each with where, when and by which command it came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from gpudiag.model import Damage, KillAction


@dataclass(frozen=True)
class Exhibit:
    """One output of one command, or one file that no command's header describes."""

    input: str
    """Id of the input, ``I1``."""
    member: str
    """File inside the input, with forward slashes."""
    host: str
    """Host whose state the text shows, ``""`` where the evidence names none."""
    look: Optional[str]
    """Id of the look (``I1:before``); ``None`` for a file about the whole incident."""
    command: Optional[str]
    """The command line as recorded, ``None`` where there is only its output."""
    time_ns: Optional[int]
    """When the command was started; ``None`` if not recorded or recorded without a zone."""
    exit_code: Optional[int]
    user: Optional[str]
    """Who ran the command on ``host``, if the evidence says so."""
    first_line: int
    """One-based number of the text's first line in the member."""
    text: str
    """What was printed, header lines taken off; a line ``# stderr:`` in it opens what went to standard error."""


@dataclass(frozen=True)
class LookName:
    """One look at one host: what was seen between two actions."""

    id: str
    """Unique over all inputs: ``I1:before``."""
    name: str
    host: str


@dataclass(frozen=True)
class Input:
    """One path that the reader named, cut into exhibits."""

    id: str
    path: str
    kind: str
    """``directory`` or ``transcript``."""
    complete: bool
    """Nothing was cut off or left out while reading."""
    exhibits: Tuple[Exhibit, ...]
    looks: Tuple[LookName, ...]
    """In the order in which they were taken."""
    actions: Tuple[KillAction, ...]
    """Kill commands that stand in the text itself; those of ``kill-commands.json`` are the parser's business."""
    damage: Tuple[Damage, ...]


class Unreadable(Exception):  # noqa: N818 - reads as a sentence where it is caught
    """Nothing in the path can be used. The message is one sentence for the person who named it."""
