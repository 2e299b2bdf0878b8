"""What is piped in, as a file among the others: a log of gigabytes is searched on disk, and a bundle is read twice."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Generator

from gpudiag.bundle.format import TOTAL_CAP
from gpudiag.evidence.exhibit import Input, Unreadable

SIGN = Path("-")
"""Stands for standard input among paths; a file of that name is reached by its absolute path."""
NAME = "standard input"
CAP = TOTAL_CAP
"""Bytes that are taken at most; no bundle is larger."""
_CHUNK = 1 << 20


@contextmanager
def spooled() -> Generator[Path, None, None]:
    """A copy of standard input that lasts as long as the context; ``Unreadable`` names the input by its name."""
    with tempfile.TemporaryDirectory(prefix="gpudiag-stdin-") as folder:
        copy = Path(folder) / NAME.replace(" ", "-")
        _copy(copy)
        try:
            yield copy
        except Unreadable as problem:
            raise Unreadable(str(problem).replace(str(copy), NAME)) from None


def named(item: Input) -> Input:
    """The input under the name by which the person knows it."""
    return replace(item, path=NAME)


def _copy(target: Path) -> None:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by who started us
        raise Unreadable(f"{NAME} is closed; name a transcript, a directory of captured outputs or a bundle.")
    taken = 0
    with target.open("wb") as file:
        while chunk := sys.stdin.buffer.read(min(_CHUNK, CAP + 1 - taken)):
            taken += file.write(chunk)
            if taken > CAP:
                raise Unreadable(f"{NAME} is longer than {CAP >> 20} MiB; save it as a file and name that.")
