"""Which commands of a line print what is seen, and what a pipeline does to it before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from gpudiag.shell.syntax import simple_commands

_CUTS = frozenset({"grep", "egrep", "fgrep", "rg", "head", "tail", "sed", "awk", "less", "more"})
_TRANSFORMS = frozenset({"wc", "cut", "uniq", "xargs", "tr", "column", "sort", "paste", "jq", "awk", "sed"})
_TEXT_CAP = 65536


@dataclass(frozen=True)
class Shown:
    """A command whose output is seen, and the filters that the output went through."""

    argv: tuple[str, ...]
    filters: tuple[str, ...]

    @property
    def tool(self) -> str:
        """The program without its folder."""
        return self.argv[0].rpartition("/")[2]

    @property
    def filtered(self) -> bool:
        """Lines may be missing."""
        return any(name in _CUTS for name in self.filters)

    @property
    def reshaped(self) -> bool:
        """Lines may look different from what the tool printed."""
        return any(name in _TRANSFORMS for name in self.filters)


@lru_cache(maxsize=512)
def shown_commands(text: str | None) -> tuple[Shown, ...]:
    """The commands of a line in order, each with the filters behind it.

    The list of simple commands does not tell ``;`` from ``|``. A filter right behind a tool is taken as the tool's:
    at worst the tool's list counts as possibly incomplete.
    """
    if not text or len(text) > _TEXT_CAP:
        return ()
    found: list[Shown] = []
    for argv in simple_commands(without_substitutions(text)):
        if not argv:
            continue
        name = argv[0].rpartition("/")[2]
        if found and (name in _CUTS or name in _TRANSFORMS) and not _reads_a_file(argv):
            found[-1] = Shown(found[-1].argv, (*found[-1].filters, name))
        else:
            found.append(Shown(tuple(argv), ()))
    return tuple(found)


def _reads_a_file(argv: list[str]) -> bool:
    """``grep State /proc/7/status`` stands alone; it filters nobody's output."""
    return any(word.startswith(("/proc/", "/sys/", "/var/log/")) for word in argv[1:])


def without_substitutions(text: str) -> str:
    """Take out ``$(…)`` and `` `…` ``: what runs in there prints into the command line, not to the reader."""
    kept: list[str] = []
    depth = 0
    ticked = False
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            kept.append(text[position : position + 2] if not depth and not ticked else "")
            position += 2
            continue
        if text.startswith("$(", position):
            depth += 1
            position += 2
            continue
        if depth and char in "()":
            depth += 1 if char == "(" else -1
        elif char == "`":
            ticked = not ticked
        elif not depth and not ticked:
            kept.append(char)
        position += 1
    return "".join(kept)
