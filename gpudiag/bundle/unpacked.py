"""The records of a bundle that somebody unpacked: a folder ``_bundle`` beside the sources.

Checksums are not compared: whoever unpacks a bundle may have taken out what others must not see.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Collection, List, Optional, Tuple

from gpudiag.bundle.format import END, OUTCOMES, RECORDS, SOURCES_CAP, START, End, Outcome, Start
from gpudiag.bundle.reader import FLAWS_CAP, RECORD_CAP, Contents, missing_parts


def is_unpacked(folder: Path) -> bool:
    """The folder holds a bundle's own records."""
    records = folder / RECORDS
    return records.is_dir() and not records.is_symlink()


def read_records(folder: Path, sources: Collection[str]) -> Contents:
    """What the records say, without members; ``sources`` are the files that lie beside them."""
    text = _record(folder, START) or b""
    start = Start.from_json(text)
    ended = _record(folder, END)
    outcomes = _outcomes(folder)
    wrote = [outcome.member for _, outcome in outcomes if outcome.sha256 is not None]
    there = [name for name in wrote if name in sources]
    return Contents(
        bundle=True,
        start=start,
        start_text=text.decode("utf-8", "replace").strip(),
        end=End.from_json(ended) if ended is not None else None,
        members=(),
        outcomes=outcomes,
        flaws=tuple(missing_parts(there, wrote, start is not None, ended is not None)[:FLAWS_CAP]),
    )


def _outcomes(folder: Path) -> Tuple[Tuple[str, Outcome], ...]:
    """In the order of their names, which is that of the recorder."""
    place = folder / OUTCOMES
    if place.is_symlink():
        return ()
    try:
        names = sorted((path.name for path in place.iterdir()), key=lambda name: (len(name), name))[:SOURCES_CAP]
    except OSError:
        return ()
    read: List[Tuple[str, Outcome]] = []
    for name in names:
        outcome = Outcome.from_json(_record(folder, OUTCOMES + name) or b"")
        if outcome is not None:
            read.append((OUTCOMES + name, outcome))
    return tuple(read)


def _record(folder: Path, name: str) -> Optional[bytes]:
    """The beginning of a regular file; never waits for a pipe, never follows a link out of the folder."""
    try:
        descriptor = os.open(str(folder / name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return None
            return stream.read(RECORD_CAP)
    except OSError:
        return None
