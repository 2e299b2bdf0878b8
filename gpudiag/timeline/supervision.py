"""Who starts a process again when it is killed, and how that is stopped first.

The descent shows the parent; the engine's data says that such a parent restarts its children, and its own command for
ending one for good.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudiag.timeline.coupling import MAX_COMMAND_LINE, LawBook, RestartLaw
from gpudiag.timeline.kinship import Kinship
from gpudiag.timeline.lives import Census, Life

_PLACEHOLDER = re.compile(r"\{([^}]{1,40})\}")


@dataclass(frozen=True)
class Supervision:
    """A parent that starts a process again."""

    parent: Life
    child: Life
    law: RestartLaw

    @property
    def own_command(self) -> str | None:
        """The supervisor's own command that ends the child for good; ``None``: SIGTERM to the parent does."""
        return stop_command(self.law.stop, self.parent, self.child) if self.law.stop is not None else None


def supervision_of(life: Life, kinship: Kinship, book: LawBook) -> Supervision | None:
    """Who starts this process again, if its parent is known to do so. Whether the parent lives is not asked."""
    parent = kinship.parent(life)
    if parent is None or parent.pid == 1:
        return None
    law = book.restart_by(parent.comm, parent.cmdline)
    return Supervision(parent, life, law) if law is not None else None


def successors(life: Life, census: Census, kinship: Kinship, book: LawBook) -> Iterator[Life]:
    """Processes that its supervisor started with the same command, first seen in a later look than this one."""
    watched = supervision_of(life, kinship, book)
    if watched is None or not life.cmdline:
        return
    for other in census.lives:
        same = other.cmdline == life.cmdline and kinship.parent(other) is watched.parent
        if same and _first_seen(other) > _first_seen(life):
            yield other


def predecessor(life: Life, candidates: Sequence[Life], siblings: Sequence[Life]) -> Life | None:
    """Which of several that died it stands for: a set that is started again is started in the same order."""
    if not candidates:
        return None
    place = [one.pid for one in siblings].index(life.pid) if life in siblings else 0
    return candidates[min(place, len(candidates) - 1)]


def _first_seen(life: Life) -> int:
    return min((seen.look.position for seen in life.sightings.values()), default=0)


def stop_command(template: str, parent: Life, child: Life) -> str:
    """The template with its placeholders filled in; whatever comes from a command line is quoted."""
    words = (parent.cmdline or "")[:MAX_COMMAND_LINE].split()

    def fill(found: re.Match[str]) -> str:
        name = found.group(1)
        if name == "child":
            return str(child.pid)
        if name in words[:-1]:
            return f" {name} {shlex.quote(words[words.index(name) + 1])}"
        return ""

    return _PLACEHOLDER.sub(fill, template)
