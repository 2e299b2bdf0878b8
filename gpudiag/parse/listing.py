"""How one text format is recognised and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpudiag.parse.commands import Shown
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment


def one_line(_: str) -> bool:
    """No further line belongs to it."""
    return False


def _never(_: str) -> bool:
    return False


def _never_headless(_: Shown, __: str) -> bool:
    return False


@dataclass(frozen=True)
class Listing:
    """One format."""

    rows: Callable[[Segment], Iterator[Row]]
    continues: Callable[[str], bool]
    """A further line belongs to it."""
    printed_by: Callable[[Shown], bool]
    """The command may have printed it."""
    begins: Callable[[str], bool] = _never
    """The line can be nothing else, whatever command printed it."""
    headless: Callable[[Shown, str], bool] = _never_headless
    """The command prints this format without a heading, and the line fits."""
