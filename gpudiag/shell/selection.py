"""What a kill tool would do to each recorded process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One step against one process."""

    pid: int
    selected: bool | None
    """The tool picks this process; ``None`` if the evidence cannot tell."""
    permitted: bool | None
    """The caller may signal it; ``None`` if the users are not known."""
    blind: bool | None
    """The caller cannot see what the tool would have to see (``fuser`` as another user)."""
    because: str
    text: str | None = None
    """What the pattern was compared with."""


@dataclass(frozen=True)
class Selection:
    """One step against all recorded processes."""

    verdicts: tuple[Verdict, ...]
    signal: int | None
    """Signal number; 0 is an existence test, ``None`` for a lister or where it cannot be known."""
    error: str | None = None
    """The tool refuses the command and hits nobody; its own words where they are known."""
    exit_code: int | None = None
    """Predicted exit code."""
    pattern: str | None = None
    against: str | None = None
    """``cmdline``, ``comm`` or ``None``."""
    literal_pids: tuple[int, ...] = ()
    """PIDs written in the command, whether recorded or not."""
    complaints: tuple[str, ...] = ()
    """What the tool says about arguments that it cannot use while it uses others."""
    own_group: bool = False
    """It signals the process group of its own shell (``kill 0``)."""
    understood: bool = True
    """Every option of the command is one whose effect is known here."""
