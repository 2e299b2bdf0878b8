"""What an input gives to the parsers: pieces of raw text, each with where, when and by which command it came."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Tuple

from gpudiag.model import ClockPair, Coverage, Damage, KillAction, Recorder


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
    outcome: Optional[str] = None
    """As in ``Coverage``, where the recorder or the reader knows that the text is not all: ``truncated``."""
    because: Optional[str] = None
    """Why the outcome is not ``ok``."""
    path: Optional[Path] = None
    """Set for a long log: ``text`` is empty, and its reader goes through the file on disk."""
    container: Optional[str] = None
    """Name of the container in whose PID namespace the text was printed; ``host`` is then the container's own."""


@dataclass(frozen=True)
class LookName:
    """One look at one host: what was seen between two actions."""

    id: str
    """Unique over all inputs: ``I1:before``."""
    name: str
    host: str
    container: Optional[str] = None
    """Name of the container whose processes it shows; ``host`` is then the container's own."""
    recalled: bool = False
    """Nobody looked then: it is put together from what a flight recorder had written."""


@dataclass(frozen=True)
class Input:
    """One path that the reader named, cut into exhibits."""

    id: str
    path: str
    kind: str
    """``bundle``, ``directory`` or ``transcript``."""
    complete: bool
    """Nothing was cut off or left out while reading."""
    exhibits: Tuple[Exhibit, ...]
    looks: Tuple[LookName, ...]
    """In the order in which they were taken."""
    actions: Tuple[KillAction, ...]
    """Kill commands that stand in the text itself; those of ``kill-commands.json`` are the parser's business."""
    damage: Tuple[Damage, ...]
    recorder: Optional[Recorder] = None
    """Who took the looks, where the input says so."""
    coverage: Tuple[Coverage, ...] = ()
    """Sources that the recorder could not read, or not to their end."""
    clocks: Tuple[ClockPair, ...] = ()


class Unreadable(Exception):  # noqa: N818 - reads as a sentence where it is caught
    """Nothing in the path can be used. The message is one sentence for the person who named it."""
